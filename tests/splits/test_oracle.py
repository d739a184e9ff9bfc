"""Splits and their leaks against plain Python, on logs with equal times, repeats and lone users."""

import math
import random
from fractions import Fraction

import polars as pl
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit
from evalkit.errors import DataError


def logs():
    row = st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 9))
    return st.lists(row, min_size=2, max_size=40)


def split(rows, **rule):
    table = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    return evalkit.split(table, empty="keep", time_unit="s", **rule)


def letters(made):
    return made.assignment[0].to_list()


def last_rows(rows, n_test, n_validation, least, ties):
    """The part of each row where the latest rows of a user are held out, by plain Python."""
    found = [1] * len(rows)
    for user in {row[0] for row in rows}:
        own = [place for place, row in enumerate(rows) if row[0] == user]
        second = {"input": lambda p: p, "first": lambda p: -p, "item": lambda p: rows[p][1]}[ties]
        own.sort(key=lambda place: (rows[place][2], second(place)))
        test = n_test(len(own))
        test = min(test, max(len(own) - least, 0))
        validation = min(n_validation(len(own), len(own) - test), max(len(own) - test - least, 0))
        for place in own[len(own) - test :]:
            found[place] = 3
        for place in own[len(own) - test - validation : len(own) - test]:
            found[place] = 2
    return found


@settings(max_examples=examples(25), deadline=None)
@given(
    logs(),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from(["input", "first", "item"]),
)
def test_last_rows_of_users(rows, test, validation, least, ties):
    made = split(rows, by="user", test=test, validation=validation, min_train=least, ties=ties)

    assert letters(made) == last_rows(rows, lambda _: test, lambda *_: validation, least, ties)


@settings(max_examples=examples(25), deadline=None)
@given(logs(), st.sampled_from([0.1, 0.2, 0.3, 0.8]), st.sampled_from([0.0, 0.1]))
def test_shares_of_users_in_decimals(rows, test, validation):
    def count(n, share):
        exact = n * Fraction(str(share))
        return 1 if 0 < exact < 1 and n > 1 else math.floor(exact)

    made = split(rows, by="user", test=test, validation=validation)

    wanted = last_rows(
        rows, lambda n: count(n, test), lambda _, rest: count(rest, validation), 1, "input"
    )
    assert letters(made) == wanted


@settings(max_examples=examples(25), deadline=None)
@given(logs(), st.integers(0, 10), st.integers(0, 10))
def test_moments(rows, one, two):
    low, high = sorted((one, two))
    made = split(rows, test=high, validation=low)

    assert letters(made) == [3 if t >= high else 2 if t >= low else 1 for _, _, t in rows]


@settings(max_examples=examples(25), deadline=None)
@given(logs(), st.integers(2, 3), st.booleans())
def test_cores(rows, least, of_pairs):
    left = list(enumerate(rows))
    while True:
        counted = {(u, i): 1 for _, (u, i, _) in left} if of_pairs else None
        pairs = list(counted) if counted is not None else [(u, i) for _, (u, i, _) in left]
        users = [u for u, _ in pairs]
        items = [i for _, i in pairs]
        kept = [
            each
            for each in left
            if users.count(each[1][0]) >= least and items.count(each[1][1]) >= least
        ]
        if len(kept) == len(left):
            break
        left = kept
    core = {"user": least, "item": least, "count": "pairs" if of_pairs else "rows"}
    if not left:
        with pytest.raises(DataError):
            split(rows, by="user", test=1, core=core)
        return

    made = split(rows, by="user", test=1, core=core)

    assert [place for place, each in enumerate(letters(made)) if each] == [p for p, _ in left]


@settings(max_examples=examples(25), deadline=None)
@given(logs(), st.integers(0, 2**20))
def test_leaks(rows, seed):
    draw = random.Random(seed)
    parts = {"train": [], "test": []}
    for row in rows:
        parts[draw.choice(["train", "train", "test"])].append(row)
    if not all(parts.values()):
        return
    from evalkit.config import SplitSection
    from evalkit.sources import Guessing
    from evalkit.splits.check import check_parts

    tables = {
        name: pl.DataFrame(own, schema=["user", "item", "time"], orient="row")
        for name, own in parts.items()
    }
    found = check_parts(tables, SplitSection(), Guessing("python"))

    train, test = parts["train"], parts["test"]
    first = min(t for _, _, t in test)
    own_first = {u: min(t for v, _, t in test if v == u) for u, _, _ in test}
    counts = found["counts"]
    assert counts["train_after_test"] == sum(t >= first for _, _, t in train)
    assert counts["train_after_own_test"] == sum(t > own_first.get(u, 99) for u, _, t in train)
    assert counts["test_rows_in_train"] == sum(row in train for row in test)
    assert counts["test_pairs_in_train"] == sum(row[:2] in {r[:2] for r in train} for row in test)
    assert counts["test_users_never_in_train"] == len({r[0] for r in test} - {r[0] for r in train})
    assert counts["test_items_never_in_train"] == len({r[1] for r in test} - {r[1] for r in train})
    later = [sum(t > time for _, _, t in train) / len(train) for _, _, time in test]
    held = found["folds"][0]["held_out"]["test"]
    assert held["train_later_than_row"]["mean"] == pytest.approx(sum(later) / len(later))
    starts = {i: min(t for _, j, t in train if j == i) for _, i, _ in train}
    new = [sum(s > time for s in starts.values()) / len(starts) for _, _, time in test]
    assert held["train_items_first_later_than_row"]["mean"] == pytest.approx(sum(new) / len(new))
