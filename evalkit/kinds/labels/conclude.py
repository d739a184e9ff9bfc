"""From what rows were looked through for to numbers, curves and warnings; no row is read."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evalkit.aggregate.segments import ALL
from evalkit.config import Config
from evalkit.kinds.labels._bands import Bands, NoBands
from evalkit.kinds.labels._graphs import ScoreDrawing
from evalkit.kinds.labels._placements import is_area
from evalkit.kinds.labels._pooled import Pooled
from evalkit.kinds.labels._walk import BestThreshold, Loss, Walked
from evalkit.kinds.labels.merge import LabelSums
from evalkit.kinds.pointwise import measure
from evalkit.kinds.pointwise.conclude import Findings
from evalkit.kinds.pointwise.counts import RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.numbers import RowNumber
from evalkit.kinds.pointwise.units import Measured, UnitSums, measured_of
from evalkit.metrics import Request, Smooth, over
from evalkit.report import Graph, TruthCounts, Warning_
from evalkit.statistics.means import carried_interval


@dataclass(frozen=True, slots=True)
class LabelResults:
    """What some rows were looked through for.

    Args:
        by_kind: of users, and of sessions where they are asked for.
        smooth: the requests over all rows that have a standard error.
    """

    by_kind: Mapping[str, LabelSums]
    smooth: Mapping[Request, Smooth]
    pool: Pooled | None
    walked: Walked | None
    drawing: ScoreDrawing | None

    @property
    def users(self) -> UnitSums:
        """What users add up to."""
        return self.by_kind["users"].units

    def measured(self, job: RowJob) -> Measured:
        """Numbers in the order of the requests, and columns of units where they are needed."""

        def value_of(request: Request) -> float:
            assert self.walked is not None
            assert self.pool is not None
            return self.walked.value(request, self.pool.totals)

        by_kind = {kind: sums.units for kind, sums in self.by_kind.items()}
        found = measured_of(job, by_kind, value_of, self.smooth)
        for place, request in enumerate(job.requests):
            terms = self.smooth[request].terms if request in self.smooth else ()
            if self.users.n_of_labels is not None and any(map(is_area, terms)):
                n, own = float(self.users.n_of_labels.min()), found.numbers[place]
                given, level = (own.value, own.std_error, n), job.config.statistics.level
                gate = carried_interval(own.interval, *given, level=level)
                found.numbers[place] = replace(own, n_carrying=n, gate=gate)
        return found

    def graphs(self, *, level: float) -> list[Graph]:
        """The curves, of the model that was named."""
        if self.drawing is None:
            return []
        bands = None
        spread = self.by_kind["users"].bands
        if spread is not None:
            bands = Bands(spread, self.users.n_units, level=level)
        return self.drawing.graphs(bands or NoBands())

    def warnings(self, model: str, requests: Sequence[Request]) -> list[Warning_]:
        """What numbers may mislead about."""
        found: list[Warning_] = []
        if self.pool is not None and self.walked is not None:
            found += _warnings(model, requests, self.walked, self.pool)
        for kind, sums in self.by_kind.items():
            own = [request for request in requests if over(request) == kind]
            found += measure.warn_of_infinite(model, own, sums.units.means)
        return found


def _warnings(
    name: str, requests: Sequence[Request], walked: Walked, pool: Pooled
) -> Iterator[Warning_]:
    for loss in walked.found.values():
        if isinstance(loss, Loss) and loss.infinite:
            what = "rows" if not pool.weighted else "of the rows' weight"
            given = [f"{k}={v:g}" for k, v in loss.request.parameters if not isinstance(v, str)]
            metric = " with ".join([loss.request.metric.name, *given])
            message = (
                f"{loss.infinite:,.6g} {what} have label and score at opposite ends, where "
                f"{metric} is infinite"
            )
            yield Warning_("infinite-loss", message, name)
    for request in requests:
        best = walked.found.get(("best", request))
        if isinstance(best, BestThreshold) and math.isfinite(best.most):
            message = (
                f"{request.label} is best from score {best.point[2]!r} on, chosen on the rows it "
                "is measured on"
            )
            yield Warning_("best-threshold", message, name)
    if pool.totals.rows and not (pool.totals.positives and pool.totals.negatives):
        yield Warning_("one-class", "all labels are of one kind", name)


def warnings_of(config: Config, name: str, row_counts: RowOutcomes, at: str) -> list[Warning_]:
    """What the counts of a model's rows may mislead about.

    Raises:
        DataError: it has no rows, and the policy is to refuse that [empty-input].
    """
    found = []
    if number := row_counts.noted.get("duplicates", 0):
        message = f"{number:,} rows list an item of a user and a time again, and count"
        found.append(Warning_("duplicate-row", message, name))
    found += measure.check_rows(config, name, row_counts, at)
    return found + measure.warn_of_lost(name, row_counts.noted.get("users_without_rows", 0))


def conclude_sums(
    job: RowJob, found: Findings, own: measure.ModelSums, table: measure.SourceTable
) -> None:
    """What means over users say of a model, of the sums that shares of the users left."""
    level, users, name = job.config.statistics.level, job.over("users"), own.name
    found.warnings += warnings_of(job.config, name, own.row_counts, table.at)
    found.warnings += measure.warn_of_infinite(name, users, own.means[ALL])
    found.users[name], found.most_rows[name] = own.n_users[ALL], own.most_rows
    found.pairs[name] = own.noted.get("positives", 0)
    for segment, means in own.means.items():
        both = zip(users, means, strict=True)
        numbers = [RowNumber.of_mean(request, mean, level=level) for request, mean in both]
        known = Measured(numbers, own.n_users[segment])
        found.measured.setdefault(segment, {})[name] = known


def truth_counts(counts_by_model: Mapping[str, RowOutcomes], found: Findings) -> TruthCounts:
    """The labels of the model that has most rows; models have their own counts too."""
    if not counts_by_model:
        return TruthCounts(0, 0, {}, 0, 0, 0)
    name = max(counts_by_model, key=lambda each: counts_by_model[each].rows)
    row_counts, n_users, n_pairs = counts_by_model[name], found.users[name], found.pairs[name]
    return TruthCounts(
        row_counts.rows, row_counts.rows_used, dict(row_counts.dropped), n_users, 0, n_pairs
    )
