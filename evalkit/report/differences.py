"""Differences of single users between two models: sorted, and the shares that gain and lose."""

from dataclasses import dataclass

from evalkit.report.record import Report

MOST_POINTS = 160  # of a drawn line


@dataclass(frozen=True, slots=True)
class UserDifferences:
    """One metric of two models, user by user.

    Args:
        points: share of the users up to here, and the difference there, the largest gain first.
        gain, same, lose: shares of the users; whichever way the metric points.
    """

    baseline: str
    candidate: str
    n_users: int
    points: tuple[tuple[float, float], ...]
    gain: float
    same: float
    lose: float


def user_differences(
    report: Report, label: str, baseline: str, candidate: str, *, lower_is_better: bool = False
) -> UserDifferences | None:
    """Of the users whom both models have a value of; None without such values.

    Args:
        label: as `report.per_user_values` names it.
    """
    import numpy as np

    kept = report.per_user_values
    if kept is None or label not in kept.metrics:
        return None
    users = list(kept.user_columns)
    one, other = (
        kept.read(model, [label]).rename({label: name}).drop_nans()
        for model, name in ((baseline, "__one"), (candidate, "__other"))
    )
    both = one.join(other, on=users, how="inner", nulls_equal=True)
    values = (both["__other"] - both["__one"]).drop_nulls()
    deltas = np.sort(values.to_numpy())
    n = deltas.size
    if n == 0:
        return None
    if not lower_is_better:
        deltas = deltas[::-1]
    signs = -1.0 if lower_is_better else 1.0
    n_gain, n_lose = int((signs * deltas > 0).sum()), int((signs * deltas < 0).sum())
    steps = np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int)
    edges = [n_gain - 1, n_gain, n - n_lose - 1, n - n_lose]
    places = sorted({*steps.tolist(), *(each for each in edges if 0 <= each < n)})
    points = tuple(((place + 0.5) / n, float(deltas[place])) for place in places)
    shares = (n_gain / n, (n - n_gain - n_lose) / n, n_lose / n)
    return UserDifferences(baseline, candidate, n, points, *shares)
