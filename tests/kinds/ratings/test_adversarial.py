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
    every = [metric for metric in registry_of("ratings").values() if metric.domain is None]
    names = [
        metric.request(None, over=over).label for metric in every for over in ("rows", "users")
    ]

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


@pytest.mark.parametrize("size", [1e-320, 1e-160, 1.0, 1e160, 1e300])
def test_users_errors_lose_nothing_to_the_size_of_their_squares(size):
    unit = 8 * 2.0**-1074 if size == 1e-320 else 2.0 ** round(math.log2(size))
    ratings, errors = np.array([1.0, 2.0, 4.0, 5.0]), np.array([0.5, -0.25, 0.125, 0.5])
    pairs = pl.DataFrame(
        {"user": 1, "rating": ratings * unit, "prediction": (ratings + errors) * unit}
    )
    names = [f"{name}(over='users')" for name in ("RMSE", "R2", "explained-variance")]

    report = evalkit.evaluate_ratings(pairs, metrics=[*names, "RMSE", "R2"])

    wrong, bias, spread = (errors**2).sum(), errors.mean(), ((ratings - 3) ** 2).sum()
    root, share = math.sqrt(wrong / 4) * unit, 1 - wrong / spread
    without_bias = 1 - ((errors - bias) ** 2).sum() / spread
    values = [each.value for each in report.estimates]
    assert values == pytest.approx([root, share, without_bias, root, share], rel=1e-12, abs=5e-324)


def test_constant_errors_explain_all_the_variance_however_large_they_are():
    pairs = pl.DataFrame({"user": 1, "rating": [1e-160, 2e-160, 3e-160], "prediction": 3.3})

    report = evalkit.evaluate_ratings(pairs, metrics=["explained-variance(over='users')"])

    assert report.estimates[0].value == 1.0


@pytest.mark.parametrize("rating", [5e-324, 1e-300])
def test_ratings_too_close_to_be_told_apart_share_a_bin(rating):
    pairs = pl.DataFrame({"user": [1, 2], "rating": [0.0, rating], "prediction": [0.0, 1.0]})

    report = evalkit.evaluate_ratings(pairs, metrics=["MAE"])

    assert report.estimates[0].value == 0.5
    assert {each.rows for each in report.graphs} == {(2.0,)}


def test_users_errors_that_cancel_lose_no_digits():
    pairs = pl.DataFrame({"user": 1, "rating": [-1e100, 0.0, 1e100], "prediction": [0.0, 3.0, 0.0]})

    report = evalkit.evaluate_ratings(pairs, metrics=["bias(over='users')"])

    assert report.estimates[0].value == 1.0


def test_users_ratings_far_from_0_lose_no_digits():
    near, errors = np.array([0.0, 0.5, 0.75]), np.array([0.25, -0.5, 0.125])
    far = 2.0**40 + near
    pairs = pl.DataFrame({"user": 1, "rating": far, "prediction": far + errors})

    report = evalkit.evaluate_ratings(
        pairs, metrics=["R2(over='users')", "explained-variance(over='users')"]
    )

    spread = ((near - near.mean()) ** 2).sum()
    r2, explained = (
        1 - (errors**2).sum() / spread,
        1 - ((errors - errors.mean()) ** 2).sum() / spread,
    )
    assert [each.value for each in report.estimates] == pytest.approx([r2, explained], rel=1e-14)
