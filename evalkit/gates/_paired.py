"""The difference of two runs user by user, where both kept the values of users."""

import math
from dataclasses import dataclass

import polars as pl

from evalkit.errors import DataError
from evalkit.report import PerUser, Report

COMMON_SHARE = 0.95  # of the users of either; below it the difference is one of other people


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of candidate less baseline over the users of both, its standard error, their number."""

    mean: float
    std_error: float | None
    n_users: int


def paired_difference(
    candidate: tuple[Report, str], baseline: tuple[Report, str], metric: str
) -> tuple[Difference | None, str]:
    """The paired difference of two models, of one run or of two; or why there is none.

    Sums are rounded once (`math.fsum`), so neither threads nor the order of users move a digit.
    """
    values = []
    for report, model in (candidate, baseline):
        kept = report.per_user_values
        if kept is None or metric not in kept.metrics:
            return None, f"run {report.run_id} kept no values of users"
        try:
            values.append(_values(kept, model, metric))
        except DataError:
            return None, f"the values of users of run {report.run_id} cannot be read"
    new, old = values
    if new.is_empty() or old.is_empty():
        return None, "users have no values of it"
    if new.columns[:-1] != old.columns[:-1] or new.dtypes != old.dtypes:
        names = [f"user_{place}" for place in range(len(new.columns) - 1)]
        if len(new.columns) != len(old.columns) or new.dtypes != old.dtypes:
            return None, "the runs name users otherwise"
        new.columns, old.columns = [*names, "value"], [*names, "value"]
    users = new.columns[:-1]
    if new.select(users).equals(old.select(users)):  # as a rule: values are ordered by user
        both = new.with_columns(old.to_series(-1).alias(f"{new.columns[-1]}_old"))
    else:
        both = new.join(old, on=users, how="inner", suffix="_old", nulls_equal=True)
    n_common = both.height
    if n_common < COMMON_SHARE * max(new.height, old.height):
        share = n_common / max(new.height, old.height, 1)
        return None, f"the runs share {share:.0%} of their users"
    deltas = (both[new.columns[-1]] - both[f"{new.columns[-1]}_old"]).to_list()
    return _difference(deltas), ""


def _values(kept: PerUser, model: str, metric: str) -> pl.DataFrame:
    frame = kept.read(model, [metric]).rename({metric: "__value"})
    return frame.filter(pl.col("__value").is_not_nan() & pl.col("__value").is_not_null())


def _difference(deltas: list[float]) -> Difference:
    n_users = len(deltas)
    if not n_users:
        return Difference(math.nan, None, 0)
    mean = math.fsum(deltas) / n_users
    if n_users < 2:
        return Difference(mean, None, n_users)
    squares = math.fsum((delta - mean) ** 2 for delta in deltas)
    return Difference(mean, math.sqrt(squares / (n_users - 1) / n_users), n_users)
