"""All that the rows of one model, or of a segment of its users, say."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.labels._bands import Bands, NoBands, Ruler
from evalkit.labels._graphs import Drawing
from evalkit.labels._groups import GroupResults, measure_groups
from evalkit.labels._parts import Leading, ScoreParts
from evalkit.labels._placements import AREAS, Placements, place_rows
from evalkit.labels._pooled import Pooled
from evalkit.labels._smooth import smooth_of
from evalkit.labels._values import Values
from evalkit.labels._walk import Walked
from evalkit.labels._wanted import Wanted, is_best
from evalkit.metrics import Request, over
from evalkit.report import Graph, Warning_
from evalkit.rows import Grouping, Measured, ModelRows, Number, RowJob, Smooth, warn_of_infinite


@dataclass(frozen=True, slots=True)
class Measurer:
    """Measures the metrics of a job.

    Args:
        dtypes: of the columns of rows.
    """

    job: RowJob
    dtypes: Mapping[str, type]

    @property
    def wanted(self) -> Wanted:
        """What the metrics over all rows need."""
        return Wanted.of(self.job.requests)

    def look(
        self,
        rows: ModelRows,
        groupings: Sequence[Grouping],
        leading: Leading,
        drawn: str | None = None,
    ) -> "Seen":
        """Look through rows for all that numbers are made of, and curves of a model that is named.

        Args:
            rows: of one model, or of a segment of its users.
            leading: of their scores.
        """
        wanted, dtypes, threads = self.wanted, self.dtypes, self.job.threads
        pool = walked = placements = drawing = ruler = None
        if wanted.requests:
            half = 1 << 8 * np.dtype(dtypes["score"]).itemsize - 1  # a label beside it has room
            parts = ScoreParts.of(leading, rows, apart=None if "weight" in dtypes else half)
            pool = Pooled(rows, dtypes, parts, threads=threads)
            walked = pool.walk(wanted)
            if "weight" not in dtypes:
                placements = self._place(rows, leading, wanted)
        if drawn is not None and pool is not None and walked is not None:
            drawing = Drawing(drawn, pool.totals, walked, pool.score_range[0])
        if drawing is not None and pool is not None and self.job.config.statistics.cluster is None:
            ruler = Ruler.make(
                drawing.marks(), drawing.edges(), dtypes["score"], weight=pool.totals.rows
            )
        self.job.clock.stop("scores")
        smooth = _smooth(wanted, placements)
        by_kind: dict[str, GroupResults] = {}
        for grouping in groupings:
            kind = f"{grouping.name}s"
            for store in rows.shares(grouping):
                results = measure_groups(
                    store,
                    grouping,
                    [request for request in self.job.requests if over(request) == kind],
                    list(smooth.values()) if kind == "users" else [],
                    placements=placements,
                    keep=self.job.keeps,
                    ruler=ruler if kind == "users" else None,
                    threads=threads,
                )
                if kind in by_kind:
                    by_kind[kind].merge(results)
                else:
                    by_kind[kind] = results
        self.job.clock.stop("users")
        return Seen(by_kind, smooth, pool, walked, drawing)

    def _place(self, rows: ModelRows, leading: Leading, wanted: Wanted) -> Placements | None:
        """What rows do to areas; None where nobody asks."""
        areas = [request for request in wanted.requests if request.metric.name in AREAS]

        def find_mixed() -> npt.NDArray[np.bool_]:
            return leading.find_mixed(rows)

        return place_rows(leading.first, leading.shift, leading.counts, areas, find_mixed)

    def measured(self, seen: "Seen") -> Measured:
        """Numbers in the order of the requests, and columns of users where they are needed."""
        by_kind, smooth = seen.by_kind, seen.smooth
        level, users = self.job.config.statistics.level, by_kind["users"]
        values = None
        if seen.pool is not None and seen.walked is not None:
            values = Values(seen.pool.totals, seen.walked)
        means = {kind: iter(results.means) for kind, results in by_kind.items()}
        numbers, n_best = [], 0
        for request in self.job.requests:
            if over(request) != "rows":
                mean = next(means[over(request)])
                numbers.append(Number.of_mean(request, mean, level=level))
                continue
            assert values is not None
            value = values.of(request, n_best)
            n_best += is_best(request)
            error = users.spread.std_error(smooth[request]) if request in smooth else None
            numbers.append(Number.of_rows(value, error, users.n_groups, level=level))
        if not self.job.keeps:
            return Measured(numbers, users.n_groups)
        columns = {}
        for kind, results in by_kind.items():
            own = [request for request in self.job.requests if over(request) == kind]
            rows = [request for request in self.job.requests if over(request) == "rows"]
            columns[kind] = results.kept.columns(
                list(zip(own, results.means, strict=True)),
                results.spread,
                [smooth.get(request) for request in rows] if kind == "users" else [],
            )
        return Measured(numbers, users.n_groups, columns)


@dataclass(frozen=True, slots=True)
class Seen:
    """What some rows were looked through for.

    Args:
        by_kind: of users, and of sessions where they are asked for.
        smooth: the requests over all rows that have a standard error.
    """

    by_kind: Mapping[str, GroupResults]
    smooth: Mapping[Request, Smooth]
    pool: Pooled | None
    walked: Walked | None
    drawing: Drawing | None

    @property
    def users(self) -> GroupResults:
        """What users give."""
        return self.by_kind["users"]

    def graphs(self, *, level: float) -> list[Graph]:
        """The curves, of the model that was named."""
        if self.drawing is None:
            return []
        bands = None
        if self.users.bands is not None:
            bands = Bands(self.users.bands, self.users.n_groups, level=level)
        return self.drawing.graphs(bands or NoBands())

    def warnings(self, model: str, requests: Sequence[Request]) -> list[Warning_]:
        """What numbers may mislead about."""
        found = []
        if self.pool is not None and self.walked is not None:
            found += _warnings(model, Wanted.of(requests), self.walked, self.pool)
        for kind, results in self.by_kind.items():
            own = [request for request in requests if over(request) == kind]
            found += warn_of_infinite(model, own, results.means)
        return found


def _smooth(wanted: Wanted, placements: Placements | None) -> dict[Request, Smooth]:
    """The requests over all rows that have a standard error."""
    found = {request: smooth_of(request) for request in wanted.requests}
    return {
        request: smooth
        for request, smooth in found.items()
        if smooth is not None and (placements is not None or request.metric.name not in AREAS)
    }


def _warnings(name: str, wanted: Wanted, walked: Walked, pool: Pooled) -> list[Warning_]:
    found = []
    for clip, weight in walked.infinite.items():
        if weight:
            what = "rows" if not pool.weighted else "of the rows' weight"
            message = (
                f"{weight:,.6g} {what} have label and score at opposite ends, where log-loss with "
                f"clip={clip:g} is infinite"
            )
            found.append(Warning_("infinite-loss", message, name))
    for request, (value, point) in zip(wanted.best, walked.best, strict=False):
        if math.isfinite(value):
            message = (
                f"{request.label} is best from score {point[2]!r} on, chosen on the rows it is "
                "measured on"
            )
            found.append(Warning_("best-threshold", message, name))
    if pool.totals.rows and not (pool.totals.positives and pool.totals.negatives):
        message = "all labels are of one kind"
        found.append(Warning_("one-class", message, name))
    return found
