"""nDCG where relevance is below 0, against each library's own rule in plain Python."""

import math
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

import evalkit

Gains = list[float]

N_USERS = 300
LOWEST = -1e9  # below any relevance: every row of the truth counts


def dcg(gains: Gains, k: int | None) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:k], 1))


def torchmetrics(shown: Gains, truth: Gains, k: int | None) -> float:
    """Targets of the rows shown; a group whose targets add up to 0 is empty, which is 0."""
    ideal = dcg(sorted(shown, reverse=True), k)
    return dcg(shown, k) / ideal if sum(shown) != 0 and ideal != 0 else 0.0


def evidently(shown: Gains, truth: Gains, k: int | None) -> float:
    """Users whose rows have a target above 0; infinite and undefined quotients are 0."""
    if max(shown) <= 0:
        return math.nan
    ideal = dcg(sorted(shown, reverse=True), k)
    return dcg(shown, k) / ideal if ideal != 0 else 0.0


def recommenders(shown: Gains, truth: Gains, k: int | None) -> float:
    """All rows of the truth make the ideal list; 0 / 0 leaves the user out."""
    ideal = dcg(sorted(truth, reverse=True), k)
    return dcg(shown, k) / ideal if ideal != 0 else math.nan


@pytest.mark.parametrize(
    ("library", "metric", "options"),
    [
        (torchmetrics, "nDCG(gain='linear', below_threshold='count')", {"threshold": 1.0}),
        (evidently, "nDCG", {"threshold": 1.0}),
        (
            recommenders,
            "nDCG(gain='linear')",
            {"threshold": LOWEST, "policies": {"negative_relevance": "subtract"}},
        ),
    ],
)
@pytest.mark.parametrize("k", [1, 2, 4, None])
def test_an_ideal_below_zero_divides_where_the_library_does(
    library: Callable[[Gains, Gains, int | None], float],
    metric: str,
    options: dict[str, object],
    k: int | None,
) -> None:
    rng = np.random.default_rng(11)
    truth, run, values = [], [], {}
    for user in range(N_USERS):
        grades = [[-3.0, -1.0, 0.0, 1.0, 2.0], [-2.0, -1.0], [-2.0, 0.0, 1.0]][user % 3]
        judged = {int(item): float(rng.choice(grades)) for item in rng.permutation(9)[:5]}
        listed = [int(item) for item in rng.permutation(9)[: int(rng.integers(2, 8))]]
        truth += [(user, item, grade) for item, grade in judged.items()]
        run += [(user, item, -float(place)) for place, item in enumerate(listed)]
        values[user] = library([judged.get(each, 0.0) for each in listed], [*judged.values()], k)

    report = evalkit.evaluate(
        pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        {"m": pl.DataFrame(run, schema=["user", "item", "score"], orient="row")},
        metrics=[metric if k is None else f"{metric}@{k}"],
        profile=library.__name__,
        per_user=True,
        **options,
    )

    ours = dict(report.per_user(report.estimates[0].metric).rows())
    assert any(value < 0 for value in values.values())
    for user, value in values.items():
        assert ours.get(user, math.nan) == pytest.approx(value, abs=1e-9, nan_ok=True), user
