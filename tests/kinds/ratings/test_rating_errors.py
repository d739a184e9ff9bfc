"""Standard errors of errors over all pairs, against leaving out one user after the other."""

import numpy as np
import polars as pl
import pytest

import evalkit

N_USERS = 60
NAMES = ["MAE", "MSE", "RMSE", "bias", "R2", "explained-variance", "MAPE", "sMAPE", "WAPE"]


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


def jackknife(log: pl.DataFrame) -> np.ndarray:
    """sqrt((n - 1) / n sum of (value without a user - mean of these)^2): Efron and Stein 1981."""
    values = [
        [e.value for e in evalkit.evaluate_ratings(each, metrics=NAMES).estimates]
        for each in (log.filter(pl.col("user") != user) for user in range(N_USERS))
    ]
    spread = ((np.array(values) - np.mean(values, axis=0)) ** 2).sum(axis=0)
    return np.sqrt((N_USERS - 1) / N_USERS * spread)


@pytest.mark.parametrize("shift", [0.0, 1e6], ids=["small", "far from 0"])
def test_standard_errors_are_those_of_leaving_out_users(shift):
    log = pairs(shift=shift)

    found = evalkit.evaluate_ratings(log, metrics=NAMES).estimates

    for each, error in zip(found, jackknife(log), strict=True):
        assert each.std_error == pytest.approx(error, rel=0.06), each.metric
        assert each.low < each.value < each.high


def test_a_number_that_no_user_moves_has_no_error():
    users = pl.DataFrame({"user": [1, 1, 2, 2], "rating": [1.0, 3.0, 1.0, 3.0]})
    log = users.with_columns(prediction=pl.col("rating") + 0.1)

    found = evalkit.evaluate_ratings(log, metrics=["MAE", "RMSE", "R2"]).estimates

    assert [each.std_error for each in found] == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)


def test_an_undefined_number_has_none():
    log = pl.DataFrame({"user": [1, 2], "rating": [0.0, 0.0], "prediction": [1.0, 2.0]})

    found = evalkit.evaluate_ratings(log, metrics=["R2", "MAPE", "WAPE"]).estimates

    assert [each.std_error for each in found] == [None, None, None]
