"""The `@kernel` decorator: functions that numba compiles at their first call, and their cache.

Importing this module loads neither numpy nor numba. A kernel may call other kernels, also of
other modules, and may read tables and intrinsics: its global names are looked up when it is
compiled. With `NUMBA_DISABLE_JIT=1` a kernel is the plain function.

Compiled code is kept in `<user cache>/evalkit/<key>/`. The key covers every source of this package
that holds a kernel, the versions, the processor and the NUMBA_* flags that change code; besides,
the name of a compiled function covers the constants and kernels that it reads, wherever they
stand. Checksums of all files are verified before the first one is loaded. A cache that is
corrupt, unwritable or not ours costs time, never a wrong number and never a crash.
"""

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

P = ParamSpec("P")
R = TypeVar("R")
Work = TypeVar("Work")
Done = TypeVar("Done")

MARKS = (b"@kernel", b"@intrinsic")
WITHOUT_EFFECT_ON_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"}
CHECKSUMS = "checksums"
FRESH_SECONDS = 5.0  # another process may have written a file and not yet its checksum

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


class Kernel(Generic[P, R]):
    """A function compiled by numba at its first call; the call releases the GIL."""

    def __init__(self, function: Callable[P, R], *, allocates: bool = True) -> None:
        self.py_func = cast(FunctionType, function)
        self.allocates = allocates
        self._dispatcher: Callable[..., Any] | None = None
        self._part: Callable[..., Any] | None = None
        self._n_overloads = 0
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__module__}.{self.py_func.__qualname__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        compiled = self._dispatcher or self.dispatcher
        try:
            result = compiled(*args, **kwargs)
        except OSError as error:  # kernels touch no files: the cache could not be read or written
            _give_up_cache(error)
            self._forget()
            compiled = self.dispatcher
            result = compiled(*args, **kwargs)
        if len(getattr(compiled, "overloads", ())) != self._n_overloads:
            self._log_compiled(compiled)
        return cast(R, result)

    @property
    def dispatcher(self) -> Callable[..., Any]:
        """The numba dispatcher, or the plain function when the JIT is off."""
        if self._dispatcher is None:
            with _lock:
                if self._dispatcher is None:
                    with loading:
                        self._dispatcher = self._silent() if _is_jit_off() else self._build()
        return self._dispatcher

    @property
    def part(self) -> Callable[..., Any]:
        """The numba dispatcher that kernels call: Python cannot, and no cache keeps it.

        A kernel's cached code holds the code of all that it calls, so these are neither compiled
        nor made where their callers come from the cache.
        """
        if self._part is None:  # only numba asks, which compiles one function at a time
            from ._parts import PartCompiler

            compile_later = self._compile_later(WITHOUT_WRAPPERS)
            self._part = compile_later(self._named(), pipeline_class=PartCompiler)
        return self._part

    @property
    def _numba_type_(self) -> object:
        """How numba sees a kernel that another one calls."""
        from numba.core.types import Dispatcher

        return Dispatcher(cast(Any, self.part))

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
        return summary.hexdigest()

    def compile(self, signature: object = None) -> None:
        """Compile for one numba signature now; without one, only get ready to compile."""
        compiled = self.dispatcher
        if signature is not None and hasattr(compiled, "compile"):
            compiled.compile(signature)
            self._log_compiled(compiled)

    def _silent(self) -> Callable[..., Any]:
        """The plain function; integers wrap and numbers overflow without a word, as compiled."""
        import numpy as np

        return np.errstate(all="ignore")(self.plain)

    def _build(self) -> Callable[..., Any]:
        import numba

        function = self._named()
        compile_later = self._compile_later({"no_cfunc_wrapper": True})
        config: Any = numba.config
        cache = _open_cache()
        before = config.CACHE_DIR
        try:
            if cache is not None:
                config.CACHE_DIR = str(cache.path)  # read here and now, not when compiling
            made = compile_later(function, cache=cache is not None)
        except (OSError, RuntimeError) as error:
            _give_up_cache(error)
            made = compile_later(function)
        finally:
            config.CACHE_DIR = before
        find_code = made._compile_for_args  # numba calls it where it has no code for these types

        def find_code_and_tell(*args: object, **kwargs: object) -> object:
            with loading:
                return find_code(*args, **kwargs)

        made._compile_for_args = find_code_and_tell
        return cast(Callable[..., Any], made)

    def _named(self) -> FunctionType:
        function = _with_globals(self.py_func, _as_compiled)
        function.__qualname__ = f"{function.__qualname__}_{self.digest}"
        return function

    def _compile_later(self, options: Mapping[str, bool]) -> Any:
        import numba

        # set either way: a kernel would inherit it from the one that calls it first
        return partial(numba.njit, **OPTIONS, **options, _nrt=self.allocates)

    def _forget(self) -> None:
        self._dispatcher = self._part = None
        for _, value in _read_globals(self.py_func):
            if isinstance(value, Kernel):
                value._forget()

    def _log_compiled(self, compiled: Callable[..., Any]) -> None:
        with _lock:
            self._n_overloads = len(getattr(compiled, "overloads", ()))
            if isinstance(_cache, _Cache):
                _cache.log_new_files()


OPTIONS = {"nogil": True, "error_model": "numpy"}
WITHOUT_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


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


class Table(Sequence[float]):
    """Numbers that kernels read as a constant array: made at the first use, frozen into the code.

    Example:
        >>> SQUARES = Table(lambda: [float(number * number) for number in range(100)])
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


Late = Kernel[..., Any] | Table | Intrinsic


def _is_jit_off() -> bool:
    if "numba" in sys.modules:
        return bool(sys.modules["numba"].config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0")


def _as_compiled(late: Late) -> object:
    return late if isinstance(late, Kernel) else late.compiled  # numba asks a kernel for its type


def _with_globals(function: FunctionType, resolve: Callable[[Late], object]) -> FunctionType:
    values = dict(_read_globals(function))
    for name, value in values.items():
        if isinstance(value, (Kernel, Table, Intrinsic)):
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
    if isinstance(value, Table):
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


class _Cache:
    """A directory of compiled code, verified when opened; its log has the checksum of each file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._logged: dict[Path, tuple[int, int]] = {}
        self._verify()

    def log_new_files(self) -> None:
        """Append the checksum of every file that this process has written since."""
        try:
            lines = [self._line(file) for file in self._files() if self._is_new(file)]
            if lines:
                with open(self.path / CHECKSUMS, "a", encoding="utf-8") as log:
                    log.write("".join(line + "\n" for line in lines))
        except OSError:
            return  # an unlogged file is dropped by the next process

    def _files(self) -> list[Path]:
        return sorted(self.path.rglob("*.nb[ic]"))

    def _is_new(self, file: Path) -> bool:
        status = file.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        is_new = self._logged.get(file) != stamp
        self._logged[file] = stamp
        return is_new

    def _line(self, file: Path) -> str:
        from hashlib import blake2b

        return f"{blake2b(file.read_bytes()).hexdigest()}  {file.relative_to(self.path)}"

    def _verify(self) -> None:
        unknown = self._unknown_files()
        for _ in range(10):
            if not unknown or not any(_is_fresh(file) for file in unknown):
                break
            time.sleep(0.02)
            unknown = self._unknown_files()
        if unknown:
            for file in [*self._files(), self.path / CHECKSUMS]:
                file.unlink(missing_ok=True)
        for file in self._files():
            with suppress(FileNotFoundError):
                self._is_new(file)

    def _unknown_files(self) -> list[Path]:
        log = self.path / CHECKSUMS
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        known = set(text.splitlines())
        unknown = []
        for file in self._files():
            try:
                if self._line(file) not in known:
                    unknown.append(file)
            except FileNotFoundError:  # another process dropped it
                continue
        return unknown


def _is_fresh(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime < FRESH_SECONDS
    except FileNotFoundError:
        return False


_cache: _Cache | str = "unopened"  # "none" after it was given up


def _open_cache() -> _Cache | None:
    global _cache
    if _cache == "unopened":
        try:
            _cache = _Cache(_prepare_directory(_cache_base() / "evalkit" / _cache_key()))
        except (OSError, RuntimeError) as error:
            _give_up_cache(error)
    return _cache if isinstance(_cache, _Cache) else None


def _give_up_cache(error: Exception) -> None:
    global _cache
    with _lock:
        if _cache != "none":
            sys.stderr.write(f"warning[no-kernel-cache]: kernels are compiled anew: {error}\n")
        _cache = "none"


def cache_directory() -> Path | None:
    """Where compiled kernels are kept; None when they are not kept."""
    with _lock:
        cache = None if _is_jit_off() else _open_cache()
    return cache.path if cache is not None else None


def _cache_base() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if os.path.isabs(os.environ.get("XDG_CACHE_HOME", "")):
        return Path(os.environ["XDG_CACHE_HOME"])
    return Path.home() / ".cache"


def _cache_key() -> str:
    import platform
    from hashlib import blake2b

    import llvmlite
    import numba

    summary = blake2b(digest_size=16)
    package = Path(__file__).parent.parent
    for file in sorted(package.rglob("*.py")):
        source = file.read_bytes()
        if any(mark in source for mark in MARKS):
            summary.update(f"{file.relative_to(package)}:{len(source)}:".encode() + source)
    flags = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT_ON_CODE
    }
    versions = (numba.__version__, llvmlite.__version__, sys.version, platform.machine())
    summary.update(repr((versions, _processor(), sorted(flags.items()))).encode())
    return summary.hexdigest()


def _processor() -> str:
    from llvmlite import binding

    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


def _prepare_directory(path: Path) -> Path:
    """`path`, made and private; or a private copy of it where it cannot be written."""
    import atexit
    import shutil
    import tempfile

    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(f"{path} is no directory") from error
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} can be written by others")
    try:
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        if not (path / CHECKSUMS).exists():
            raise
    copy = Path(tempfile.mkdtemp(prefix="evalkit-kernels-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    shutil.copytree(path, copy, dirs_exist_ok=True)
    copy.chmod(0o700)
    return copy
