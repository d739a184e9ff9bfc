"""From units to moments: each metric's columns capped, adjusted, added up exactly by cell."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evalkit.aggregate.segments import Segment
from evalkit.kernels.arrays import Flags, Floats, Int32s, Ints, Keys
from evalkit.kernels.threads import slices_of
from evalkit.statistics.exact import CellRows, ExactSums
from evalkit.statistics.independent import Adjustment, Group, Part
from evalkit.statistics.moments import (
    Linear,
    Moments,
    Terms,
    added_by_units,
    linear_of,
    moments_of,
    scales_of,
    summed_columns,
    theta_of,
)
from evalkit.statistics.quantiles import Sorted, deviation_at
from evalkit.statistics.ratios import by_shares, users_carrying

from ._asked import ExperimentRequest
from ._cells import Cellular
from ._expressions import UnitMeasure
from ._units import Column, Units
from .metrics.of_units import count, fraction

ROWS_TOGETHER = 1 << 18


@dataclass(frozen=True, slots=True)
class Few:
    """Fractions of so few that Newcombe's limits serve: units that are 1, and all of them."""

    ones: int
    n: int


@dataclass(frozen=True, slots=True)
class MeasuredUnits:
    """One metric in one segment.

    Args:
        groups: by variant, in the order of the units' names.
        adjustment: theta and the joint means of covariates.
        counts: by variant, of fractions.
        sorted: by variant, of quantiles.
        totals: by variant, of sums and counts.
        widest: what a unit's value can differ by, of fractions and capped means.
        above: by variant, units above the mean of all, where that is known.
        is_of_seen: values have no bound, and `widest` is that of those that were seen.
        skewness: by variant, of what units add to the estimate.
    """

    groups: tuple[Group, ...] = ()
    adjustment: Adjustment = field(default_factory=lambda: Adjustment(np.zeros(0), np.zeros(0)))
    counts: tuple[Few, ...] = ()
    sorted: tuple[Sorted, ...] = ()
    totals: tuple[float, ...] = ()
    n_units: tuple[int, ...] = ()
    widest: float = math.inf
    above: tuple[int, ...] = ()
    is_of_seen: bool = False
    skewness: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricNumbers:
    """All segments of one metric.

    Args:
        is_adjusted: covariates stand behind the estimates.
        caps: of the numerator, of the denominator.
        n_imputed: units whose covariates are the mean.
    """

    measure: UnitMeasure
    by_segment: Mapping[Segment, MeasuredUnits]
    raw: Mapping[Segment, MeasuredUnits]
    is_adjusted: bool
    caps: tuple[float, ...]
    n_imputed: int


def measure_all(units: Units, asked: ExperimentRequest) -> Iterator[MetricNumbers]:
    """Every metric, one after another."""
    cells = Cellular(units, asked)
    for measure in asked.measures:
        if measure.kind == "quantile":
            yield _quantiles(units, asked, cells, measure)
        elif measure.kind in ("sum", "count"):
            yield _totals(units, asked, cells, measure)
        else:
            yield _means(units, asked, cells, measure)


def eligible(units: Units, asked: ExperimentRequest, measure: UnitMeasure) -> Flags:
    window = asked.window_of(measure)
    is_open = units.open.get(window) if window is not None else None
    return np.ones(units.n, dtype=np.bool_) if is_open is None else ~is_open


def key_of(units: Units, asked: ExperimentRequest, measure: UnitMeasure, name: str) -> Column:
    key = name, asked.window_of(measure)
    return key if key in units.columns else (name, None)


# ---------------------------------------------------------------- means, fractions, ratios


def _means(
    units: Units, asked: ExperimentRequest, cells: Cellular, measure: UnitMeasure
) -> MetricNumbers:
    keep = eligible(units, asked, measure)
    columns, caps = [], []
    for name in measure.columns:
        values = units.columns[key_of(units, asked, measure, name)][keep]
        values, cap = capped(values, measure)
        columns.append(values)
        if cap is not None:
            caps.append(cap)
    covariates: list[tuple[int, int | None]] = []
    n_imputed = 0
    if not measure.is_plain:
        named = asked.names_before(measure)
        listed = [
            units.before.get(name, ()) if not named or name in asked.before else ()
            for name in measure.columns
        ]
        pairs: list[tuple[Floats, Floats | None]] = [(each, None) for each in listed[0]]
        if len(listed) == 2 and listed[1]:
            pairs = list(zip(listed[0], listed[1], strict=False))
        for above, below in pairs:
            places: list[int | None] = []
            for side in (above, below):
                if side is None:
                    places.append(None)
                    continue
                values, n_missing = _imputed(side[keep])
                n_imputed = max(n_imputed, n_missing)
                if measure.kind == "fraction" and asked.has_events and not named:
                    values = fraction.function(values, measure.above)
                columns.append(capped(values, measure)[0])
                places.append(len(columns) - 1)
            covariates.append((places[0] or 0, places[1]))
    value: tuple[int, int | None] = (0, 1) if measure.kind == "ratio" else (0, None)
    if measure.kind == "fraction":
        columns[0] = fraction.function(columns[0], measure.above)
    matrix = np.stack(columns, axis=1)
    own = cells.cells[keep]
    if units.clusters is None:
        widest = 1.0 if measure.kind == "fraction" else math.inf
        if measure.kind == "mean" and caps and matrix.size:
            widest = caps[0] - min(0.0, float(matrix[:, 0].min()))
        by_segment, raw = _by_cells(
            matrix, own, cells, asked, value, tuple(covariates), measure, widest
        )
    else:
        by_segment, raw = _by_clusters(
            matrix, own, units.clusters[keep], cells, asked, value, tuple(covariates)
        )
    return MetricNumbers(measure, by_segment, raw, bool(covariates), tuple(caps), n_imputed)


def capped(values: Floats, measure: UnitMeasure) -> tuple[Floats, float | None]:
    """Values above a cap count as it; by default there is none."""
    cap = measure.cap
    if measure.winsor is not None:
        among = values[values != 0.0] if measure.of_nonzero else values
        if not among.size:
            return values, None
        rank = max(0, int(np.ceil(measure.winsor * among.size - 1e-9)) - 1)
        cap = float(np.partition(among, rank)[rank])
    return (values, None) if cap is None else (np.minimum(values, cap), cap)


def _imputed(values: Floats) -> tuple[Floats, int]:
    """A unit without a covariate has the mean of those with one."""
    lacks = ~np.isfinite(values)
    n_missing = int(lacks.sum())
    if not n_missing:
        return values, 0
    sums = ExactSums(1)
    sums.add(values[~lacks][:, None])
    mean = sums.sum_of(0).mean if n_missing < values.size else 0.0
    return np.where(lacks, mean, values), n_missing


def _by_cells(
    matrix: Floats,
    own: Int32s,
    cells: Cellular,
    asked: ExperimentRequest,
    value: tuple[int, int | None],
    covariates: tuple[tuple[int, int | None], ...],
    measure: UnitMeasure,
    widest: float,
) -> tuple[dict[Segment, MeasuredUnits], dict[Segment, MeasuredUnits]]:
    scales = scales_of(matrix)
    n_columns = matrix.shape[1] * (matrix.shape[1] + 1) // 2
    sums = ExactSums(n_columns, cells.n_cells)
    for rows in slices_of(matrix.shape[0], ROWS_TOGETHER):
        sums.add(summed_columns(matrix[rows], scales), rows=CellRows.of(own[rows], cells.n_cells))
    adjusted: dict[Segment, MeasuredUnits] = {}
    raw: dict[Segment, MeasuredUnits] = {}
    n_arms = len(asked.names)
    above = np.zeros(0, dtype=np.int64)
    every = sums.over(np.arange(cells.n_cells))
    whole = Moments.of([every.sum_of(column) for column in range(n_columns)], scales)
    is_of_seen = widest == math.inf and measure.kind == "mean" and matrix.size > 0
    if is_of_seen:
        widest = float(matrix[:, 0].max()) - min(0.0, float(matrix[:, 0].min()))
    if widest < math.inf:
        above = np.bincount(own[matrix[:, 0] > whole.means[0]], minlength=cells.n_cells)
    added = ExactSums(1, cells.n_cells)
    values = added_by_units(matrix, whole, Terms(value, covariates))
    added.add(values[:, None], rows=CellRows.of(own, cells.n_cells))
    for segment, members in cells.members.items():
        strata = np.unique(cells.strata[members]) if members.any() else [0]
        places = [
            np.flatnonzero(members & (cells.arms == arm) & (cells.strata == stratum))
            for stratum in strata
            for arm in range(n_arms)
        ]
        found = [
            [some.sum_of(column) for column in range(n_columns)]
            for some in sums.over_each([*places, np.flatnonzero(members)])
        ]
        moments = [Moments.of(each, scales) for each in found]
        by_stratum = [moments[i * n_arms : (i + 1) * n_arms] for i in range(len(strata))]
        counts: tuple[Few, ...] = ()
        if measure.kind == "fraction":
            counts = tuple(
                Few(
                    sum(
                        round(found[i * n_arms + arm][0].total * 2.0 ** int(scales[0]))
                        for i in range(len(strata))
                    ),
                    sum(stratum[arm].n for stratum in by_stratum),
                )
                for arm in range(n_arms)
            )
        for into, terms in ((adjusted, Terms(value, covariates)), (raw, Terms(value))):
            made = _measured(by_stratum, moments[-1], terms, counts)
            n_above = [int(above[each].sum()) for each in places] if above.size else []
            seen = tuple(sum(n_above[arm::n_arms]) for arm in range(n_arms)) if n_above else ()
            into[segment] = replace(made, widest=widest, above=seen, is_of_seen=is_of_seen)
        of_arms = [np.flatnonzero(members & (cells.arms == arm)) for arm in range(n_arms)]
        skewness = tuple(each.skewness_of(0) for each in added.over_each(of_arms))
        adjusted[segment] = replace(adjusted[segment], skewness=skewness)
    return adjusted, raw


def _measured(
    by_stratum: Sequence[Sequence[Moments]],
    whole: Moments,
    terms: Terms,
    counts: tuple[Few, ...],
    clustered: "Sequence[Sequence[_Clustering]] | None" = None,
) -> MeasuredUnits:
    """The variants as groups of parts; strata too small for a variance go together."""
    n_all = sum(each.n for stratum in by_stratum for each in stratum) or 1
    shares = [sum(each.n for each in stratum) / n_all for stratum in by_stratum]
    n_arms, is_one = len(by_stratum[0]), sum(share > 0.0 for share in shares) < 2
    with np.errstate(invalid="ignore", divide="ignore"):
        joint = linear_of(whole, terms)
        joint = _without_undefined(joint, np.zeros(joint.estimates.size))
        theta = theta_of(joint)
        by = Adjustment(theta, joint.estimates[1:])
        of_arms = [
            None if is_one else _over_strata([each[arm] for each in by_stratum], shares, terms)
            for arm in range(n_arms)
        ]
        linear = [
            [
                _without_undefined(linear_of(each, terms, own), joint.estimates)
                for each, own in zip(stratum, of_arms, strict=True)
            ]
            for stratum in by_stratum
        ]
    groups = []
    for arm in range(n_arms):
        parts = []
        for place, (share, stratum) in enumerate(zip(shares, linear, strict=True)):
            if not share:
                continue
            own: Linear = stratum[arm]
            of_clusters: tuple[float | None, float, float] = None, 1.0, math.inf
            if clustered is not None:
                of_clusters = clustered[place][arm].of(own, by, terms, of_arms[arm])
            parts.append(Part(share, own, *of_clusters))
        total = sum(stratum[arm].n for stratum in linear)
        of_arm = np.array([part.linear.denominators[1:] * part.linear.n for part in parts])
        of_all = joint.denominators[1:] * n_all
        weight = theta * 0.0
        if total:
            np.divide(of_arm.sum(axis=0), of_all, out=weight, where=of_all != 0.0)
        groups.append(Group(tuple(parts), weight))
    return MeasuredUnits(tuple(groups), by, counts, n_units=tuple(group.n for group in groups))


def _over_strata(moments: Sequence[Moments], shares: Sequence[float], terms: Terms) -> Linear:
    """Means of a variant over strata that weigh by their share, and ratios of these."""
    held = [(each, share) for each, share in zip(moments, shares, strict=True) if share]
    means = np.sum([share * each.means for each, share in held], axis=0)
    nothing = np.zeros((means.size, means.size))
    return linear_of(Moments(sum(each.n for each in moments), means, nothing), terms)


def _without_undefined(linear: Linear, joint: Floats) -> Linear:
    """Covariates without a denominator are the joint ones, and do not vary: nothing is adjusted."""
    lacks = ~np.isfinite(linear.estimates)
    lacks[0] = False
    if not linear.n or not lacks.any():
        return linear
    covariances = np.where(lacks | lacks[:, None], 0.0, linear.covariances)
    return replace(
        linear, estimates=np.where(lacks, joint, linear.estimates), covariances=covariances
    )


# ---------------------------------------------------------------- clusters


@dataclass(frozen=True, slots=True)
class _Clustering:
    """Clusters of one variant: float64[n_clusters, n_columns], and how their errors are taken."""

    columns: Floats
    n_units: int
    rule: str

    def of(
        self, linear: Linear, by: Adjustment, terms: Terms, whole: Linear | None
    ) -> tuple[float | None, float, float]:
        """Degrees of freedom, what the variance over n - 1 is multiplied by, and who carry it.

        Args:
            whole: of all strata together, where these clusters are of one of them.
        """
        n = self.columns.shape[0]
        if self.rule == "delta" or n < 2:
            return None, 1.0, math.inf
        rows = (terms.value, *terms.covariates)
        left = np.zeros(n)
        ratios = (linear if whole is None else whole).estimates
        means = [None] * len(rows) if whole is None else whole.denominators.tolist()
        for slope, estimate, mean, (above, below) in zip(
            by.slopes, ratios, means, rows, strict=True
        ):
            if below is None or not np.isfinite(estimate):
                return None, 1.0, math.inf
            weights = self.columns[:, below]
            if not weights.any():
                continue
            mean = math.fsum(weights) / n if mean is None else mean
            left += slope * (self.columns[:, above] - estimate * weights) / mean
        if whole is not None:  # whose ratio is not the stratum's own
            left -= math.fsum(left) / n
        if not (total := math.fsum(self.columns[:, terms.value[1]])):
            return None, 1.0, math.inf
        shares = self.columns[:, terms.value[1]] / total
        return *by_shares(left, shares), users_carrying(left, shares)


def _by_clusters(
    matrix: Floats,
    own: Int32s,
    clusters: Keys,
    cells: Cellular,
    asked: ExperimentRequest,
    value: tuple[int, int | None],
    covariates: tuple[tuple[int, int | None], ...],
) -> tuple[dict[Segment, MeasuredUnits], dict[Segment, MeasuredUnits]]:
    """Sums of clusters in place of units: a mean is their ratio to the number of units."""
    adjusted: dict[Segment, MeasuredUnits] = {}
    raw: dict[Segment, MeasuredUnits] = {}
    size = matrix.shape[1]  # of the column of units
    rows = [(a, size if b is None else b) for a, b in (value, *covariates)]
    rule = asked.statistics.clusters
    with_units = np.concatenate([matrix, np.ones((matrix.shape[0], 1))], axis=1)
    for segment, members in cells.members.items():
        inside = members[own]
        arms, strata = cells.arms[own], cells.strata[own]
        by_stratum, by_clusters, n_units = [], [], []
        summed = []
        for stratum in np.unique(strata[inside]) if inside.any() else [0]:
            found = []
            for arm in range(len(asked.names)):
                mask = inside & (arms == arm) & (strata == stratum)
                found.append(_cluster_sums(with_units[mask], clusters[mask]))
                n_units.append(int(mask.sum()))
            summed.append(found)
        every = np.concatenate([each for found in summed for each in found])
        scales, n_arms = scales_of(every), len(asked.names)
        of_arms = np.concatenate(
            [np.full(len(each), arm) for found in summed for arm, each in enumerate(found)]
        )
        for found in summed:
            by_stratum.append([moments_of(each, scales) for each in found])
            by_clusters.append([_Clustering(each, each.shape[0], rule) for each in found])
        for into, terms in ((adjusted, Terms(rows[0], tuple(rows[1:]))), (raw, Terms(rows[0]))):
            whole = moments_of(every, scales)
            made = _measured(by_stratum, whole, terms, (), by_clusters)
            own_units = tuple(sum(n_units[arm::n_arms]) for arm in range(n_arms))
            added = ExactSums(1, n_arms)
            values = added_by_units(every, whole, terms)
            added.add(values[:, None], rows=CellRows.of(of_arms, n_arms))
            skewness = tuple(added.over(np.array([arm])).skewness_of(0) for arm in range(n_arms))
            into[segment] = MeasuredUnits(
                made.groups, made.adjustment, n_units=own_units, skewness=skewness
            )
    return adjusted, raw


def _cluster_sums(matrix: Floats, clusters: Keys) -> Floats:
    """float64[n_clusters, n_columns], whatever the order of units: the smallest value first."""
    if not clusters.size:
        return np.empty((0, matrix.shape[1]))
    found = []
    for column in matrix.T:
        order = np.lexsort((column, clusters))
        begins = np.flatnonzero(np.diff(clusters[order], prepend=clusters[order[0]] + 1))
        found.append(np.add.reduceat(column[order], begins))
    return np.stack(found, axis=1)


# ---------------------------------------------------------------- quantiles and totals


def _quantiles(
    units: Units, asked: ExperimentRequest, cells: Cellular, measure: UnitMeasure
) -> MetricNumbers:
    keep = eligible(units, asked, measure)
    found = {}
    (name,) = measure.columns
    clusters = units.clusters
    for segment in cells.members:
        inside = cells.units_of(segment) & keep
        sides, ns = [], []
        for arm in range(len(asked.names)):
            own = inside & (units.variants == arm)
            ns.append(int(own.sum()))
            if measure.of_events:
                events = units.events[name, asked.window_of(measure)]
                rows = own[events.units]
                of, values = events.units[rows], events.values[rows]
            else:
                of, values = np.flatnonzero(own), units.columns[key_of(units, asked, measure, name)]
                values = values[own]
            if clusters is not None:
                _, of = np.unique(clusters[of], return_inverse=True)
                n_of = np.unique(clusters[own]).size
            else:
                places = np.cumsum(own) - 1
                of, n_of = places[of], ns[-1]
            sides.append(_sorted(values, of, n_of, measure, is_plain=clusters is None))
        found[segment] = MeasuredUnits(sorted=tuple(sides), n_units=tuple(ns))
    return MetricNumbers(measure, found, {}, False, (), 0)


def _sorted(values: Floats, of: Ints, n_of: int, measure: UnitMeasure, *, is_plain: bool) -> Sorted:
    ordered = np.sort(values)
    if is_plain and not measure.of_events:
        return Sorted(ordered, n_of)
    if not values.size or n_of < 2:
        return Sorted(ordered, n_of, np.nan)
    at = Sorted(ordered, n_of).quantile(measure.q)
    return Sorted(ordered, n_of, deviation_at(at, measure.q, values, of, n_of))


def _totals(
    units: Units, asked: ExperimentRequest, cells: Cellular, measure: UnitMeasure
) -> MetricNumbers:
    keep = eligible(units, asked, measure)
    (name,) = measure.columns
    values = units.columns[key_of(units, asked, measure, name)]
    if measure.kind == "count":
        values = count.function(values)
    found = {}
    for segment in cells.members:
        totals, ns = [], []
        for arm in range(len(asked.names)):
            own = cells.units_of(segment) & keep & (units.variants == arm)
            sums = ExactSums(1)
            sums.add(values[own][:, None])
            totals.append(sums.sum_of(0).total if own.any() else 0.0)
            ns.append(int(own.sum()))
        found[segment] = MeasuredUnits(totals=tuple(totals), n_units=tuple(ns))
    return MetricNumbers(measure, found, {}, False, (), 0)
