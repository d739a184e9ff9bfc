"""Before an experiment: how many units, how long, what could be seen, and what false alarms."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from evalkit.config import hinted
from evalkit.errors import DataError, RequestError
from evalkit.kernels import kernel
from evalkit.sources import Guessing
from evalkit.sources.ids import mix
from evalkit.statistics.independent import Contrast
from evalkit.statistics.intervals import wilson_interval
from evalkit.statistics.power import smallest_difference, units_of_two
from evalkit.statistics.spending import bounds_of, spent

from ._asked import ExperimentRequest, WrittenExperiment, read_asked
from ._measuring import MetricNumbers, measure_all
from ._statistics import read_statistics
from ._units import Units, ready_units, units_a_day
from .open import LocatedFiles, collected, open_tables

WEEKS = 8
HALVES = {"control": 1.0, "candidate": 1.0}
SIZES = {
    **{"metric": pl.String, "model": pl.String, "units": pl.Int64, "delta": pl.Float64},
    **{"relative": pl.Float64, "power": pl.Float64, "days": pl.Float64},
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What an experiment would take.

    Args:
        sizes: metric, model, units, delta, relative, power, days: of every variant.
        bounds: fraction, bound, spent: of planned looks.
    """

    sizes: pl.DataFrame
    bounds: pl.DataFrame


@hinted
def plan_experiment(
    units: object | None = None,
    *,
    variants: Mapping[str, float] | None = None,
    metrics: Sequence[str] | str = (),
    relative: float | None = None,
    delta: float | None = None,
    looks: Sequence[float] | int | None = None,
    statistics: Mapping[str, object] | None = None,
    before: Mapping[str, str | Sequence[str]] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Plan:
    """How many units an effect takes, or which effect these units would show.

    Args:
        units: one row a unit, as it was before: of a column `variant` the baseline's rows say how
            values vary. A column `time` says how many units a day there are.
        variants: name -> share; halves by default.
        relative, delta: the effect; without one, the smallest that as many units show.
        looks: fractions of the final size, or how many looks there are.
        statistics: level, power, distribution, sequential, as in `evaluate_experiment`.
        before: column -> covariates.
    Raises:
        RequestError: as `evaluate_experiment`; both effects are given [conflicting-keys], or one
            that is 0 or no number [bad-option]; looks that do not rise [bad-fractions].
        DataError: there are no units [empty-input].
    Example:
        >>> plan_experiment(looks=[0.5, 1.0], statistics={"sequential": {
        ...     "spending": "pocock", "final": 1000}}).bounds["bound"].round(4).to_list()
        [2.157, 2.201]
    """
    if relative is not None and delta is not None:
        message = "relative and delta are two effects"
        raise RequestError(message, code="conflicting-keys", at="delta", hint="give one of them")
    for name, size in (("relative", relative), ("delta", delta)):
        if size is not None and not (math.isfinite(size) and size):
            message = f"{size!r} is no effect to plan for"
            raise RequestError(message, code="bad-option", at=name, hint=f"{name}=0.01")
    chosen = read_statistics(statistics or {})
    bounds = _bounds(looks, chosen.spending, 1.0 - chosen.level)
    if units is None:
        return Plan(pl.DataFrame(schema=SIZES), bounds)
    asked = read_asked(
        WrittenExperiment(
            name="plan",
            variants=variants or HALVES,
            metrics=metrics,
            before=before,
            statistics=statistics,
        )
    )
    ready, n, a_day = units_before(units, asked, columns)
    rows = [
        row
        for numbers in measure_all(ready, asked)
        if numbers.by_segment and next(iter(numbers.by_segment.values())).groups
        for row in _sizes(numbers, asked, relative, delta, n, a_day)
    ]
    return Plan(pl.DataFrame(rows, schema=SIZES, orient="row"), bounds)


def _bounds(
    looks: Sequence[float] | int | None, spending: str | None, error: float
) -> pl.DataFrame:
    schema = {"fraction": pl.Float64, "bound": pl.Float64, "spent": pl.Float64}
    if looks is None:
        return pl.DataFrame(schema=schema)
    if spending is None:
        message = "looks are those of a spending function, and there is none"
        hint = 'statistics={"sequential": {"spending": "obrien-fleming", "final": 400000}}'
        raise RequestError(message, code="missing-key", at="looks", hint=hint)
    if isinstance(looks, int):
        looks = [(number + 1) / looks for number in range(looks)]
    bounds = bounds_of(looks, spending, error=error)
    rows = {
        "fraction": list(map(float, looks)),
        "bound": bounds,
        "spent": [spent(spending, fraction, error) for fraction in looks],
    }
    return pl.DataFrame(rows, schema=schema)


def units_before(
    given: object, asked: ExperimentRequest, columns: Mapping[str, str] | None
) -> tuple[Units, int, float | None]:
    """Units of the baseline as they were, how many units there are of all, and how many a day."""
    past = LocatedFiles(given=given, columns=dict(columns or {}))
    guessing = Guessing(entry_point="python")
    opened = open_tables(asked, past, None, None, guessing, is_plan=True)
    frame, _ = collected(opened.exposures)
    n, a_day = frame.height, None
    if "time" in frame.columns and frame["time"].dtype.is_temporal():
        moments = frame["time"].drop_nulls().cast(pl.Datetime("us")).to_physical()
        a_day = units_a_day(moments.to_numpy())
    if "variant" in frame.columns:
        own = frame.filter(pl.col("variant").cast(pl.String) == asked.baseline)
        frame = own if own.height else frame
    return ready_units(frame, asked, opened.facts, opened.exposures.at), n, a_day


def _sizes(
    numbers: MetricNumbers,
    asked: ExperimentRequest,
    relative: float | None,
    delta: float | None,
    n: int,
    a_day: float | None,
) -> Iterator[tuple[object, ...]]:
    """A row for every variant of one metric."""
    if not n:
        hint = "give rows of units, as they were before"
        raise DataError("there are no units", code="empty-input", at="exposures", hint=hint)
    measured = numbers.by_segment["", ""]
    statistics, group, by = asked.statistics, measured.groups[0], measured.adjustment
    value = group.value(by)
    variance = group.std_error(by) ** 2 * group.n
    shares, whole = [asked.variants[name] for name in asked.names], sum(asked.variants.values())
    is_normal, level, power = (
        statistics.distribution == "normal",
        statistics.level,
        statistics.power,
    )
    found: list[tuple[int, float, float]] = []
    for share in shares[1:]:
        effect = delta if relative is None else relative * value
        if effect is None:
            first, second = n * shares[0] / whole, n * share / whole
            error = math.sqrt(variance / first + variance / second)
            size = first + second - 1.0
            effect = smallest_difference(error * math.sqrt(size), size, level=level, power=power)
            found.append((round(first), effect, second))
            continue
        sizes = units_of_two(
            effect,
            (variance, variance),
            (shares[0], share),
            level=level,
            power=power,
            is_normal=is_normal,
        )
        found.append((0, effect, math.nan) if sizes is None else (sizes[0], effect, sizes[1]))
    first = max(base for base, _, _ in found)
    ns = [first, *(round(own) if own == own else 0 for _, _, own in found)]
    effects = [found[0][1], *(effect for _, effect, _ in found)]
    days = sum(ns) / a_day if a_day else None
    for name, units, effect in zip(asked.names, ns, effects, strict=True):
        share_of = effect / value if value else None
        yield numbers.measure.label, name, units or None, effect, share_of, power, days


def power_of(
    units: Units, asked: ExperimentRequest, *, relative: float | None, delta: float | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Sizes as `plan_experiment` has them, and the smallest effect by metric and week."""
    sizes, by_week = [], []
    for numbers in measure_all(units, asked):
        if not numbers.by_segment["", ""].groups:
            continue
        sizes += list(_sizes(numbers, asked, relative, delta, units.n, units.a_day))
        a_day = units.a_day or 0.0
        for week in range(1, WEEKS + 1) if a_day else ():
            n = round(a_day * 7 * week)
            for metric, model, size, effect, share, *_ in _sizes(
                numbers, asked, None, None, n, units.a_day
            ):
                if model != asked.baseline:
                    by_week.append((metric, week, size, effect, share))
    schema = {"metric": pl.String, "week": pl.Int64, "units": pl.Int64, "delta": pl.Float64}
    return (
        pl.DataFrame(sizes, schema=SIZES, orient="row"),
        pl.DataFrame(by_week, schema={**schema, "relative": pl.Float64}, orient="row"),
    )


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """What splits without an effect said of one metric.

    Args:
        rate: share of the splits that found an effect; `low`, `high` its limits.
        smallest: the difference that would have been found with the power asked for.
    """

    metric: str
    n_splits: int
    rate: float
    low: float
    high: float
    smallest: float
    relative: float


def false_alarms(units: Units, asked: ExperimentRequest, n_splits: int) -> Iterator[FalseAlarms]:
    """Split the units by a hash again and again, without an effect, and test every metric.

    Whatever else there is about a metric (its tails, its unit, its covariates) stays as it is: a
    share of alarms far from the level is what an experiment on it would have had.

    Source:
        Kohavi, Tang and Xu 2020, Trustworthy Online Controlled Experiments, chapter 19.
    """
    for label, contrasts in splits_of(units, asked, n_splits):
        p_values, errors, values = [], [], []
        for contrast in contrasts:
            found = contrast.difference()
            p_values.append(found.p_value)
            errors.append(found.std_error)
            values.append(found.value_baseline)
        alarms = sum(p <= 1.0 - asked.statistics.level for p in p_values)
        limits = wilson_interval(alarms, n_splits, level=0.95)
        error = float(np.median(errors))
        size = float(units.n)
        smallest = smallest_difference(
            error * math.sqrt(size),
            size,
            level=asked.statistics.level,
            power=asked.statistics.power,
        )
        value = float(np.median(values))
        yield FalseAlarms(
            label, n_splits, alarms / n_splits, limits.low, limits.high, smallest,
            smallest / value if value > 0.0 else math.nan,
        )  # fmt: skip


@kernel(allocates=False)
def split_by_hash(keys, seed, limit, arms):  # type: ignore[no-untyped-def]
    """Whether each unit is in the second half, by a hash of its key and a seed."""
    for row in range(keys.size):
        arms[row] = np.int32(mix(keys[row] ^ mix(seed)) >= limit)


def splits_of(
    units: Units, asked: ExperimentRequest, n_splits: int
) -> Iterator[tuple[str, list[Contrast]]]:
    """Every metric that is tested, with the contrast of each split."""
    first, second = (asked.variants[name] for name in asked.names[:2])
    limit = np.uint64(min((1 << 64) - 1, int((1 << 64) * (first / (first + second)))))
    two = {name: asked.variants[name] for name in asked.names[:2]}
    alone = replace(asked.statistics, baseline=asked.names[0])
    pair = replace(asked, variants=two, statistics=alone, segments={})
    found: dict[str, list[Contrast]] = {}
    arms = np.empty(units.n, dtype=np.int32)
    rules = asked.statistics.rules()
    for seed in range(n_splits):
        split_by_hash(units.keys, np.uint64(seed + 1), limit, arms)
        split = replace(units, names=pair.names, variants=arms.copy(), triggered=None, days={})
        for numbers in measure_all(split, pair):
            measured = numbers.by_segment["", ""]
            if measured.groups:
                groups = measured.groups
                contrast = Contrast(groups[0], groups[1], rules, measured.adjustment)
                found.setdefault(numbers.measure.label, []).append(contrast)
    yield from found.items()
