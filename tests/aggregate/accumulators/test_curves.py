"""Curves over cutoffs: every metric at each cutoff, and precision by recall."""

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.metrics import registry_of
from evalkit.report.html import render_html

TRUTH = pl.DataFrame({"user": [1, 1, 2, 3], "item": [10, 11, 10, 12]})
RANKINGS = pl.DataFrame(
    {
        "user": [1, 1, 1, 2, 2, 2, 3, 3, 3],
        "item": [10, 20, 11, 20, 10, 21, 12, 20, 21],
        "rank": [1, 2, 3] * 3,
    }
)


def evaluate(metrics):
    return evalkit.evaluate(TRUTH, {"mine": RANKINGS}, metrics=metrics, statistics={"curves": True})


def test_precision_stands_by_recall_at_each_cutoff():
    (graph,) = evaluate(["precision@3", "recall@3"]).graphs

    assert graph.kind == "precision-recall-by-cutoff"
    assert graph.thresholds == (1.0, 2.0, 3.0)
    # hits at 1: users 1, 3; at 2: user 2; at 3: user 1 again
    assert graph.y == pytest.approx([2 / 3, 3 / 6, 4 / 9])
    assert graph.x == pytest.approx([(1 / 2 + 1) / 3, (1 / 2 + 2) / 3, 1.0])


def test_both_coordinates_have_the_limits_of_their_curves():
    report = evaluate(["nDCG@2", "precision@3", "recall@2"])

    (graph,) = report.graphs
    curves = {curve.metric: curve for curve in report.curves}
    assert (graph.low, graph.high) == (
        curves["precision"].low[:2],
        curves["precision"].high[:2],
    )
    assert (graph.x_low, graph.x_high) == (curves["recall"].low, curves["recall"].high)
    assert graph.low[0] < graph.y[0] < graph.high[0]


@pytest.mark.parametrize("metrics", [["precision@3"], ["recall@3", "nDCG@3"]])
def test_one_of_the_two_alone_is_no_graph(metrics):
    assert evaluate(metrics).graphs == ()


def test_the_page_draws_bands_and_lists_limits_behind_them():
    report = evaluate(["precision@3", "recall@3"])

    page = render_html(report)

    section = page[page.index('id="graphs"') :]
    section = section[: section.index("<h2")]
    assert section.count('class="band') == 1
    assert section.count('class="bar thin') == 1
    assert section.count("<tr>") == 1 + 3
    assert "precision by recall" in section


def test_a_report_with_such_a_graph_is_read_back():
    report = evaluate(["precision@3", "recall@3"])

    assert evalkit.Report.from_json(report.to_json()).graphs == report.graphs


COUNTED = ["hit", "hits", "recall(over='min_k')", "precision(over='length')", "F2"]
POLICIES = [
    {},
    {"unknown_users": "count", "missing_ranking": "skip"},
    {"no_relevant": "zero", "empty_ranking": "skip", "zeros": "skip"},
    {"no_relevant": "one", "round_users": 2, "zeros": "survivors"},
    {"duplicates": "best"},
    {"duplicates": "count"},
    {"ties": "expected"},
]


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_curve_holds_what_the_metric_at_each_cutoff_is(policies, threads):
    random = np.random.default_rng(7)
    users, items = random.integers(0, 400, 3000), random.integers(0, 60, 3000)
    truth = pl.DataFrame({"user": users, "item": items}).unique(maintain_order=True)
    truth = truth.with_columns(relevance=pl.lit(random.integers(1, 4, truth.height)))
    has_items = 7 if "duplicates" in policies else 60  # of few an item stands again
    rows = [
        (user, int(item), rank, -float(rank // 2 if "ties" in policies else rank))
        for user in range(50, 450)
        for rank, item in enumerate(random.permutation(60)[: user % 11] % has_items, 1)
    ]
    rankings = pl.DataFrame(rows, schema=["user", "item", "rank", "score"], orient="row")
    rankings = rankings.drop("rank" if "ties" in policies else "score")
    metrics = [f"{name}@6" for name in ("nDCG", "AP", "RR", *COUNTED)]
    how = {"policies": policies, "threads": threads, "threshold": 2}

    found = evalkit.evaluate(truth, rankings, metrics=metrics, statistics={"curves": True}, **how)
    each = [f"{name[:-1]}{cutoff}" for name in metrics for cutoff in range(1, 7)]
    wanted = evalkit.evaluate(truth, rankings, metrics=each, **how)

    assert [
        (value, low, high)
        for curve in found.curves
        for value, low, high in zip(curve.values, curve.low, curve.high, strict=True)
    ] == [(one.value, one.low, one.high) for one in wanted.estimates]


def test_every_metric_with_a_cutoff_has_a_curve():
    names = [each for each in registry_of("rankings") if each != "F"]
    random = np.random.default_rng(3)
    ranked = {user: random.permutation(9).tolist() for user in range(40)}
    truth = {user: [user % 7] for user in ranked}
    metrics = [f"{name}@{cutoff}" for name in names for cutoff in range(1, 5)]

    policies = {"no_judged": "warn"}

    found = evalkit.evaluate(
        truth, ranked, metrics=metrics[3::4], statistics={"curves": True}, policies=policies
    )
    each = evalkit.evaluate(truth, ranked, metrics=metrics, policies=policies)

    wanted = np.reshape([one.value for one in each.estimates], (len(names), 4))
    for name, curve, values in zip(names, found.curves, wanted, strict=True):
        assert list(curve.values) == pytest.approx(values, nan_ok=True), name
