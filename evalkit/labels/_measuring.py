"""All that the rows of one model, or of a segment of its users, say."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.labels._bands import Bands, NoBands, Ruler
from evalkit.labels._graphs import Drawing
from evalkit.labels._groups import GroupResults, measure_groups
from evalkit.labels._parts import Leading, ScoreParts
from evalkit.labels._placements import Placements, is_area, place_rows
from evalkit.labels._pooled import Pooled
from evalkit.labels._walk import Best, Loss, Walked, terms_of
from evalkit.metrics import Request, Smooth, Term, over
from evalkit.report import Graph, Warning_
from evalkit.rows.job import RowJob
from evalkit.rows.numbers import Measured, Number
from evalkit.rows.passes import ModelRows
from evalkit.rows.run import warn_of_infinite
from evalkit.rows.tally import Grouping


@dataclass(frozen=True, slots=True)
class Measurer:
    """Measures the metrics of a job.

    Args:
        dtypes: of the columns of rows.
    """

    job: RowJob
    dtypes: Mapping[str, type]

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
        pooled, dtypes, threads = self.job.over("rows"), self.dtypes, self.job.threads
        pool = walked = placements = drawing = ruler = None
        if pooled:
            half = 1 << 8 * np.dtype(dtypes["score"]).itemsize - 1  # a label beside it has room
            parts = ScoreParts.of(leading, rows, apart=None if "weight" in dtypes else half)
            pool = Pooled(rows, dtypes, parts, threads=threads)
            walked = pool.walk(terms_of(pooled))
            if "weight" not in dtypes:
                placements = self._place(rows, leading)
        if drawn is not None and pool is not None and walked is not None:
            drawing = Drawing(drawn, pool.totals, walked, pool.score_range[0])
        if drawing is not None and pool is not None and self.job.config.statistics.cluster is None:
            ruler = Ruler.make(
                drawing.marks(), drawing.edges(), dtypes["score"], weight=pool.totals.rows
            )
        self.job.clock.stop("scores")
        smooth = _smooth(pooled, placements)
        by_kind: dict[str, GroupResults] = {}
        for grouping in groupings:
            kind = f"{grouping.name}s"
            for store in rows.shares(grouping):
                results = measure_groups(
                    store,
                    grouping,
                    self.job.over(kind),
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

    def _place(self, rows: ModelRows, leading: Leading) -> Placements | None:
        """What rows do to areas; None where nobody asks."""
        terms = [term for each in self.job.over("rows") for term in _terms(each) if is_area(term)]
        areas = list(dict.fromkeys(terms))

        def find_mixed() -> npt.NDArray[np.bool_]:
            return leading.find_mixed(rows)

        return place_rows(leading.first, leading.shift, leading.counts, areas, find_mixed)

    def measured(self, seen: "Seen") -> Measured:
        """Numbers in the order of the requests, and columns of users where they are needed."""
        by_kind, smooth = seen.by_kind, seen.smooth
        level, users = self.job.config.statistics.level, by_kind["users"]
        means = {kind: iter(results.means) for kind, results in by_kind.items()}
        numbers = []
        for request in self.job.requests:
            if over(request) != "rows":
                mean = next(means[over(request)])
                numbers.append(Number.of_mean(request, mean, level=level))
                continue
            assert seen.walked is not None
            assert seen.pool is not None
            value = seen.walked.value(request, seen.pool.totals)
            error = users.spread.std_error(smooth[request]) if request in smooth else None
            numbers.append(Number.of_rows(value, error, users.n_groups, level=level))
        if not self.job.keeps:
            return Measured(numbers, users.n_groups)
        columns = {}
        for kind, results in by_kind.items():
            own = self.job.over(kind)
            columns[kind] = results.kept.columns(
                list(zip(own, results.means, strict=True)),
                results.spread,
                [smooth.get(request) for request in self.job.over("rows")]
                if kind == "users"
                else [],
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
        found: list[Warning_] = []
        if self.pool is not None and self.walked is not None:
            found += _warnings(model, requests, self.walked, self.pool)
        for kind, results in self.by_kind.items():
            own = [request for request in requests if over(request) == kind]
            found += warn_of_infinite(model, own, results.means)
        return found


def _terms(request: Request) -> tuple[Term, ...]:
    smooth = request.over_rows.smooth
    return () if smooth is None else smooth.terms


def _smooth(pooled: Sequence[Request], placements: Placements | None) -> dict[Request, Smooth]:
    """The requests over all rows that have a standard error."""
    return {
        request: request.over_rows.smooth
        for request in pooled
        if request.over_rows.smooth is not None
        and (placements is not None or not any(map(is_area, _terms(request))))
    }


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
        if isinstance(best, Best) and math.isfinite(best.most):
            message = (
                f"{request.label} is best from score {best.point[2]!r} on, chosen on the rows it "
                "is measured on"
            )
            yield Warning_("best-threshold", message, name)
    if pool.totals.rows and not (pool.totals.positives and pool.totals.negatives):
        yield Warning_("one-class", "all labels are of one kind", name)
