"""Object code laid out in memory by ourselves does what it does when LLVM loads it."""

import struct

import numpy as np
import pytest

from evalkit.kernels import kernel
from evalkit.kernels.calling import Entry, flatten, format_of
from evalkit.kernels.decorator import _is_jit_off
from evalkit.kernels.machine import _load_by_llvm, load_code
from evalkit.kernels.object_file import (
    PLACES_CODE,
    RELOCATION,
    RELOCATIONS,
    SECTION,
    SHORT_RELOCATIONS,
    MoreToDoError,
    place_code,
)

pytestmark = [
    pytest.mark.skipif(_is_jit_off(), reason="nothing is compiled"),
    pytest.mark.skipif(not PLACES_CODE, reason="LLVM loads code here"),
]
NAME = "evalkit_test_code"
VALUES = np.array([0.25, 1.5, 3.0, 700.0])


@kernel
def work_on(values, kind):
    """Calls C, allocates, branches into many cases, reads constants, and may fail."""
    if kind > 8:
        raise ValueError("kind is too large")
    made = np.zeros(values.size)
    for place in range(values.size):
        value = values[place]
        if kind == 0:
            made[place] = value**1.7
        elif kind == 1:
            made[place] = np.log2(value) - 0.1
        elif kind == 2:
            made[place] = np.exp(-value) * 3.3
        elif kind == 3:
            made[place] = np.sqrt(value) + 5.7
        elif kind == 4:
            made[place] = value / 7.9
        elif kind == 5:
            made[place] = np.floor(value * 11.3)
        else:
            made[place] = -1.0
    return made.sum(), kind + 1


@pytest.fixture(scope="module")
def compiled():
    """Format of what the code gives back, and the code."""
    from evalkit.kernels.compiler import compile_entry

    results, code = compile_entry(work_on.part, (VALUES, 0), NAME)
    return results.decode(), code


def call(address, results, *arguments):
    words = []
    flatten(arguments, [], words)
    return Entry(address, format_of(words), results, is_kept=False)(words)


def sections_of(code):
    begin, n = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    size = struct.calcsize(SECTION)
    return {
        begin + size * each: struct.unpack_from(SECTION, code, begin + size * each)
        for each in range(n)
    }


def patch(code, at, fields, *values):
    changed = bytearray(code)
    struct.pack_into(fields, changed, at, *values)
    return bytes(changed)


def test_both_give_the_same_bits(compiled):
    results, code = compiled
    ours, by_llvm = place_code(code, NAME), _load_by_llvm(code, NAME)

    assert 0 < ours != by_llvm
    for kind in range(9):
        assert call(ours, results, VALUES, kind) == call(by_llvm, results, VALUES, kind)
    for address in (ours, by_llvm):
        with pytest.raises(ValueError, match=r"^kind is too large$"):
            call(address, results, VALUES, 9)


def test_code_is_neither_writable_nor_at_one_place_twice(compiled):
    addresses = [place_code(compiled[1], NAME) for _ in range(2)]

    assert addresses[0] != addresses[1]
    with open("/proc/self/maps", encoding="ascii") as file:
        rights = {
            line.split()[1]
            for line in file
            for begin, end in [line.split()[0].split("-")]
            if any(int(begin, 16) <= each < int(end, 16) for each in addresses)
        }
    assert rights == {"r-xp"}


def test_a_function_that_is_not_there_is_told(compiled):
    assert place_code(compiled[1], "other") == 0
    with pytest.raises(ValueError, match="no function 'other' in compiled code"):
        load_code(compiled[1], "other")


def test_what_asks_for_more_than_addresses_is_left_to_llvm(compiled):
    _, code = compiled
    for at, (_, kind, _, _, begin, _, _, _, _, _) in sections_of(code).items():
        if kind == RELOCATIONS:
            place, of, symbol, addend = struct.unpack_from(RELOCATION, code, begin)
            assert of == 1
            with pytest.raises(MoreToDoError):  # relative to the place
                place_code(patch(code, begin, RELOCATION, place, 2, symbol, addend), NAME)
            with pytest.raises(MoreToDoError):  # its numbers stand in the code
                place_code(patch(code, at + 4, "<I", SHORT_RELOCATIONS), NAME)
    for at, (_, _, flags, *_) in sections_of(code).items():
        if flags & 2:
            with pytest.raises(MoreToDoError):  # written while it runs
                place_code(patch(code, at + 8, "<Q", flags | 1), NAME)
            with pytest.raises(MoreToDoError):  # nothing but zeros, which are not in the file
                place_code(patch(code, at + 4, "<I", 8), NAME)
    with pytest.raises(MoreToDoError):  # 64 bits of ARM
        place_code(patch(code, 18, "<H", 183), NAME)
    with pytest.raises(AttributeError):
        place_code(code.replace(b"\0malloc\0", b"\0maloka\0"), NAME)
