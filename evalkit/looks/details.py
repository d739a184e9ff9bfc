"""What a report holds beyond means: parts that explain a change, distributions, curves.

All of it comes from the values as they are measured, block after block, from any thread.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Config, Policies
from evalkit.exact import SCALE_BITS, CellRows, ExactSum, ExactSums
from evalkit.kernels import kernel
from evalkit.metrics import Request
from evalkit.report import Curve, Distribution, Graph
from evalkit.segments import CellSet, UserSegments
from evalkit.statistics.means import interval_of
from evalkit.sums import Totals
from evalkit.truth import Truth
from evalkit.values.blocks import UserValues, Values, measure_models
from evalkit.values.gather import RankSets, is_mean_of_users

BINS = 32  # of values within 0 and 1; their edges are exact
RELEVANT_FROM = (0, 1, 2, 3, 5, 9, 17, 33)  # where each range of numbers of relevant items begins
N_KINDS = 2 * len(RELEVANT_FROM)  # of users in a segment: ranges, and whether they are ranked
MOST_PART_CELLS = 4096  # of a segmentation

Codes = npt.NDArray[np.int32]


# ---------------------------------------------------------------- distributions


@kernel(allocates=False)
def count_bins(values, first_column, counts):  # type: ignore[no-untyped-def]
    """Count float64[n_users, n_cutoffs] by bin; what is outside of 0 and 1 in the last column."""
    n_bins = counts.shape[1] - 1
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            value = values[row, column]
            if value >= 0.0 and value <= 1.0:
                place = min(int(value * n_bins), n_bins - 1)
                counts[first_column + column, place] += 1
            elif value == value:
                counts[first_column + column, n_bins] += 1


@dataclass(slots=True)
class Histograms:
    """How many users have values in each bin, of every model and request.

    Args:
        requests: whose values come by.
        counts: model -> int64[n_requests, BINS + 1].
    """

    requests: Sequence[Request]
    counts: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def add(self, values: Mapping[str, Sequence[Values]], columns: npt.NDArray[np.int64]) -> None:
        """A block of users; the column that each request stands in."""
        n_shown = len(self.requests)
        for name, groups in values.items():
            counts = np.zeros((columns.size, BINS + 1), dtype=np.int64)
            first = 0
            for each in groups:
                count_bins(each, first, counts)
                first += each.shape[1]
            with self._lock:
                own = self.counts.setdefault(name, np.zeros((n_shown, BINS + 1), dtype=np.int64))
                own += counts[columns[:n_shown]]

    def distributions(self) -> Iterator[Distribution]:
        """Of those requests whose values all lie within 0 and 1."""
        edges = tuple(place / BINS for place in range(BINS + 1))
        for name, counts in self.counts.items():
            for column, request in enumerate(self.requests):
                if request.metric.bounds == (0.0, 1.0) and not counts[column, BINS]:
                    inside = tuple(int(each) for each in counts[column, :BINS])
                    yield Distribution(name, request.label, edges, inside)


# ---------------------------------------------------------------- parts of a change


@dataclass(frozen=True, slots=True)
class _Split:
    """Users by segment, number of relevant items, and whether they are ranked."""

    name: str | None
    labels: tuple[str, ...]
    codes: Mapping[str, Codes]  # of each model
    n_cells: int
    sums: dict[str, ExactSums]
    locks: Mapping[str, Lock]


class PartSums:
    """Exact sums by cells that explain a change between two runs, of one share of the users.

    Args:
        present: for each model bool[n_users], whether the user has a ranking.
        segmentations: of the users.
    """

    def __init__(
        self,
        truth: Truth,
        present: Mapping[str, npt.NDArray[np.bool_]],
        segmentations: Sequence[UserSegments],
    ) -> None:
        relevant = np.searchsorted(RELEVANT_FROM, truth.pairs.n_relevant, side="right") - 1
        everyone = np.zeros(truth.pairs.n_users, dtype=np.int32)
        listed: list[tuple[str | None, tuple[str, ...], Codes]] = [(None, ("",), everyone)]
        listed += [(each.name, each.groups.labels, each.groups.codes) for each in segmentations]
        self._splits = []
        for name, labels, codes in listed:
            n_cells = N_KINDS * len(labels)
            if n_cells > MOST_PART_CELLS:
                continue
            self._splits.append(
                _Split(
                    name,
                    labels,
                    {
                        model: ((codes * len(RELEVANT_FROM) + relevant) * 2 + here).astype(np.int32)
                        for model, here in present.items()
                    },
                    n_cells,
                    {},
                    {model: Lock() for model in present},
                )
            )

    def add(
        self,
        users: npt.NDArray[np.int64],
        values: Mapping[str, Sequence[Values]],
        n_columns: int,
    ) -> None:
        """A block of users."""
        for split in self._splits:
            for model, groups in values.items():
                rows = CellRows.of(split.codes[model][users], split.n_cells)
                with split.locks[model]:
                    if model not in split.sums:
                        split.sums[model] = ExactSums(n_columns, split.n_cells)
                    sums = split.sums[model]
                    first = 0
                    for each in groups:
                        sums.add(each, first_column=first, rows=rows)
                        first += each.shape[1]

    def rows(self, requests: Sequence[Request], columns: npt.NDArray[np.int64]) -> pl.DataFrame:
        """One row for each model, request and cell with users."""
        found = [
            (
                model,
                request.label,
                split.name,
                split.labels[cell // N_KINDS] if split.name is not None else None,
                spell_range(cell // 2 % len(RELEVANT_FROM)),
                bool(cell % 2),
                sums.count,
                spell_sum(sums.scaled),
            )
            for split in self._splits
            for model, all_sums in split.sums.items()
            for cell in np.flatnonzero(np.bincount(split.codes[model])).tolist()
            for request, sums in _sums_of(all_sums, cell, requests, columns)
            if sums.count
        ]
        return pl.DataFrame(found, schema=PART_SCHEMA, orient="row")


PART_SCHEMA = {
    "model": pl.String,
    "metric": pl.String,
    "segmentation": pl.String,
    "segment": pl.String,
    "relevant": pl.String,
    "is_ranked": pl.Boolean,
    "n_users": pl.Int64,
    "sum": pl.String,
}


def _sums_of(
    sums: ExactSums, cell: int, requests: Sequence[Request], columns: npt.NDArray[np.int64]
) -> Iterator[tuple[Request, ExactSum]]:
    for request, column in zip(requests, columns, strict=False):
        yield request, sums.sum_of(cell * sums.n_columns + int(column))


def spell_range(place: int) -> str:
    """A range of numbers of relevant items: `3-4`, or `33 or more`."""
    first = RELEVANT_FROM[place]
    if place == len(RELEVANT_FROM) - 1:
        return f"{first} or more"
    last = RELEVANT_FROM[place + 1] - 1
    return str(first) if first == last else f"{first}-{last}"


MOST_BITS = 1 << 13  # no sum of floats has so many
_SUM = re.compile(r"(?P<number>-?\d{1,2500})\*2\^(?P<exponent>-?\d{1,5})", re.ASCII)


def spell_sum(scaled: int) -> str:
    """An exact sum, an integer times 2^-1074, as `integer*2^exponent` without trailing zeros."""
    if scaled == 0:
        return "0*2^0"
    shift = (scaled & -scaled).bit_length() - 1
    return f"{scaled >> shift}*2^{shift - SCALE_BITS}"


def read_sum(text: str) -> int:
    """The integer that `spell_sum` wrote.

    Raises:
        ValueError: it wrote no such text.
    """
    found = _SUM.fullmatch(text)
    if found is None or int(found["exponent"]) + SCALE_BITS not in range(MOST_BITS):
        raise ValueError(f"{text[:40]!r} is no exact sum")
    number = int(found["number"])
    return number << (int(found["exponent"]) + SCALE_BITS) if number else 0


def add_parts(one: pl.DataFrame | None, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of two shares of the users, cell by cell."""
    if one is None:
        return other
    merged: dict[tuple[object, ...], list[int]] = {}
    for *cell, n_users, text in [*one.rows(), *other.rows()]:
        known = merged.setdefault(tuple(cell), [0, 0])
        known[0] += n_users
        known[1] += read_sum(text)
    rows = [(*cell, n_users, spell_sum(scaled)) for cell, (n_users, scaled) in merged.items()]
    return pl.DataFrame(rows, schema=PART_SCHEMA, orient="row")


# ---------------------------------------------------------------- curves


def curve_requests(requests: Sequence[Request], policies: Policies) -> list[Request]:
    """Every metric that has a cutoff, at each one up to its deepest."""
    deepest: dict[Request, int] = {}
    for request in requests:
        if request.cutoff is not None and is_mean_of_users(request, policies):
            whole = replace(request, cutoff=None)
            deepest[whole] = max(deepest.get(whole, 0), request.cutoff)
    return [
        replace(whole, cutoff=cutoff)
        for whole, last in deepest.items()
        for cutoff in range(1, last + 1)
    ]


@dataclass(slots=True)
class CurveSums:
    """Sums of every metric at every cutoff.

    Args:
        requests: as `curve_requests` gives them.
        sums: of each model.
    """

    requests: Sequence[Request]
    sums: dict[str, ExactSums] = field(default_factory=dict)

    def take(self, totals: Totals, columns: npt.NDArray[np.int64]) -> None:
        """Take over a share's sums."""
        for name, found in totals.models.items():
            own = self.sums.setdefault(name, ExactSums(columns.size))
            own.merge(found.over(np.arange(1)).take(columns))

    def curves(self, level: float) -> Iterator[Curve]:
        """One curve for each model and metric."""
        for name, sums in self.sums.items():
            by_metric: dict[Request, list[int]] = {}
            for column, request in enumerate(self.requests):
                by_metric.setdefault(replace(request, cutoff=None), []).append(column)
            for whole, columns in by_metric.items():
                totals = [sums.sum_of(column) for column in columns]
                bounds = whole.metric.bounds
                limits = [
                    interval_of(total, sums.skewness_of(column), bounds, level=level)
                    for total, column in zip(totals, columns, strict=True)
                ]
                yield Curve(
                    name,
                    whole.label,
                    tuple(self.requests[column].cutoff or 0 for column in columns),
                    tuple(total.mean for total in totals),
                    tuple(_or_none(each.low) for each in limits),
                    tuple(_or_none(each.high) for each in limits),
                )


def precision_recall(curves: Sequence[Curve]) -> Iterator[Graph]:
    """Precision by recall, cutoff by cutoff, of each model that has the curves of both.

    Of several kinds of either, the first one is drawn.
    """
    found: dict[str, dict[str, Curve]] = {}
    for curve in curves:
        name = curve.metric.partition("(")[0]
        found.setdefault(curve.model, {}).setdefault(name, curve)
    for model, by_name in found.items():
        if "precision" in by_name and "recall" in by_name:
            y, x = by_name["precision"], by_name["recall"]
            n = min(len(x.cutoffs), len(y.cutoffs))
            yield Graph(
                model,
                "precision-recall-by-cutoff",
                x.metric,
                y.metric,
                x.values[:n],
                y.values[:n],
                y.low[:n],
                y.high[:n],
                thresholds=tuple(float(each) for each in x.cutoffs[:n]),
                x_low=x.low[:n],
                x_high=x.high[:n],
            )


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


# ---------------------------------------------------------------- all of them


@dataclass(slots=True)
class Details:
    """What a config asks for beyond means, over all shares of the users.

    Args:
        requests: what is reported; values of helping requests may stand behind them.
        keep_parts: also keep what explains a change.
    """

    config: Config
    requests: Sequence[Request]
    keep_parts: bool
    histograms: Histograms | None = None
    curves: CurveSums | None = None
    parts: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        if self.config.statistics.distributions:
            self.histograms = Histograms(self.requests)
        if self.config.statistics.curves:
            self.curves = CurveSums(curve_requests(self.requests, self.config.policies))

    def watch(
        self, truth: Truth, ranks: Mapping[str, RankSets], segmentations: Sequence[UserSegments]
    ) -> "Watch | None":
        """What looks at every block of values of one share; None where nobody asks."""
        if self.histograms is None and not self.keep_parts:
            return None
        sums = None
        if self.keep_parts:
            present = {name: next(iter(each.sets.values())).present for name, each in ranks.items()}
            sums = PartSums(truth, present, segmentations)
        return Watch(self, sums)

    def draw_curves(self, truth: Truth, ranks: Mapping[str, RankSets], threads: int) -> None:
        """Measure one share at every cutoff."""
        if self.curves is None or not self.curves.requests:
            return
        users = UserValues(truth, ranks, self.curves.requests, self.config.policies)
        cells = CellSet.of_one(users.n_users)
        (totals,) = measure_models(users, tuple(ranks), cell_sets=[cells], threads=threads)
        self.curves.take(totals, users.columns)

    @property
    def found_curves(self) -> tuple[Curve, ...]:
        """The curves of all models."""
        level = self.config.statistics.level
        return () if self.curves is None else tuple(self.curves.curves(level))

    @property
    def found_graphs(self) -> tuple[Graph, ...]:
        """What the curves of all models show together."""
        return tuple(precision_recall(self.found_curves))

    @property
    def found_distributions(self) -> tuple[Distribution, ...]:
        """The distributions of all models."""
        return () if self.histograms is None else tuple(self.histograms.distributions())

    def drop_parts(self, n_segments: Mapping[str, int]) -> None:
        """Leave segmentations out of the parts that have too many segments over all shares."""
        if self.parts is not None:
            many = [name for name, n in n_segments.items() if n * N_KINDS > MOST_PART_CELLS]
            is_kept = ~pl.col("segmentation").is_in(many)
            self.parts = self.parts.filter(is_kept.fill_null(value=True))

    @property
    def found_parts(self) -> pl.DataFrame | None:
        """What explains a change, in an order that depends on nothing else."""
        if self.parts is None:
            return None
        names = ["model", "metric", "segmentation", "segment", "relevant", "is_ranked"]
        return self.parts.sort(names, maintain_order=True)


@dataclass(slots=True)
class Watch:
    """Looks at every block of values of one share."""

    details: Details
    sums: PartSums | None

    def add(
        self,
        users: npt.NDArray[np.int64],
        values: Mapping[str, Sequence[Values]],
        columns: npt.NDArray[np.int64],
    ) -> None:
        """A block of users; the column that each request stands in."""
        if self.details.histograms is not None:
            self.details.histograms.add(values, columns)
        if self.sums is not None:
            self.sums.add(users, values, columns.size)

    def close(self, columns: npt.NDArray[np.int64]) -> None:
        """The share has been measured."""
        if self.sums is not None:
            rows = self.sums.rows(self.details.requests, columns)
            self.details.parts = add_parts(self.details.parts, rows)
