# mypy: disable-error-code="no-untyped-def"
"""Thrift's compact protocol, which Parquet's footer and page headers are written in.

Kernels take bytes, a place and an end, and give the place after what was read: below 0 it is a
fault.
"""

from evalkit.kernels import kernel

BOOL, BYTE, WHOLE, LONG, DOUBLE, BINARY, LIST, SET, STRUCT = 2, 3, 5, 6, 7, 8, 9, 10, 12
DEEPEST = 30  # structs and lists inside one another, while one is skipped
_FIELDS = -1  # of a struct, while it is skipped


@kernel
def read_number(data, place, end):
    """An unsigned number of seven bits a byte, and the place after it."""
    value = 0
    shift = 0
    while 0 <= place < end and shift < 63:
        byte = int(data[place])
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    return 0, -1


@kernel
def read_signed(data, place, end):
    """A zigzag number, and the place after it."""
    value, place = read_number(data, place, end)
    return (value >> 1) ^ -(value & 1), place


@kernel
def read_field(data, place, end, last):
    """Number, type and place of a struct's next field after the field `last`; type 0: the end."""
    if place < 0 or place >= end:
        return 0, 0, -1
    byte = int(data[place])
    place += 1
    if byte == 0:
        return 0, 0, place
    if byte >> 4:
        return last + (byte >> 4), byte & 15, place
    number, place = read_signed(data, place, end)
    return number, byte & 15, place


@kernel
def read_list(data, place, end):
    """Length and type of a list's elements, and the place of the first."""
    if place < 0 or place >= end:
        return 0, 0, -1
    byte = int(data[place])
    place += 1
    if byte >> 4 < 15:
        return byte >> 4, byte & 15, place
    size, place = read_number(data, place, end)
    return size, byte & 15, place


@kernel
def skip(data, place, end, kind, stack):
    """The place after a value of a type, however it is nested."""
    if kind <= BOOL:
        return place  # a field that is true or false has no other bytes
    stack[0, 0] = kind
    stack[0, 1] = 1
    depth = 1
    while depth > 0:
        if place < 0 or place > end or depth >= DEEPEST:
            return -1
        top = depth - 1
        if stack[top, 0] == _FIELDS:
            _, kind, place = read_field(data, place, end, 0)
            if kind == 0:
                depth -= 1
            elif kind > BOOL:
                stack[depth, 0] = kind
                stack[depth, 1] = 1
                depth += 1
            continue
        if stack[top, 1] == 0:
            depth -= 1
            continue
        stack[top, 1] -= 1
        kind = stack[top, 0]
        if kind <= BYTE:
            place += 1
        elif kind <= LONG:
            _, place = read_number(data, place, end)
        elif kind == DOUBLE:
            place += 8
        elif kind == BINARY:
            size, place = read_number(data, place, end)
            if place < 0 or size > end - place:
                return -1
            place += size
        elif kind in (LIST, SET):
            size, inner, place = read_list(data, place, end)
            stack[depth, 0] = inner
            stack[depth, 1] = size
            depth += 1
        elif kind == STRUCT:
            stack[depth, 0] = _FIELDS
            depth += 1
        else:
            return -1
    return place if place <= end else -1
