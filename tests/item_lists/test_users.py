"""Metrics of lists that are means of users: against plain Python, whatever form a log has."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from evalkit import evaluate

METRICS = ["nDCG@3", "novelty@{2,5}", "novelty"]


def make_logs(seed, *, as_text=False):
    """Truth, train and two models' lists of users whom the truth may lack; lists may be short."""
    rng = np.random.default_rng(seed)
    users, items = np.arange(40), np.arange(100, 130)
    write = (lambda each: f"i{each}") if as_text else int
    truth = [(u, write(i)) for u in users[:25] for i in rng.choice(items, 3, replace=False)]
    train = [(u, write(i)) for u in rng.permutation(60) for i in rng.choice(items, 4)]
    models = {}
    for name in "ab":
        models[name] = {
            int(u): [write(i) for i in rng.choice(np.arange(95, 135), rng.integers(1, 8), False)]
            for u in rng.permutation(users)[:35]
        }
    return truth, train, models


def frames(truth, train, models, as_text):
    def ids(rows):
        frame = pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row")
        return frame.with_columns(user_id=pl.format("u{}", "user_id")) if as_text else frame

    def ranked(lists):
        rows = [(u, i, r) for u, each in lists.items() for r, i in enumerate(each, 1)]
        return ids([each[:2] for each in rows]).with_columns(rank=pl.Series([e[2] for e in rows]))

    return ids(truth), ids(train), {name: ranked(each) for name, each in models.items()}


def novelty_of(lists, train, k):
    pairs = set(train)
    popularity = {item: sum(i == item for _, i in pairs) for _, item in pairs}
    n = len({user for user, _ in pairs})
    return {
        user: sum(-math.log2(popularity.get(item, 1) / n) for item in items[:k]) / len(items[:k])
        for user, items in lists.items()
    }


@pytest.mark.parametrize("as_text", [False, True])
def test_values_intervals_segments_and_pairs_are_those_of_plain_python(as_text):
    truth, train, models = make_logs(1, as_text=as_text)
    first, second, rankings = frames(truth, train, models, as_text)
    statistics = {"baseline": "a"}
    alone = evaluate(first, rankings, metrics=["nDCG@3"], train=second, statistics=statistics)

    report = evaluate(first, rankings, metrics=METRICS, train=second, statistics=statistics)

    of_lists = {name: each.short_lists for name, each in report.counts.models.items()}
    alike = {
        name: replace(each, short_lists=of_lists[name])
        for name, each in alone.counts.models.items()
    }
    assert report.counts == replace(alone.counts, models=alike)
    assert [each for each in report.estimates if each.name == "nDCG"] == list(alone.estimates)
    wanted = {
        (name, k): novelty_of(models[name], train, k) for name in models for k in (2, 5, None)
    }
    for estimate in report.estimates:
        if estimate.name == "novelty":
            values = np.array(list(wanted[estimate.model, estimate.cutoff].values()))
            assert estimate.n_users == values.size
            assert estimate.value == pytest.approx(values.mean(), rel=1e-13)
            error = values.std(ddof=1) / math.sqrt(values.size)
            assert estimate.std_error == pytest.approx(error, rel=1e-10)
    for comparison in report.comparisons:
        if comparison.metric == "novelty@2":
            one, other = wanted["a", 2], wanted["b", 2]
            deltas = [other[user] - one[user] for user in one.keys() & other.keys()]
            assert (comparison.n_users, comparison.delta) == (
                len(deltas),
                pytest.approx(np.mean(deltas)),
            )


def disguises(rankings):
    """The same lists in other orders of rows, by score, as rows in order, and as lists."""
    shuffled = rankings.sample(fraction=1, shuffle=True, seed=3)
    in_order = rankings.select("user_id", "item_id")
    return {
        "rank": rankings,
        "shuffled": shuffled,
        "score": in_order.with_columns(score=-rankings["rank"]),
        "shuffled score": shuffled.with_columns(score=-pl.col("rank")).drop("rank"),
        "order": in_order,
        "list": in_order.group_by("user_id", maintain_order=True).agg("item_id"),
    }


@pytest.mark.parametrize("as_text", [False, True])
def test_the_form_of_a_log_changes_no_digit(as_text):
    first, second, rankings = frames(*make_logs(2, as_text=as_text), as_text)
    several = {
        name: evaluate(first, {"a": rows}, metrics=METRICS, train=second.reverse()).estimates
        for name, rows in disguises(rankings["a"]).items()
    }

    assert all(each == several["rank"] for each in several.values()), several.keys()


def test_rows_that_were_seen_are_dropped_of_all_users_alike():
    truth, train, models = make_logs(5)
    first, second, rankings = frames(truth, train, models, as_text=False)
    seen = set(train)
    models = {
        name: {u: [i for i in items if (u, i) not in seen] for u, items in lists.items()}
        for name, lists in models.items()
    }

    alone = evaluate(first, rankings, metrics=["nDCG@3"], train=second, drop_seen=True)
    report = evaluate(first, rankings, metrics=METRICS, train=second, drop_seen=True)

    of_lists = {name: each.short_lists for name, each in report.counts.models.items()}
    alike = {
        name: replace(each, short_lists=of_lists[name])
        for name, each in alone.counts.models.items()
    }
    assert report.counts == replace(alone.counts, models=alike)
    for estimate in report.estimates:
        if estimate.name == "novelty":
            lists = {u: items for u, items in models[estimate.model].items() if items}
            values = list(novelty_of(lists, train, estimate.cutoff).values())
            assert (estimate.n_users, estimate.value) == (
                len(values),
                pytest.approx(np.mean(values)),
            )


def test_values_of_users_are_rounded_as_a_policy_asks():
    truth, train, models = make_logs(3)
    given = frames(truth, train, models, as_text=False)

    report = evaluate(
        given[0], given[2], metrics=["novelty(round_users=1)@5"], train=given[1], per_user=True
    )

    label = "novelty(round_users=1)@5"
    own = report.per_user_values.scan("a").collect()
    expected = {u: round(v, 1) for u, v in novelty_of(models["a"], train, 5).items()}
    assert dict(own.select("user_id", label).drop_nans().iter_rows()) == expected


@pytest.mark.parametrize("metric", ["popularity_lift@2", "bias_disparity(by='kind', group='x')@2"])
@pytest.mark.parametrize("list_users", ["list", "relevant", "train", "all"])
def test_pairs_stand_on_users_whom_both_models_have_a_number_of(metric, list_users):
    first, second, rankings = frames(*make_logs(4), False)
    rankings["b"] = rankings["b"].filter(pl.col("user_id") < 12)
    items = pl.DataFrame({"item_id": range(100, 130), "kind": ["x", "y", "z"] * 10})
    groups = pl.DataFrame({"user_id": range(60), "group": [u < 12 for u in range(60)]})
    beside = {"metrics": [metric], "train": second, "items": items}
    counted = {"relevant": [first], "train": [second], "all": [first, second]}.get(list_users, [])
    who = set().union(*(each["user_id"] for each in counted)) or set(range(60))
    both = who & set(rankings["a"]["user_id"]) & set(rankings["b"]["user_id"])

    report = evaluate(
        first,
        rankings,
        **beside,
        statistics={"baseline": "a"},
        policies={"list_users": list_users},
        segments={"who": {"path": groups, "by": "group"}},
    )

    of_both = {
        name: evaluate(first, {name: rows.filter(pl.col("user_id").is_in(list(both)))}, **beside)
        for name, rows in rankings.items()
    }
    one, other = (each.value(metric) for each in of_both.values())
    for comparison in report.comparisons:
        if comparison.segment != "false":
            assert (comparison.n_users, comparison.delta) == (
                len(both),
                pytest.approx(other - one, rel=1e-12),
            )
        else:
            assert comparison.n_users == 0
            assert math.isnan(comparison.delta)
