"""Ids of hashed keys, kept once each, against dictionaries."""

import gc
import os
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import numpy as np
import polars as pl
import pytest

from evalkit import sources
from evalkit.sources.exported import export_texts
from evalkit.sources.ids import IdPlan, KeyCollisionError, texts_of
from evalkit.truth import _ids
from evalkit.truth._ids import KnownIds

TEXTS = ["", "a", "é" * 6, "a" * 12, "a" * 13, "a" * 12 + "b", "aaaa" + "b" * 40, "\0", "\0" * 20]


def plan_of(frame):
    return IdPlan(tuple(frame.columns), tuple(frame.dtypes), True, False, 1)


def keys_of(frame):
    return frame.select(pl.struct(pl.all()).hash(7)).to_series().to_numpy()


def learnt(frame, keys, n_together=1_000, threads=1):
    """The ids of rows that come so many together."""
    known = KnownIds(plan_of(frame))

    def take(begin):
        part = slice(begin, begin + n_together)
        known.take(np.array(keys[part], dtype=np.uint64), frame[part])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(take, range(0, frame.height, n_together)))
    return known


def assert_are_known(frame, known):
    expected = dict(zip(keys_of(frame).tolist(), frame.rows(), strict=True))
    keys = known.keys()
    assert keys.tolist() == sorted(expected)
    wanted = np.random.default_rng(1).permutation(keys)
    found = known.ids_of(wanted)
    assert found.schema == frame.schema
    assert found.rows() == [expected[key] for key in wanted.tolist()]


def test_texts_at_one_place_of_different_buffers_are_compared():
    ids = [f"{number:040}" for number in range(1_000)]
    words = texts_of(pl.Series(ids)).views.reshape(-1, 2)
    (row,) = np.flatnonzero(words[:, 1] == 1)  # the first text of the second buffer
    ids[row], keys = "same" + "b" * 36, np.arange(100, 1_100, dtype=np.uint64)
    keys[row] = 7
    frame = pl.DataFrame({"id": ids})
    known = KnownIds(plan_of(frame))
    known.take(keys[[row]], pl.DataFrame({"id": ["same" + "a" * 36]}))
    known.take(keys[[row]], pl.DataFrame({"id": ["same" + "a" * 36]}))  # it is looked for from here
    assert not known._all_new

    with pytest.raises(KeyCollisionError):
        known.take(keys, frame)


@pytest.mark.parametrize("dtype", [pl.String, pl.Binary])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("order", ["grouped", "apart"])
def test_every_id_is_kept_once(dtype, threads, order, monkeypatch):
    monkeypatch.setattr(_ids, "LEAST_SLOTS", 4)
    monkeypatch.setattr(_ids, "BLOCK", 60)
    texts = [*TEXTS, *(f"{number}" * (1 + number % 30) for number in range(1_000)), "long" * 1_000]
    rows = np.repeat(np.arange(len(texts)), 5)
    if order == "apart":
        rows = np.random.default_rng(1).permutation(rows)
    frame = pl.DataFrame({"id": [texts[row] for row in rows]}).select(pl.col("id").cast(dtype))

    assert_are_known(frame, learnt(frame, keys_of(frame), 97, threads))


@pytest.mark.parametrize(
    "columns",
    [
        {"id": pl.Series([1, -2, 2**100], dtype=pl.Int128)},
        {"one": [1, 1, -2], "other": ["b", "a", "a"]},
        {"one": pl.Series([2**64 - 1, 0, 5], dtype=pl.UInt64), "other": [b"", b"\xff" * 20, b""]},
        {"day": [date(2020, 1, 1), date(1900, 1, 2), None], "user": ["a" * 20] * 3},
        {"at": [datetime(2020, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]},
    ],
    ids=["wide", "integer and text", "unsigned and bytes", "day and text", "moments"],
)
def test_ids_of_any_type_come_back(columns):
    frame = pl.DataFrame(columns).drop_nulls()
    assert_are_known(frame, learnt(frame, keys_of(frame), 2))


def test_an_id_longer_than_a_block_ends_with_its_block():
    frame = pl.DataFrame({"id": ["a", "b" * (8 * _ids.BLOCK + 100), "c" * 40]})
    known = KnownIds(plan_of(frame))
    for row, n_blocks in enumerate((1, 2, 3)):
        known.take(keys_of(frame)[[row]], frame[[row]])
        assert known._known.blocks.size == 1 + n_blocks
        assert (n_blocks << 20) < known._known.end <= ((1 + n_blocks) << 20)
    assert_are_known(frame, known)


def test_nobody_is_known_at_first():
    frame = pl.DataFrame(schema={"user": pl.String, "shop": pl.Int64})
    known = learnt(frame, [])
    assert known.keys().size == 0
    assert known.ids_of(known.keys()).equals(frame)


@pytest.mark.some_cases(20)
@pytest.mark.parametrize("other", TEXTS)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("apart", [0, 1, 2_000])
@pytest.mark.parametrize("n_together", [1, 1_000, 5_000])
def test_two_ids_of_one_key_are_told(text, other, apart, n_together):
    frame = pl.DataFrame({"shop": "s", "id": [text, *["c"] * apart, other, text]})
    given = frame, [1, *[2] * apart, 1, 1], n_together if apart else max(1, n_together % 1_000)
    if text == other:
        assert learnt(*given).keys().tolist() == [1, 2][: 1 + (apart > 0)]
    else:
        with pytest.raises(KeyCollisionError):
            learnt(*given)


@pytest.mark.parametrize("other", TEXTS)
@pytest.mark.parametrize("text", TEXTS)
def test_ids_that_two_logs_know_are_held_against_each_other(text, other):
    ours = learnt(pl.DataFrame({"shop": ["s", "s"], "id": ["c", text]}), [1, 2])
    theirs = learnt(pl.DataFrame({"shop": ["s", "t"], "id": [other, "c"]}), [2, 3])

    assert ours.agree_with(theirs) == theirs.agree_with(ours) == (text == other)


SCRIPT = """
import numpy as np, polars as pl
from evalkit import sources
from evalkit.sources.exported import export_texts
from evalkit.sources.ids import IdPlan, KeyCollisionError, stable_hashes
from evalkit.truth import _ids
_ids.LEAST_SLOTS, _ids.BLOCK = 4, 12
texts = ["", "a" * 12, "a" * 13, *("number" * (n % 5) + str(n) for n in range(50))]
frame = pl.DataFrame({"id": texts * 3})
keys = frame["id"].hash(7).to_numpy()
plan = IdPlan(("id",), (pl.String(),), True, False, 1)
known = _ids.KnownIds(plan)
for begin in range(0, frame.height, 60):
    known.take(keys[begin:begin + 60].copy(), frame[begin:begin + 60])
own = keys[:len(texts)].copy()
rows = np.arange(frame.height)
assert known.are_those_of(keys, frame, rows.copy())
assert not known.are_those_of(np.roll(keys, 1), frame, rows)
assert known.stable_hashes(own).tolist() == stable_hashes(frame, plan)[:len(texts)].tolist()
try:
    known.take(keys[-1:].copy(), pl.DataFrame({"id": ["number" * 4 + "50"]}))
except KeyCollisionError:
    print(known.ids_of(own)["id"].to_list() == texts)
"""


@pytest.mark.parametrize("variable", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_plain_python_and_checked_bounds_give_the_same(variable):
    environment = {**os.environ, variable: "1"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_texts_of_several_columns_live_as_long_as_they_are_read(monkeypatch):
    exported = []

    def export(column):
        array = export_texts(column)
        exported.append(weakref.ref(array))
        return array

    monkeypatch.setattr(sources.ids, "export_texts", export)
    numbers = pl.Series([10**17, 10**17 + 1])
    texts = _ids._joined([numbers.cast(pl.String), (numbers * 2).cast(pl.String)])
    gc.collect()

    assert [array() is None for array in exported] == [False, False]
    del texts
    gc.collect()
    assert [array() is None for array in exported] == [True, True]
