"""Limits that gates of experiments go by: what they count of values, and units they ask for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evalkit.statistics.independent import Adjustment, Contrast, Group, Rules
from evalkit.statistics.intervals import Interval
from evalkit.statistics.means import gate_interval
from evalkit.statistics.skewness import reaches_of_leaning
from evalkit.statistics.unseen import FEWEST_APART, FEWEST_UNKNOWN

from ._asked import ExperimentRequest
from ._measuring import MeasuredUnits
from ._units import Units


def gate_of(
    units: Units,
    asked: ExperimentRequest,
    measured: MeasuredUnits,
    arm: int,
    by: Adjustment,
    rules: Rules,
    limits: Interval,
) -> Interval:
    """Limits of a value that gates go by; of values without a bound as those of any metric."""
    group, skewness = measured.groups[arm], skewness_of(asked, measured, arm)[1]
    value, fewest = group.value(by), fewest_of(units, asked, measured)
    n = max(2, round(sum(min(part.linear.n, part.n_carrying) for part in group.parts)))
    error = _error_over_all(measured, arm, by, rules, group.std_error(by))
    df, widest = min(group.df(by), n - 1.0), measured.widest
    down, up = reaches_of_leaning(rules.reach(df, n), skewness, n)
    leaning = gate_interval(
        limits, value, error, n, level=1.0 - rules.error, skewness=skewness,
        widest=widest if math.isfinite(widest) else 0.0, df=df,
    )  # fmt: skip
    gate = Interval(value - down * error, value + up * error).around(leaning)
    low = gate.low if group.n >= min(fewest, FEWEST_APART) else -math.inf
    return Interval(low, gate.high if group.n >= fewest else math.inf)


def fewest_of(units: Units, asked: ExperimentRequest, measured: MeasuredUnits) -> int:
    """Units of a variant, or clusters, that gates ask for where values have no bound."""
    is_open = measured.is_of_seen or math.isinf(measured.widest)
    if asked.statistics.limits == "wald" or not is_open:
        return 0
    return FEWEST_UNKNOWN if units.clusters is None else FEWEST_APART


def _error_over_all(
    measured: MeasuredUnits, arm: int, by: Adjustment, rules: Rules, error: float
) -> float:
    """Of a variant's value, to which units of all variants bring that of what they share: the joint
    means of covariates, and the shares of strata.
    """
    first, *others = (each for place, each in enumerate(measured.groups) if place != arm)
    if by.theta.any():
        rules = replace(rules, is_pooled=False)
        contrast = Contrast(first, measured.groups[arm], rules, by, others)
        error = max(error, math.sqrt(contrast.variance(-1.0)[0]))  # of candidate - 0 times baseline
    means = [float(part.linear.estimates[0]) for part in measured.groups[arm].parts]
    return math.hypot(error, *errors_of_shares(measured.groups, means))


def errors_of_shares(groups: Sequence[Group], values: Sequence[float]) -> Iterator[float]:
    """What the share of each stratum among all units brings to a number that is others in each."""
    strata = [*zip(*(group.parts for group in groups), strict=True)]
    shares = [parts[0].share for parts in strata]
    mean = math.fsum(share * value for share, value in zip(shares, values, strict=True))
    for parts, share, value in zip(strata, shares, values, strict=True):
        n = sum(part.linear.n for part in parts)
        yield share * (value - mean) / math.sqrt(max(1, n))


def skewness_of(asked: ExperimentRequest, measured: MeasuredUnits, arm: int) -> tuple[float, float]:
    if not measured.skewness or asked.statistics.limits == "wald":
        return math.nan, math.nan
    return measured.skewness[0], measured.skewness[arm]
