"""The `@kernel` decorator: functions that numba compiles at their first call, and their cache.

Importing this module loads neither numpy nor numba. A kernel may call other kernels, also of
other modules, and may read tables and intrinsics: its global names are looked up when it is
compiled. With `NUMBA_DISABLE_JIT=1` a kernel is the plain function.

Compiled code is kept in a cache (`cache.py`), under a name that covers the types of the arguments
and the constants and kernels that it reads, wherever they stand. Where all comes from there,
numba is not even imported.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from .cache import Cache

if TYPE_CHECKING:
    from .calling import Entry

P = ParamSpec("P")
R = TypeVar("R")
Work = TypeVar("Work")
Done = TypeVar("Done")

_lock = threading.RLock()


class Loading:
    """Adds up the time in which kernels are loaded or compiled; a context around each such time.

    Where threads work side by side, a moment counts by the share of them that load, or wait for
    another one to load the same kernel.
    """

    def __init__(self) -> None:
        self._seconds = self._cpu_seconds = 0.0
        self._n_loading = self._n_working = 0
        self._last = time.perf_counter()
        self._own = threading.local()
        self._counts = threading.Lock()

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        self._count()
        return self._seconds

    @property
    def cpu_seconds(self) -> float:
        """CPU time so far, of what is loaded."""
        return self._cpu_seconds

    def run_beside(self, work: Callable[[Work], Done], item: Work) -> Done:
        """`work(item)`, on a thread that counts as working until it returns."""
        self._count(working=1)
        try:
            return work(item)
        finally:
            self._count(working=-1)

    def __enter__(self) -> None:
        depth = getattr(self._own, "depth", 0)
        self._own.depth = depth + 1
        if depth == 0:
            self._own.cpu_began = time.thread_time()
            self._count(loading=1)

    def __exit__(self, *_: object) -> None:
        self._own.depth -= 1
        if self._own.depth == 0:
            self._count(loading=-1, cpu_seconds=time.thread_time() - self._own.cpu_began)

    def _count(self, *, loading: int = 0, working: int = 0, cpu_seconds: float = 0.0) -> None:
        with self._counts:
            now = time.perf_counter()
            share = self._n_loading / max(1, self._n_loading, self._n_working)
            self._seconds += (now - self._last) * share
            self._cpu_seconds += cpu_seconds
            self._last = now
            self._n_loading += loading
            self._n_working += working


loading = Loading()


class UnkeptKernelError(Exception):
    """A kernel would be compiled, and somebody counts on none."""


class KeptAlone:
    """A context around work that may count on all its kernels being kept (`begin`).

    The first one that is not ends the work with UnkeptKernelError, whatever that becomes on its
    way, and `is_broken` says so: compiling takes memory that the work has not left free. It holds
    for the threads of the work, which `threads` start; others compile as ever.
    """

    def __init__(self) -> None:
        self._works: ContextVar[tuple[_Work, ...]] = ContextVar("works", default=())

    @property
    def is_broken(self) -> bool:
        """Whether a kernel was refused, of the innermost work."""
        works = self._works.get()
        return bool(works) and works[-1].is_broken

    def begin(self) -> None:
        """Count on kernels that are kept, from here to the end of the context."""
        for work in self._works.get()[-1:]:
            work.is_counting = True

    def stop(self) -> None:
        """Count on nothing any more: there is room for compiling."""
        for work in self._works.get():
            work.is_counting = False

    def refuse(self) -> None:
        """Raise where the work counts on it that nothing is compiled."""
        counting = [work for work in self._works.get() if work.is_counting]
        for work in counting:
            work.is_broken = True
        if counting:
            raise UnkeptKernelError

    def __enter__(self) -> "KeptAlone":
        self._works.set((*self._works.get(), _Work()))
        return self

    def __exit__(self, *_: object) -> None:
        self._works.set(self._works.get()[:-1])


class _Work:
    def __init__(self) -> None:
        self.is_counting = self.is_broken = False


kept_alone = KeptAlone()


class Kernel(Generic[P, R]):
    """A function compiled by numba at its first call; the call releases the GIL."""

    def __init__(self, function: Callable[P, R], *, allocates: bool = True) -> None:
        self.py_func = cast(FunctionType, function)
        self.allocates = allocates
        self.entries: dict[tuple[Hashable, ...], Entry] = {}
        self._part: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__module__}.{self.py_func.__qualname__}>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.py_func,), {"allocates": self.allocates}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            raise TypeError("a kernel takes arguments by place")
        return cast(R, self._call(args))

    @cached_property
    def _call(self) -> Callable[[Sequence[object]], object]:
        if _is_jit_off():
            return self._call_plain
        from .calling import flatten

        return partial(self._call_entry, flatten)

    def interpret(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same in plain Python: for so little work that compiling takes many times as long."""
        return cast(R, self._call_plain(args))

    def _call_entry(self, flatten: Callable[..., None], arguments: Sequence[object]) -> object:
        types: list[Hashable] = []
        words: list[int | float | bool] = []
        flatten(arguments, types, words)
        key = tuple(types)
        entry = self.entries.get(key)
        if entry is None:
            with loading, _lock:
                entry = self.entries.get(key) or self._load(arguments, key, words)
                self.entries[key] = entry
        return entry(words)

    def _call_plain(self, arguments: Sequence[object]) -> object:
        """The plain function; integers wrap and numbers overflow without a word, as compiled."""
        import numpy as np

        with np.errstate(all="ignore"):
            return self.plain(*arguments)

    def _load(
        self, arguments: Sequence[object], types: Sequence[Hashable], words: Sequence[float]
    ) -> "Entry":
        """Machine code for these arguments: out of the cache, or compiled and kept there."""
        from hashlib import blake2b

        from .calling import Entry, describe, format_of
        from .machine import load_code

        called = f"{self.py_func.__module__}.{self.py_func.__qualname__} {self.digest}"
        summary = blake2b(f"{called} {describe(types, arguments)}".encode(), digest_size=16)
        name = f"{self.py_func.__name__}_{summary.hexdigest()}"
        kept = _cache.load(name)
        if kept is not None:
            results, code = kept.split(b"\n", 1)
        else:
            kept_alone.refuse()
            from .compiler import compile_entry

            results, code = compile_entry(self.part, arguments, name)
            _cache.keep(name, results + b"\n" + code)
        address = load_code(code, name)
        return Entry(address, format_of(words), results.decode(), is_kept=kept is not None)

    @property
    def part(self) -> Callable[..., Any]:
        """The numba dispatcher that other kernels and entries call; Python cannot.

        The code that is kept of an entry holds that of all that it calls, so these are neither
        compiled nor made where it comes from the cache.
        """
        if self._part is None:  # only numba asks, which compiles one function at a time
            from .compiler import make_part

            function = _with_globals(self.py_func, _as_compiled)
            self._part = make_part(function, allocates=self.allocates)
        return self._part

    @property
    def _numba_type_(self) -> object:
        """How numba sees a kernel that another one calls."""
        from .compiler import Callee

        return Callee(cast(Any, self.part))

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The same function in plain Python, and so are the kernels that it calls."""
        return _with_globals(self.py_func, lambda late: late.plain)

    @cached_property
    def digest(self) -> str:
        """A checksum of the code and of all constants, tables and kernels that it reads."""
        from hashlib import blake2b

        summary = blake2b(f"{self.allocates}".encode(), digest_size=8)
        for part in _describe_code(self.py_func.__code__):
            summary.update(part)
        for name, value in _read_globals(self.py_func):
            summary.update(f"{name}={_describe_global(value)};".encode())
        for cell in self.py_func.__closure__ or ():
            summary.update(f"{_describe_global(cell.cell_contents)};".encode())
        return summary.hexdigest()


@overload
def kernel(function: Callable[P, R]) -> Kernel[P, R]: ...
@overload
def kernel(*, allocates: bool) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
def kernel(
    function: Callable[P, R] | None = None, *, allocates: bool = True
) -> Kernel[P, R] | Callable[[Callable[P, R]], Kernel[P, R]]:
    """A kernel of `function`; never parallel, never with fast-math, compiled at the first call.

    Args:
        allocates: it makes arrays. `@kernel(allocates=False)` counts no references to those that
            it is given, which halves the time of short helpers; making one does not compile.
    """
    if function is None:
        return partial(Kernel, allocates=allocates)
    return Kernel(function, allocates=allocates)


class ConstantTable(Sequence[float]):
    """Numbers that kernels read as a constant array: made at the first use, frozen into the code.

    Example:
        >>> SQUARES = ConstantTable(lambda: [float(number * number) for number in range(100)])
        >>> SQUARES[9]
        81.0
    """

    def __init__(self, make: Callable[[], Sequence[float]]) -> None:
        self._make = make

    @cached_property
    def plain(self) -> list[float]:
        return list(self._make())

    @cached_property
    def compiled(self) -> object:
        import numpy as np

        return np.array(self.plain, dtype=np.float64)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        return self.plain[index]

    def __len__(self) -> int:
        return len(self.plain)


class Intrinsic:
    """A numba intrinsic that is registered when a kernel first needs it, with its plain twin."""

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.py_func = cast(FunctionType, function)
        self.plain = plain
        update_wrapper(self, function)

    def __call__(self, *arguments: object) -> Any:
        return self.plain(*arguments)

    @cached_property
    def compiled(self) -> object:
        from numba.extending import intrinsic as numba_intrinsic

        return numba_intrinsic(self.py_func)


def intrinsic(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Intrinsic]:
    """Decorates the body of a numba intrinsic; `plain` does the same when the JIT is off."""
    return lambda function: Intrinsic(function, plain)


Late = Kernel[..., Any] | ConstantTable | Intrinsic


def _is_jit_off() -> bool:
    if "numba" in sys.modules:
        return bool(sys.modules["numba"].config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0")


def _as_compiled(late: Late) -> object:
    return late if isinstance(late, Kernel) else late.compiled  # numba asks a kernel for its type


def _with_globals(function: FunctionType, resolve: Callable[[Late], object]) -> FunctionType:
    values = dict(_read_globals(function))
    for name, value in values.items():
        if isinstance(value, (Kernel, ConstantTable, Intrinsic)):
            values[name] = resolve(value)
    for name in ("__builtins__", "__name__", "__file__", "__package__"):
        if name in function.__globals__:
            values[name] = function.__globals__[name]
    copy = FunctionType(
        function.__code__, values, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    return copy


def _read_globals(function: FunctionType) -> Iterator[tuple[str, object]]:
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _describe_code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _describe_code(constant)
        else:
            yield repr(constant).encode()


def _describe_global(value: object) -> str:
    if isinstance(value, Kernel):
        return value.digest
    if isinstance(value, ConstantTable):
        return repr(value.plain)
    if isinstance(value, Intrinsic):
        return b"".join(_describe_code(value.py_func.__code__)).hex()
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, FunctionType):
        return b"".join(_describe_code(value.__code__)).hex()
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    if hasattr(value, "tobytes"):
        return f"{getattr(value, 'dtype', '')}{value.tobytes().hex()}"
    return repr(value) if isinstance(value, (bool, int, float, str, tuple)) else str(type(value))


_cache = Cache()


def cache_directory() -> Path | None:
    """Where compiled kernels are kept; None when they are not kept."""
    with _lock:
        return None if _is_jit_off() else _cache.path


def share_cache() -> None:
    """Let all users read the kernels that root keeps; where another user runs, nothing changes."""
    with _lock:
        if not _is_jit_off():
            _cache.share()
