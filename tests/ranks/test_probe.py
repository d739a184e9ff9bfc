"""Kernels of truth and ranks on what small logs never reach, against plain Python."""

import math
from collections import defaultdict
from itertools import pairwise

import logs as made
import numpy as np
import oracle
import polars as pl
import pytest
from campaigns import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from logs import JIT_OFF, Log, body, run_log

from evalkit.aggregate.user_values._hits import sort_by_rank, sort_descending
from evalkit.errors import MachineError
from evalkit.kinds.rankings import _reader
from evalkit.ranks import _kernels as kernels
from evalkit.ranks import _scan
from evalkit.ranks._numba_order import numba_order
from evalkit.sources import ids as keys
from evalkit.truth import (
    FEW_ITEMS,
    Index,
    PairRows,
    _rows,
    build_user_items,
    find_item,
    merge_sort,
    relevance_at,
)
from evalkit.truth._build import (
    count_filter_words,
)
from evalkit.truth._index import filter_log, find_codes
from evalkit.truth._table import LONGEST_RUN, MIXED, tabulate

laws = settings(
    deadline=None,
    max_examples=examples(80),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)

UNSIGNED = st.one_of(
    st.integers(0, 12), st.integers(0, 2**64 - 1), st.sampled_from([0, 2**63, 2**64 - 1])
)


# ---------------------------------------------------------------- building


def built(rows, *, graded=True, coded=True, **options):
    """Each user's items with their relevance, and what the build counted."""
    users = np.array([row[0] for row in rows], dtype=np.uint64)
    items = np.array([row[1] for row in rows], dtype=np.uint64)
    relevance = np.array([row[2] for row in rows], dtype=np.float64) if graded else None
    rows_of_pairs = PairRows.of(
        users, items, relevance, coded=coded and options.get("duplicates") != "sum"
    )
    pairs, counts = build_user_items(rows_of_pairs, **options)
    keys_of_items = pairs.item_keys()
    found = {}
    for code, user in enumerate(pairs.users.tolist()):
        places = range(int(pairs.starts[code]), int(pairs.starts[code] + pairs.counts[code]))
        found[user] = {
            int(keys_of_items[place]): float(relevance_at(*pairs.grades, place)) for place in places
        }
        assert len(found[user]) == len(places), "an item stands there twice"
    assert len(found) == pairs.n_users
    return found, counts, pairs


def codes_in(pairs, users):
    return pairs.codes_of(np.array(users, np.uint64)).tolist()


@st.composite
def grouped_rows(draw):
    """Rows in runs of one user; now and then a user has several runs."""
    relevance = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 4.0])
    users = draw(st.lists(UNSIGNED, min_size=1, max_size=8))
    rows = []
    for user in users:
        items = draw(st.lists(UNSIGNED, min_size=1, max_size=draw(st.sampled_from([2, 6, 40]))))
        rows += [(user, item, draw(relevance)) for item in items]
    return draw(st.permutations(rows)) if draw(st.booleans()) else rows


@laws
@given(
    rows=grouped_rows(),
    policy=st.sampled_from(["max", "error", "sum", "last"]),
    relevant_from=st.sampled_from([math.ulp(0.0), -1.0, 0.0, 2.0]),
    keep_negative=st.booleans(),
    graded=st.booleans(),
    threads=st.sampled_from([1, 2]),
    partition=st.sampled_from([1, 3, 1 << 16]),
    coded=st.booleans(),
    interpreted=st.sampled_from([0, 5, 1 << 16]),
)
def test_building_agrees_with_plain_python(
    rows, policy, relevant_from, keep_negative, graded, threads, partition, coded, interpreted
):
    copies = defaultdict(lambda: defaultdict(list))
    for user, item, relevance in rows:
        copies[user][item].append(relevance if graded else 1.0)
    join = {"max": max, "error": max, "sum": math.fsum, "last": lambda values: values[-1]}[policy]
    joined = {
        user: {item: join(values) if graded else 1.0 for item, values in items.items()}
        for user, items in copies.items()
    }
    expected = {
        user: {
            item: gain
            for item, gain in items.items()
            if not graded or gain >= relevant_from or gain > 0 or (keep_negative and gain < 0)
        }
        for user, items in joined.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalkit.truth._build.ROWS_A_PARTITION", partition)
        patch.setattr("evalkit.truth._table.USERS_A_PARTITION", partition)
        patch.setattr("evalkit.truth._build.INTERPRETED", interpreted)

        found, counts, pairs = built(
            rows,
            graded=graded,
            coded=coded,
            relevant_from=relevant_from,
            duplicates=policy,
            keep_negative=keep_negative,
            threads=threads,
        )

    assert found == expected
    assert counts.duplicates == len(rows) - sum(map(len, joined.values()))
    gains = [gain for items in joined.values() for gain in items.values()]
    assert counts.negative == sum(gain < 0 for gain in gains)
    everybody = pairs.users.tolist()
    assert codes_in(pairs, everybody) == list(range(len(everybody)))
    strangers = [user for user in (3, 5, 2**63 + 9, 2**64 - 2) if user not in expected]
    assert codes_in(pairs, strangers) == [-1] * len(strangers)


def test_building_writes_into_no_input():
    users = np.repeat(np.arange(40, dtype=np.uint64), 25)
    users[-1] = 0  # the first user comes back: groups are made twice
    items = np.arange(1000, dtype=np.uint64)[::-1] % np.uint64(7)
    relevance = np.arange(1000) % 3.0
    copies = users.copy(), items.copy(), relevance.copy()

    rows = PairRows.of(users, items, relevance, coded=False)
    build_user_items(rows, duplicates="sum", threads=2)

    for array, copy in zip((users, items, relevance), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@laws
@given(
    rows=grouped_rows(),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    known_room=st.booleans(),
    policy=st.sampled_from(["max", "last"]),
)
def test_rows_that_come_in_batches_are_grouped_as_one(rows, cuts, known_room, policy):
    # runs, high halves and new relevances that begin, end or go on at a border
    users = np.array([row[0] for row in rows], dtype=np.uint64)
    items = np.array([row[1] for row in rows], dtype=np.uint64)
    relevance = np.array([row[2] for row in rows], dtype=np.float64)
    borders = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = PairRows(len(rows) if known_room else None, graded=True)
    for begin, end in pairwise(borders):
        piece = slice(begin, end)
        place = parts.place(users[piece])
        parts.write(place, users[piece], items[piece], relevance[piece])
    options = {"relevant_from": 1.0, "duplicates": policy}

    whole, counts = build_user_items(PairRows.of(users, items, relevance), **options)
    found, same_counts = build_user_items(parts, **options)

    assert same_counts == counts
    assert found.users.tolist() == whole.users.tolist()
    assert found.starts.tolist() == whole.starts.tolist()
    assert found.counts.tolist() == whole.counts.tolist()
    assert found.n_relevant.tolist() == whole.n_relevant.tolist()
    for user in range(whole.n_users):
        for place in range(whole.starts[user], whole.starts[user] + whole.counts[user]):
            assert found.item_keys()[place] == whole.item_keys()[place]
            assert relevance_at(*found.grades, place) == relevance_at(*whole.grades, place)


def items_of_users(pairs):
    keys = pairs.item_keys()
    return {
        user: [
            (keys[place], relevance_at(*pairs.grades, place)) for place in range(start, start + n)
        ]
        for user, start, n in zip(pairs.users.tolist(), pairs.starts, pairs.counts, strict=True)
    }


@pytest.mark.parametrize("known_room", [True, False])
@pytest.mark.parametrize("then", ["apart", "grouped", "one user"])
def test_rows_whose_users_lie_apart_are_grouped_as_any_others(then, known_room, monkeypatch):
    rng = np.random.default_rng(7)
    n_rows = 9_000
    users = rng.integers(0, 1_500, n_rows).astype(np.uint64)
    if then != "apart":  # than the first batch lets expect
        users[3_000:] = np.sort(users[3_000:]) if then == "grouped" else 7
    items = rng.integers(0, 1 << 34, 700).astype(np.uint64)[rng.integers(0, 700, n_rows)]
    relevance = rng.integers(0, 4, n_rows).astype(np.float64)

    def build(least_rows):
        monkeypatch.setattr(_rows, "LEAST_ROWS", least_rows)
        rows = PairRows(n_rows if known_room else None, graded=True)
        for begin, end in pairwise([0, 3_000, 3_000, 3_700, 8_000, n_rows]):
            piece = slice(begin, end)
            rows.write(rows.place(users[piece]), users[piece], items[piece], relevance[piece])
        return rows.n_runs, *build_user_items(rows, relevant_from=1.0, duplicates="last", threads=2)

    n_runs, found, counts = build(1_000)
    same_runs, plain, same_counts = build(n_rows + 1)
    assert (n_runs, counts) == (same_runs, same_counts)
    assert n_runs == 1 + (users[1:] != users[:-1]).sum()
    assert items_of_users(found) == items_of_users(plain)


def test_a_batch_without_rows_takes_nobodys_place():
    users, items = np.array([5, 7], dtype=np.uint64), np.array([1, 2], dtype=np.uint64)
    rows = PairRows(2)
    empty, full = rows.place(users[:0]), rows.place(users)
    rows.write(full, users, items, None)
    rows.write(empty, users[:0], items[:0], None)  # a thread that came late

    pairs, _ = build_user_items(rows)

    assert pairs.users.tolist() == [5, 7]


@pytest.mark.parametrize("n_grades", [255, 256, 257, 400])
def test_relevances_have_codes_while_there_are_few(n_grades):
    users = np.repeat(np.arange(20, dtype=np.uint64), n_grades // 20 + 1)[:n_grades]
    relevance = np.linspace(0.5, 5.0, n_grades)
    rows = PairRows.of(users, np.arange(n_grades, dtype=np.uint64), relevance)

    pairs, _ = build_user_items(rows, relevant_from=1.0)

    assert (pairs.grades.codes.size > 0) == (n_grades <= 256)
    found = {
        int(pairs.item_keys()[place]): float(relevance_at(*pairs.grades, place))
        for start, count in zip(pairs.starts, pairs.counts, strict=True)
        for place in range(start, start + count)
    }
    assert found == dict(enumerate(relevance.tolist()))


def test_small_lists_of_codes_stand_from_the_most_relevant_on():
    rng = np.random.default_rng(5)
    rows = [
        (user, int(item), float(rng.choice([1.0, 2.0, 3.5, 5.0])))
        for user in range(80)
        for item in rng.choice(10_000, size=user + 1, replace=False)
    ]

    _, _, pairs = built(rows)

    for start, count in zip(pairs.starts, pairs.counts, strict=True):
        gains = [relevance_at(*pairs.grades, place) for place in range(start, start + count)]
        assert count > 64 or gains == sorted(gains, reverse=True)


def unmix(hashed):
    """The key whose hash is `hashed`: splitmix64's steps turned back."""
    mask = 2**64 - 1
    value = hashed ^ (hashed >> 31) ^ (hashed >> 62)
    value = value * pow(0x94D049BB133111EB, -1, 2**64) & mask
    value = value ^ (value >> 27) ^ (value >> 54)
    value = value * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask
    return value ^ (value >> 30) ^ (value >> 60)


@pytest.mark.parametrize("partition", [4, 1 << 16])
def test_users_whose_hashes_crowd_one_slot_are_all_found(monkeypatch, partition):
    monkeypatch.setattr("evalkit.truth._build.ROWS_A_PARTITION", partition)
    monkeypatch.setattr("evalkit.truth._table.USERS_A_PARTITION", partition)
    # the last slot of the last partition, and more users than the spare slots behind it
    crowded = [unmix(2**64 - 1 - number) for number in range(300)]
    assert [int(keys.mix(np.uint64(user))) for user in crowded[:2]] == [2**64 - 1, 2**64 - 2]
    strangers = [unmix(2**64 - 1 - number) for number in range(300, 330)]

    found, _, pairs = built([(user, 1, 1.0) for user in crowded])

    assert set(found) == set(crowded)
    assert codes_in(pairs, crowded) == list(range(300))
    assert codes_in(pairs, strangers) == [-1] * 30


NUMBERS = np.arange(2_000 if JIT_OFF else 20_000, dtype=np.uint64)
DRAWN = np.random.default_rng(1)
SPREADS = {  # keys of users, and whether their order is a hash that is good enough
    "given one after another": (NUMBERS + np.uint64(7), True),
    "every thousandth": (NUMBERS * np.uint64(1000), True),
    "a third of all": (
        np.flatnonzero(DRAWN.random(3 * NUMBERS.size) < 0.3).astype(np.uint64),
        True,
    ),
    "drawn from 64 bits": (DRAWN.integers(2**64, size=NUMBERS.size, dtype=np.uint64), True),
    "in the middle of 64 bits": (NUMBERS + np.uint64(2**63 - 1_000), True),
    "from end to end": (NUMBERS * np.uint64((2**64 - 1) // (NUMBERS.size - 1)), True),
    "one": (NUMBERS[:1], True),
    "signed": (NUMBERS - np.uint64(1_000), False),
    "squares": (NUMBERS * NUMBERS, False),
    "one far away": (np.append(NUMBERS, np.uint64(2**40)), False),
    "two blocks": (NUMBERS + NUMBERS // np.uint64(NUMBERS.size // 2) * np.uint64(2**30), False),
}


@pytest.mark.some_cases(11)
@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_users_are_found_however_their_keys_are_spread(name, shuffled):
    keys, is_even = SPREADS[name]
    if shuffled:
        keys = np.random.default_rng(2).permutation(keys)
    table = tabulate(keys, 2)

    assert (table.layout.hash != MIXED) == is_even
    entries = table.entries.reshape(-1, 4)
    if is_even:
        free = np.flatnonzero(entries[:, 3] == 0)
        assert np.diff(free, prepend=-1, append=len(entries)).max() <= LONGEST_RUN + 1
    codes = np.empty(keys.size, dtype=np.int64)
    empty = np.empty(0, dtype=np.uint32)
    index = Index(table.entries, table.layout, empty.astype(np.int32), empty, empty, empty)
    find_codes(index, keys, codes)
    assert codes.tolist() == list(range(keys.size))
    near = np.concatenate([keys + np.uint64(1), keys - np.uint64(1), ~keys])
    strangers = np.setdiff1d(near, keys)
    codes = np.empty(strangers.size, dtype=np.int64)
    find_codes(index, strangers, codes)
    assert (codes == -1).all()


@pytest.mark.parametrize("name", ["given one after another", "squares"])
def test_a_key_that_comes_twice_makes_no_table(name):
    keys, _ = SPREADS[name]
    assert tabulate(np.append(keys, keys[900]), 2) is None


@pytest.mark.some_cases(14)
@pytest.mark.parametrize("n_items", [1, 16, 17, 32, 33, 48, 49, 64, 65, 300 if JIT_OFF else 20_001])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("largest", [2**31, 2**40])
def test_every_item_of_a_heavy_user_is_found(n_items, shuffled, largest):
    rng = np.random.default_rng(n_items)
    items = rng.choice(largest, size=n_items, replace=False)
    rows = [(7, item, 1 + item % 3) for item in items.tolist()]
    rows += [(user, 5, 1.0) for user in range(100, 100 + n_items)]
    if shuffled:
        rng.shuffle(rows)

    found, _, pairs = built([(int(u), int(i), float(r)) for u, i, r in rows])
    (code,) = codes_in(pairs, [7])
    begin, count = int(pairs.starts[code]), int(pairs.counts[code])
    keys_of_items = pairs.item_keys()

    def find(item):
        return int(find_item(pairs.index.lows, pairs.index.highs, np.uint64(item), begin, count))

    assert found[7] == {item: 1 + item % 3 for item in items.tolist()}
    for item in items.tolist():
        assert int(keys_of_items[find(item)]) == item
        assert relevance_at(*pairs.grades, find(item)) == 1 + item % 3
    for item in (2**41, 2**64 - 1):
        assert find(item) == -1


# ---------------------------------------------------------------- sorting


@laws
@given(values=st.lists(st.integers(0, 9), max_size=100))
def test_merge_sort_keeps_equals_in_order(values):
    order = np.arange(len(values))
    merge_sort(np.array(values, dtype=np.uint64), order, np.empty(len(values), dtype=np.int64))

    assert order.tolist() == sorted(range(len(values)), key=values.__getitem__)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("n_values", [1, 3, 40, 1000])
def test_lists_are_sorted_as_numba_sorts_them(n_values, backwards):
    from numba.misc.quicksort import make_py_quicksort

    theirs = make_py_quicksort(is_argsort=True).run_quicksort
    rng = np.random.default_rng(n_values)
    codes = np.sort(rng.integers(0, 9, 500))
    scores = rng.integers(0, n_values, 500).astype(np.float64)

    places = numba_order(codes, scores, "numba-reversed" if backwards else "numba")

    for code in range(9):
        own = codes == code
        values = scores[own] if backwards else -scores[own]
        order = np.array(theirs(values))
        if not backwards:
            order = order[np.array(theirs(values[order]))]
        shown = np.argsort(places[own])
        assert shown.tolist() == (order[::-1] if backwards else order).tolist()


def test_room_for_filters_is_what_they_fill():
    counts = np.arange(3000, dtype=np.int32)
    words = [(1 << (filter_log.interpret(n) - 6)) * (n > FEW_ITEMS) for n in range(counts.size)]

    assert [count_filter_words(counts[:n]) for n in range(counts.size)] == [
        0,
        *np.cumsum(words)[:-1],
    ]


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize("graded", [False, True])
def test_hits_are_sorted_by_rank_then_gain(n, graded):
    rng = np.random.default_rng(n)
    ranks = rng.integers(1, 1 + n // 2 + 1, n).astype(np.int32)
    gains = rng.integers(-2, 4, n).astype(np.float64) if graded else np.ones(n)
    expected = sorted(zip(ranks.tolist(), gains.tolist(), strict=True), key=lambda h: (h[0], -h[1]))

    sort_by_rank(ranks, gains)

    assert list(zip(ranks.tolist(), gains.tolist(), strict=True)) == expected


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 200])
def test_gains_are_sorted_descending(n):
    gains = np.random.default_rng(n).integers(-2, 4, n).astype(np.float64)
    expected = sorted(gains.tolist(), reverse=True)

    sort_descending(gains)

    assert gains.tolist() == expected


@laws
@given(values=st.lists(st.floats(width=64), max_size=30))
def test_strengths_order_as_scores_do(values):
    strengths = np.empty(len(values), dtype=np.int64)
    bits = np.array(values, dtype=np.float64).view(np.int64)

    n_nan = kernels.strengths_of_floats(bits, strengths)

    assert n_nan == sum(map(math.isnan, values))
    pairs = list(zip(values, strengths.tolist(), strict=True))
    for one, strength in pairs:
        for other, weaker in pairs:
            if math.isnan(one) or math.isnan(other):
                assert not math.isnan(one) or strength <= weaker
            else:
                assert (one > other) == (strength > weaker)
                assert (one == other) == (strength == weaker)


# ---------------------------------------------------------------- heavy users

HEAVY = (
    *(each for each in oracle.MEASURES if each.name not in ("AP", "F") and each.cutoff),
    oracle.Measure("nDCG@1000", "nDCG", 1000),
    oracle.Measure("recall@70", "recall", 70),
    oracle.Measure("AP@100", "AP", 100),
    oracle.Measure("RR", "RR"),
    oracle.Measure("R-precision", "R-precision"),
)


def heavy_log(n_relevant, n_rows, *, n_scores, seed, copies=0):
    """User 0 with many relevant items and a long list, between users with a few of both."""
    rng = np.random.default_rng(seed)
    n_items = max(2 * n_relevant, n_rows) + 50
    judged = rng.choice(n_items, size=n_relevant, replace=False).tolist()
    shown = rng.choice(n_items, size=n_rows, replace=False).tolist()
    shown += rng.choice(shown, size=copies).tolist()
    users = [(0, shown), *((user, shown[user : user + 9]) for user in range(1, 30))]
    truth_rows = [{"user": 0, "item": item, "relevance": item % 4 / 2} for item in judged]
    truth_rows += [
        {"user": user, "item": item, "relevance": 1.0}
        for user in range(1, 25)
        for item in shown[user : user + 4]
    ]
    rankings = [
        {
            "user": user,
            "item": item,
            "rank": rank,
            "score": -rank if n_scores is None else rng.integers(n_scores).item() / 7,
        }
        for user, items in users
        for rank, item in enumerate(dict.fromkeys(items) if user else items, 1)
    ]
    return Log(truth_rows, rankings)


def check_heavy(log, *, mode, policies, scattered, monkeypatch, batch=1 << 20):
    monkeypatch.setattr(_scan, "BATCH_ROWS", batch)
    if scattered:
        rows = list(log.rankings)
        np.random.default_rng(0).shuffle(rows)
        log = Log(log.truth, rows)
    labels = [measure.label for measure in HEAVY]
    expected = oracle.evaluate(
        log.truth, log.rankings, mode=mode, policies=policies, measures=HEAVY
    )

    report = run_log(log, mode=mode, policies=policies, metrics=labels)

    counts = made.json.loads(report.to_json())["counts"]
    assert counts["models"]["als"] == expected.model
    assert counts["truth"] == expected.truth
    assert report.counts.models["als"].ties == expected.ties
    for label in labels:
        values = report.per_user(label)["value"].to_list()
        np.testing.assert_allclose(values, expected.values[label], rtol=1e-11, err_msg=label)
        assert report.value(label) == oracle.exact_mean(values)


SIZES = [(20, 40), (33, 66), (49, 70), (65, 140), (90, 300 if JIT_OFF else 5_000)]
LARGE = pytest.param(1_000 if JIT_OFF else 20_500, 1_200 if JIT_OFF else 25_000, id="large")


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("mode", ["rank", "order"])
@pytest.mark.parametrize(("n_relevant", "n_rows"), [*SIZES, LARGE])
def test_long_lists_are_ranked(monkeypatch, mode, scattered, n_relevant, n_rows):
    log = heavy_log(n_relevant, n_rows, n_scores=None, seed=1)
    check_heavy(log, mode=mode, policies={}, scattered=scattered, monkeypatch=monkeypatch)


@pytest.mark.some_cases(6)
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("ties", ["item", "item-desc", "item-text", "input"])
@pytest.mark.parametrize("n_scores", [2, 25, 10**6])
@pytest.mark.parametrize(("n_relevant", "n_rows"), SIZES)
def test_many_hits_with_equal_scores_are_counted(
    monkeypatch, n_relevant, n_rows, n_scores, ties, scattered
):
    log = heavy_log(n_relevant, n_rows, n_scores=n_scores, seed=2)
    check_heavy(
        log, mode="score", policies={"ties": ties}, scattered=scattered, monkeypatch=monkeypatch
    )


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("n_scores", [25, 10**6])
def test_twenty_thousand_hits_are_counted(monkeypatch, n_scores, scattered):
    log = heavy_log(*LARGE.values, n_scores=n_scores, seed=3)
    check_heavy(log, mode="score", policies={}, scattered=scattered, monkeypatch=monkeypatch)


@pytest.mark.some_cases(1)
@pytest.mark.skipif(JIT_OFF, reason="hits among a hundred thousand rows in plain Python")
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("mode", ["rank", "score", "order"])
@pytest.mark.parametrize("duplicates", ["error", "count"])
def test_lists_deeper_than_two_bytes_are_ranked(monkeypatch, mode, duplicates, scattered):
    copies = 40 if duplicates == "count" else 0
    log = heavy_log(300, 70_000, n_scores=None, seed=6, copies=copies)
    policies = {"duplicates": duplicates, "bad_ranks": "keep"}
    check_heavy(
        log, mode=mode, policies=policies, scattered=scattered, monkeypatch=monkeypatch, batch=999
    )


@pytest.mark.parametrize("rank", [32_766, 32_767, 32_768, 2**31 - 2])
@pytest.mark.parametrize("copy", [None, 3, 40_000])
@pytest.mark.parametrize("duplicates", ["best", "count"])
def test_ranks_around_the_largest_of_two_bytes_stay_what_they_are(rank, copy, duplicates):
    shown = [rank] if copy is None else [rank, copy]
    rows = [{"user": 0, "item": 1, "rank": each, "score": -each} for each in shown]
    log = Log([{"user": 0, "item": 1, "relevance": 1.0}], rows)
    policies = {"duplicates": duplicates, "bad_ranks": "keep"}

    report = run_log(log, mode="rank", policies=policies, metrics=["RR", "hit@32767", "hits@40000"])

    assert report.value("RR") == 1.0 / min(shown)
    assert report.value("hit@32767") == (min(shown) <= 32_767)
    counted = shown if duplicates == "count" else [min(shown)]
    assert report.value("hits@40000") == sum(each <= 40_000 for each in counted)


@pytest.mark.parametrize("mode", ["rank", "score", "order"])
@pytest.mark.parametrize("duplicates", ["best", "first", "last", "count"])
def test_many_copies_of_many_items_are_cleaned(monkeypatch, mode, duplicates):
    log = heavy_log(70, 300, n_scores=20, seed=4, copies=200)
    policies = {"duplicates": duplicates, "bad_ranks": "keep"}
    check_heavy(
        log, mode=mode, policies=policies, scattered=True, monkeypatch=monkeypatch, batch=50
    )


@pytest.mark.parametrize("mode", ["rank", "score", "order"])
@pytest.mark.parametrize("scattered", [False, True])
def test_counts_that_do_not_fit_a_table_entry_are_read_beside_it(monkeypatch, mode, scattered):
    # such a user has 2^24 items; here every entry says that its count stands elsewhere
    log = heavy_log(60, 200, n_scores=20, seed=5)
    build = _reader.build_truth

    def build_unpacked(*args, **options):
        made_truth = build(*args, **options)
        entries = made_truth.pairs.index.table.reshape(-1, 4)
        entries[entries[:, 3] != 0, 2] |= np.uint64((1 << 24) - 1)
        return made_truth

    monkeypatch.setattr(_reader, "build_truth", build_unpacked)
    check_heavy(log, mode=mode, policies={}, scattered=scattered, monkeypatch=monkeypatch)


@pytest.mark.campaign  # counts that stand beside their entries are read above
@pytest.mark.skipif(JIT_OFF, reason="seventeen million rows in plain Python take minutes")
def test_a_user_of_seventeen_million_items_is_found():
    n_items = (1 << 24) + 5
    users = np.zeros(n_items, dtype=np.uint64)
    rows = PairRows.of(users, np.arange(n_items, dtype=np.uint64))
    pairs, _ = build_user_items(rows, threads=2)

    assert pairs.counts.tolist() == [n_items]
    assert int(pairs.index.table.reshape(-1, 4)[:, 2].max()) & ((1 << 24) - 1) == (1 << 24) - 1


# ---------------------------------------------------------------- keys that collide


def colliding(alias, seeds):
    """A hash that gives some ids one key under the first seed, and notes the seeds."""
    usual = keys.keys_of_texts

    def keys_of_texts(ids, seed):
        seeds.append(seed)
        return alias(ids, seed, usual) if seed == 1 else usual(ids, seed)

    return keys_of_texts


def few_keys(ids, seed, usual):
    return usual(ids, seed) % 4


def one_key(name, other):
    """Under seed 1 `name` has the key of `other`."""

    def alias(ids, seed, usual):
        return usual(ids.replace([name], [other]), seed)

    return alias


def text_log(begin=""):
    """Texts as ids; user u9 and item i90 are in the rankings alone, between the others."""
    truth_rows = [
        {"user": f"{begin}u{user}", "item": f"{begin}i{item}", "relevance": 1.0 + item % 2}
        for user in range(6)
        for item in range(user, user + 5)
    ]
    order = ["u0", "u9", "u1", "u2", "u3"]
    rankings = [
        {"user": begin + user, "item": begin + item, "rank": rank, "score": 9.0 - rank // 2}
        for user in order
        for rank, item in enumerate(["i90", "i1", "i7", "i3", "i80", "i2"], 1)
    ]
    seen = [("u1", "i80"), ("u2", "i3")]
    return Log(truth_rows, rankings, [{"user": begin + u, "item": begin + i} for u, i in seen])


def run_texts(log, *, mode, scattered=False, **options):
    rows = log.rankings[::5] + [row for n, row in enumerate(log.rankings) if n % 5]
    text = {"user": pl.String, "item": pl.String}
    names = ["user", "item", *made.columns_of(mode)]
    return made.run(
        made.table(log.truth, ["user", "item", "relevance"], text),
        made.table(rows if scattered else log.rankings, names, text),
        mode=mode,
        train=made.table(log.train, ["user", "item"], text),
        **options,
    )


@pytest.mark.some_cases(12)
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("mode", ["rank", "score", "order"])
@pytest.mark.parametrize("duplicates", ["error", "best"])
@pytest.mark.parametrize("begin", ["", "a name of more than 12 bytes: "], ids=["short", "long"])
@pytest.mark.parametrize(
    "alike",
    [
        pytest.param(None, id="few keys"),
        pytest.param(("u1", "u2"), id="two users of the truth"),
        pytest.param(("u9", "u0"), id="a stranger and the user before it"),
        pytest.param(("u9", "u1"), id="a stranger and the user after it"),
        pytest.param(("u9", "u3"), id="a stranger and a user elsewhere"),
        pytest.param(("u9", "u5"), id="a stranger and a user without a ranking"),
        pytest.param(("i1", "i2"), id="two items of the truth"),
        pytest.param(("i90", "i3"), id="a strange item and one of the truth"),
        pytest.param(("i80", "i3"), id="an item of the training log and one of the truth"),
    ],
)
def test_ids_that_share_a_key_change_no_number(
    monkeypatch, alike, begin, mode, duplicates, scattered
):
    alias = one_key(*(begin + name for name in alike)) if alike else few_keys
    log = text_log(begin)
    options = {"mode": mode, "scattered": scattered, "policies": {"duplicates": duplicates}}
    reference = run_texts(log, **options)
    seeds = []
    monkeypatch.setattr(keys, "keys_of_texts", colliding(alias, seeds))

    report = run_texts(log, **options)

    assert body(report) == body(reference)
    assert set(seeds) == {1, 2}


@pytest.mark.parametrize("mode", ["rank", "score", "order"])
@pytest.mark.parametrize("duplicates", ["first", "last", "count"])
def test_strange_items_that_share_a_key_are_no_copies(monkeypatch, mode, duplicates):
    log = text_log()
    options = {"mode": mode, "policies": {"duplicates": duplicates}}
    reference = run_texts(log, **options)
    monkeypatch.setattr(keys, "keys_of_texts", colliding(one_key("i90", "i80"), []))

    assert body(run_texts(log, **options)) == body(reference)


def test_ids_that_always_share_a_key_end_in_an_error(monkeypatch):
    usual = keys.keys_of_texts
    monkeypatch.setattr(keys, "keys_of_texts", lambda ids, seed: usual(ids, seed) % 2)

    with pytest.raises(MachineError) as caught:
        run_texts(text_log(), mode="rank")

    assert caught.value.code == "key-collision"


def test_users_of_two_columns_that_are_each_others_mirror_are_two(monkeypatch):
    seeds = []
    usual = keys.hash_ids
    monkeypatch.setattr(keys, "hash_ids", lambda ids, seed: seeds.append(seed) or usual(ids, seed))
    people = [(one, other) for one in range(6) for other in range(6)]
    rows = pl.DataFrame(
        {"one": [p[0] for p in people], "other": [p[1] for p in people], "item": [1] * 36}
    )
    ids = {"user": ["one", "other"], "item": "item"}

    report = made.run(rows, rows, mode="order", columns=ids, truth_columns=ids, metrics=["hit@1"])

    assert report.counts.truth.users == 36
    assert report.value("hit@1") == 1.0
    assert set(seeds) == {1}
