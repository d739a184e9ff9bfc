"""Ratings at the ends of what numbers can be, against scikit-learn and exact fractions."""

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.metrics import registry_of

peer = pytest.importorskip("sklearn.metrics")

RNG = np.random.default_rng(7)
PLAIN = RNG.normal(3, 1, 60)
CASES = {
    "constant ratings": (np.full(60, 3.0), PLAIN),
    "constant predictions": (PLAIN, np.full(60, 3.0)),
    "no error": (PLAIN, PLAIN),
    "constant and no error": (np.full(60, 3.0), np.full(60, 3.0)),
    "constant bias": (PLAIN, PLAIN + 0.5),
    "nearly constant": (3.0 + PLAIN * 1e-9, PLAIN),
    "far from 0": (PLAIN + 1e9, PLAIN[::-1] + 1e9),
    "large": (PLAIN * 1e150, PLAIN[::-1] * 1e150),
    "small": (PLAIN * 1e-150, PLAIN[::-1] * 1e-150),
    "negative": (-PLAIN, PLAIN),
    "one row": (PLAIN[:1], PLAIN[1:2]),
    "float32": (PLAIN.astype(np.float32), PLAIN[::-1].astype(np.float32)),
}
PEERS = {
    "MAE": "mean_absolute_error",
    "MSE": "mean_squared_error",
    "RMSE": "root_mean_squared_error",
    "R2": "r2_score",
    "explained-variance": "explained_variance_score",
    "MAPE": "mean_absolute_percentage_error",
}


def table(ratings, predictions):
    users = np.arange(len(ratings)) % 3
    return pl.DataFrame({"user": users, "rating": ratings, "prediction": predictions})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("case", CASES)
def test_ratings_at_the_edges_agree_with_scikit_learn(case):
    ratings, predictions = (each.astype(np.float64) for each in CASES[case])

    report = evalkit.evaluate_ratings(table(*CASES[case]), metrics=list(PEERS), profile="sklearn")

    # what a centred sum of squares of numbers near 1e9 has lost in scikit-learn
    tolerance = 1e-6 if case in ("far from 0", "nearly constant") else 1e-12
    for metric, name in PEERS.items():
        if metric == "MAPE" and case == "small":
            continue  # scikit-learn divides by 2.2e-16 at least
        theirs = float(getattr(peer, name)(ratings, predictions))
        assert report.value(metric) == pytest.approx(theirs, rel=tolerance, nan_ok=True), metric


HUGE = [
    # ratings, predictions; squares of errors overflow, or underflow
    ([1e200, -1e200, 0.0], [0.0, 1e200, 1e200]),
    ([1.7e308, -1.7e308], [-1.7e308, 1.7e308]),
    ([5e-324, 0.0, 1e-320], [0.0, 1e-310, 0.0]),
    ([1e-200, 2e-200, 0.0], [2e-200, 2e-200, 1e-200]),
]


@pytest.mark.parametrize(("ratings", "predictions"), HUGE)
def test_numbers_whose_squares_are_no_floats_do_not_fail(ratings, predictions):
    names = [m.request().label for m in registry_of("ratings").values()]
    names += [f"{name}(over='users')" for name in names]

    report = evalkit.evaluate_ratings(table(ratings, predictions), metrics=names)

    pairs = [(Fraction(p) - Fraction(r)) for r, p in zip(ratings, predictions, strict=True)]
    mean = sum(map(abs, pairs)) / len(pairs)
    if mean <= Fraction(1.7e308):
        assert report.value("MAE") == pytest.approx(float(mean), rel=1e-12)
        assert report.value("RMSE") >= report.value("MAE") * (1 - 1e-12)
        squares = sum(each * each for each in pairs) / len(pairs)
        is_float = squares < Fraction(1.7e308)
        expected = float(squares) if is_float else math.inf
        assert report.value("MSE") == pytest.approx(expected, rel=1e-12)


def test_an_error_that_no_float_holds_is_no_good_score():
    pairs = pl.DataFrame({"user": [1, 2], "rating": [-1e308, 1.0], "prediction": [1e308, 1.0]})

    names = ["MAE", "bias", "R2", "MSE(over='users')", "bias(over='users')"]
    report, turned = (
        evalkit.evaluate_ratings(each, metrics=names)
        for each in (pairs, pairs.rename({"rating": "prediction", "prediction": "rating"}))
    )

    values = [each.value for each in report.estimates]
    expected = [math.inf, math.nan, math.nan, math.inf, math.inf]
    assert values == pytest.approx(expected, nan_ok=True)
    assert turned.estimates[-1].value == -math.inf
    warning, _ = [each for each in report.warnings if each.code == "infinite-value"]
    assert warning.message == "MSE(over='users') is infinite for 1 users"


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_users_without_a_good_pair_are_told(bad, two):
    predictions = pl.when(pl.col("user") == 3).then(bad).otherwise(pl.col("rating"))
    pairs = pl.DataFrame({"user": [1, 1, 2, 3, 3], "item": [1, 2, 1, 1, 2], "rating": [3.0] * 5})
    pairs = pairs.with_columns(prediction=predictions)
    tables = (pairs.drop("prediction"), {"m": pairs.drop("rating")}) if two else (pairs,)

    report = evalkit.evaluate_ratings(
        *tables, metrics=["MAE(over='users')"], policies={"bad_scores": "drop"}
    )

    assert report.estimates[0].n_users == 2
    (warning,) = [each for each in report.warnings if each.code == "users-without-rows"]
    assert warning.message.startswith("1 users have no row left")
