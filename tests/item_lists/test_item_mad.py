"""What showing items brings, by group of items: against plain Python."""

import math
from itertools import combinations
from statistics import fmean

import numpy as np
import polars as pl
import pytest

from evalkit import evaluate
from evalkit.errors import RequestError

WORTH = {
    "binary": lambda rel: 1.0,
    "linear": lambda rel: float(rel),
    "exp2_shifted": lambda rel: 2.0 ** (rel - 3 + 1) - 1.0,
}


def make_log(seed=0, n=80):
    """Lists that repeat items and show unknown ones, graded right answers, groups of items."""
    rng = np.random.default_rng(seed)
    lists = {
        model: {u: rng.integers(0, 26, rng.integers(1, 7)).tolist() for u in range(n) if u % 9 != m}
        for m, model in enumerate("ab")
    }
    truth = {
        u: dict(zip(rng.permutation(26)[:8].tolist(), rng.integers(1, 6, 8).tolist(), strict=True))
        for u in range(0, n + 5)
    }
    groups = {item: None if item % 7 == 0 else "xyz"[item % 3] for item in range(24)}
    return lists, truth, groups


def item_mad(lists, truth, groups, k, gain):
    values = {}
    for user, items in lists.items():
        for item in items[:k]:
            rel = truth[user].get(item, 0)
            values.setdefault(item, []).append(WORTH[gain](rel) if rel >= 3 else 0.0)
    means = {
        name: fmean(sum(own) / len(own) for i, own in values.items() if groups.get(i) == name)
        for name in "xyz"
    }
    return fmean(abs(means[a] - means[b]) for a, b in combinations("xyz", 2))


def report_of(lists, truth, groups, metrics, **more):
    rankings = {
        model: pl.DataFrame(
            [(u, i, r) for u, own in each.items() for r, i in enumerate(own, 1)],
            schema=["user", "item", "rank"],
            orient="row",
        )
        for model, each in lists.items()
    }
    rows = [(u, i, rel) for u, own in truth.items() for i, rel in own.items()]
    return evaluate(
        pl.DataFrame(rows, schema=["user", "item", "relevance"], orient="row"),
        rankings,
        metrics=metrics,
        threshold=3,
        items=pl.DataFrame({"item": groups.keys(), "provider": groups.values()}),
        policies={"duplicates": "count"},
        **more,
    )


@pytest.mark.parametrize("gain", WORTH)
def test_numbers_and_errors_are_those_of_users_left_out_one_by_one(gain):
    lists, truth, groups = make_log()
    label = f"item_mad(gain='{gain}')@4"

    report = report_of(lists, truth, groups, [label], statistics={"baseline": "a"})

    def number(model, users):
        return item_mad({u: lists[model][u] for u in users}, truth, groups, 4, gain)

    for estimate in report.estimates:
        users = list(lists[estimate.model])
        left = [number(estimate.model, [u for u in users if u != gone]) for gone in users]
        error = math.sqrt((len(users) - 1) * np.var(left))
        assert estimate.n_users == len(users)
        assert estimate.value == pytest.approx(number(estimate.model, users), rel=1e-12)
        assert estimate.std_error == pytest.approx(error, rel=0.1)
    (pair,) = report.comparisons
    both = list(lists["a"].keys() & lists["b"].keys())
    assert pair.n_users == len(both)
    assert pair.delta == pytest.approx(number("b", both) - number("a", both), abs=1e-12)
    assert pair.std_error > 0.0


def test_in_segments_and_without_a_group_that_is_shown():
    lists, truth, groups = make_log(1)
    of_users = pl.DataFrame({"user": range(80), "half": [u % 2 for u in range(80)]})
    segments = {"half": {"path": of_users, "by": "half"}}

    report = report_of(lists, truth, groups, ["item_mad@4"], segments=segments)

    for estimate in report.estimates:
        own = lists[estimate.model]
        own = {u: i for u, i in own.items() if estimate.segment in (None, str(u % 2))}
        if own:  # of users whom no segment knows there is no list
            wanted = item_mad(own, truth, groups, 4, "binary")
            assert estimate.value == pytest.approx(wanted, rel=1e-12)
    unseen = {**groups, 99: "w"}
    (one, _) = report_of(lists, truth, unseen, ["item_mad@4"]).estimates
    assert math.isnan(one.value)
    assert one.std_error is None or math.isnan(one.std_error) or one.std_error == 0.0


def test_it_needs_right_answers():
    _, _, groups = make_log()
    frame = pl.DataFrame({"user": [1], "item": [1], "rank": [1]})
    items = pl.DataFrame({"item": groups.keys(), "provider": groups.values()})

    with pytest.raises(RequestError, match="item_mad@2 needs truth"):
        evaluate(None, {"a": frame}, metrics=["item_mad@2"], items=items)
