"""Rows whose users lie apart, and texts held against each other, against plain Python."""

from collections import Counter, defaultdict
from threading import Event

import numpy as np
import polars as pl
import pytest

from evalkit.kernels.threads import finished_map, kernels_are_compiled, ordered_map
from evalkit.ranks import _kernels as kernels
from evalkit.ranks import _unsorted
from evalkit.ranks._records import (
    BAD_RANKS,
    DUPLICATES,
    HITS,
    KNOWN_RUNS,
    NO_INTS,
    NOT_RANKED,
    REAPPEARED,
    UNKNOWN_ROWS,
    UNKNOWN_RUNS,
    BatchResults,
    RankedRows,
    Ranks,
)
from evalkit.ranks._rows import make_checksums
from evalkit.sources import ids
from evalkit.sources.ids import mix
from evalkit.truth import PairRows, build_user_items
from evalkit.truth._ids import KnownIds

N_USERS, N_ITEMS = 60, 200


def items_of_users(draw):
    """Some users have few items, some more than a filter of one word takes, some very many."""
    return {
        user: draw.choice(N_ITEMS, size=int(draw.choice([1, 5, 16, 17, 64, 90])), replace=False)
        for user in range(0, N_USERS, 2)
    }


def lie(order, users, draw):
    """Rows as logs have them: by user, without any order, or both in turn."""
    places = draw.permutation(users.size)
    if order == "apart":
        return places
    grouped = places[np.argsort(users[places], kind="stable")]
    if order == "grouped":
        return grouped
    half = users.size // 2
    parts = [grouped[:half], draw.permutation(grouped[half:])]
    return np.concatenate(
        [each[begin : begin + 90] for begin in range(0, half, 90) for each in parts]
    )


def probed_by_runs(rows, pairs, ranks):
    found = BatchResults.room(rows.users.size)
    state, sums = ranks.state, make_checksums(128)
    kernels.probe_ranks(rows, 0, pairs.index, ranks.ranks, NO_INTS, state, sums, found)
    return found.counters, found.unknown_users[: int(found.counters[UNKNOWN_RUNS])]


def probed_by_partition(rows, pairs, ranks, *, at_once):
    """By threads, two batches at a time; at once, rows are named as they stand in their batch."""

    def look_up(model, portion, found):
        kernels.probe_unsorted(portion, 0, pairs.index, ranks.ranks, NO_INTS, ranks.state, found)

    def settle(found, frame):
        n_hits, n_known = int(found.counters[HITS]), int(found.counters[KNOWN_RUNS])
        assert at_once or n_hits == n_known == 0
        if at_once:
            items, of_users = frame["item"].to_numpy(), frame["user"].to_numpy()
            shown = pairs.index.lows[found.hit_places[:n_hits]]
            assert (items[found.hit_rows[:n_hits]] == shown).all()
            known = pairs.users[found.run_codes[:n_known]]
            assert (of_users[found.run_rows[:n_known]] == known).all()
        return found.kept()

    gatherer = _unsorted.Gatherer(pairs.index, look_up, BatchResults.room, settle, at_once, 8_400)

    def add(begin):
        part = RankedRows(*(each[begin : begin + 333] for each in rows))
        frame = pl.DataFrame({"user": part.users, "item": part.items})
        return gatherer.add("a model", part, frame)

    begins = range(0, rows.users.size, 333)
    done = [each for found in ordered_map(add, begins, threads=3) for each in found]
    done += gatherer.finish(3)
    assert {model for model, _ in done} == {"a model"}
    found = [each for _, each in done]
    counters = np.sum([each.counters for each in found], axis=0)
    return counters, np.concatenate([each.unknown_users for each in found])


@pytest.mark.some_cases(9)
@pytest.mark.parametrize("way", ["by runs", "gathered", "at once"])
@pytest.mark.parametrize("order", ["apart", "grouped", "mixed"])
@pytest.mark.parametrize("width", ["half keys", "whole keys later"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_in_any_order_are_probed_alike(order, seed, width, way):
    draw = np.random.default_rng(seed)
    truth = items_of_users(draw)
    of_rows = np.repeat(list(truth), [len(items) for items in truth.values()])
    pairs, _ = build_user_items(
        PairRows.of(
            of_rows.astype(np.uint64), np.concatenate(list(truth.values())).astype(np.uint64)
        )
    )
    n = 4_000
    users, items = draw.integers(0, N_USERS, n), draw.integers(0, N_ITEMS, n)
    places = lie(order, users, draw)
    users, items = users[places], items[places]
    if width == "whole keys later":  # their lower halves are those of others
        users[n // 2 :] += users[n // 2 :] % 2 << 32  # of users that the truth lacks
        items[n // 2 :: 5] += 1 << 32
    shown = draw.integers(-1, 100, users.size).astype(np.int32)
    ranks = Ranks.empty(pairs)

    rows = RankedRows(users.astype(np.uint64), items.astype(np.uint64), shown)
    if way == "by runs":
        counters, strangers = probed_by_runs(rows, pairs, ranks)
    else:
        counters, strangers = probed_by_partition(rows, pairs, ranks, at_once=way == "at once")

    best, listed, hits = {}, defaultdict(list), Counter()
    for user, item, rank in zip(users.tolist(), items.tolist(), shown.tolist(), strict=True):
        if user in truth and rank >= 1:
            listed[user].append(rank)
        if item in truth.get(user, ()):
            hits[rank >= 1] += 1
            if rank >= 1:
                best[user, item] = min(best.get((user, item), NOT_RANKED), rank)
    keys = pairs.item_keys()
    for code, user in enumerate(pairs.users.tolist()):
        given = listed[user]
        assert ranks.state.rows[code] == len(given)
        assert ranks.state.largest[code] == max(given, default=-1)
        sum_of_user = sum(int(mix.interpret(np.uint64(rank))) for rank in given) % 2**64
        assert int(ranks.state.wide[2 * code + 1]) % 2**64 == sum_of_user
        for place in range(int(pairs.starts[code]), int(pairs.starts[code] + pairs.counts[code])):
            assert ranks.ranks[place] == best.get((user, int(keys[place])), NOT_RANKED)
    known = np.isin(users, list(truth))
    assert counters[UNKNOWN_ROWS] == int((~known).sum())
    assert counters[BAD_RANKS] == int((known & (shown < 1)).sum())
    assert counters[DUPLICATES] == hits[True] - len(best)
    if way != "gathered":
        assert counters[HITS] == hits.total()
    if way == "by runs" and order != "mixed":
        assert bool(counters[REAPPEARED]) == (order == "apart")
    assert set(strangers.tolist()) == set(users[~known].tolist())


def test_no_batch_waits_for_one_that_takes_longer():
    others_are_done, are_threads = Event(), kernels_are_compiled()

    def work(number):
        if number == 0:
            assert others_are_done.wait(30 * are_threads) or not are_threads
        return number

    found = []
    for number in finished_map(work, range(40), threads=2):
        found.append(number)
        if len(found) == 30:
            others_are_done.set()

    assert sorted(found) == list(range(40))
    assert found.index(0) >= 30 * are_threads


TEXTS = [
    "",
    "a",
    "b",
    "a" * 12,
    "a" * 11 + "b",
    "a" * 13,
    "a" * 12 + "b",
    "aaaa" + "b" * 40,
    "é",
    "\0",
]


@pytest.mark.parametrize("dtype", [pl.String, pl.Binary])
@pytest.mark.parametrize("begin", [0, 1])
def test_texts_are_compared_as_they_are(dtype, begin):
    column = pl.Series("id", ["x" * 20, *TEXTS]).cast(dtype)[begin:]
    keys = np.arange(column.len(), dtype=np.uint64)
    known, others = known_ids(keys, column), column.reverse().to_frame()
    for row in range(column.len()):
        for key in keys:
            is_same = known.are_those_of(np.full_like(keys, key), others, np.array([row]))
            assert is_same == (row == column.len() - 1 - int(key))
    rows = np.arange(column.len())
    assert known.are_those_of(keys[::-1].copy(), others, rows.copy())
    assert not known.are_those_of(np.roll(keys, 1), others, rows)


@pytest.mark.parametrize("other", TEXTS)
@pytest.mark.parametrize("text", TEXTS)
def test_neighbours_of_one_key_have_one_id(text, other):
    columns = [pl.Series([text, other, other])]
    assert ids.ids_follow_keys(columns, np.array([7, 7, 7], dtype=np.uint64)) == (text == other)
    assert ids.ids_follow_keys(columns, np.array([7, 8, 8], dtype=np.uint64))


def test_columns_that_are_no_texts_are_compared_too():
    wide = pl.DataFrame({"id": pl.Series([1, 2, 2**100], dtype=pl.Int128)})
    assert ids.same_ids(wide, wide)
    assert not ids.same_ids(wide, wide.reverse())
    assert not ids.ids_follow_keys(wide, np.array([1, 1, 2], dtype=np.uint64))


def known_ids(keys, column):
    plan = ids.IdPlan(("id",), (column.dtype,), True, False, 1)
    known = KnownIds(plan)
    known.take(keys, column.to_frame())
    return known


@pytest.mark.parametrize("n_bytes", [1, 12, 13, 40])
@pytest.mark.parametrize("n", [0, 1, 5, 3_000])
def test_ids_are_those_of_their_keys(n, n_bytes):
    draw = np.random.default_rng(n)
    keys = np.unique(draw.integers(0, 2**64, n, dtype=np.uint64))
    known = known_ids(keys, pl.Series("id", [f"{at}".zfill(n_bytes) for at in range(n)], pl.String))
    places = draw.permutation(np.repeat(np.arange(n), 2))
    column = pl.Series("id", [f"{at}".zfill(n_bytes) for at in [7, *places]])
    wanted, rows = np.append(np.uint64(3), keys[places]), np.arange(2 * n) + 1
    assert known.are_those_of(wanted, column.to_frame(), rows)
    for row in draw.integers(1, 2 * n + 1, min(n, 9)):
        other = column.clone().scatter(row, column[int(row)][:-1] + "x")
        assert not known.are_those_of(wanted, other.to_frame(), rows)
        assert known.are_those_of(wanted, other.to_frame(), rows[rows != row])


def test_numbers_that_are_no_keys_are_those_of_their_keys():
    def wide(numbers):
        return pl.DataFrame({"id": pl.Series(numbers, dtype=pl.Int128)})

    known = known_ids(np.array([4, 9], np.uint64), pl.Series("id", [2**100, 5], pl.Int128))
    wanted, rows = np.array([9, 4, 9], dtype=np.uint64), np.arange(3)
    assert known.are_those_of(wanted, wide([5, 2**100, 5]), rows)
    assert not known.are_those_of(wanted, wide([5, 2**100, 6]), rows)
