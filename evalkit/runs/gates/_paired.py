"""The difference of two runs user by user, where both kept the values of users."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import DataError
from evalkit.inference.spread import DifferenceSpread, counts_differing
from evalkit.metrics import load_metric_files
from evalkit.report import Report
from evalkit.runs.history.compare import (
    beyond_users,
    is_mean_of_users,
    kind_of,
    settled_as_measured,
)
from evalkit.statistics.exact import ExactSums
from evalkit.statistics.intervals import Interval

_BESIDE = {
    "weight": "users have weights in the numbers",
    "cluster": "errors stand on clusters in the numbers",
    "two_way": "errors stand on items, too, in the numbers",
}
COMMON_SHARE = 0.95  # of the users of either; below it the difference is one of other people


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of candidate less that of baseline, its standard error, the users of either.

    Args:
        widest: the largest difference that there can be; the largest value where nobody knows.
        table: of values that are 0 or 1, as `DifferenceSpread` has it, as are the others.
    """

    mean: float
    std_error: float | None
    n_users: int
    widest: float = math.inf
    table: tuple[int, int, int, int] | None = None
    skewness: float = math.nan
    n_below: int | None = None
    n_above: int | None = None

    def limits(self, level: float) -> Interval:
        """Those that a comparison in one run has by default, where nobody differs, too."""
        n = self.n_users
        spread = DifferenceSpread(
            n,
            n - 1.0,
            self.skewness,
            self.widest,
            self.table,
            n_below=self.n_below,
            n_above=self.n_above,
        )
        return spread.limits(self.mean, self.std_error, level=level)


def paired_difference(
    candidate: tuple[Report, str], baseline: tuple[Report, str], metric: str
) -> tuple[PairedDifference | None, str]:
    """The paired difference of two models, of one run or of two; or why there is none.

    Sums are rounded once (`math.fsum`), so neither threads nor the order of users move a digit.
    """
    estimate = next(each for each in candidate[0].estimates if each.metric == metric)
    known = load_metric_files((), kind_of(candidate[0])).get(estimate.name)
    if "(" in estimate.name:  # over users, and not their mean
        return None, "users have no values of it"
    if known is not None:
        request = known.request(estimate.cutoff, **estimate.parameters)
        if not is_mean_of_users(request, kind_of(candidate[0])):
            return None, "users have no values of it"
    values = []
    for report, model in (candidate, baseline):
        if beside := beyond_users(report):
            return None, f"{_BESIDE[beside]} of run {report.run_id}"
        kept = report.per_user_values
        if kept is None or metric not in kept.metrics:
            return None, f"run {report.run_id} kept no values of users"
        try:
            values.append(_values(report, model, metric))
        except DataError:
            return None, f"the values of users of run {report.run_id} cannot be read"
    new, old = values
    if new.columns[:-1] != old.columns[:-1] or new.dtypes != old.dtypes:
        names = [f"user_{place}" for place in range(len(new.columns) - 1)]
        if len(new.columns) != len(old.columns) or new.dtypes != old.dtypes:
            return None, "the runs name users otherwise"
        new.columns, old.columns = [*names, "__value"], [*names, "__value"]
    users = new.columns[:-1]
    if new.select(users).equals(old.select(users)):  # as a rule: values are ordered by user
        both = new.with_columns(old.to_series(-1).alias("__value_old"))
    else:
        both = new.join(
            old, on=users, how="full", suffix="_old", coalesce=True, nulls_equal=True,
            maintain_order="left_right",
        )  # fmt: skip
    pair = pl.col("__value", "__value_old")
    n_most = max(both.select(pair.is_not_nan().sum()).row(0))
    both = both.filter(pl.all_horizontal(pair.fill_null(0.0).is_not_nan()))
    n_common = both.drop_nulls(["__value", "__value_old"]).height
    if not n_most:
        return None, "users have no values of it"
    if n_common < COMMON_SHARE * n_most:
        return None, f"the runs share {n_common / n_most:.0%} of their users"
    candidates, baselines = both.select(pair.fill_null(math.nan)).to_numpy().T
    bounds = (-math.inf, math.inf) if known is None else known.bounds
    return difference_of(candidates, baselines, bounds=bounds), ""


def _values(report: Report, model: str, metric: str) -> pl.DataFrame:
    """Users and their values; NaN for those without one, and those that their mean leaves out."""
    assert report.per_user_values is not None
    frame = report.per_user_values.read(model, [metric]).rename({metric: "__value"})
    column = frame["__value"].cast(pl.Float64).fill_null(math.nan).to_numpy()
    counted = settled_as_measured(report, [metric], column.reshape(-1, 1))[:, 0]
    return frame.with_columns(pl.Series("__value", counted))


def difference_of(
    new: npt.NDArray[np.float64], old: npt.NDArray[np.float64], *, bounds: tuple[float, float]
) -> PairedDifference:
    """The difference of the means of two columns of values, a row a user.

    Args:
        new, old: shape (n_users,); NaN where a run lacks the user. Those of one run count in its
            mean, and vary by themselves.
    Source:
        Means over samples that overlap in part, linearised: Derrick, Toher, White 2017, The
        Quantitative Methods for Psychology 13(2), 120-126.
    """
    n_users = len(new)
    if not n_users:
        return PairedDifference(math.nan, None, 0)
    n_least = n_users - int(np.isnan([new, old]).sum(axis=1).max())
    (new, of_new), (old, of_old) = _of_all(new), _of_all(old)
    deltas = of_new - of_old
    changed = deltas[deltas != 0.0].tolist()  # most users are as they were
    mean = math.fsum(changed) / n_users
    if n_users < 2:
        return PairedDifference(mean, None, n_users)
    same = _times((0.0 - mean) ** 2, n_users - len(changed))
    squares = math.fsum([*same, *((delta - mean) ** 2 for delta in changed)])
    table = None
    gained, lost = int((new > old).sum()), int((old > new).sum())
    if bounds == (0.0, 1.0) and np.isin([new, old], (0.0, 1.0)).all():
        table = counts_differing(int((new * old).sum()), gained, lost, n_users)
    std_error = math.sqrt(squares / (n_users - 1) / n_users)
    widest = (bounds[1] - bounds[0]) * (n_users / n_least)
    if math.isinf(widest):  # users not seen may lie as far away as the largest value
        widest = float(np.abs([new, old, deltas]).max()) or math.inf
    sums = ExactSums(1)
    sums.add(deltas.reshape(-1, 1))
    return PairedDifference(
        mean, std_error, n_users, widest, table, sums.skewness_of(0), lost, gained
    )


def _of_all(
    values: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Values with their mean where there is none, and what each adds to that mean, n times."""
    is_known = ~np.isnan(values)
    if is_known.all():
        return values, values
    known = values[is_known]
    mean = math.fsum(known.tolist()) / len(known)
    filled = np.where(is_known, values, mean)
    return filled, mean + (filled - mean) * (len(values) / len(known))


def _times(number: float, n: int) -> tuple[float, float]:
    """`n` times a number, as two floats whose sum is exactly that."""
    if not n or not math.isfinite(number):
        return (number if n else 0.0), 0.0
    product = Fraction(number) * n
    rounded = float(product)
    return rounded, float(product - Fraction(rounded))
