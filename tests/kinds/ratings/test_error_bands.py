"""Bands of error by true rating: each point's interval, with users as drawn."""

import math

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.report.html import render_html
from evalkit.statistics.distributions import t_quantile

METRICS = ("MAE", "RMSE", "bias")


def some_pairs(seed: int, n_users: int) -> pl.DataFrame:
    """Ratings by halves, and errors that go together within a user."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), rng.poisson(9, n_users) + 1)
    ratings = np.clip(np.round(2 * (3.5 + rng.normal(size=users.size))) / 2, 0.5, 5.0)
    errors = 0.5 * rng.normal(size=n_users)[users] + rng.normal(size=users.size)
    return pl.DataFrame({"user": users, "rating": ratings, "prediction": ratings + errors})


def curves(pairs: pl.DataFrame, **asked: object):
    report = evalkit.evaluate_ratings(pairs, metrics=["MAE"], **asked)
    return {each.y_name: each for each in report.graphs if each.kind == "error-by-rating"}


def test_bands_by_hand():
    # rating 1: users a with errors 1 and 1, b with 4: MAE 2, moved by (2 - 2 * 2) / 3 and
    # (4 - 2) / 3, so the error is sqrt(2 / 1 * (4 / 9 + 4 / 9)) = 4 / 3; rating 5: user a alone
    pairs = pl.DataFrame(
        {"user": ["a", "a", "b", "a"], "rating": [1, 1, 1, 5], "prediction": [2.0, 0.0, 5.0, 4.0]}
    )

    found = curves(pairs)["MAE"]

    reach = -t_quantile(0.025, 1) * 4 / 3
    assert (found.x, found.y) == ((1.0, 5.0), (2.0, 1.0))
    assert reach > 2.0
    assert found.low == (0.0, None)  # no error is below 0
    assert found.high == (pytest.approx(2.0 + reach, rel=1e-12), None)


def test_a_point_has_the_interval_of_its_pairs_alone():
    pairs = some_pairs(3, 80)

    found = curves(pairs)

    ratings = sorted(set(pairs["rating"]))
    assert list(found["MAE"].x) == pytest.approx(ratings, rel=1e-12)
    for place, rating in enumerate(ratings):
        alone = evalkit.evaluate_ratings(
            pairs.filter(pl.col("rating") == rating), metrics=list(METRICS)
        )
        for name, same in zip(METRICS, alone.estimates, strict=True):
            curve = found[name]
            limits = (curve.y[place], curve.low[place], curve.high[place])
            assert limits == pytest.approx((same.value, same.low, same.high), rel=1e-9)


def test_bands_agree_with_the_residuals_of_every_user():
    pairs = some_pairs(5, 60)

    curve = curves(pairs)["RMSE"]

    for place, rating in enumerate(curve.x):
        rows = pairs.filter((pl.col("rating") - rating).abs() < 1e-9)
        square = (rows["prediction"] - rows["rating"]).to_numpy() ** 2
        root = math.sqrt(square.mean())
        moves = (square - root**2) / (2 * root * square.size)
        by_user = np.array([moves[rows["user"].to_numpy() == u].sum() for u in set(rows["user"])])
        n = by_user.size
        if n > 1:
            reach = -t_quantile(0.025, n - 1) * math.sqrt(n / (n - 1) * (by_user**2).sum())
            assert curve.high[place] - curve.y[place] == pytest.approx(reach, rel=1e-9)


def test_no_order_thread_or_pass_moves_a_bit():
    pairs = some_pairs(7, 200)
    other = pairs.sample(fraction=1, shuffle=True, seed=1)

    found = curves(pairs, threads=1)

    assert curves(other, threads=2, memory_limit=1 << 29) == found


@pytest.mark.parametrize(("errors", "has_rmse"), [([1e308, -1e308], False), ([1.0, 2.0], True)])
def test_errors_beyond_all_bounds_have_no_band(errors, has_rmse):
    pairs = pl.DataFrame({"user": [1, 2], "rating": [3.0, 3.0], "prediction": errors})
    pairs = pairs.with_columns(pl.col("prediction") + pl.col("rating"))

    found = curves(pairs)["RMSE"]

    assert bool(found.low) == has_rmse


def test_one_user_and_clusters_have_no_bands():
    pairs = some_pairs(1, 40)

    alone = curves(pairs.with_columns(user=1))
    together = curves(pairs.with_columns(team=pl.col("user") % 7), statistics={"cluster": "team"})

    for found in (*alone.values(), *together.values()):
        assert (found.low, found.high) == ((), ())


def test_the_page_draws_bands():
    page = render_html(evalkit.evaluate_ratings(some_pairs(2, 50), metrics=["MAE"]))

    assert page.count('class="band') == len(METRICS)
