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
    """Mean of candidate less baseline over the users of both, its standard error, their number.

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
    return difference_of(
        both[new.columns[-1]].to_numpy(),
        both[f"{new.columns[-1]}_old"].to_numpy(),
        bounds=(-math.inf, math.inf) if known is None else known.bounds,
    ), ""


def _values(report: Report, model: str, metric: str) -> pl.DataFrame:
    """Users and their values; those without one, and those that their mean leaves out, are not."""
    assert report.per_user_values is not None
    frame = report.per_user_values.read(model, [metric]).rename({metric: "__value"})
    column = frame["__value"].cast(pl.Float64).fill_null(math.nan).to_numpy()
    counted = settled_as_measured(report, [metric], column.reshape(-1, 1))[:, 0]
    return frame.with_columns(pl.Series("__value", counted)).filter(pl.Series(~np.isnan(counted)))


def difference_of(
    new: npt.NDArray[np.float64], old: npt.NDArray[np.float64], *, bounds: tuple[float, float]
) -> PairedDifference:
    """The difference of two columns of values, a row a user."""
    n_users = len(new)
    if not n_users:
        return PairedDifference(math.nan, None, 0)
    deltas = new - old
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
    std_error, widest = math.sqrt(squares / (n_users - 1) / n_users), bounds[1] - bounds[0]
    if math.isinf(widest):  # users not seen may lie as far away as the largest value
        widest = float(np.abs([new, old, deltas]).max()) or math.inf
    sums = ExactSums(1)
    sums.add(deltas.reshape(-1, 1))
    return PairedDifference(
        mean, std_error, n_users, widest, table, sums.skewness_of(0), lost, gained
    )


def _times(number: float, n: int) -> tuple[float, float]:
    """`n` times a number, as two floats whose sum is exactly that."""
    if not n or not math.isfinite(number):
        return (number if n else 0.0), 0.0
    product = Fraction(number) * n
    rounded = float(product)
    return rounded, float(product - Fraction(rounded))
