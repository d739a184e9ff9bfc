"""How Python calls a kernel: its arguments become words that machine code reads."""

import ctypes
import pickle
import struct
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

Word = int | float | bool

FORMATS = {  # of a word, as `struct` packs it
    bool: "?7x",
    np.bool_: "?7x",
    int: "q",
    np.int64: "q",
    np.uint64: "Q",
    float: "d",
    np.float64: "d",
}
IN_ONE_PIECE, WRITABLE = 0x101, 0x400  # NumPy's flags: contiguous as in C and aligned; writable
FLAGS = IN_ONE_PIECE | WRITABLE


def flatten(arguments: Iterable[Any], types: list[Hashable], words: list[Word]) -> None:
    """Append what code depends on to `types`, and what a call hands over to `words`.

    Types are formats of numbers; element type, dimensions and flags of arrays; class and length of
    tuples. Words are numbers, and the addresses of array objects.

    Raises:
        TypeError: a kernel takes no such argument.
    """
    for argument in arguments:
        kind: Any = type(argument)
        if kind is np.ndarray:
            types += (argument.dtype, argument.ndim, argument.flags.num & FLAGS)
            words.append(id(argument))
        elif kind in FORMATS:
            types.append(FORMATS[kind])
            words.append(argument)
        elif isinstance(argument, tuple):
            types += (kind, len(argument))
            flatten(argument, types, words)
        else:
            raise TypeError(f"a kernel takes no {kind.__name__}")


def format_of(words: Iterable[Word]) -> str:
    """How `struct` packs words."""
    return "".join(FORMATS[type(word)] for word in words)


def describe(types: Sequence[Hashable], arguments: Iterable[object]) -> str:
    """Types as a text that is the same in every process.

    Raises:
        TypeError: an array has gaps between its elements.
    """
    for argument in arguments:
        if isinstance(argument, tuple):
            describe((), argument)
        elif isinstance(argument, np.ndarray) and argument.flags.num & IN_ONE_PIECE != IN_ONE_PIECE:
            raise TypeError("a kernel takes arrays in one piece")
    return repr([_name_of(each) if isinstance(each, type) else each for each in types])


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}{getattr(kind, '_fields', '')}"


class Entry:
    """Compiled code for arguments of some types; a call releases the GIL.

    Args:
        address: of a function `int32 entry(int64 *words)`.
        arguments: the format of their words.
        results: the format of what it gives back, as `compile_entry` tells it.
        is_kept: the code came from the cache.
    """

    def __init__(self, address: int, arguments: str, results: str, *, is_kept: bool) -> None:
        self.is_kept = is_kept
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self._arguments = struct.Struct(arguments)
        self._results = struct.Struct(results)
        n_bytes = 8 + max(self._arguments.size, self._results.size)
        self._words = ctypes.c_int64 * (n_bytes // 8)

    def __call__(self, words: Sequence[Word]) -> object:
        memory = self._words()
        self._arguments.pack_into(memory, 8, *words)
        if self._function(memory):
            raise _error_at(memory[0])
        results = self._results.unpack_from(memory, 8)
        if len(results) > 1:
            return results
        return results[0] if results else None


class _ErrorRecord(ctypes.Structure):
    """What numba's code tells of an error: `excinfo_t` of its calling convention."""

    _fields_ = (("pickled", ctypes.c_void_p), ("size", ctypes.c_int32))


def _error_at(address: int) -> BaseException:
    record = _ErrorRecord.from_address(address)
    kind, arguments, _ = pickle.loads(ctypes.string_at(record.pickled, record.size))  # noqa: S301
    error = kind(*(arguments or ()))
    assert isinstance(error, BaseException)
    return error
