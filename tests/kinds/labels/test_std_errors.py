"""Standard errors of metrics over all rows, against leaving out one user after the other."""

import numpy as np
import polars as pl
import pytest

import evalkit

N_USERS = 60
NAMES = [
    "AUC", "AUC(ties='lost')", "AP", "PR-AUC(integration='trapezoid')", "partial-AUC(max_fpr=0.2)",
    "partial-AUC(max_fpr=0.2, scale='area')", "log-loss", "log-loss(clip=0.1)", "NE", "Brier",
    "calibration", "base-rate", "accuracy", "precision(threshold=0.3)", "recall(threshold=0.3)",
    "specificity", "F2(threshold=0.3)", "balanced-accuracy(threshold=0.3)", "MCC(threshold=0.3)",
    "TP(threshold=0.3)", "positive-rate", "NPV", "fallout(threshold=0.3)", "FDR(threshold=0.3)",
    "LR_plus(threshold=0.3)", "LR_minus(threshold=0.3)", "informedness(threshold=0.3)",
    "markedness(threshold=0.3)", "Fowlkes-Mallows(threshold=0.3)", "threat-score(threshold=0.3)",
    "Brier-skill", "log-loss-skill", "Tjur-R2", "relative-discrimination", "mean-score", "hinge",
    "kappa(threshold=0.3)", "prevalence-threshold(threshold=0.3)",
]  # fmt: skip
WEIGHTED = [name for name in NAMES if "AUC" not in name and name != "AP"]


def impressions(*, ties: bool = False) -> pl.DataFrame:
    """Users who differ in how much they see, in how they click and in how well they are known."""
    rng = np.random.default_rng(20)
    users = np.repeat(np.arange(N_USERS), rng.integers(1, 30, N_USERS))
    taste = rng.normal(size=N_USERS)[users] - 1.0
    logit = taste + rng.normal(size=users.size)
    scores = 1 / (1 + np.exp(-(0.7 * logit + 0.5 * rng.normal(size=users.size))))
    labels = (rng.random(users.size) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    if ties:
        scores = np.clip(np.round(scores, 1), 0.05, 0.95)
    weights = rng.integers(1, 5, users.size) / 2
    return pl.DataFrame({"user": users, "score": scores, "label": labels, "weight": weights})


def jackknife(log: pl.DataFrame, names: list[str], **asked: object) -> np.ndarray:
    """sqrt((n - 1) / n sum of (value without a user - mean of these)^2): Efron and Stein 1981."""
    users = log["user"].unique().sort()
    left = {f"without {user}": log.filter(pl.col("user") != user) for user in users}
    report = evalkit.evaluate_labels(left, metrics=names, **asked)
    values = np.array([each.value for each in report.estimates]).reshape(users.len(), -1)
    spread = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return np.sqrt((users.len() - 1) / users.len() * spread)


def check(log: pl.DataFrame, names: list[str], **asked: object) -> None:
    found = evalkit.evaluate_labels(log, metrics=names, **asked).estimates
    expected = jackknife(log, names, **asked)

    for estimate, error in zip(found, expected, strict=True):
        assert estimate.std_error == pytest.approx(error, rel=0.06), estimate.metric
        assert estimate.low < estimate.value < estimate.high


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.some_cases(1)
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def test_standard_errors_are_those_of_leaving_out_users(ties):
    check(impressions(ties=ties).drop("weight"), NAMES)


@pytest.mark.usefixtures("without_graphs")
def test_standard_errors_of_rows_with_weights_are_too():
    check(impressions(), WEIGHTED, columns={"weight": "weight"})
