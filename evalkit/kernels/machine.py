# mypy: disable-error-code="no-untyped-call"
"""Object code made ready to be called; without numba, which takes long to import."""

from contextlib import suppress
from typing import Any

from .object_file import MoreToDoError, place_code

MODEL = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags")  # of a processor

_engine: Any = None
_addresses: dict[str, int] = {}


def load_code(code: bytes, name: str) -> int:
    """The address of the function `name` of object code; a name stands for one code.

    Raises:
        ValueError: the code has no such function.
    """
    if name not in _addresses:
        try:
            address = place_code(code, name)
        except (MoreToDoError, OSError, AttributeError):
            address = _load_by_llvm(code, name)
        if not address:
            raise ValueError(f"there is no function {name!r} in compiled code")
        _addresses[name] = address
    return _addresses[name]


def _load_by_llvm(code: bytes, name: str) -> int:
    global _engine
    from llvmlite import binding

    if _engine is None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        _engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    _engine.add_object_file(binding.ObjectFileRef.from_data(code))
    _engine.finalize_object()
    return int(_engine.get_function_address(name))


def describe_processor() -> str:
    """The processor and its features, for which code is compiled."""
    described = _read_processor()
    if described:
        return described
    from llvmlite import binding

    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


def _read_processor() -> str:
    """The same of x86 as Linux tells it, without LLVM; or an empty text."""
    with suppress(OSError), open("/proc/cpuinfo", "rb", buffering=0) as file:
        first = file.read(1 << 13).split(b"\n\n")[0].splitlines()  # of many processors
        told = [line for line in first if line.startswith(MODEL)]
        if any(line.startswith(b"flags") for line in told):
            return b"\n".join(told).decode("ascii", "replace")
    return ""
