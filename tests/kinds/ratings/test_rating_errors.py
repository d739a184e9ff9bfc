"""Standard errors of errors over all pairs, against leaving out one user after the other."""

import numpy as np
import polars as pl
import pytest

import evalkit

N_USERS = 60
NAMES = ["MAE", "MSE", "RMSE", "bias", "R2", "explained-variance", "MAPE", "sMAPE", "WAPE"]
OTHERS = [
    *("MSLE", "RMSLE", "log-cosh", "pinball(q=0.2)", "within-tolerance", "Minkowski(p=3)"),
    *("nRMSE(by='mean')", "nRMSE(by='std')", "nRMSE(by='l2')", "relative-squared-error"),
    *("Pearson", "concordance", "concordance(moments='sample')", "cosine", "threat-score"),
    *("Spearman", "Kendall", "Kendall(variant='c')", "D2-pinball", "D2-pinball(q=0.2)"),
    *("Tweedie-deviance", "Poisson_deviance", "gamma_deviance", "D2-Tweedie", "D2_Poisson"),
]


def pairs(*, shift: float = 0.0) -> pl.DataFrame:
    """Users who differ in how many pairs they rate, how high, and how well they are predicted."""
    rng = np.random.default_rng(8)
    users = np.repeat(np.arange(N_USERS), rng.integers(1, 30, N_USERS))
    ratings = np.clip(
        np.round(3 + rng.normal(size=N_USERS)[users] + rng.normal(size=users.size)), 0, 5
    )
    errors = rng.normal(size=users.size) * (0.3 + rng.random(N_USERS))[users]
    rows = {"user": users, "rating": ratings + shift, "prediction": ratings + errors + shift}
    return pl.DataFrame(rows)


def jackknife(log: pl.DataFrame, names: list[str]) -> np.ndarray:
    """sqrt((n - 1) / n sum of (value without a user - mean of these)^2): Efron and Stein 1981."""
    left = {f"without {user}": log.filter(pl.col("user") != user) for user in range(N_USERS)}
    found = evalkit.evaluate_ratings(left, metrics=names).estimates
    values = np.array([each.value for each in found]).reshape(N_USERS, -1)
    spread = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return np.sqrt((N_USERS - 1) / N_USERS * spread)


@pytest.mark.parametrize("shift", [0.0, 1e6], ids=["small", "far from 0"])
def test_standard_errors_are_those_of_leaving_out_users(shift):
    log = pairs(shift=shift)

    found = evalkit.evaluate_ratings(log, metrics=NAMES).estimates

    for estimate, error in zip(found, jackknife(log, NAMES), strict=True):
        assert estimate.std_error == pytest.approx(error, rel=0.06), estimate.metric
        assert estimate.low < estimate.value < estimate.high


def test_standard_errors_of_agreements_and_deviances_are_so_too():
    log = pairs().with_columns(pl.col("rating", "prediction").clip(0.25, 6.0))

    found = evalkit.evaluate_ratings(log, metrics=OTHERS).estimates

    for each, error in zip(found, jackknife(log, OTHERS), strict=True):
        assert each.std_error == pytest.approx(error, rel=0.1), each.metric
        assert each.low < each.value < each.high


def test_a_median_has_the_limits_of_its_share_and_an_extreme_has_none():
    log = pairs()
    ordered = np.sort(np.abs((log["prediction"] - log["rating"]).to_numpy()))

    median, largest = evalkit.evaluate_ratings(log, metrics=["median-error", "max-error"]).estimates

    below = (np.abs(log["prediction"] - log["rating"]) <= median.value).to_numpy()
    users = log["user"].to_numpy()
    moves = np.bincount(users, below - below.mean()) / users.size
    reach = 2.0010 * np.sqrt(N_USERS / (N_USERS - 1) * (moves**2).sum())  # t of 59
    low, high = (np.quantile(ordered, 0.5 + side * reach) for side in (-1, 1))
    assert median.std_error is None
    assert (median.low, median.high) == pytest.approx((low, high), abs=0.01)
    assert median.low < median.value < median.high
    assert (largest.std_error, largest.low) == (None, None)
    clusters = log.with_columns(household=pl.col("user") // 2)
    drawn = {"cluster": "household"}
    (none,) = evalkit.evaluate_ratings(
        clusters, metrics=["median-error"], statistics=drawn
    ).estimates
    assert none.low is None


def test_a_number_that_no_user_moves_has_no_error():
    users = pl.DataFrame({"user": [1, 1, 2, 2], "rating": [1.0, 3.0, 1.0, 3.0]})
    log = users.with_columns(prediction=pl.col("rating") + 0.1)

    found = evalkit.evaluate_ratings(log, metrics=["MAE", "RMSE", "R2"]).estimates

    assert [each.std_error for each in found] == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)


def test_an_undefined_number_has_none():
    log = pl.DataFrame({"user": [1, 2], "rating": [0.0, 0.0], "prediction": [1.0, 2.0]})

    found = evalkit.evaluate_ratings(log, metrics=["R2", "MAPE", "WAPE"]).estimates

    assert [each.std_error for each in found] == [None, None, None]
