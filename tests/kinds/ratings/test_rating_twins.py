"""Rarer metrics of ratings against plain Python, over rows and over users."""

import math
import re
from fractions import Fraction
from itertools import combinations
from statistics import mean, median

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError, MachineError, RequestError


def sign(value):
    return (value > 0) - (value < 0)


def share(above, below):
    return above / below if below else math.nan


def correlation(xs, ys):
    x, y = mean(xs), mean(ys)
    xy = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    xx, yy = (sum((a - m) ** 2 for a in values) for values, m in ((xs, x), (ys, y)))
    return share(xy, math.sqrt(xx * yy))


def ranks(values):
    return [sum(b < a for b in values) + sum(b == a for b in values) / 2 for a in values]


def tau(pairs, variant):
    r, p = zip(*pairs, strict=True)
    signs = [(sign(r[i] - r[j]), sign(p[i] - p[j])) for i, j in combinations(range(len(r)), 2)]
    net = sum(a * b for a, b in signs)
    if variant == "b":
        return share(net, math.sqrt(sum(a * a for a, _ in signs) * sum(b * b for _, b in signs)))
    levels = min(len(set(r)), len(set(p)))
    return share(2 * net * levels, len(r) ** 2 * (levels - 1))


def lin(pairs, lost):
    r, p = zip(*pairs, strict=True)
    n = len(r) - lost
    if not n or (lost and (len(set(r)) == 1 or len(set(p)) == 1)):  # as Pearson's
        return math.nan
    x, y = mean(r), mean(p)
    both = sum((a - x) * (b - y) for a, b in pairs) / n
    return share(
        2 * both,
        sum((a - x) ** 2 for a in r) / n + sum((b - y) ** 2 for b in p) / n + (x - y) ** 2,
    )


def pinball(pairs, q):
    return sum(max(q * (r - p), (q - 1) * (r - p)) for r, p in pairs)


def best_pinball(pairs, q):
    return min(pinball([(r, best) for r, _ in pairs], q) for best, _ in pairs)


def deviance(r, p, power):
    if power == 1:
        return 2 * ((r * math.log(r / p) if r else 0) - r + p)
    if power == 2:
        return 2 * (math.log(p / r) + r / p - 1)
    left, rest = 1 - power, 2 - power
    return 2 * (r**rest / left / rest - r * p**left / left + p**rest / rest)


def deviances(pairs, power):
    return sum(deviance(r, p, power) for r, p in pairs)


def d2(pairs, power):
    m = mean(r for r, _ in pairs)
    if len({r for r, _ in pairs}) == 1:
        return math.nan
    return 1 - deviances(pairs, power) / deviances([(r, m) for r, _ in pairs], power)


def far(pairs):
    return [abs(p - r) for r, p in pairs]


def rmse(pairs):
    return math.sqrt(mean(each * each for each in far(pairs)))


def spread(pairs):
    return math.sqrt(mean((r - mean(r for r, _ in pairs)) ** 2 for r, _ in pairs))


TWINS = {
    "max-error": lambda pairs: max(far(pairs)),
    "median-error": lambda pairs: median(far(pairs)),
    "MSLE": lambda pairs: mean((math.log1p(p) - math.log1p(r)) ** 2 for r, p in pairs),
    "RMSLE": lambda pairs: math.sqrt(mean((math.log1p(p) - math.log1p(r)) ** 2 for r, p in pairs)),
    "log-cosh": lambda pairs: mean(math.log(math.cosh(each)) for each in far(pairs)),
    "pinball(q=0.2)": lambda pairs: pinball(pairs, 0.2) / len(pairs),
    "within-tolerance": lambda pairs: mean(each <= 0.5 for each in far(pairs)),
    "Minkowski(p=3)": lambda pairs: sum(each**3 for each in far(pairs)) ** (1 / 3),
    "nRMSE(by='mean')": lambda pairs: rmse(pairs) / mean(r for r, _ in pairs),
    "nRMSE(by='range')": lambda pairs: share(
        rmse(pairs), max(r for r, _ in pairs) - min(r for r, _ in pairs)
    ),
    "nRMSE(by='std')": lambda pairs: share(rmse(pairs), spread(pairs)),
    "nRMSE(by='l2')": lambda pairs: rmse(pairs) / math.sqrt(sum(r * r for r, _ in pairs)),
    "relative-squared-error": lambda pairs: share(
        mean(each * each for each in far(pairs)), spread(pairs) ** 2
    ),
    "threat-score(threshold=3)": lambda pairs: share(
        sum(r >= 3 and p >= 3 for r, p in pairs), sum(r >= 3 or p >= 3 for r, p in pairs)
    ),
    "Pearson": lambda pairs: correlation(*zip(*pairs, strict=True)),
    "MAPE(floor=1.5)": lambda pairs: mean([abs(p - r) / max(abs(r), 1.5) for r, p in pairs]),
    "concordance": lambda pairs: lin(pairs, 0),
    "concordance(moments='sample')": lambda pairs: lin(pairs, 1),
    "cosine": lambda pairs: (
        sum(r * p for r, p in pairs)
        / math.sqrt(sum(r * r for r, _ in pairs) * sum(p * p for _, p in pairs))
    ),
    "Spearman": lambda pairs: correlation(*map(ranks, zip(*pairs, strict=True))),
    "Kendall": lambda pairs: tau(pairs, "b"),
    "Kendall(variant='c')": lambda pairs: tau(pairs, "c"),
    "D2-pinball": lambda pairs: share(
        best_pinball(pairs, 0.5) - pinball(pairs, 0.5), best_pinball(pairs, 0.5)
    ),
    "D2-pinball(q=0.2)": lambda pairs: share(
        best_pinball(pairs, 0.2) - pinball(pairs, 0.2), best_pinball(pairs, 0.2)
    ),
    "Tweedie-deviance": lambda pairs: deviances(pairs, 1.5) / len(pairs),
    "Tweedie-deviance(power=1)": lambda pairs: deviances(pairs, 1) / len(pairs),
    "Tweedie-deviance(power=2)": lambda pairs: deviances(pairs, 2) / len(pairs),
    "Tweedie-deviance(power=3)": lambda pairs: deviances(pairs, 3) / len(pairs),
    "D2-Tweedie": lambda pairs: d2(pairs, 1.5),
    "D2-Tweedie(power=1)": lambda pairs: d2(pairs, 1),
    "D2-Tweedie(power=2)": lambda pairs: d2(pairs, 2),
    "D2-Tweedie(power=3)": lambda pairs: d2(pairs, 3),
}


def log_of(seed, n=160, n_users=13):
    draw = np.random.default_rng(seed)
    users = np.minimum(draw.integers(0, n_users, n), draw.integers(0, n_users, n))
    ratings = draw.integers(1, 11, n) / 2
    guesses = np.maximum(np.round(2 * (ratings + draw.normal(size=n))) / 2, 0.5)
    return pl.DataFrame({"user": users, "rating": ratings, "prediction": guesses})


def of_users(name):
    return name.replace("(", "(over='users', ") if "(" in name else f"{name}(over='users')"


@pytest.mark.parametrize("seed", range(3))
def test_ratings_are_those_of_plain_python(seed):
    log = log_of(seed)

    pooled = evalkit.evaluate_ratings(log, metrics=list(TWINS)).estimates
    by_user = evalkit.evaluate_ratings(log, metrics=list(map(of_users, TWINS))).estimates

    users = [each.select("rating", "prediction").rows() for each in log.partition_by("user")]
    for (name, twin), one, other in zip(TWINS.items(), pooled, by_user, strict=True):
        expected = twin(log.select("rating", "prediction").rows())
        assert one.value == pytest.approx(expected, rel=1e-9, abs=1e-12), name
        values = [value for pairs in users if not math.isnan(value := twin(pairs))]
        assert other.n_users == len(values), name
        assert other.value == pytest.approx(math.fsum(values) / len(values), rel=1e-9), name


def test_segments_and_passes_are_those_of_their_own_users():
    log = log_of(5, n=900, n_users=40).with_columns(group=pl.col("user") % 3)
    names = ["Spearman", "Kendall", "median-error", "D2-pinball", "Pearson", "nRMSE(by='range')"]

    report = evalkit.evaluate_ratings(log, metrics=names, segments={"group": {"by": "group"}})

    for group in range(3):
        alone = evalkit.evaluate_ratings(log.filter(pl.col("group") == group), metrics=names)
        for each in alone.estimates:
            (found,) = (
                e for e in report.estimates if (e.segment, e.metric) == (str(group), each.metric)
            )
            assert (found.value, found.std_error) == (each.value, each.std_error), each.metric
            assert (found.low, found.high) == (each.low, each.high), each.metric


def test_two_models_are_compared_by_the_influence_of_users():
    log = log_of(6, n=600, n_users=60)
    worse = log.with_columns(pl.col("prediction").reverse())

    report = evalkit.evaluate_ratings(
        {"old": worse, "new": log},
        metrics=["Spearman", "Kendall", "Pearson"],
        statistics={"baseline": "old"},
    )

    for each in report.comparisons:
        assert each.delta > 0.5
        assert each.low is not None
        assert each.low > 0.3


@pytest.mark.parametrize("name", ["MSLE", "RMSLE(over='users')", "D2_gamma", "Poisson_deviance"])
def test_what_a_metric_has_no_value_of_is_refused_with_its_number(name):
    log = log_of(1).with_columns(
        prediction=pl.when(pl.int_range(pl.len()) < 3).then(-1.0).otherwise(pl.col("prediction"))
    )

    with pytest.raises(DataError, match="3 pairs have no") as caught:
        evalkit.evaluate_ratings(log, metrics=[name])

    assert caught.value.code == "outside-domain"


def test_a_power_between_none_and_one_is_no_family():
    with pytest.raises(RequestError) as caught:
        evalkit.evaluate_ratings(log_of(1), metrics=["Tweedie-deviance(power=0.5)"])

    assert caught.value.code == "bad-parameter-value"


def test_pairs_that_do_not_fit_together_are_refused_with_what_they_need():
    log = pl.concat([log_of(seed, n=200_000, n_users=900) for seed in range(2)])

    with pytest.raises(MachineError, match="400,000 rows need about") as of_rows:
        evalkit.evaluate_ratings(log, metrics=["Kendall"], memory_limit=64 << 20)
    enough = int(re.search(r"about (\d+) MiB", of_rows.value.message)[1]) + 16  # for rows alone
    with pytest.raises(MachineError, match="400,000 pairs together") as caught:
        evalkit.evaluate_ratings(log, metrics=["Kendall"], memory_limit=enough << 20)

    assert caught.value.code == "memory-limit"


def test_ratings_far_from_0_take_no_digits_of_what_they_share():
    near = [(0.25, 1.0), (0.5, 2.0), (0.75, 2.5), (0.875, 4.0)]
    far = pl.DataFrame(
        [(1, 2.0**23 + rating, prediction) for rating, prediction in near],
        schema=["user", "rating", "prediction"],
        orient="row",
    ).with_columns(prediction=pl.col("prediction") / 3.0 + 1e6)
    names = ["Pearson", "concordance", "D2-Tweedie(power=0)", "R2"]

    pearson, concordance, explained, r2 = (
        each.value for each in evalkit.evaluate_ratings(far, metrics=names).estimates
    )

    pairs = [tuple(map(Fraction, each)) for each in far.select("rating", "prediction").iter_rows()]
    r, p = (sum(each) / len(near) for each in zip(*pairs, strict=True))
    rr, pp = sum((a - r) ** 2 for a, _ in pairs), sum((b - p) ** 2 for _, b in pairs)
    rp = sum((a - r) * (b - p) for a, b in pairs)
    assert pearson == pytest.approx(float(rp) / math.sqrt(rr * pp), rel=1e-15)
    assert concordance == pytest.approx(float(2 * rp / (rr + pp + 4 * (r - p) ** 2)), rel=1e-15)
    assert explained == r2
