"""Values as JSON and arrays, and back, by the type hints of the code.

A file names no type and runs nothing: what it holds is read as the hints say, or refused. What is
no JSON has a form of its own: large whole numbers in base 16, NaN and infinities as their bits,
dicts as lists of pairs, arrays and frames as bytes that stand beside the JSON.
"""

import io
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import cache
from json import dumps
from operator import index
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl

ALIGNED = 64  # bytes: where arrays begin
LARGEST_PLAIN = 1 << 53  # whole numbers above it are no JSON everywhere
DTYPES = {np.dtype(code).str: np.dtype(code) for code in "?bBhHiIqQefd"}

Blocks: TypeAlias = list[memoryview]


class BlockReader:
    """Takes arrays off a source in the order in which they were written.

    Args:
        n_bytes: of all arrays together.
        source: gives the next so many bytes, of which no more than those are made.
    """

    def __init__(self, n_bytes: int = 0, source: Callable[[int], bytearray] = bytearray) -> None:
        self._n_left, self._source = n_bytes, source

    def take(self, n_bytes: int) -> memoryview:
        """The next so many bytes.

        Raises:
            ValueError: there are not so many.
        """
        n_padded = n_bytes + -n_bytes % ALIGNED
        if n_padded > self._n_left:
            raise ValueError(f"{n_bytes:,} bytes of an array are not there")
        self._n_left -= n_padded
        return memoryview(self._source(n_padded))[:n_bytes]

    def close(self) -> None:
        """Raise ValueError unless every byte was taken."""
        if self._n_left:
            raise ValueError("there are more bytes than arrays")


class Codec(NamedTuple):
    """How a value becomes JSON, its arrays going to `Blocks`, and how it is read back."""

    encode: Callable[[Any, Blocks], Any]
    decode: Callable[[Any, BlockReader], Any]


def codec_of(hint: Any) -> Codec:
    """What writes and reads values of a type.

    A class may say what it keeps: `state(self)`, whose return type is read from its hint, and
    `of_state(cls, state)`; in which order, by `as_kept(self)`, which gives another such record;
    and which types its hints name that its module does not load: `late_types()`.
    """
    return _codec_of(hint, repr(hint))


@cache
def _codec_of(hint: Any, spelled: str) -> Codec:
    """`spelled` tells hints apart that are equal, as `int | str` and `str | int` are."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hint is None:
        return _SIMPLE[NoneType]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _union(inner)
    if origin is Literal:
        return _literal(inner)
    if origin is np.ndarray:
        return _array(inner[1])
    if origin is tuple and inner[-1] is not Ellipsis:
        return _tuple(inner)
    if origin in (tuple, list, Sequence, set, frozenset):
        return _listed({Sequence: tuple}.get(origin, origin), inner[0])
    if origin in (dict, Mapping):
        return _dict(*inner)
    if hasattr(hint, "of_state"):
        return _stated(hint)
    if is_dataclass(hint) or (isinstance(hint, type) and hasattr(hint, "_fields")):
        return _record(hint)
    raise TypeError(f"no value of {hint} can be kept")


def _checked(value: Any, *kinds: type) -> Any:
    """`value`, which JSON gave, if it is of exactly one of the types."""
    if type(value) not in kinds:
        raise TypeError(f"{type(value).__name__} stands where {kinds[0].__name__} belongs")
    return value


def _later(hint: Any) -> Codec:
    """The codec of a type that may hold itself."""
    return Codec(
        lambda value, blocks: codec_of(hint).encode(value, blocks),
        lambda value, reader: codec_of(hint).decode(value, reader),
    )


def _record(kind: Any) -> Codec:
    later: Callable[[], dict[str, Any]] = getattr(kind, "late_types", dict)
    hints = get_type_hints(kind, localns=later())
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else [*kind._fields]
    codecs = {name: _later(hints[name]) for name in names}

    def encode(value: Any, blocks: Blocks) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{type(value).__name__} stands where {kind.__name__} belongs")
        value = value.as_kept() if hasattr(kind, "as_kept") else value
        return {name: each.encode(getattr(value, name), blocks) for name, each in codecs.items()}

    def decode(value: Any, reader: BlockReader) -> Any:
        if list(_checked(value, dict)) != names:
            raise ValueError(f"these are no fields of {kind.__name__}")
        return kind(**{name: each.decode(value[name], reader) for name, each in codecs.items()})

    return Codec(encode, decode)


def _stated(kind: Any) -> Codec:
    state = codec_of(get_type_hints(kind.state)["return"])
    return Codec(
        lambda value, blocks: state.encode(value.state(), blocks),
        lambda value, reader: kind.of_state(state.decode(value, reader)),
    )


def _union(kinds: tuple[Any, ...]) -> Codec:
    """The first of the types that takes a value, and its number; None alone is null."""
    others = [each for each in kinds if each is not NoneType]
    codecs = [codec_of(each) for each in others]
    has_none = len(others) < len(kinds)

    def encode(value: Any, blocks: Blocks) -> Any:
        if value is None and has_none:
            return None
        if len(others) == 1:
            return [codecs[0].encode(value, blocks)]
        exact = [type(value) is (get_origin(each) or each) for each in others]
        for number in sorted(range(len(others)), key=lambda number: not exact[number]):
            mark = len(blocks)
            try:
                return [number, codecs[number].encode(value, blocks)]
            except (TypeError, ValueError, AttributeError):
                del blocks[mark:]
        raise TypeError(f"{type(value).__name__} is none of {kinds}")

    def decode(value: Any, reader: BlockReader) -> Any:
        if value is None and has_none:
            return None
        *number, kept = _checked(value, list)
        place = number[0] if len(others) > 1 else 0
        if len(number) != (len(others) > 1) or _checked(place, int) not in range(len(others)):
            raise ValueError("a value is of no type that may stand there")
        return codecs[place].decode(kept, reader)

    return Codec(encode, decode)


def _literal(choices: tuple[Any, ...]) -> Codec:
    def encode(value: Any, blocks: Blocks) -> Any:
        if value not in choices:
            raise ValueError(f"{value!r} is none of {choices}")
        return choices.index(value)

    return Codec(encode, lambda value, reader: choices[range(len(choices))[_checked(value, int)]])


def _array(wanted: Any) -> Codec:
    named = get_args(wanted)[0] if get_args(wanted) else Any
    only = None if named is Any else np.dtype(named)

    def encode(value: Any, blocks: Blocks) -> Any:
        dtype = value.dtype.newbyteorder("<") if isinstance(value, np.ndarray) else None
        if dtype is None or dtype.str not in DTYPES or (only is not None and dtype != only):
            raise TypeError(f"no array of {only or 'numbers'}")
        blocks.append(np.ascontiguousarray(value, dtype).reshape(-1).view(np.uint8).data)
        return [dtype.str, list(value.shape)]

    def decode(value: Any, reader: BlockReader) -> Any:
        spelled, shape = _checked(value, list)
        dtype = DTYPES[_checked(spelled, str)]
        if only is not None and dtype != only:
            raise TypeError(f"an array of {dtype} stands where one of {only} belongs")
        if any(_checked(each, int) < 0 for each in _checked(shape, list)):
            raise ValueError("an array has a length below 0")
        taken = reader.take(math.prod(shape) * dtype.itemsize)
        return np.frombuffer(taken, dtype).reshape(shape)

    return Codec(encode, decode)


def _tuple(kinds: tuple[Any, ...]) -> Codec:
    codecs = [codec_of(each) for each in kinds]
    return Codec(
        lambda value, blocks: [
            codec.encode(each, blocks) for codec, each in zip(codecs, value, strict=True)
        ],
        lambda value, reader: tuple(
            codec.decode(each, reader)
            for codec, each in zip(codecs, _checked(value, list), strict=True)
        ),
    )


def _listed(make: Any, kind: Any) -> Codec:
    codec = codec_of(kind)
    is_set = make in (set, frozenset)

    def encode(value: Any, blocks: Blocks) -> Any:
        if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
            raise TypeError(f"{type(value).__name__} stands where {make.__name__} belongs")
        listed = [codec.encode(each, blocks) for each in value]
        return sorted(listed, key=dumps) if is_set else listed

    def decode(value: Any, reader: BlockReader) -> Any:
        found = make(codec.decode(each, reader) for each in _checked(value, list))
        if len(found) < len(value):
            raise ValueError("a value stands twice in a set")
        return found

    return Codec(encode, decode)


def _dict(key: Any, kind: Any) -> Codec:
    pair = codec_of(tuple[key, kind])

    def decode(value: Any, reader: BlockReader) -> Any:
        found = dict(pair.decode(each, reader) for each in _checked(value, list))
        if len(found) < len(value):
            raise ValueError("a key stands twice")
        return found

    return Codec(
        lambda value, blocks: [pair.encode(each, blocks) for each in value.items()], decode
    )


# ---------------------------------------------------------------- single values


def _write_whole(value: Any, blocks: Blocks) -> Any:
    whole = index(value)
    return whole if -LARGEST_PLAIN < whole < LARGEST_PLAIN else hex(whole)


def _read_whole(value: Any, reader: BlockReader) -> int:
    return int(value, 16) if type(value) is str else int(_checked(value, int))


def _pair(value: Any) -> Any:
    one, other = _checked(value, list)
    return one, other


def _write_float(value: Any, blocks: Blocks) -> Any:
    if type(value) is int:  # as type checkers let it: it stays what it is
        return [value if abs(value) < LARGEST_PLAIN else hex(value)]
    number = float(value)
    return number if math.isfinite(number) else struct.pack(">d", number).hex()


def _read_float(value: Any, reader: BlockReader) -> float:
    if type(value) is list:
        (whole,) = value
        return _read_whole(whole, reader)
    if type(value) is not str:
        return float(_checked(value, float))
    (number,) = struct.unpack(">d", bytes.fromhex(value))
    return float(number)


def _write_frame(value: Any, blocks: Blocks) -> Any:
    file = io.BytesIO()
    _checked(value, pl.DataFrame).rechunk().write_ipc(file, compression="uncompressed")
    blocks.append(file.getbuffer())
    return len(blocks[-1])


def _read_frame(value: Any, reader: BlockReader) -> pl.DataFrame:
    if _checked(value, int) < 0:
        raise ValueError("a frame has a length below 0")
    try:
        return pl.read_ipc(io.BytesIO(reader.take(value)))
    except OSError as error:  # of the bytes in memory
        raise ValueError(str(error)) from error


def _write_plain(value: Any, blocks: Blocks) -> Any:
    """What is JSON already, as a config is."""
    if isinstance(value, Mapping):
        return {_checked(key, str): _write_plain(each, blocks) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_write_plain(each, blocks) for each in value]
    return _checked(value, str, int, float, bool, NoneType)


def _exactly(kind: type) -> Codec:
    return Codec(lambda value, _: _checked(value, kind), lambda value, _: _checked(value, kind))


def _spelled(kind: Any, spell: Callable[[Any], str], read: Callable[[str], Any]) -> Codec:
    return Codec(
        lambda value, _: spell(_checked(value, kind)), lambda value, _: read(_checked(value, str))
    )


def _write_bits(value: Any, blocks: Blocks) -> Any:
    return bool(_checked(value, bool, np.bool_))


_WHOLE = Codec(_write_whole, _read_whole)
_SERIES: Codec = Codec(
    lambda value, blocks: _write_frame(value.rename("").to_frame(), blocks),
    lambda value, reader: _read_frame(value, reader).to_series(),
)
_SIMPLE: dict[Any, Codec] = {
    None: _exactly(NoneType),
    NoneType: _exactly(NoneType),
    str: _exactly(str),
    bool: Codec(_write_bits, lambda value, _: _checked(value, bool)),
    int: _WHOLE,
    float: Codec(_write_float, _read_float),
    object: Codec(_write_plain, lambda value, _: value),
    bytes: _spelled(bytes, bytes.hex, bytes.fromhex),
    date: _spelled(date, date.isoformat, date.fromisoformat),
    datetime: _spelled(datetime, datetime.isoformat, datetime.fromisoformat),
    Fraction: Codec(
        lambda value, blocks: [_write_whole(each, blocks) for each in value.as_integer_ratio()],
        lambda value, reader: Fraction(*(_read_whole(each, reader) for each in _pair(value))),
    ),
    pl.DataFrame: Codec(_write_frame, _read_frame),
    pl.Series: _SERIES,
}
