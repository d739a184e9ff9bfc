# mypy: disable-error-code="no-untyped-call"
"""Object code made ready to be called, by LLVM; without numba, which takes long to import."""

from typing import Any

from llvmlite import binding

_engine: Any = None
_addresses: dict[str, int] = {}


def load_code(code: bytes, name: str) -> int:
    """The address of the function `name` of object code; a name stands for one code.

    Raises:
        ValueError: the code has no such function.
    """
    global _engine
    if name in _addresses:
        return _addresses[name]
    if _engine is None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        _engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    _engine.add_object_file(binding.ObjectFileRef.from_data(code))
    _engine.finalize_object()
    _addresses[name] = int(_engine.get_function_address(name))
    if not _addresses[name]:
        raise ValueError(f"there is no function {name!r} in compiled code")
    return _addresses[name]


def describe_processor() -> str:
    """The processor and its features, for which code is compiled."""
    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
