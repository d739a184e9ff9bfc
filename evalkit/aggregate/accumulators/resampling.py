"""What is drawn or ranked user by user: bootstrap, sign flips, signed ranks.

A second pass over the values of the users, made when it is asked for, since it costs more than the
sums. Draws are hashes of seed, user and replicate, and what is added up are whole numbers: the
same bits for every order, thread count and split of the users.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import numpy as np

from evalkit.aggregate.segments import CellSet, Segment
from evalkit.aggregate.sums import Pair, Totals, add_all, add_to
from evalkit.aggregate.user_values.blocks import BlockValues, stack_columns
from evalkit.aggregate.user_values.gather import is_mean_of_users
from evalkit.config import Config, StatisticsSection
from evalkit.errors import RequestError
from evalkit.kernels.arrays import Floats, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.metrics import Request, is_ordered
from evalkit.statistics import bootstrap, permutation
from evalkit.statistics.bootstrap import Resamples
from evalkit.statistics.intervals import Interval
from evalkit.statistics.paired import PairedTest
from evalkit.statistics.permutation import SignFlips

MOST_BYTES = 4 << 30  # of what a thread draws


def resamples(chosen: StatisticsSection) -> bool:
    """Whether anything asks for a second pass over the users' values."""
    is_drawn = chosen.test not in ("auto", "t", "sign")
    return chosen.method == "bootstrap" or (is_drawn and _compares(chosen))


def _compares(chosen: StatisticsSection) -> bool:
    return chosen.baseline is not None or chosen.pairs == "all"


@dataclass(slots=True)
class _Drawn:
    """What one thread has added up, by cell of the users."""

    resamples: Resamples | None
    flips: SignFlips | None


@dataclass(slots=True)
class Draws:
    """What was drawn over users, by segment.

    Args:
        models, pairs: whose values and differences stand side by side in the columns.
        resamples, flips: of each segment.
        differences: of each segment and pair float64[n_users, n_requests], kept for ranks.
        n_bytes: that a thread drew at most.
    """

    models: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
    resamples: dict[Segment, Resamples] = field(default_factory=dict)
    flips: dict[Segment, SignFlips] = field(default_factory=dict)
    differences: dict[tuple[Segment, Pair], list[Floats]] = field(default_factory=dict)
    n_bytes: int = 0

    def merge(self, other: "Draws") -> None:
        """Take over what was drawn over other users."""
        self.models, self.pairs = self.models or other.models, self.pairs or other.pairs
        add_all(self.resamples, other.resamples)
        add_all(self.flips, other.flips)
        for key, parts in other.differences.items():
            self.differences.setdefault(key, []).extend(parts)
        self.n_bytes = max(self.n_bytes, other.n_bytes)

    def pool(self, pooled: Mapping[Segment, Segment]) -> None:
        """Put segments together as the sums were."""
        for segment, into in pooled.items():
            if segment in self.resamples:
                add_to(self.resamples, into, self.resamples.pop(segment))
            if segment in self.flips:
                add_to(self.flips, into, self.flips.pop(segment))
            for pair in self.pairs:
                if parts := self.differences.pop((segment, pair), []):
                    self.differences.setdefault((into, pair), []).extend(parts)


@dataclass(slots=True)
class Resampling:
    """Draws over all users, by segment.

    Args:
        chosen: the statistics that were asked for.
        requests: the metrics that are drawn.
        in_passes: the users come in several shares.
        subtracts: gains below 0 count, so that shares of an ideal gain have no lower bound.
        draws: what has been drawn.
    """

    chosen: StatisticsSection
    requests: tuple[Request, ...]
    in_passes: bool
    subtracts: bool = False
    draws: Draws = field(default_factory=Draws)

    @classmethod
    def of(
        cls,
        config: Config,
        requests: Sequence[Request],
        *,
        in_passes: bool = False,
        draws: Draws | None = None,
    ) -> "Resampling | None":
        """What the config asks for; None where sums say it all, or nothing is a mean of users."""
        chosen = config.statistics
        if not resamples(chosen):
            return None
        means = [each for each in requests if is_mean_of_users(each, config.policies)]
        wanted = [each for each in means if not is_ordered(each)]
        if chosen.metrics:
            labels = {request.label for request in config.read_metrics(chosen.metrics)}
            wanted = [request for request in wanted if request.label in labels]
        subtracts = config.policies.negative_relevance == "subtract"
        found = draws or Draws()
        return cls(chosen, tuple(wanted), in_passes, subtracts, found) if wanted else None

    @property
    def is_bounded(self) -> bool:
        """Whether no value and no difference can be beyond -1 and 1, as draws know before them."""
        bounds = [request.metric.bounds for request in self.requests]
        widest = 1.0 if _compares(self.chosen) else 2.0
        return not self.subtracts and all(
            -1.0 <= low and high <= 1.0 and high - low <= widest for low, high in bounds
        )

    @property
    def bootstraps(self) -> bool:
        """Whether values are resampled."""
        return "bootstrap" in (self.chosen.method, self.chosen.test)

    def add(
        self,
        users: BlockValues,
        keys: Keys,
        models: Sequence[str],
        pairs: Sequence[Pair],
        cell_sets: Sequence[CellSet],
        threads: int,
    ) -> None:
        """Draw over the users of one share.

        Args:
            users: values of `requests`.
            keys: uint64[n_users], stable hashes of the users' ids.
        """
        drawn = self.draws
        drawn.models, drawn.pairs = tuple(models), tuple(pairs)
        largest = self._largest(users, threads)
        n_cells = sum(cells.n_cells for cells in cell_sets)
        drawn.n_bytes = max(drawn.n_bytes, self._bytes(len(largest), n_cells))
        if drawn.n_bytes > MOST_BYTES:
            raise RequestError(
                f"{self.chosen.replicates:,} replicates of {len(largest):,} columns in "
                f"{n_cells:,} groups of users take {drawn.n_bytes >> 20:,} MiB a thread",
                code="resampling-memory",
                hint="name fewer metrics under [statistics] metrics, or fewer segments",
            )
        for cells in cell_sets:
            self._add_set(users, keys, cells, largest, threads)

    def _largest(self, users: BlockValues, threads: int) -> list[float]:
        """For each column a bound of its absolute values: 1, or the largest that there is."""
        n_columns = len(self.requests)
        totals = Totals(self.draws.models, self.draws.pairs, n_columns, 1)

        def work(block: Ints) -> None:
            cells = np.zeros(block.size, dtype=np.int32)
            totals.add(users.measure(block), users.higher_is_better, cells)

        for _ in ordered_map(work, users.blocks(), threads=threads):
            pass
        sums = [*totals.models.values(), *(found.deltas for found in totals.pairs.values())]
        bounds = []
        for state in sums:
            state = state.take(users.columns)
            bounds += [max(1.0, state.largest_of(column)) for column in range(n_columns)]
        if self.in_passes and max(bounds, default=1.0) > 1.0:
            names = [
                request.label
                for column, request in enumerate(self.requests)
                if max(bounds[column::n_columns]) > 1.0
            ]
            raise RequestError(
                f"{', '.join(names)} cannot be resampled in several passes: "
                "their largest value must be known before the first",
                code="bootstrap-passes",
                hint="name other metrics under [statistics] metrics, or measure all users in one "
                "pass: evalkit run, with more --memory-limit",
            )
        return bounds

    def _add_set(
        self, users: BlockValues, keys: Keys, cells: CellSet, largest: Sequence[float], threads: int
    ) -> None:
        idle: SimpleQueue[_Drawn] = SimpleQueue()
        made: list[_Drawn] = []
        ranked = self.chosen.test == "wilcoxon"

        def work(block: Ints) -> tuple[Ints, list[Floats]]:
            measured = users.measure(block)
            values = {name: stack_columns(users, each) for name, each in measured.items()}
            deltas = [values[new] - values[old] for old, new in self.draws.pairs]
            try:
                drawn = idle.get_nowait()
            except Empty:  # as many as threads meet here
                drawn = self._fresh(largest, cells.n_cells)
                made.append(drawn)
            codes = cells.codes[block]
            if drawn.resamples is not None:
                together = np.concatenate([*values.values(), *deltas], axis=1)
                drawn.resamples.add(keys[block], together, codes)
            if drawn.flips is not None:
                drawn.flips.add(keys[block], np.concatenate(deltas, axis=1), codes)
            idle.put(drawn)
            return block, deltas if ranked else []

        kept: list[tuple[Ints, list[Floats]]] = []
        for block, deltas in ordered_map(work, users.blocks(), threads=threads):
            if deltas:
                kept.append((block, deltas))
        for segment, members in cells.members.items():
            for drawn in made:
                self._take(drawn, segment, members)
            is_in = np.isin(np.arange(cells.n_cells), members)
            for block, deltas in kept:
                chosen = is_in[cells.codes[block]]
                for pair, delta in zip(self.draws.pairs, deltas, strict=True):
                    kept_of_pair = self.draws.differences.setdefault((segment, pair), [])
                    kept_of_pair.append(delta[chosen])

    def _fresh(self, largest: Sequence[float], n_cells: int) -> _Drawn:
        chosen = self.chosen
        drawn = _Drawn(None, None)
        if self.bootstraps:
            squares = chosen.limits == "studentised"
            drawn.resamples = bootstrap.Resamples.empty(
                largest,
                replicates=chosen.replicates,
                seed=chosen.seed,
                n_segments=n_cells,
                squares=squares,
            )
        if chosen.test == "permutation" and self.draws.pairs:
            n_values = len(self.draws.models) * len(self.requests)
            drawn.flips = permutation.SignFlips.empty(
                largest[n_values:],
                replicates=chosen.replicates,
                seed=chosen.seed,
                n_segments=n_cells,
            )
        return drawn

    def _bytes(self, n_columns: int, n_cells: int) -> int:
        """Memory of what one thread draws; signed ranks keep the differences of all users."""
        chosen, n_bytes = self.chosen, 0
        if self.bootstraps:
            n_bytes += bootstrap.estimate_bytes(
                n_columns,
                replicates=chosen.replicates,
                n_segments=n_cells,
                squares=chosen.limits == "studentised",
            )
        if chosen.test == "permutation":
            n_deltas = len(self.draws.pairs) * len(self.requests)
            n_bytes += permutation.estimate_bytes(
                n_deltas, replicates=chosen.replicates, n_segments=n_cells
            )
        return n_bytes

    def _take(self, drawn: _Drawn, segment: Segment, members: Ints) -> None:
        if drawn.resamples is not None:
            add_to(self.draws.resamples, segment, drawn.resamples.over(members))
        if drawn.flips is not None:
            add_to(self.draws.flips, segment, drawn.flips.over(members))

    def interval(
        self,
        segment: Segment,
        target: str | Pair,
        label: str,
        mean: float,
        *,
        level: float | None = None,
    ) -> Interval | None:
        """Limits of a model's value, or of a pair's delta; None where sums give them."""
        column = self._column(target, label)
        if (
            self.chosen.method != "bootstrap"
            or column is None
            or segment not in self.draws.resamples
        ):
            return None
        chosen = self.chosen
        found = self.draws.resamples[segment]
        level = chosen.level if level is None else level
        return found.interval(column, level=level, kind=chosen.limits, estimate=mean)

    def test(self, segment: Segment, pair: Pair, label: str) -> PairedTest | None:
        """The test of no difference that was asked for; None where it is the t test."""
        column = self._column(pair, label)
        if column is None:
            return None
        if self.chosen.test == "bootstrap" and segment in self.draws.resamples:
            return self.draws.resamples[segment].test(column)
        if self.chosen.test == "permutation" and segment in self.draws.flips:
            n_values = len(self.draws.models) * len(self.requests)
            return self.draws.flips[segment].test(column - n_values)
        if self.chosen.test == "wilcoxon" and (segment, pair) in self.draws.differences:
            from evalkit.statistics.wilcoxon import wilcoxon_test

            place = [request.label for request in self.requests].index(label)
            parts = [part[:, place] for part in self.draws.differences[segment, pair]]
            return wilcoxon_test(np.concatenate(parts))
        return None

    def _column(self, target: str | Pair, label: str) -> int | None:
        labels = [request.label for request in self.requests]
        if label not in labels:
            return None
        if isinstance(target, str):
            row = self.draws.models.index(target)
        else:
            row = len(self.draws.models) + self.draws.pairs.index(target)
        return row * len(labels) + labels.index(label)
