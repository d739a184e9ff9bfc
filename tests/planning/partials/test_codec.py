"""What a codec writes is read back as it was, by type hints alone; anything else is refused."""

import io
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evalkit.aggregate.segments import SeenValues
from evalkit.aggregate.sums import PairSums
from evalkit.planning.counters import RowCounts
from evalkit.planning.partials import codec_of
from evalkit.planning.partials._codec import ALIGNED, DTYPES, BlockReader
from evalkit.report.by_hints import load_json
from evalkit.statistics.bootstrap import Resamples
from evalkit.statistics.exact import CellRows, ExactSums
from evalkit.statistics.permutation import SignFlips

REFUSALS = (TypeError, ValueError, LookupError, ArithmeticError, struct.error)


def written(value, hint):
    """The text and the bytes that a value becomes."""
    blocks = []
    tree = codec_of(hint).encode(value, blocks)
    padded = [bytes(each) + bytes(-len(each) % ALIGNED) for each in blocks]
    return json.dumps(tree), b"".join(padded)


def read(text, content, hint):
    file = io.BytesIO(content)
    reader = BlockReader(len(content), lambda n_bytes: bytearray(file.read(n_bytes)))
    found = codec_of(hint).decode(load_json(text), reader)
    reader.close()
    return found


def round_trip(value, hint):
    return read(*written(value, hint), hint)


def bits(number):
    return struct.pack(">d", number)


@dataclass
class Leaf:
    count: int
    name: str | None = None
    kind: Literal["one", 2, None] = "one"


class Pair(NamedTuple):
    left: Leaf
    right: "Leaf | None"


@dataclass
class Tree:
    leaves: dict[tuple[str, str], Leaf]
    pairs: list[Pair] = field(default_factory=list)
    children: tuple["Tree", ...] = ()
    keys: dict[str | tuple[str, str], tuple[tuple[int, float, str], ...]] = field(
        default_factory=dict
    )
    seen: frozenset[tuple[str, int]] = frozenset()
    numbers: Mapping[int, Sequence[float]] = field(default_factory=dict)


wholes = st.integers() | st.integers(-(2**5000), 2**5000)
texts = st.text(st.characters())  # with halves of pairs
leaves = st.builds(Leaf, wholes, st.none() | texts, st.sampled_from(["one", 2, None]))
trees = st.recursive(
    st.builds(Tree, st.dictionaries(st.tuples(texts, texts), leaves, max_size=4)),
    lambda inner: st.builds(
        Tree,
        st.dictionaries(st.tuples(texts, texts), leaves, max_size=4),
        st.lists(st.builds(Pair, leaves, st.none() | leaves), max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(
            texts | st.tuples(texts, texts),
            st.lists(st.tuples(wholes, st.floats(allow_nan=False), texts), max_size=4).map(tuple),
            max_size=4,
        ),
        st.frozensets(st.tuples(texts, wholes), max_size=4),
        st.dictionaries(
            wholes, st.lists(st.floats(allow_nan=False), max_size=4).map(tuple), max_size=4
        ),
    ),
    max_leaves=8,
)


@given(tree=trees)
def test_nested_values_come_back(tree):
    assert round_trip(tree, Tree) == tree


@given(number=st.integers(0, 2**64 - 1))
def test_floats_keep_every_bit_also_of_nan(number):
    value = struct.unpack(">d", number.to_bytes(8, "big"))[0]

    assert bits(round_trip(value, float)) == bits(value)


@given(one=wholes, other=wholes.filter(bool))
def test_fractions_come_back(one, other):
    assert round_trip(Fraction(one, other), Fraction) == Fraction(one, other)


@given(data=st.data())
def test_arrays_come_back_and_can_be_written_to(data):
    dtype = data.draw(st.sampled_from([*DTYPES.values()]))
    shape = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    array = data.draw(arrays.arrays(dtype, shape))
    if data.draw(st.booleans()):
        array = array.T

    found = round_trip(array, npt.NDArray[Any])

    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable
    assert found.flags.aligned


def test_arrays_of_the_other_byte_order_come_back_as_numbers():
    array = np.arange(5, dtype=">i8")

    np.testing.assert_array_equal(round_trip(array, npt.NDArray[np.int64]), array)


FRAME = pl.DataFrame(
    {
        "text": ["a", None, "\ud7ff\N{SNOWMAN}", ""],
        "number": [1.5, math.nan, None, -math.inf],
        "large": pl.Series([2**100, None, -1, 0], dtype=pl.Int128),
        "day": [date(2026, 1, 31), None, date(1, 1, 1), date(9999, 12, 31)],
        "moment": pl.Series([1, None, 2, 3], dtype=pl.Datetime("ns", "Europe/Berlin")),
        "bytes": [b"\0\xff", None, b"", b"a"],
        "flag": [True, None, False, True],
        "kind": pl.Series(["x", None, "y", "x"], dtype=pl.Categorical),
        "choice": pl.Series(["x", None, "y", "x"], dtype=pl.Enum(["y", "x"])),
        "nothing": pl.Series([None] * 4, dtype=pl.Null),
    }
)


@pytest.mark.parametrize("frame", [FRAME, FRAME.clear(), FRAME[::2], pl.DataFrame()])
def test_frames_come_back(frame):
    found = round_trip(frame, pl.DataFrame)

    assert found.schema == frame.schema
    assert found.equals(frame, null_equal=True)


@pytest.mark.parametrize("name", FRAME.columns)
def test_series_come_back(name):
    assert round_trip(FRAME[name], pl.Series).equals(FRAME[name], check_dtypes=True)


@pytest.mark.parametrize(
    "value", [1, -(2**200), "a", b"\0", date(2026, 1, 31), datetime(2026, 1, 31, 1, tzinfo=UTC)]
)
def test_ids_of_any_kind_come_back(value):
    found = round_trip(value, int | str | bytes | datetime | date)

    assert found == value
    assert type(found) is type(value)


def test_a_set_has_the_same_bytes_in_any_order():
    one, other = {"a", "b", "c"}, {"c", "b", "a"}

    assert written(one, set[str]) == written(other, set[str])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[1]", int),
        ("true", int),
        ("1.5", int),
        ('"0xzz"', int),
        ("1", float),
        ("NaN", float),
        ('"00"', float),
        ("1", str),
        ("null", str),
        ("1", bool),
        ("{}", dict[str, int]),
        ('[["a", 1], ["a", 2]]', dict[str, int]),
        ("[1, 1]", set[int]),
        ("[1]", tuple[int, int]),
        ("[1, 0]", Fraction),
        ("3", Literal["a", "b"]),
        ("[2, 1]", int | str),
        ("[-1, 1]", int | str),
        ('{"count": 1}', Leaf),
        ('{"count": 1, "name": null, "kind": 0, "more": 1}', Leaf),
        ('{"name": null, "count": 1, "kind": 0}', Leaf),
        ('["<i8", [1]]', npt.NDArray[np.int64]),
        ('["<i8", [-1]]', npt.NDArray[np.int64]),
        ('["<i8", [4611686018427387904, 4]]', npt.NDArray[np.int64]),
        ('["|O", [1]]', npt.NDArray[Any]),
        ('["<f8", [0]]', npt.NDArray[np.int64]),
        ("99999", pl.DataFrame),
        ("0", pl.DataFrame),
        ('"2026-13-01"', date),
    ],
)
def test_what_the_hint_does_not_say_is_refused(text, hint):
    with pytest.raises(REFUSALS):
        read(text, b"", hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1.5, int),
        ("a", float),
        (1, str),
        (1, bool),
        ("ab", list[str]),
        (Leaf(1), Pair),
        (np.array([object()]), npt.NDArray[Any]),
        (np.zeros(1), npt.NDArray[np.int64]),
        ([1], npt.NDArray[np.int64]),
        (1.5, int | str),
        ("c", Literal["a", "b"]),
    ],
)
def test_what_is_no_value_of_the_hint_is_not_written(value, hint):
    with pytest.raises((TypeError, ValueError)):
        written(value, hint)


def test_a_type_that_nobody_knows_is_refused():
    with pytest.raises(TypeError, match="no value of"):
        codec_of(complex)


# ---------------------------------------------------------------- what shares leave behind

values = arrays.arrays(
    np.float64,
    st.tuples(st.integers(0, 20), st.just(3)),
    elements=st.floats(allow_nan=True, allow_infinity=True, width=64),
)


@given(one=values, other=values)
def test_exact_sums_come_back_and_can_be_added_to(one, other):
    sums, found = ExactSums(3, 2), None
    sums.add(one, rows=CellRows.of(np.arange(len(one), dtype=np.int32) % 2, 2))
    found = round_trip(sums, ExactSums)
    for sums_of_one in (sums, found):
        sums_of_one.add(other)
        sums_of_one.merge(round_trip(sums_of_one, ExactSums))

    assert written(sums, ExactSums) == written(found, ExactSums)
    for column in range(6):
        assert sums.sum_of(column) == found.sum_of(column)
        assert bits(sums.skewness_of(column)) == bits(found.skewness_of(column))
        assert sums.largest_of(column) == found.largest_of(column)


@given(rows=values, share=st.floats(0, 1))
@example(rows=np.full((3, 3), 5 / 256), share=0.4)  # low bits of squares that carry
def test_sums_have_one_form_however_they_were_added(rows, share):
    place = round(share * len(rows))
    whole, part, rest = ExactSums(3), ExactSums(3), ExactSums(3)
    whole.add(rows)
    rest.add(rows[place:])
    part.add(rows[:place])
    rest.merge(part)

    assert written(rest, ExactSums) == written(whole, ExactSums)


def test_sums_of_another_shape_are_refused():
    text, content = written(ExactSums(3), ExactSums)

    with pytest.raises(ValueError, match="shape"):
        read(text.replace('"n_columns": 3', '"n_columns": 1000000000000'), content, ExactSums)


def test_pair_sums_come_back():
    found = round_trip(PairSums.empty(3, 2), PairSums)

    assert not found.has_alone
    assert found.outcomes.shape == (2, 3, 3)


def test_tallies_come_back():
    row_counts = RowCounts(rows=2**40, in_train=3, searched="all")

    assert round_trip(row_counts, RowCounts) == row_counts


def test_seen_values_come_back():
    seen = SeenValues({"one": FRAME, "other": FRAME[:2]}, {"one": "users.parquet", "other": ""})

    found = round_trip(seen, SeenValues)

    assert found.places == seen.places
    assert all(found.by_name[name].equals(frame) for name, frame in seen.by_name.items())


KEYS = np.arange(50, dtype=np.uint64) * 7919
DRAWN = np.random.default_rng(1).random((50, 2))


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("undefined", [False, True])
def test_resamples_come_back_and_can_be_merged(squares, undefined):
    drawn = np.where(DRAWN < 0.1, np.nan, DRAWN) if undefined else DRAWN
    sums = Resamples.empty([1.0, 1.0], replicates=130, seed=7, squares=squares)
    sums.add(KEYS, drawn)

    found = round_trip(sums, Resamples)
    found.merge(sums)
    sums.merge(round_trip(sums, Resamples))

    assert found.interval(1, level=0.9) == sums.interval(1, level=0.9)
    assert written(found, Resamples) == written(sums, Resamples)


@pytest.mark.parametrize("n_users", [5, 50])
def test_sign_flips_come_back_and_can_be_merged(n_users):
    flips = SignFlips.empty([1.0, 1.0], replicates=130, seed=7)
    flips.add(KEYS[:n_users], DRAWN[:n_users] - 0.4)

    found = round_trip(flips, SignFlips)

    assert found.test(0) == flips.test(0)
    found.merge(round_trip(flips, SignFlips))
    flips.merge(flips)
    assert found.test(1) == flips.test(1)


def test_types_that_are_equal_in_another_order_keep_their_own():
    codec_of(dict[str, str | bool])

    written = codec_of(dict[str, bool | str]).encode({"a": True, "b": "x"}, [])

    assert written == [["a", [0, True]], ["b", [1, "x"]]]
