"""Bands of curves: each point's interval, with users as drawn."""

import math

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.statistics.distributions import t_quantile


def impressions(rng, n_users, *, per_user=12, digits=None, weighted=False):
    """Rows whose scores and labels move together within a user."""
    users = np.repeat(np.arange(n_users), rng.poisson(per_user, n_users) + 1)
    taste = rng.normal(0, 0.7, n_users)[users]
    odds = rng.normal(-1.2, 1.0, users.size) + taste
    labels = rng.random(users.size) < 1 / (1 + np.exp(-odds))
    scores = 1 / (1 + np.exp(-(odds + rng.normal(0, 0.8, users.size))))
    if digits is not None:
        scores = np.round(scores, digits)
    weights = rng.exponential(size=users.size) if weighted else np.ones(users.size)
    return pl.DataFrame({"user": users, "score": scores, "label": labels, "weight": weights})


def graphs_of(log, *, weighted=False, metrics=("AUC", "Brier")):
    columns = {"weight": "weight"} if weighted else {}
    report = evalkit.evaluate_labels(log, metrics=list(metrics), columns=columns)
    return {graph.kind: graph for graph in report.graphs}


class Naive:
    """Limits by the residuals of every user."""

    def __init__(self, log):
        self.users, self.scores = log["user"].to_numpy(), log["score"].to_numpy()
        self.good = log["label"].to_numpy().astype(float) * log["weight"].to_numpy()
        self.bad = log["weight"].to_numpy() - self.good
        self.n = len(set(self.users.tolist()))

    def limits(self, share, residuals):
        if not 0 < share < 1:
            return None, None
        by_user = np.bincount(self.users, residuals)
        assert abs(by_user.sum()) < 1e-9
        error = math.sqrt((by_user**2).sum() * self.n / (self.n - 1))
        reach = -t_quantile(0.025, self.n - 1) * error / (share * (1 - share))
        middle = math.log(share / (1 - share))
        return tuple(1 / (1 + math.exp(-(middle + sign * reach))) for sign in (-1, 1))

    def ratio(self, above, below):
        share = above.sum() / below.sum()
        return self.limits(share, (above - share * below) / below.sum())


def check(found, expected):
    for low, high, limits in zip(*found, expected, strict=True):
        if limits[0] is None:
            assert (low, high) == (None, None)
        else:
            assert (low, high) == pytest.approx(limits, rel=1e-7)


CASES = [(None, False), (None, True), (1, False), (1, True)]


@pytest.mark.parametrize(("digits", "weighted"), CASES)
def test_the_bands_of_roc_and_precision_recall_are_those_of_users_residuals(digits, weighted):
    log = impressions(np.random.default_rng(3), 60, digits=digits, weighted=weighted)
    graphs, naive = graphs_of(log, weighted=weighted), Naive(log)

    roc, recall = graphs["roc"], graphs["precision-recall"]
    inner = [naive.scores >= score for score in roc.thresholds[1:-1]]
    check((roc.low[1:-1], roc.high[1:-1]), [naive.ratio(naive.good * a, naive.good) for a in inner])
    check(
        (roc.x_low[1:-1], roc.x_high[1:-1]), [naive.ratio(naive.bad * a, naive.bad) for a in inner]
    )
    assert [roc.low[0], roc.high[0], roc.low[-1], roc.high[-1]] == [0.0, 0.0, 1.0, 1.0]
    above = [naive.scores >= score for score in recall.thresholds]
    check(
        (recall.low, recall.high),
        [naive.ratio(naive.good * a, (naive.good + naive.bad) * a) for a in above],
    )
    check(
        (recall.x_low[:-1], recall.x_high[:-1]),
        [naive.ratio(naive.good * a, naive.good) for a in above[:-1]],
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_bands_of_calibration_are_those_of_users_residuals(weighted):
    log = impressions(np.random.default_rng(4), 60, digits=2, weighted=weighted)
    graph, naive = graphs_of(log, weighted=weighted)["calibration"], Naive(log)

    rows = naive.good + naive.bad
    edges = np.arange(1, 10) / 10
    bins = [np.searchsorted(edges, naive.scores, side="right") == place for place in range(10)]
    expected = [naive.ratio(naive.good * b, rows * b) for b in bins if (rows * b).sum() > 0]
    check((graph.low, graph.high), expected)


def test_the_band_of_the_gain_where_many_rows_have_one_score():
    log = impressions(np.random.default_rng(5), 50, digits=0)
    graph, naive = graphs_of(log)["gain"], Naive(log)

    top = naive.scores == 1.0
    share_of_top, good = top.mean(), naive.good.sum()
    inside = [decile for decile in range(1, 10) if decile / 10 < share_of_top - 0.03]
    assert len(inside) >= 1
    expected = []
    for decile in inside:  # the rows of one score are shared: its rate of labels 1 is what counts
        rate = naive.good[top].mean()
        gain = decile / 10 * naive.good.size * rate / good
        part = decile / 10 / share_of_top
        residuals = part * top * naive.good - gain * naive.good
        residuals += rate * (decile / 10 - part * top)
        expected.append(naive.limits(gain, residuals / good))
    places = np.array(inside)
    check(([graph.low[p] for p in places], [graph.high[p] for p in places]), expected)


def test_lift_has_the_limits_of_gain_over_the_share_of_rows():
    graphs = graphs_of(impressions(np.random.default_rng(6), 40))

    gain, lift = graphs["gain"], graphs["lift"]
    for place, share in enumerate(lift.x):
        assert lift.low[place] == gain.low[place + 1] / share
        assert lift.low[place] <= lift.y[place] <= lift.high[place]


def test_rows_of_one_user_have_no_bands():
    log = impressions(np.random.default_rng(7), 1)

    assert all((each.low, each.high) == ((), ()) for each in graphs_of(log).values())


def test_bands_hold_the_true_curves_as_often_as_they_say():
    rng = np.random.default_rng(8)
    truth = graphs_of(impressions(rng, 50_000))
    roc, recall = truth["roc"], truth["precision-recall"]
    held = {"roc": [], "recall": [], "gain": [], "calibration": []}
    for _ in range(20):
        found = graphs_of(impressions(rng, 150))
        for place in range(10, 100, 15):
            score = found["roc"].thresholds[place]
            true = np.interp(-score, [-each for each in roc.thresholds[1:]], roc.y[1:])
            held["roc"].append(found["roc"].low[place] <= true <= found["roc"].high[place])
        graph = found["precision-recall"]
        for place in range(10, 90, 15):
            score = graph.thresholds[place]
            true = np.interp(-score, [-each for each in recall.thresholds], recall.y)
            held["recall"].append(graph.low[place] <= true <= graph.high[place])
        for name, kind in (("gain", "gain"), ("calibration", "calibration")):
            graph = found[kind]
            for place in range(1, 10):
                low, high = graph.low[place], graph.high[place]
                if low is not None:
                    held[name].append(low <= truth[kind].y[place] <= high)
    rates = {name: np.mean(each) for name, each in held.items()}
    assert all(0.91 <= rate <= 0.985 for rate in rates.values()), rates
