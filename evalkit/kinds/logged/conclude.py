"""From sums of users to a report: estimates, the logging policy's own value, and diagnostics."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import DataError
from evalkit.inference.conclude import Inference
from evalkit.inference.spread import DifferenceSpread
from evalkit.kinds.logged._units import OF_SQUARES, sum_of_parts
from evalkit.kinds.logged.declaration import LOGGING
from evalkit.kinds.logged.measure import (
    PLACE,
    SQUARES,
    ZEROS,
    TermColumns,
    measure_logged,
    recipes_of,
)
from evalkit.kinds.logged.merge import EDGES, LoggedSums, RoundCounts
from evalkit.kinds.logged.open import open_logged, section_of, targets_of
from evalkit.metrics import Request
from evalkit.metrics.logged import Recipe, Term
from evalkit.planning.counters import Clock, versions
from evalkit.planning.record import RunResults, make_report
from evalkit.planning.work import Kind, MeasureOptions, ShareResult
from evalkit.report import (
    Comparison,
    Counts,
    Estimate,
    Graph,
    ModelCounts,
    PerUser,
    Report,
    StatisticsUsed,
    TruthCounts,
    Warning_,
)
from evalkit.report.entries import Check
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import t_quantile, t_two_sided
from evalkit.statistics.exact import ExactSums
from evalkit.statistics.intervals import NO_INTERVAL

Values = npt.NDArray[np.float64]
FEW_EFFECTIVE = 100
FAR = 3.0  # standard errors of the mean weight from 1


@dataclass(frozen=True, slots=True)
class LoggedNumber:
    """A value with what each user adds to it, float64[n_users], whose mean is 0."""

    value: float
    influence: Values
    std_error: float  # over n - 1 users; NaN below two

    @classmethod
    def of(cls, value: float, influence: Values) -> "LoggedNumber":
        """With its error."""
        return cls(value, influence, _error_of(influence))


def _error_of(influence: Values) -> float:
    n = len(influence)
    if n < 2:
        return math.nan
    return math.sqrt(n / (n - 1) * _total(influence**2))


def _total(values: Values) -> float:
    """The correctly rounded sum, as `math.fsum` has it."""
    sums = ExactSums(1)
    sums.add(values[:, None])
    return sums.sum_of(0).total


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """Users of one segment, or all of them."""

    segmentation: str | None
    segment: str | None
    users: pl.DataFrame
    weights: pl.DataFrame
    positions: tuple[pl.DataFrame, ...] = ()
    totals: dict[str, float] = field(default_factory=dict)

    @property
    def at_positions(self) -> "list[SegmentSums]":
        """The same users, with what they have at each position of slates."""
        return [replace(self, users=each, totals={}) for each in self.positions]

    def total(self, column: str) -> float:
        """A term of all users."""
        if column not in self.totals:
            self.totals[column] = _total(self.sums(column))
        return self.totals[column]

    def sum_of_weights(self, column: str) -> float:
        """Of all rounds: squares of weights, or how many are 0."""
        return sum_of_parts(self.weights, column)

    def sums(self, column: str) -> Values:
        """A term of each user."""
        return self.users[column].to_numpy()


def number_of(cell: SegmentSums, wanted: TermColumns, place: int, recipe: Recipe) -> LoggedNumber:
    """An estimator of one target: ratios of sums, and their influence by user."""
    if recipe.by_position:
        plain = recipe._replace(by_position=False)
        found = [number_of(each, wanted, place, plain) for each in cell.at_positions]
        whole = math.fsum(each.value for each in found)
        return LoggedNumber.of(whole, np.sum([each.influence for each in found], axis=0))
    value, influence = 0.0, np.zeros(cell.users.height)
    for above, below in recipe.pairs:
        top = cell.sums(wanted.column(place, above))
        bottom = cell.sums(wanted.column(place, below))
        total = cell.total(wanted.column(place, below))
        if total == 0:
            return LoggedNumber(math.nan, np.full(len(influence), np.nan), math.nan)
        ratio = cell.total(wanted.column(place, above)) / total
        value += ratio
        influence = influence + (top - ratio * bottom) / total
    return LoggedNumber.of(value, influence)


def widest_of(recipe: Recipe, n_users: int, counts: RoundCounts) -> float:
    """What a user who was not seen can move a value by, times the users: one round of the smallest
    propensity that was logged, with the reward that lies farthest from the others.
    """
    spread = counts.rewards[1] - counts.rewards[0]
    largest = 1.0
    for term in (term for above, _ in recipe.pairs for term in [above]):
        if term.name != "weighted":
            continue
        own = "propensity" if term.weight == "item" else f"propensity_{term.weight}"
        weight = 1.0 / counts.least[own]
        for cap in (term.cap, term.tau, math.sqrt(term.shrink) / 2.0):
            weight = min(weight, cap) if cap > 0.0 else weight
        largest = max(largest, weight)
    return largest * spread * n_users / max(counts.rows, 1)


def logging_of(cell: SegmentSums, wanted: TermColumns, recipe: Recipe) -> LoggedNumber:
    """What the logging policy earned: a round, or of estimators of slates a slate."""
    below = Term("slates") if recipe.is_of_slates else Term("ones")
    return number_of(cell, wanted, 0, Recipe(((Term("reward"), below),)))


def cells_of(sums: LoggedSums, segmentations: Sequence[str]) -> Iterator[SegmentSums]:
    """All users, then those of every segment; a user may have rounds in several."""
    rows = sums.frame
    terms = [name for name in rows.columns if ":" in name]
    keys = [name for name in rows.columns if ":" not in name and not _is_split(name)]
    weights = pl.concat([sums.weights[share] for share in sorted(sums.weights)])

    def cell(
        named: tuple[str | None, str | None], some: pl.DataFrame, own: pl.DataFrame
    ) -> SegmentSums:
        users = some
        if segmentations or PLACE in rows.columns:
            users = some.group_by(keys, maintain_order=True).agg(pl.col(terms).sum()).sort(keys)
        at = some.partition_by(PLACE) if PLACE in rows.columns else []
        positions = (each.group_by(keys).agg(pl.col(terms).sum()) for each in at)
        whole = [
            users.select(keys).join(e, on=keys, how="left", maintain_order="left").fill_null(0.0)
            for e in positions
        ]
        return SegmentSums(*named, users, own, tuple(whole))

    yield cell((None, None), rows, weights)
    for place, name in enumerate(segmentations):
        column = pl.col(f"segment_{place}").cast(pl.String)
        for segment in rows.select(column).to_series().drop_nulls().unique().sort():
            some, own = rows.filter(column == segment), weights.filter(column == segment)
            yield cell((name, segment), some, own)


def _is_split(name: str) -> bool:
    """Whether a column of sums splits the rounds of a user."""
    return name.startswith("segment_") or name == PLACE


def graphs_of(sums: LoggedSums, names: Sequence[str]) -> Iterator[Graph]:
    """How weights are spread, and IPS with every cap from 1 on, of each target."""
    for place, name in enumerate(names):
        rows, weighted, rewards = sums.seen.of_bins(place)
        first, last = (int(np.flatnonzero(rows)[end]) for end in (0, -1))
        last = min(last, EDGES.size - 1)
        points = EDGES[first : last + 1]
        shares = rows[first : last + 1] / rows.sum()
        yield Graph(
            name, "weights", "weight up to", "share of rounds", *map(tuple, (
                np.log2(points).tolist(), shares.tolist())),
            rows=tuple(map(float, rows[first : last + 1].tolist())),
            thresholds=tuple(points.tolist()),
        )  # fmt: skip
        caps = range(int(np.searchsorted(EDGES, 1.0)), max(last + 1, 6))
        path = [
            (math.fsum(weighted[: at + 1]) + EDGES[at] * math.fsum(rewards[at + 1 :])) / rows.sum()
            for at in caps
        ]
        clipped = [float(rows[at + 1 :].sum()) for at in caps]
        yield Graph(
            name, "path-of-caps", "cap", "IPS", tuple(float(np.log2(EDGES[at])) for at in caps),
            tuple(path), rows=tuple(clipped), thresholds=tuple(float(EDGES[at]) for at in caps),
        )  # fmt: skip


def conclude_logged(
    left: ShareResult, work: MeasureOptions, told: Sequence[Warning_], clock: Clock | None
) -> Report:
    """The report of all shares.

    Raises:
        DataError: there are no rounds [empty-input], or no round has a weight above 0
            [no-overlap].
    """
    if clock is None:
        clock = work.clock()
        clock.start()
    config, sums = left.config, left.sums
    chosen = config.statistics
    recipes, targets = recipes_of(config), targets_of(config)
    wanted = TermColumns.of(recipes, len(targets))
    if not sums.counts.rows:
        raise DataError("the log has no rounds", code="empty-input", at=sums.at)
    _refuse_slates(config.requests, recipes, sums)
    names = [target.model for target in targets]
    estimates: list[Estimate] = []
    drafts: list[_Draft] = []
    checks: list[Check] = []
    per_user: dict[str, pl.DataFrame] = {}
    for cell in cells_of(sums, list(config.segments.named)):
        is_whole = cell.segmentation is None
        own = list(_checks(cell, wanted, names, sums, section_of(config).max_weight_share))
        checks += own if is_whole else [each for each in own if each.check.startswith("effective")]
        if is_whole:
            _refuse_no_overlap(own, sums)
        for request, recipe in zip(config.requests, recipes, strict=True):
            numbers = {LOGGING: logging_of(cell, wanted, recipe)}
            numbers |= {
                name: number_of(cell, wanted, place, recipe) for place, name in enumerate(names)
            }
            estimates += [
                _estimate(request, name, number, cell, chosen.level)
                for name, number in numbers.items()
            ]
            widest = widest_of(recipe, cell.users.height, sums.counts)
            drafts += _drafts(request, numbers, cell, chosen, widest)
            if is_whole and work.keep_users and sums.user_names:
                _keep(per_user, sums, request.label, numbers)
    comparisons = _judged(drafts, chosen, checks)
    warnings = [*told, *_warnings(checks)]
    keys = [name for name in sums.frame.columns if ":" not in name and not _is_split(name)]
    of_users = sums.frame.group_by(keys).agg(pl.col("all:0").sum())
    n_users, depth = of_users.height, int(cast("float", of_users["all:0"].max()))
    counts = Counts(
        TruthCounts(sums.counts.rows, sums.counts.rows, {}, n_users, 0, sums.counts.rows, None),
        {name: _counts_of(sums.counts.rows, n_users, depth) for name in (LOGGING, *names)},
    )
    inference = Inference(
        estimates=tuple(estimates), comparisons=tuple(comparisons), standings=(), findings=(),
        macros=(), used=_used(chosen, comparisons), warnings=(),
    )  # fmt: skip
    kept = None
    if per_user:
        labels = tuple(request.label for request in config.requests)
        kept = PerUser(tuple(sums.user_names), labels, per_user)
    clock.stop("aggregate")
    drawn = list(graphs_of(sums, names))
    found = RunResults(counts, inference, warnings, graphs=drawn, per_user_values=kept)
    meta = clock.meta(sums.counts.rows, work.useful_threads, versions())
    report = make_report(config, found, left.inputs, meta, clock=clock, sample=work.sample)
    return replace(report, checks=tuple(checks))


def _used(chosen: Any, comparisons: Sequence[Comparison]) -> StatisticsUsed:
    tested = [each for each in comparisons if each.p_value is not None]
    return StatisticsUsed(
        level=chosen.level, method="normal", test="t", correction=chosen.correction,
        family="report", n_tests=len(tested), baseline=LOGGING, margin=chosen.margin,
        replicates=None, seed=None, power=chosen.power,
    )  # fmt: skip


def _counts_of(n_rows: int, n_users: int, depth: int) -> ModelCounts:
    return ModelCounts(
        rows=n_rows, rows_used=n_rows, rows_dropped={}, users=n_users, users_without_ranking=0,
        users_without_truth=0, duplicates=0, duplicates_searched="none", seen_in_train=None,
        bad_ranks=0, ties=0, depth=depth,
    )  # fmt: skip


def _keep(
    per_user: dict[str, pl.DataFrame],
    sums: LoggedSums,
    label: str,
    numbers: Mapping[str, LoggedNumber],
) -> None:
    """What each user adds, put so that its mean is the value."""
    keys = [f"user_{place}" for place in range(len(sums.user_names))]
    users = sums.frame.select(keys).unique(maintain_order=True)
    users = users.rename(dict(zip(keys, sums.user_names, strict=True)))
    for name, number in numbers.items():
        own = pl.Series(label, number.value + number.influence * len(number.influence))
        per_user[name] = per_user.get(name, users).with_columns(own)


def _estimate(
    request: Request, model: str, number: LoggedNumber, cell: SegmentSums, level: float
) -> Estimate:
    error, n = number.std_error, len(number.influence)
    has_limits = n > 1 and error > 0
    half = t_quantile((1 + level) / 2, n - 1) * error if has_limits else math.nan
    return Estimate(
        model=model, metric=request.label, name=request.metric.name, cutoff=None,
        parameters=dict(request.parameters), value=number.value, n_users=n, n_undefined=0,
        segmentation=cell.segmentation, segment=cell.segment,
        low=number.value - half if has_limits else None,
        high=number.value + half if has_limits else None,
        std_error=None if math.isnan(error) else error,
        higher_is_better=request.metric.higher_is_better,
    )  # fmt: skip


@dataclass(slots=True)
class _Draft:
    """A comparison before its correction."""

    baseline: str
    candidate: str
    metric: str
    cell: SegmentSums
    one: LoggedNumber
    other: LoggedNumber
    widest: float = math.inf
    std_error: float = field(init=False)

    def __post_init__(self) -> None:
        self.std_error = _error_of(self.other.influence - self.one.influence)

    @property
    def spread(self) -> DifferenceSpread:
        """What the error stands on; rare large weights that no user had count as not seen."""
        moved = self.other.influence - self.one.influence + self.delta / len(self.one.influence)
        below, above = int((moved < 0).sum()), int((moved > 0).sum())
        n = len(moved)
        return DifferenceSpread(
            *(n, n - 1.0, math.nan, self.widest), is_mended=False, n_below=below, n_above=above
        )

    @property
    def delta(self) -> float:
        return self.other.value - self.one.value

    @property
    def p_value(self) -> float:
        error = self.std_error
        if not error > 0:
            return math.nan
        unseen = self.spread.p_unseen(abs(self.delta), self.delta, error, is_above=self.delta > 0)
        return max(t_two_sided(self.delta / error, len(self.one.influence) - 1), min(1, 2 * unseen))


def _drafts(
    request: Request,
    numbers: Mapping[str, LoggedNumber],
    cell: SegmentSums,
    chosen: Any,
    widest: float,
) -> Iterator[_Draft]:
    baseline = chosen.baseline or LOGGING
    pairs = (
        combinations(numbers, 2)
        if chosen.pairs == "all"
        else ((baseline, name) for name in numbers if name != baseline)
    )
    for one, other in pairs:
        yield _Draft(one, other, request.label, cell, numbers[one], numbers[other], widest)


def _judged(drafts: Sequence[_Draft], chosen: Any, checks: Sequence[Check]) -> list[Comparison]:
    """Comparisons, corrected together; where few rounds carry a target, nothing is told apart."""
    correction = "holm" if chosen.correction == "tukey" else chosen.correction
    p_values = [draft.p_value for draft in drafts]
    adjusted = adjust(p_values, correction, error=1 - chosen.level)
    thin = {
        (each.model, each.segment)
        for each in checks
        if each.check == "effective-sample-size" and each.verdict != "ok"
    }
    found = []
    for draft, p, p_adjusted, error in zip(
        drafts, p_values, adjusted.p_adjusted, adjusted.errors, strict=True
    ):
        n, std_error, delta = len(draft.one.influence), draft.std_error, draft.delta
        is_tested = not math.isnan(p)
        limits = adjusted_limits = NO_INTERVAL
        if is_tested:
            limits = draft.spread.limits(delta, std_error, level=chosen.level)
            adjusted_limits = draft.spread.limits(delta, std_error, level=1 - error)
        is_thin = any(
            (name, draft.cell.segment) in thin for name in (draft.baseline, draft.candidate)
        )
        verdict = "cannot tell" if is_tested else "not tested"
        if is_tested and not is_thin and p_adjusted <= 1 - chosen.level:
            verdict = "better" if delta > 0 else "worse"
        base = draft.one.value
        found.append(
            Comparison(
                baseline=draft.baseline, candidate=draft.candidate, metric=draft.metric,
                segmentation=draft.cell.segmentation, segment=draft.cell.segment, delta=delta,
                std_error=std_error if is_tested else None,
                low=limits.low, high=limits.high,
                relative=delta / base if base > 0 else None, relative_low=None, relative_high=None,
                p_value=p if is_tested else None, p_adjusted=p_adjusted if is_tested else None,
                effect_size=None, test="t", n_users=n, wins=None, ties=None, losses=None,
                margin=None, verdict=verdict, smallest_difference=None, users_needed=None,
                df=float(n - 1), low_adjusted=adjusted_limits.low,
                high_adjusted=adjusted_limits.high,
            )
        )  # fmt: skip
    return found


def _checks(
    cell: SegmentSums, wanted: TermColumns, names: Sequence[str], sums: LoggedSums, most: float
) -> Iterator[Check]:
    """How far the weights of each target carry."""
    n_rounds = cell.total(wanted.column(0, Term("ones")))
    for place, name in enumerate(names):
        total = cell.total(wanted.column(place, Term("weight")))
        squares = cell.sum_of_weights(f"{place}:{SQUARES}") / OF_SQUARES
        zeros = cell.sum_of_weights(f"{place}:{ZEROS}")
        effective = total**2 / squares if squares > 0 else 0.0
        verdict = "ok" if effective >= FEW_EFFECTIVE else "warn" if effective > 0 else "fail"
        yield Check("effective-sample-size", name, cell.segment, effective, n_rounds, None, verdict)
        mean = number_of(cell, wanted, place, Recipe(((Term("weight"), Term("ones")),)))
        error, df = mean.std_error, cell.users.height - 1
        p = t_two_sided((mean.value - 1) / error, df) if error > 0 else None
        is_far = error > 0 and abs(mean.value - 1) > FAR * error
        exact = error == 0 and abs(mean.value - 1) > 1e-9
        verdict = "warn" if is_far or exact else "ok"
        yield Check("weight-mean", name, cell.segment, mean.value, 1.0, p, verdict)
        yield Check(
            "weight-max", name, cell.segment, float(sums.seen.largest[place]), None, None, "ok"
        )
        share = zeros / n_rounds
        yield Check("weight-zero-share", name, cell.segment, share, None, None, "ok")
        tops = math.fsum(sums.seen.tops[place])
        earned = abs(cell.total(wanted.column(place, Term("weighted"))))
        top = min(tops / earned, 1.0) if earned > 0 else None
        is_heavy = top is not None and top > most and n_rounds > 20
        yield Check(
            "top10-share", name, cell.segment, top, None, None, "warn" if is_heavy else "ok"
        )
        mass = sums.unsupported.get(place)
        if mass is not None:
            verdict = "warn" if mass > 0.01 else "ok"
            yield Check("unsupported-mass", name, cell.segment, mass, 0.0, None, verdict)


def _refuse_no_overlap(checks: Sequence[Check], sums: LoggedSums) -> None:
    nothing = [
        each.model for each in checks if each.check.startswith("effective") and each.value == 0
    ]
    if nothing:
        raise DataError(
            f"every weight of {', '.join(map(str, nothing))} is 0: the target never does what was "
            "logged",
            code="no-overlap",
            at=sums.at,
            hint="such a log says nothing about it; leave the target out",
        )


def _refuse_slates(
    requests: Sequence[Request], recipes: Sequence[Recipe], sums: LoggedSums
) -> None:
    """Every slate begins at position 1 and has no gap; where weights are of slates, one length."""
    positions = sums.counts.positions
    sizes = [positions.get(at, 0) for at in range(1, max(positions, default=0) + 1)]
    whole = [r.label for r, each in zip(requests, recipes, strict=True) if each.needs_whole_slates]
    falls = all(one >= other for one, other in pairwise(sizes))
    if falls and (len(set(sizes)) <= 1 or not whole):
        return
    counted = ", ".join(f"{n:,} at {at}" for at, n in enumerate(sizes[:5], start=1))
    raise DataError(
        f"slates are of unequal length, which {whole[0]} does not take: {counted}"
        if falls
        else f"slates lack positions: {counted}",
        code="bad-slates",
        at=sums.at,
        hint="IIPS takes slates of any length; positions count from 1, without gaps",
    )


def _warnings(checks: Sequence[Check]) -> Iterator[Warning_]:
    for check in checks:
        if check.segment is not None or check.verdict == "ok" or check.value is None:
            continue
        if check.check == "effective-sample-size":
            yield Warning_(
                "few-effective",
                f"{check.value:,.0f} of {check.expected or 0:,.0f} rounds carry {check.model}: "
                f"fewer than {FEW_EFFECTIVE} tell nothing apart",
                check.model,
            )
        elif check.check == "weight-mean":
            yield Warning_(
                "weights-off",
                f"weights of {check.model} are {check.value:.3f} on average, not 1: propensities "
                "are wrong, or the log lacks what the target shows",
                check.model,
            )
        elif check.check == "top10-share":
            message = f"ten rounds carry {100 * check.value:.0f} % of the value of {check.model}"
            yield Warning_("heavy-weights", message, check.model)
        elif check.check == "unsupported-mass":
            message = f"{100 * check.value:.1f} % of what {check.model} shows was never logged"
            yield Warning_("unsupported-mass", message, check.model)


def run_logged(config: Any, work: MeasureOptions) -> Report:
    """The report of all users at once."""
    clock = work.clock()
    clock.start()
    return conclude_logged(measure_logged(config, work), work, (), clock)


KIND = Kind(LoggedSums, open_logged, run_logged, measure_logged, conclude_logged)
