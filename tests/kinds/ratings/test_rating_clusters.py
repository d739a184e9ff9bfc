"""Errors of ratings where users of one cluster vary together."""

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError


def test_errors_by_hand():
    # errors 1, 1 | 1 | 4: MAE 7/4, moved by what users add to it: (1 + 1 - 2 * 7/4) / 4 = -3/8,
    # (1 - 7/4) / 4 = -3/16 and (4 - 7/4) / 4 = 9/16; two clusters of -9/16 and 9/16
    # means of users 1, 1, 4: 2, moved by -1/3, -1/3 and 2/3; two clusters of -2/3 and 2/3
    pairs = pl.DataFrame(
        {"user": ["a", "a", "b", "c"], "team": [1, 1, 1, 2], "rating": [3.0, 4.0, 2.0, 5.0]}
    ).with_columns(prediction=pl.col("rating") - pl.Series([1.0, -1.0, 1.0, 4.0]))

    report = evalkit.evaluate_ratings(
        pairs, metrics=["MAE", "MAE(over='users')"], statistics={"cluster": "team"}
    )

    found = [(each.value, each.std_error) for each in report.estimates]
    assert found[0] == pytest.approx((7 / 4, np.sqrt(2 * 2) * 9 / 16), rel=1e-12)
    assert found[1] == pytest.approx((2.0, np.sqrt(2 * 2) * 2 / 3), rel=1e-12)


def two_tables() -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Ratings of users in teams, and predictions, also of users and pairs without a rating."""
    rng = np.random.default_rng(8)
    users = np.repeat(np.arange(60), rng.integers(2, 20, 60))
    ids = {"user": users, "item": np.arange(users.size)}
    level = rng.normal(size=12)[users % 12]
    ratings = 3 + rng.normal(size=users.size)
    predictions = {
        "one": pl.DataFrame({**ids, "prediction": 3 + level + rng.normal(size=users.size)}),
        "two": pl.DataFrame({**ids, "prediction": 3 + rng.normal(size=users.size)}),
    }
    stranger = pl.DataFrame({"user": [99], "item": [0], "prediction": [1.0]})
    predictions["two"] = pl.concat([predictions["two"].tail(-5), stranger])
    return pl.DataFrame({**ids, "rating": ratings, "team": users % 12}), predictions


def test_predictions_of_two_tables_stand_in_the_clusters_of_the_ratings():
    ratings, predictions = two_tables()
    names = ["MAE", "RMSE", "R2", "bias", "WAPE"]
    asked = {"metrics": names, "policies": {"unrated": "skip"}}

    report = evalkit.evaluate_ratings(
        ratings, predictions, statistics={"baseline": "one", "cluster": "team"}, **asked
    )

    of_teams = ratings.with_columns(user=pl.col("team"))
    by_team = predictions["one"].with_columns(user=pl.col("user") % 12)
    alone = evalkit.evaluate_ratings(of_teams, {"one": by_team}, **asked)
    for found, same in zip(report.estimates, alone.estimates, strict=False):
        mine, theirs = ((each.value, each.std_error) for each in (found, same))
        assert mine == pytest.approx(theirs, rel=1e-9), found.metric
    assert all(each.std_error is not None for each in report.comparisons)


def test_no_order_thread_or_pass_moves_a_bit():
    ratings, predictions = two_tables()
    asked = {
        "metrics": ["MAE", "RMSE", "R2", "RMSE(over='users')"],
        "policies": {"unrated": "skip"},
        "statistics": {"baseline": "one", "cluster": "team"},
    }

    one = evalkit.evaluate_ratings(ratings, predictions, threads=1, **asked)
    shuffled = {name: t.sample(fraction=1, shuffle=True, seed=2) for name, t in predictions.items()}
    other = evalkit.evaluate_ratings(
        ratings.reverse(), shuffled, threads=2, memory_limit=1 << 29, **asked
    )

    assert (other.estimates, other.comparisons) == (one.estimates, one.comparisons)


def test_a_user_with_pairs_has_a_cluster():
    ratings, predictions = two_tables()
    nobody = pl.when(pl.col("user") > 0).then(pl.col("team"))

    with pytest.raises(DataError, match="1 users have no cluster"):
        evalkit.evaluate_ratings(
            ratings.with_columns(team=nobody),
            predictions,
            metrics=["MAE"],
            policies={"unrated": "skip"},
            statistics={"cluster": "team"},
        )
