"""Models of ratings compared: means over users, and errors over all pairs."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import evalkit

N_USERS = 50
POOLED = ["MAE", "RMSE", "bias", "R2", "WAPE"]


def logs_of_two() -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Ratings, and predictions of which the second ones are worse for some users."""
    rng = np.random.default_rng(6)
    users = np.repeat(np.arange(N_USERS), rng.integers(2, 20, N_USERS))
    items = np.arange(users.size)
    ratings = np.clip(np.round(3 + rng.normal(size=users.size)), 1, 5)
    ids = {"user": users, "item": items}
    noise = rng.normal(size=users.size)
    worse = noise * (1 + rng.random(N_USERS))[users] + 0.1
    return pl.DataFrame({**ids, "rating": ratings}), {
        "svd": pl.DataFrame({**ids, "prediction": ratings + noise}),
        "mean": pl.DataFrame({**ids, "prediction": ratings + worse}),
    }


def compare(ratings: pl.DataFrame, models: dict[str, pl.DataFrame], names: list[str]):
    return evalkit.evaluate_ratings(ratings, models, metrics=names, statistics={"baseline": "svd"})


def test_means_over_users_are_compared_by_a_paired_t_test():
    ratings, models = logs_of_two()

    (found,) = compare(ratings, models, ["MAE(over='users')"]).comparisons

    by_user = [
        ratings.join(each, on=["user", "item"])
        .group_by("user")
        .agg((pl.col("prediction") - pl.col("rating")).abs().mean().alias("error"))
        .sort("user")["error"]
        .to_numpy()
        for each in models.values()
    ]
    expected = stats.ttest_rel(by_user[1], by_user[0])
    assert found.delta == pytest.approx((by_user[1] - by_user[0]).mean(), rel=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.verdict, found.wins) == ("worse", (by_user[1] < by_user[0]).sum())


def test_errors_over_all_pairs_are_compared_by_the_influence_of_users():
    ratings, models = logs_of_two()

    report = compare(ratings, models, POOLED)

    left = {
        f"{name} without {user}": ratings.join(
            each.filter(pl.col("user") != user), ["user", "item"]
        )
        for user in range(N_USERS)
        for name, each in models.items()
    }
    values = [each.value for each in evalkit.evaluate_ratings(left, metrics=POOLED).estimates]
    left_out = np.diff(np.array(values).reshape(N_USERS, 2, -1), axis=1)[:, 0]
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    errors = np.sqrt((N_USERS - 1) / N_USERS * spread)
    for found, error in zip(report.comparisons, errors, strict=True):
        values = [report.value(found.metric, model=model) for model in models]
        assert found.delta == values[1] - values[0]
        assert found.std_error == pytest.approx(error, rel=0.06), found.metric
        assert found.wins is None


def test_segments_are_measured_and_compared_as_their_pairs_alone():
    ratings, models = logs_of_two()
    people = pl.DataFrame({"user": np.arange(N_USERS), "land": np.arange(N_USERS) % 2})
    names = [*POOLED, "RMSE(over='users')"]
    asked = {"metrics": names, "statistics": {"baseline": "svd"}}

    report = evalkit.evaluate_ratings(
        ratings, models, segments={"land": {"path": people, "by": "land"}}, **asked
    )

    for land in range(2):
        own = {name: each.filter(pl.col("user") % 2 == land) for name, each in models.items()}
        alone = evalkit.evaluate_ratings(ratings.filter(pl.col("user") % 2 == land), own, **asked)
        found = [each for each in report.estimates if each.segment == str(land)]
        for estimate, same in zip(found, alone.estimates, strict=True):
            assert (estimate.value, estimate.n_users) == (same.value, same.n_users)
            assert estimate.std_error == pytest.approx(same.std_error, rel=1e-9)
        deltas = [each.delta for each in report.comparisons if each.segment == str(land)]
        assert deltas == [each.delta for each in alone.comparisons]
