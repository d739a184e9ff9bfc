"""Errors over users and items: against plain Python, statsmodels, and any way to cut the users."""

import math
from collections import defaultdict

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import EvalkitError

N_ITEMS = 40
METRICS = ("recall@5", "nDCG@5", "hits@3", "precision@4", "DCG(gain='exp2')@8")


def worlds(seed: int, n_users: int = 120, *, as_text: bool = False):
    """Truth with grades, and two models of which one likes some items whoever asks."""
    rng = np.random.default_rng(seed)
    liked = rng.normal(size=N_ITEMS)
    truth, lists = [], {"als": [], "bpr": []}
    for user in range(n_users):
        relevant = rng.choice(N_ITEMS, size=rng.integers(1, 6), replace=False)
        truth += [(user, int(item), float(rng.integers(1, 4)), user % 3) for item in relevant]
        for name, taste in (("als", 1.0), ("bpr", 0.2)):
            scores = rng.normal(size=N_ITEMS) + taste * liked
            scores[relevant] += 1.0
            lists[name] += [
                (user, int(item), rank) for rank, item in enumerate(np.argsort(-scores)[:8], 1)
            ]
    lists["bpr"] = [row for row in lists["bpr"] if row[0] != 7]  # a user without a list
    tables = [pl.DataFrame(truth, ["user", "item", "relevance", "shop"], orient="row")]
    tables += [
        pl.DataFrame(rows, ["user", "item", "rank"], orient="row") for rows in lists.values()
    ]
    if as_text:
        ids = [pl.format("id {}", name).alias(name) for name in ("user", "item")]
        tables = [each.with_columns(ids) for each in tables]
    return tables[0], dict(zip(lists, tables[1:], strict=True))


def measured(truth, rankings, **statistics):
    return evalkit.evaluate(
        truth,
        rankings,
        metrics=METRICS,
        statistics={"two_way": "item", "baseline": "als", **statistics},
    )


def parts_by_hand(truth, ranking, metric: str) -> dict[tuple[int, int], float]:
    """What each pair of a user and a relevant item adds to the user's value."""
    ranks = {(user, item): rank for user, item, rank in ranking.iter_rows()}
    gains: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for user, item, relevance, _ in truth.iter_rows():
        gains[user].append((item, relevance))
    name, cutoff = metric.split("@")
    k = int(cutoff)
    found = {}
    for user, items in gains.items():
        ideal = sorted((gain for _, gain in items), reverse=True)[:k]
        best = sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal))
        for item, gain in items:
            rank = ranks.get((user, item), math.inf)
            hit = float(rank <= k)
            found[user, item] = {
                "recall": hit / len(items),
                "hits": hit,
                "precision": hit / k,
                "nDCG": hit * gain / math.log2(min(rank, k) + 1) / best,
                "DCG": hit * (2.0**gain - 1.0) / math.log2(min(rank, k) + 1),
            }[name.split("(")[0]]
    return found


def error_by_hand(parts: dict[tuple[int, int], float]) -> tuple[float, float, int]:
    """Mean, error, and the fewer of users and items."""
    users: dict[int, list[int]] = defaultdict(list)
    for user, item in parts:
        users[user].append(item)
    n = len(users)
    mean = math.fsum(parts.values()) / n
    left = {key: part - mean / len(users[key[0]]) for key, part in parts.items()}

    def variance(who) -> tuple[float, int, float]:
        """After Cameron, Gelbach and Miller, over 1 - mean leverage as clusters have it."""
        sums: dict[object, float] = defaultdict(float)
        shares: dict[object, float] = defaultdict(float)
        for key, amount in left.items():
            sums[who(key)] += amount
            shares[who(key)] += 1.0 / len(users[key[0]]) / n
        square = math.fsum(each**2 for each in sums.values())
        leverage = math.fsum(each**2 * shares[key] for key, each in sums.items()) / square
        return square, len(sums), leverage

    (by_user, _, _), (by_item, n_items, leverage), (by_pair, n_pairs, _) = (
        variance(who) for who in (lambda key: key[0], lambda key: key[1], lambda key: key)
    )
    total = by_user * n / (n - 1) + by_item / (1 - leverage) - by_pair * n_pairs / (n_pairs - 1)
    return mean, math.sqrt(total) / n, min(n, n_items)


@pytest.mark.parametrize("as_text", [False, True])
def test_errors_are_those_of_plain_python(as_text):
    numbers = worlds(1)
    report = measured(*(worlds(1, as_text=True) if as_text else numbers))
    truth, rankings = numbers
    parts = {
        (model, metric): parts_by_hand(truth, ranking, metric)
        for model, ranking in rankings.items()
        for metric in METRICS
    }
    for estimate, metric in zip(report.estimates, METRICS * 2, strict=True):
        mean, error, n = error_by_hand(parts[estimate.model, metric])
        assert (estimate.value, estimate.std_error) == pytest.approx((mean, error), rel=1e-9)
        assert estimate.n_clusters == n
        assert 1.0 <= estimate.df < n - 1
    for comparison, metric in zip(report.comparisons, METRICS, strict=True):
        before, after = parts["als", metric], parts["bpr", metric]
        mean, error, n = error_by_hand({key: after[key] - before[key] for key in after})
        assert (comparison.delta, comparison.std_error) == pytest.approx((mean, error), rel=1e-9)
        assert comparison.n_clusters == n
        assert 1.0 <= comparison.df < n - 1


def test_errors_are_those_of_a_weighted_regression_by_statsmodels():
    models = pytest.importorskip("statsmodels.api")
    truth, rankings = worlds(2)
    parts = parts_by_hand(truth, rankings["als"], "recall@5")
    users, items = (np.array(each) for each in zip(*parts, strict=True))
    shares = 1.0 / np.bincount(users)[users]
    hits = np.array(list(parts.values())) / shares
    fit = models.WLS(hits, np.ones(hits.size), weights=shares).fit()

    def variance(groups) -> float:
        own = fit.get_robustcov_results("cluster", groups=groups, use_correction=False)
        codes = np.unique(groups, return_inverse=True)[1]
        left = np.bincount(codes, shares * (hits - fit.params[0])) ** 2
        leverage = (left * np.bincount(codes, shares)).sum() / left.sum() / shares.sum()
        return float(own.bse[0]) ** 2 / (1.0 - leverage)

    n_pairs = users.size
    pairs = fit.get_robustcov_results("cluster", groups=np.arange(n_pairs), use_correction=False)
    once = float(pairs.bse[0]) ** 2 * n_pairs / (n_pairs - 1)
    expected = variance(users) + variance(items) - once
    (found,) = [
        each
        for each in measured(truth, rankings).estimates
        if (each.model, each.metric) == ("als", "recall@5")
    ]
    assert found.std_error == pytest.approx(math.sqrt(expected), rel=1e-9)


def test_a_segment_has_the_error_of_its_users_alone():
    truth, rankings = worlds(3)
    report = evalkit.evaluate(
        truth,
        rankings,
        metrics=METRICS,
        statistics={"two_way": "item", "baseline": "als"},
        segments={"shop": {"by": "shop"}},
    )
    alone = measured(truth.filter(pl.col("shop") == 1), rankings)
    own = [each for each in report.estimates if each.segment == "1"]
    for each, other in zip(own, alone.estimates, strict=True):
        assert (each.value, each.std_error, each.low) == (other.value, other.std_error, other.low)
    own = [each for each in report.comparisons if each.segment == "1"]
    for comparison, other in zip(own, alone.comparisons, strict=True):
        assert (comparison.std_error, comparison.low, comparison.p_value) == (
            other.std_error,
            other.low,
            other.p_value,
        )


def test_users_without_a_list_may_be_left_out():
    truth, rankings = worlds(4)
    report = evalkit.evaluate(
        truth,
        rankings,
        metrics=["recall@5"],
        statistics={"two_way": "item", "baseline": "als"},
        policies={"missing_ranking": "skip"},
    )
    parts = {
        name: {key: part for key, part in found.items() if key[0] != 7}
        for name, ranking in rankings.items()
        for found in [parts_by_hand(truth, ranking, "recall@5")]
    }
    mean, error, _ = error_by_hand(parts["bpr"])
    assert (report.estimates[1].value, report.estimates[1].std_error) == (
        pytest.approx((mean, error), rel=1e-9)
    )
    mean, error, _ = error_by_hand({k: parts["bpr"][k] - parts["als"][k] for k in parts["bpr"]})
    assert report.comparisons[0].std_error == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("as_text", [False, True])
def test_any_order_and_threads_give_the_same_bytes(as_text):
    truth, rankings = worlds(5, 300, as_text=as_text)
    whole = measured(truth, rankings)
    rng = np.random.default_rng(0)
    mixed = {name: each[rng.permutation(each.height)] for name, each in rankings.items()}
    other = evalkit.evaluate(
        truth[rng.permutation(truth.height)],
        mixed,
        metrics=METRICS,
        statistics={"two_way": "item", "baseline": "als"},
        threads=1,
    )
    assert other.estimates == whole.estimates
    assert other.comparisons == whole.comparisons


def test_what_does_not_add_up_over_hits_is_refused_by_name():
    truth, rankings = worlds(6, 10)
    with pytest.raises(EvalkitError) as found:
        evalkit.evaluate(truth, rankings, metrics=["AP@5"], statistics={"two_way": "item"})
    assert found.value.code == "two-way"
    assert "AP@5" in str(found.value)
    assert "recall" in str(found.value.hint)


@pytest.mark.parametrize(
    "other",
    [
        {"method": "bootstrap"},
        {"test": "permutation", "pairs": "all"},
        {"test": "wilcoxon", "pairs": "all"},
        {"weight": {"by": "shop"}},
        {"cluster": "shop"},
        {"curves": True},
        {"search": True, "baseline": "als"},
        {"correction": "tukey", "pairs": "all"},
    ],
)
def test_what_knows_no_items_is_refused_beside_it(other):
    truth, rankings = worlds(6, 10)
    with pytest.raises(EvalkitError) as found:
        evalkit.evaluate(
            truth, rankings, metrics=["recall@5"], statistics={"two_way": "item", **other}
        )
    assert found.value.code == "conflicting-keys"


def test_a_variance_below_zero_is_told():
    truth = pl.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 2]})
    ranking = pl.DataFrame({"user": [1, 2], "item": [1, 2], "rank": [1, 1]})
    report = evalkit.evaluate(truth, ranking, metrics=["recall@1"], statistics={"two_way": "item"})
    (found,) = report.estimates
    assert (found.value, found.std_error) == (0.5, None)
    assert math.isnan(found.low)
    (told,) = [each for each in report.warnings if each.code == "two-way-negative"]
    assert "recall@1 of model" in told.message


def test_a_variance_of_rounding_alone_is_none():
    truth = pl.DataFrame({"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3] * 2})
    ranking = truth.with_columns(rank=pl.int_range(1, 4).append(pl.int_range(1, 4)))

    report = evalkit.evaluate(truth, ranking, metrics=["hits@3"], statistics={"two_way": "item"})

    assert (report.estimates[0].value, report.estimates[0].std_error) == (3.0, 0.0)


def test_where_every_item_is_found_limits_are_those_of_so_many_users():
    truth, _ = worlds(7, 40)
    best_first = truth.sort("user", "relevance", descending=[False, True])
    shown = best_first.select("user", "item", rank=pl.int_range(1, pl.len() + 1).over("user"))
    plain, report = (
        evalkit.evaluate(
            truth, {"als": shown, "bpr": shown}, metrics=["recall@6"], statistics=statistics
        )
        for statistics in ({"baseline": "als"}, {"two_way": "item", "baseline": "als"})
    )
    for estimate, exact in zip(report.estimates, plain.estimates, strict=True):
        assert (estimate.value, estimate.std_error, estimate.high) == (1.0, 0.0, 1.0)
        assert estimate.low <= exact.low
    for comparison, exact in zip(report.comparisons, plain.comparisons, strict=True):
        assert (comparison.delta, comparison.std_error) == (0.0, 0.0)
        unseen = 0.025 ** (-1 / (comparison.df + 1)) - 1  # of users and items not seen
        assert (-comparison.low, comparison.high) == pytest.approx((unseen, unseen), rel=1e-12)
        tango = 1.959963984540054**2 / (40 + 1.959963984540054**2)
        assert (-exact.low, exact.high) == pytest.approx((tango, tango), rel=1e-12)
        assert tango < unseen  # no surer than so many users are
        assert comparison.verdict == "cannot tell"
    assert "two-way-negative" not in [each.code for each in report.warnings]


@pytest.mark.parametrize("n_users", [0, 1])
def test_nobody_and_one_user_have_no_error(n_users):
    truth, rankings = worlds(8, 10)
    report = evalkit.evaluate(
        truth.filter(pl.col("user") < n_users),
        rankings["als"],
        metrics=["recall@5"],
        statistics={"two_way": "item"},
        policies={"empty_input": "warn"},
    )
    (found,) = report.estimates
    assert found.std_error is None
    assert math.isnan(found.low)


def test_gains_that_sums_by_item_cannot_hold_are_refused():
    truth, rankings = worlds(9, 10)
    large = truth.with_columns(relevance=pl.lit(40.0))
    asked = {"statistics": {"two_way": "item"}}
    with pytest.raises(EvalkitError) as found:
        evalkit.evaluate(large, rankings, metrics=["DCG(gain='exp2')@8"], **asked)
    assert found.value.code == "gain-overflow"
    report = evalkit.evaluate(large, rankings, metrics=["DCG@8", "nDCG(gain='exp2')@8"], **asked)
    assert all(each.std_error for each in report.estimates)
