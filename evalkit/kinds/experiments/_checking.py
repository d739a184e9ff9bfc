"""What must hold of an experiment before its effects are read; effects day by day."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import time

import numpy as np

from evalkit.aggregate.segments import ALL
from evalkit.kernels.arrays import Flags, Floats
from evalkit.report import Comparison, Warning_
from evalkit.report.entries import Check, Graph
from evalkit.statistics.distributions import chi_squared_sf, normal_sf
from evalkit.statistics.exact import SCALE_BITS, ExactSum
from evalkit.statistics.moments import Moments, Terms, linear_of, moments_of, scales_of
from evalkit.statistics.sample_ratio import ALARM, sample_ratio_p, sequential_ratio_p

from ._asked import ExperimentRequest
from ._cells import TRIGGERED
from ._comparing import number_of
from ._kernels import add_products
from ._measuring import MetricNumbers
from ._phases import shares_by_phase
from ._units import MOST_CROSSED, UnitDays, Units

MOST_NAMED = 3
IN_1973 = 10**14  # microseconds since 1970; seconds that are read as milliseconds lie before it
UNBALANCED = 0.001


def checks_of(
    units: Units, asked: ExperimentRequest, numbers: Sequence[MetricNumbers]
) -> Iterator[Check]:
    names, (shares, by_phase) = asked.names, shares_by_phase(units, asked)
    everybody = np.ones(units.n, dtype=np.bool_)
    counts, of_clusters = units.assigned(everybody)
    yield _ratio(asked, counts, shares, None)
    for phase, own, its in by_phase:
        yield _ratio(asked, own, its, phase)
    if any(units.crossed.values()) and not of_clusters and asked.policy("crossed_units") != "first":
        both = [n + units.crossed.get(name, 0) for n, name in zip(counts, names, strict=True)]
        yield _ratio(asked, both, shares, "with units in two variants")
    if units.triggered is not None:
        yield _ratio(asked, units.assigned(units.triggered)[0], shares, TRIGGERED[1])
    if units.excluded and not of_clusters:
        left_out = [units.excluded.get(name, 0) for name in names]
        yield _ratio(asked, left_out, shares, "excluded units")
    n_crossed = units.counts.get("units_in_two_variants", 0)
    n = units.n + n_crossed
    if asked.policy("crossed_units") == "first":
        n = units.n
    verdict = "ok" if not n_crossed else "warn" if n_crossed <= MOST_CROSSED * n else "fail"
    yield Check("crossed-units", None, None, n_crossed / n if n else 0.0, 0.0, None, verdict)
    yield from _balance(units, asked, numbers)


def _ratio(
    asked: ExperimentRequest, counts: Sequence[int], shares: Sequence[float], segment: str | None
) -> Check:
    """Whether units came in the shares that were declared; of two variants the candidate's."""
    if asked.statistics.is_sequential:
        p_value = sequential_ratio_p(counts, shares)
    else:
        p_value = sample_ratio_p(counts, shares, asked.statistics.sample_ratio)
    total, whole = sum(counts), math.fsum(shares)
    is_pair = len(counts) == 2
    value = counts[1] / total if is_pair and total else None
    expected = shares[1] / whole if is_pair else None
    model = asked.names[1] if is_pair else None
    verdict = "fail" if p_value < ALARM else "ok"
    return Check("sample-ratio", model, segment, value, expected, number_of(p_value), verdict)


def _balance(
    units: Units, asked: ExperimentRequest, numbers: Sequence[MetricNumbers]
) -> Iterator[Check]:
    """Whether covariates, which were there before exposure, are alike: the least p a candidate."""
    adjusted = [each for each in numbers if each.is_adjusted]
    for arm in range(1, len(asked.names)):
        worst: tuple[float, float] | None = None
        for unit_sum in adjusted:
            measured = unit_sum.by_segment[ALL]
            base, new = measured.groups[0], measured.groups[arm]
            size = measured.adjustment.theta.size
            for place in range(size):
                slopes = np.zeros(size + 1)
                slopes[place + 1] = 1.0
                both = [*base.variances(slopes), *new.variances(slopes)]
                error = math.sqrt(math.fsum(own for own, _ in both))
                away = math.fsum(
                    sign * part.share * float(part.linear.estimates[place + 1])
                    for sign, group in ((1.0, new), (-1.0, base))
                    for part in group.parts
                )
                if error > 0.0:
                    p_value = 2.0 * normal_sf(abs(away) / error)
                    if worst is None or p_value < worst[0]:
                        worst = p_value, away / error
        if worst is not None:
            n = len(adjusted)
            p_value = min(1.0, n * worst[0])
            verdict = "warn" if p_value < UNBALANCED else "ok"
            yield Check("balance-before", asked.names[arm], None, worst[1], 0.0, p_value, verdict)


@dataclass(frozen=True, slots=True)
class ByDay:
    """Effects of a primary metric by day since exposure, or by date: places, deltas, errors."""

    candidate: str
    metric: str
    way: str
    points: tuple[tuple[int, float, float], ...]

    def graph(self, reach: float) -> Graph:
        places, deltas, errors = zip(*self.points, strict=True)
        steps = [reach * each for each in errors] if math.isfinite(reach) else []
        return Graph(
            model=self.candidate,
            kind=f"effect-by-{self.way}",
            x_name="day since exposure" if self.way == "day" else "date",
            y_name=f"effect on {self.metric}",
            x=tuple(map(float, places)),
            y=deltas,
            low=tuple(d - step for d, step in zip(deltas, steps, strict=False)),
            high=tuple(d + step for d, step in zip(deltas, steps, strict=False)),
        )

    def trend(self) -> Check:
        """Whether the effect moves with the days: a line through them by weighted least squares.

        Source:
            Cochran 1954, Biometrics 10(1), 101-129 (weights one over the variance).
        """
        x, y, errors = (np.array(each, dtype=np.float64) for each in zip(*self.points, strict=True))
        weights = 1.0 / errors**2
        middle = float((weights * x).sum() / weights.sum())
        spread = float((weights * (x - middle) ** 2).sum())
        slope = float((weights * (x - middle) * y).sum()) / spread
        p_value = chi_squared_sf(slope**2 * spread, 1.0)
        verdict = "warn" if p_value < UNBALANCED else "ok"
        name = "trend-by-day" if self.way == "day" else "trend-by-date"
        return Check(name, self.candidate, self.metric, slope, 0.0, p_value, verdict)


def by_day(units: Units, asked: ExperimentRequest) -> Iterator[ByDay]:
    for way, days in units.days.items():
        for names, label, arm in _daily(asked, days):
            points = tuple(_points(units, names, arm, days))
            if len(points) > 2:
                yield ByDay(asked.names[arm], label, way, points)


Point = tuple[float, float, int, int]  # of a path: its place, the effect in errors, all units, both


def paths(
    units: Units,
    asked: ExperimentRequest,
    comparisons: Sequence[Comparison],
    sizes: Mapping[str, int],
) -> Iterator[Graph]:
    """Effects over looks in standard errors, with the boundary: of earlier runs, where there are
    some; else what a look at the end of each day would have seen.

    Args:
        sizes: metric -> units of all variants.
    """
    if not asked.statistics.is_sequential:
        return
    told = set()
    for own in comparisons:
        points = _seen(asked, own, sizes.get(own.metric, 0))
        if own.family in ("primary", "guardrail") and own.segment is None and len(points) > 1:
            told.add((own.metric, own.candidate))
            n_tests = own.family_size or 1
            yield _path(asked, own.candidate, own.metric, points, n_tests=n_tests)
    if (days := units.days.get("date")) is None:
        return
    for names, label, arm in _daily(asked, days):
        points = list(_by_date(units, days, names, arm))
        if len(points) > 2 and (label, asked.names[arm]) not in told:
            n_tests = next(e.family_size or 1 for e in comparisons if e.metric == label)
            of_looks = "day of the look"
            yield _path(asked, asked.names[arm], label, points, n_tests=n_tests, of_looks=of_looks)


def _path(
    asked: ExperimentRequest,
    candidate: str,
    metric: str,
    points: Sequence[Point],
    *,
    n_tests: int,
    of_looks: str = "units of the look",
) -> Graph:
    bounds = asked.statistics.bounds([(n_all, n) for *_, n_all, n in points], n_tests)
    if asked.leaves_plan:
        bounds = [math.inf] * len(points)
    looks, zs, _, ns = zip(*points, strict=True)
    return Graph(
        model=candidate,
        kind="path-over-looks",
        x_name=of_looks,
        y_name=f"effect on {metric} in standard errors",
        x=looks,
        y=zs,
        rows=tuple(map(float, ns)),
        low=tuple(None if math.isinf(each) else -each for each in bounds),
        high=tuple(None if math.isinf(each) else each for each in bounds),
    )


def _seen(asked: ExperimentRequest, own: Comparison, n_all: int) -> list[Point]:
    """What earlier runs saw of a comparison, and this one."""
    if not own.std_error:
        return []
    found = {own.n_users: (float(own.n_users), own.delta / own.std_error, n_all, own.n_users)}
    for look in reversed(asked.earlier):  # of looks at as many units the last counts
        delta, error, n = look.effects.get((own.candidate, own.metric), (0.0, 1.0, n_all))
        if n < own.n_users:
            found.setdefault(n, (float(n), delta / error, look.units.get(own.metric, n), n))
    return [found[n] for n in sorted(found)]


def _by_date(units: Units, days: UnitDays, names: Sequence[str], arm: int) -> Iterator[Point]:
    """Of raw numbers, and of the units that were exposed by the end of each day."""
    so_far, is_in = [np.zeros(units.n) for _ in names], np.zeros(units.n, dtype=np.bool_)
    for day in range(len(days.names)):
        for total, name in zip(so_far, names, strict=True):
            total += days.column(name, day)
        is_in |= days.counts_in(day)
        found = _effect(units, so_far, is_in, arm)
        if found is not None:
            delta, error, n = found
            yield day + 1.0, delta / error, int(is_in.sum()), n


def _daily(asked: ExperimentRequest, days: UnitDays) -> Iterator[tuple[Sequence[str], str, int]]:
    """Columns, label and candidate of every primary metric that has days."""
    for measure in asked.measures:
        if measure.label in asked.primary and set(measure.columns) <= set(days.halves):
            for arm in range(1, len(asked.names)):
                yield measure.columns, measure.label, arm


def _points(
    units: Units, names: Sequence[str], arm: int, days: UnitDays
) -> Iterator[tuple[int, float, float]]:
    for day in range(len(days.names)):
        columns = [days.column(name, day) for name in names]
        found = _effect(units, columns, days.counts_in(day), arm)
        if found is not None:
            yield day, *found[:2]


def _effect(
    units: Units, columns: Sequence[Floats], counts_in: Flags, arm: int
) -> tuple[float, float, int] | None:
    """The difference to the baseline, its error, and units; None where it does not vary."""
    terms, sides = Terms((0, 1) if len(columns) == 2 else (0, None)), []
    whole = _of_whole(units, columns, counts_in)
    for place in (0, arm):
        if whole:
            moments = whole[place]
        else:
            own = counts_in & (units.variants == place)
            matrix = np.stack([each[own] for each in columns], axis=1)
            moments = moments_of(matrix, scales_of(matrix))
        if moments.n < 2:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            sides.append(linear_of(moments, terms))
    variance = sum(float(each.covariances[0, 0]) / each.n for each in sides)
    delta = float(sides[1].estimates[0] - sides[0].estimates[0])
    if not variance > 0.0 or not math.isfinite(delta):
        return None
    return delta, math.sqrt(variance), sum(each.n for each in sides)


def _of_whole(units: Units, columns: Sequence[Floats], counts_in: Flags) -> list[Moments]:
    """Of each variant, where columns are whole numbers whose sums no float64 rounds."""
    sums = np.zeros((len(units.names), 6))
    if any((each != np.rint(each)).any() for each in columns):
        return []
    add_products(columns[0], columns[-1], units.variants, counts_in, sums)
    if sums.max() >= 1 << 53:
        return []
    found = []
    for n, x, y, xx, yy, xy in sums.astype(np.int64).tolist():
        pairs = [(x, xx), (y, yy), (x + y, xx + yy + 2 * xy)][: 3 if len(columns) == 2 else 1]
        exact = [ExactSum(n, a << SCALE_BITS, b << 2 * SCALE_BITS) for a, b in pairs]
        found.append(Moments.of(exact, np.zeros(len(columns), dtype=np.int64)))
    return found


def _is_withheld(own: Comparison, error: float) -> bool:
    """Whether p-values say what the verdict does not."""
    told = [own.p_adjusted, own.p_equivalent]
    told += [own.p_not_inferior] * (own.verdict == "cannot tell")
    is_left = own.verdict in ("cannot tell", "not inferior")
    return is_left and any(each is not None and each <= error for each in told)


def _odd_times(units: Units, asked: ExperimentRequest) -> Iterator[Warning_]:
    """Clocks that were not set, and those that are ahead: who is exposed, and when logs end."""
    if units.firsts is not None and 0 < (n := int((units.firsts < IN_1973).sum())) < units.n:
        yield Warning_("odd-times", f"{n:,} units were first exposed before 1973, by their times")
    last = units.until or 0
    if units.open and asked.until is None and last // 1_000_000 > time() + 86_400:
        yield Warning_(
            "odd-times",
            f"the last event is of {np.datetime64(last, 'us').astype('datetime64[s]')}, after now: "
            "windows are over by then; until says when the logs end",
        )


def _of_looks(units: Units, asked: ExperimentRequest) -> Iterator[Warning_]:
    """What earlier looks, or none, say of this one."""
    plan = asked.statistics
    if plan.spending is not None and not (plan.looks or asked.earlier):
        yield Warning_(
            "spending-look",
            "limits are those of a first look: no run of this job came before; name other looks, "
            "looks = [0.25, 0.5] of the final size, in sequential",
        )
    if plan.final is not None and units.n > plan.final:
        yield Warning_(
            "spending-look",
            f"{units.n:,} units are more than the final size, {plan.final:,.0f}: all of the error "
            "is spent when it is reached, and what that look decided stands",
        )
    if asked.leaves_plan:
        assert isinstance(asked.first_plan, dict)
        keys = ", ".join(f"{key} = {json.dumps(value)}" for key, value in asked.first_plan.items())
        yield Warning_(
            "changed-plan",
            f"earlier looks of this job went by sequential = {{ {keys} }}: this one, by another "
            "plan, decides nothing",
        )
    elif changed := sum(not plan.is_plan(look.plan) for look in asked.earlier):
        yield Warning_(
            "changed-plan",
            f"{changed:,} of {len(asked.earlier):,} earlier looks of this job went by another "
            "sequential plan or none: verdicts err as seldom as they promise where one plan stays",
        )


def warnings_of(
    units: Units,
    asked: ExperimentRequest,
    numbers: Sequence[MetricNumbers],
    comparisons: Sequence[Comparison],
    checks: Sequence[Check],
) -> Iterator[Warning_]:
    for check in checks:
        if check.is_alarm:
            where = f" ({check.segment})" if check.segment else ""
            yield Warning_(
                "sample-ratio",
                f"units did not come in the shares that were declared{where}, p = "
                f"{check.p_value:.2g}: no effect can be read until that is explained",
            )
    yield from _odd_times(units, asked)
    for name, made in asked.sums.items():
        read = [values for (of, _), values in units.columns.items() if of == name]
        if read and not any(values.any() for values in read):
            message = f"{name} is 0 of every unit: no event of the kind {made.kind!r} counts"
            yield Warning_("kind-without-events", message)
    n_crossed = units.counts.get("units_in_two_variants", 0)
    if n_crossed:
        did = "count in their first" if asked.policy("crossed_units") == "first" else "are left out"
        yield Warning_("crossed-units", f"{n_crossed:,} units are in two variants and {did}")
    if (n_equal := units.counts.get("event_rows_equal", 0)) and (
        asked.policy("equal_events") == "count"
    ):
        message = f"{n_equal:,} rows of events equal another one, and each counts"
        yield Warning_("equal-events", message)
    for check in checks:
        if check.check == "balance-before" and check.verdict == "warn":
            yield Warning_(
                "unbalanced-before",
                f"{check.model} differed before anybody was exposed, p = {check.p_value:.2g}",
                check.model,
            )
    for number in numbers:
        if number.n_imputed:
            yield Warning_(
                "no-covariate",
                f"{number.n_imputed:,} units have no covariate of {number.measure.label} "
                "and take the mean of the others",
            )
    lacking: dict[str, list[str]] = {}
    for own in comparisons:
        if own.segment is None and own.p_value is None and not own.metric.endswith("cuped='off')"):
            lacking.setdefault(own.metric, []).append(own.candidate)
    for metric, candidates in lacking.items():
        yield Warning_(
            "no-interval",
            f"{metric} has no limits and no test ({', '.join(candidates)}): too few units, or "
            "values that do not vary, or a denominator of 0",
        )
    withheld: dict[str, list[str]] = {}
    for own in comparisons:
        if _is_withheld(own, 1.0 - asked.statistics.level):
            where = own.candidate if own.segment is None else f"{own.candidate} in {own.segment}"
            withheld.setdefault(own.metric, []).append(where)
    for metric, places in withheld.items():
        more = f" and {len(places) - MOST_NAMED:,} more" if len(places) > MOST_NAMED else ""
        yield Warning_(
            "large-values",
            f"the verdict on {metric} of {', '.join(places[:MOST_NAMED])}{more} says less than p: "
            "by one variance of both variants, or by skewness, it may be chance, as where one "
            "variant lacks few large values",
        )
    yield from _of_looks(units, asked)
