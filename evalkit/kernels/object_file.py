"""Object code of Linux on x86-64 laid out in memory, without LLVM.

LLVM's library takes 50 MiB and a twentieth of the start of a command. All that it leaves to be done
with a kernel is to write addresses of 64 bits into its code: kernels are compiled for any distance
between code, constants and what they call. Where a file asks for more, LLVM has to do it.

Source:
    System V Application Binary Interface, "Object Files", and its AMD64 supplement.
"""

import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

PLACES_CODE = sys.platform == "linux" and os.uname().machine == "x86_64"
HEAD = b"\x7fELF\x02\x01"  # 64 bits, the lowest byte first
RELOCATABLE_X86_64 = b"\x01\x00\x3e\x00"
SECTION, SYMBOL, RELOCATION = "<IIQQQQIIQQ", "<IBBHQQ", "<QIIq"
PROGRAM, SYMBOLS, RELOCATIONS, SHORT_RELOCATIONS = 1, 2, 4, 9  # kinds of sections
IS_WRITTEN, IS_LOADED = 1, 2  # flags of sections
WHOLE_ADDRESS = 1  # kind of a relocation


class MoreToDoError(Exception):
    """Code asks for more than addresses."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    begin: int
    size: int
    link: int
    target: int
    alignment: int
    entry_size: int


def place_code(code: bytes, name: str) -> int:
    """The address of the function `name`, 0 without one; its memory is never given back.

    Raises:
        MoreToDoError: writing addresses is not all that has to be done.
        OSError: there is no memory, or none that may be executed.
        AttributeError: what the code calls is not there.
    """
    if code[:6] != HEAD or code[16:20] != RELOCATABLE_X86_64:
        raise MoreToDoError
    (begin,), (n,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
    table = code[begin : begin + n * struct.calcsize(SECTION)]
    sections = [_Section(*fields) for fields in struct.iter_unpack(SECTION, table)]

    def read(section: _Section, fields: str) -> Iterator[tuple[Any, ...]]:
        return struct.iter_unpack(fields, code[section.begin : section.begin + section.size])

    image, places = bytearray(), dict[int, int]()  # by section
    relocations = list[tuple[int, int, int]]()  # place in the image, symbol, addend
    for number, section in enumerate(sections):
        if section.flags & IS_LOADED:
            if section.kind != PROGRAM or section.flags & IS_WRITTEN:
                raise MoreToDoError
            image += bytes(-len(image) % max(1, section.alignment))
            places[number] = len(image)
            image += code[section.begin : section.begin + section.size]
    for section in sections:
        if section.target in places and section.kind == SHORT_RELOCATIONS:
            raise MoreToDoError
        if section.target in places and section.kind == RELOCATIONS:
            for place, kind, symbol, addend in read(section, RELOCATION):
                if kind != WHOLE_ADDRESS:
                    raise MoreToDoError
                relocations.append((places[section.target] + place, symbol, addend))
    base = _reserve(len(image))
    (symbols,) = (section for section in sections if section.kind == SYMBOLS)
    names, found = sections[symbols.link].begin, list[tuple[str, int | None]]()
    for at, _, _, number, value, _ in read(symbols, SYMBOL):
        spelt = code[names + at : code.index(b"\0", names + at)].decode()
        found.append((spelt, base + places[number] + value if number in places else None))
    for place, symbol, addend in relocations:
        spelt, address = found[symbol]
        address = (_address_of(spelt) if address is None else address) + addend
        struct.pack_into("<q", image, place, address)
    ctypes.memmove(base, bytes(image), len(image))
    _make_executable(base, len(image))
    return dict(found).get(name) or 0


@cache
def _process() -> ctypes.CDLL:
    """What this process has loaded."""
    process = ctypes.CDLL(None, use_errno=True)
    process.mmap.restype = ctypes.c_void_p
    long, number = ctypes.c_size_t, ctypes.c_int
    process.mmap.argtypes = (ctypes.c_void_p, long, number, number, number, ctypes.c_ssize_t)
    process.mprotect.argtypes = (ctypes.c_void_p, long, number)
    return process


def _address_of(name: str) -> int:
    return ctypes.cast(_process()[name], ctypes.c_void_p).value or 0


def _reserve(n_bytes: int) -> int:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _process().mmap(None, n_bytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if base in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for code")
    return int(base)


def _make_executable(base: int, n_bytes: int) -> None:
    if _process().mprotect(base, n_bytes, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory may not be executed")
