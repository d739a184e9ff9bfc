"""Labels from config to report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evalkit.config import Config
from evalkit.errors import DataError, MachineError, RequestError
from evalkit.keys import KeyCollisionError
from evalkit.labels._bands import Bands, NoBands, Ruler
from evalkit.labels._graphs import Drawing
from evalkit.labels._groups import GroupResults, measure_groups
from evalkit.labels._parts import Leading, ScoreParts
from evalkit.labels._placements import AREAS, Placements, place_rows
from evalkit.labels._pooled import Pooled
from evalkit.labels._rows import LabelReader, mark_scores, refuse_policies
from evalkit.labels._smooth import smooth_of
from evalkit.labels._values import Values
from evalkit.labels._walk import Walked
from evalkit.labels._wanted import Wanted, is_best
from evalkit.ledger import Clock
from evalkit.metrics import Request, over
from evalkit.plan import Given
from evalkit.report import Report, TruthCounts, Warning_
from evalkit.rows import (
    Findings,
    Grouping,
    Keeping,
    Measured,
    ModelRows,
    Models,
    Number,
    Reading,
    Room,
    RowTally,
    Smooth,
    UserSources,
    check_resampled,
    check_rows,
    compares,
    count_lost,
    find_repeats,
    find_users,
    group_by,
    inputs_of,
    make_report,
    open_all,
    open_user_sources,
    room_beside,
    warn_of_infinite,
    warn_of_lost,
)
from evalkit.segments import ALL
from evalkit.sources import Table, open_labels

SEEDS = range(1, 17)


def run_labels(
    config: Config,
    *,
    given: Given,
    threads: int,
    memory_limit: int | None,
    sample: float | None,
    per_user: bool,
    per_user_folder: Path | None,
    clock: Clock,
) -> Report:
    """The report of a config with [labels].

    Args:
        given: tables in memory, in place of the paths.
        threads: kernels that run side by side.
        memory_limit: bytes that a run may take.
        sample: share of the users.
        per_user: keep the values of every user.
        per_user_folder: in a Parquet file there; None: in memory.
        clock: of the run; tables are set here.
    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: the rows do not fit into the memory [memory-limit].
    """
    refuse_policies(config.policies)
    requests = config.requests
    _check_sessions(config, requests)
    check_resampled(config)
    opened = open_labels_of(config, given.rankings)
    held = [*given.rankings, *([None] * len(config.labels))]
    own = list(zip(config.labels, held, strict=False))
    sources = open_user_sources(config, own, given.segments)
    keeping = None
    if per_user:
        keeping = Keeping.of(requests, opened[0].user_names, per_user_folder)
    models = [(table.model, each) for table, each in zip(config.labels, opened, strict=True)]
    clock.line.tables = opened
    thresholds = {
        id(each): table.threshold for table, each in zip(config.labels, opened, strict=True)
    }
    clock.start()
    for seed in SEEDS:
        run = _Run(
            config,
            requests,
            models,
            sources,
            keeping,
            thresholds,
            threads,
            memory_limit,
            sample,
            clock,
        )
        try:
            return run.report(seed)
        except KeyCollisionError:
            continue
    raise MachineError("ids share their keys under every seed", code="key-collision")


def open_labels_of(config: Config, given: Sequence[object | None] = ()) -> list[Table]:
    """Every table of labels, opened; `given` tables stand in for paths."""
    held = [*given, *([None] * len(config.labels))]
    return open_all(
        [
            lambda table=table, given=one: open_labels(table, given)  # type: ignore[misc]
            for table, one in zip(config.labels, held, strict=False)
        ]
    )


def open_all_of(config: Config) -> list[Table]:
    """Every table of labels, then those of segments."""
    own = [(table, None) for table in config.labels]
    return [*open_labels_of(config), *open_user_sources(config, own, {}).inputs]


def _check_sessions(config: Config, requests: Sequence[Request]) -> None:
    asked = [request.label for request in requests if over(request) == "sessions"]
    of_users = {
        "segments": bool(config.segments.named),
        "clusters": config.statistics.cluster is not None,
    }
    for what in [what for what, is_there in of_users.items() if asked and is_there]:
        raise RequestError(
            f"{', '.join(asked)} is over sessions, and {what} are of users",
            code=f"sessions-in-{what}",
            at=config.at("segments") if what == "segments" else config.at("statistics", "cluster"),
            hint="leave one of both out",
        )
    if asked and not all(each.columns.session or each.session_every for each in config.labels):
        raise RequestError(
            f"{', '.join(asked)} needs a session column",
            code="missing-key",
            at=config.at("labels", 0, "columns"),
            hint='session = "session_id" under [labels.columns], or session_every = "1d"',
        )


@dataclass(frozen=True, slots=True)
class _Run:
    config: Config
    requests: Sequence[Request]
    models: Models
    sources: UserSources
    keeping: Keeping | None
    thresholds: Mapping[int, float | None]
    threads: int
    memory_limit: int | None
    sample: float | None
    clock: Clock

    @property
    def keeps(self) -> bool:
        """Whether values of users are needed, beyond what sums say."""
        return compares(self.config) or self.keeping is not None

    def report(self, seed: int) -> Report:
        config, clock = self.config, self.clock
        found = Findings(keeping=self.keeping)
        tables = [table for _, table in self.models]
        kinds = ["user"]
        if any(over(request) == "sessions" for request in self.requests):
            kinds.append("session")
        of_users = [*tables, *self.sources.tables]
        groupings = [group_by(k, of_users if k == "user" else tables, seed) for k in kinds]
        find_users(config, tables, groupings[0], self.sources, found, sample=self.sample)
        clock.stop("segments")
        reader = LabelReader(config.policies, self.thresholds)
        smooth = [smooth_of(request) for request in Wanted.of(self.requests).requests]
        room = room_beside(
            config,
            self.requests,
            [each for each in smooth if each is not None],
            tables,
            groupings,
            limit=self.memory_limit,
            threads=self.threads,
            copies=2 if self.sources.segments else 1,
            sample=self.sample,
            keeps=self.keeping is not None,
        )
        reading = Reading(
            groupings,
            reader.columns,
            reader.prepare,
            reader.dtypes,
            config.policies,
            self.threads,
            self.sample,
            clock.line.advance,
            room,
            mark_scores if Wanted.of(self.requests).requests else None,
        )
        tallies: dict[str, RowTally] = {}
        for model, table in self.models:  # one after the other: only one is in memory
            repeats = self._find_repeats(table, room)
            for name, rows in reading.models_of(model, table):
                clock.stop("read")
                if name in tallies:
                    raise DataError(
                        f"two tables have rows of {name!r}", code="duplicate-model", at=table.at
                    )
                tallies[name] = rows.tally
                if repeats is not None:
                    self._note_repeats(name, table, repeats, rows.tally, found)
                found.warnings += check_rows(config, {name: rows}, {name: table.at})
                found.warnings += warn_of_lost(name, count_lost(rows, groupings[0]))
                self._measure(name, rows, reader.dtypes(table), groupings, table, found)
        return make_report(
            config,
            self.requests,
            inputs_of("labels", self.models, tallies, self.sources),
            tallies,
            _truth_counts(tallies, found),
            found,
            clock,
            threads=self.threads,
            sample=self.sample,
        )

    def _find_repeats(self, table: Table, room: Room) -> dict[str | None, int] | None:
        """How many rows of each model are there again; None where rows name no items."""
        if "item" not in table.frame.collect_schema():
            return None
        return find_repeats(table, ["item", "time"], room)

    def _note_repeats(
        self,
        name: str,
        table: Table,
        repeats: Mapping[str | None, int],
        tally: RowTally,
        found: Findings,
    ) -> None:
        """Rows of a user, an item and a time that are there again: refused, or counted."""
        number = repeats.get(name, 0) if None not in repeats else repeats[None]
        tally.noted["duplicates"] = number
        if number and self.config.policies.duplicates == "error":
            raise DataError(
                f"{number:,} rows list an item of a user and a time again",
                code="duplicate-row",
                at=table.at,
                hint='write duplicates = "count" under [policies] to keep them',
            )
        if number:
            message = f"{number:,} rows list an item of a user and a time again, and count"
            found.warnings.append(Warning_("duplicate-row", message, name))

    def _measure(
        self,
        name: str,
        rows: ModelRows,
        dtypes: Mapping[str, type],
        groupings: Sequence[Grouping],
        table: Table,
        found: Findings,
    ) -> None:
        leading = rows.tally.marks.pop("scores", Leading.nothing())
        assert isinstance(leading, Leading)
        wanted = Wanted.of(self.requests)
        self._check_probabilities(leading, dtypes, wanted, table)
        if found.segments is not None:
            for segment, part in found.segments.split(rows, groupings[0], threads=self.threads):
                seen = self._look(part, dtypes, groupings[:1], Leading.of_all(part))
                found.measured.setdefault(segment, {})[name] = self._measured(seen)
            self.clock.stop("segments")
        seen = self._look(rows, dtypes, groupings, leading, name)
        rows.forget()
        users = seen.by_kind["users"]
        if seen.pool is not None and seen.walked is not None:
            found.warnings += _warnings(name, wanted, seen.walked, seen.pool)
        for kind, results in seen.by_kind.items():
            own = [request for request in self.requests if over(request) == kind]
            found.warnings += warn_of_infinite(name, own, results.means)
        if seen.drawing is not None:
            bands: Bands | NoBands = NoBands()
            if users.bands is not None:
                bands = Bands(users.bands, users.n_groups, level=self.config.statistics.level)
            found.graphs += seen.drawing.graphs(bands)
        found.users[name], found.most_rows[name] = users.n_groups, users.most_rows
        found.pairs[name] = rows.tally.noted.get("positives", 0)
        found.measured.setdefault(ALL, {})[name] = self._measured(seen)

    def _look(
        self,
        rows: ModelRows,
        dtypes: Mapping[str, type],
        groupings: Sequence[Grouping],
        leading: Leading,
        drawn: str | None = None,
    ) -> "_Seen":
        """Everything that numbers are made of, and curves of the model that is named.

        Args:
            rows: of one model, or of a segment of its users.
            leading: of their scores.
        """
        wanted = Wanted.of(self.requests)
        pool = walked = placements = drawing = ruler = None
        if wanted.requests:
            half = 1 << 8 * np.dtype(dtypes["score"]).itemsize - 1  # a label beside it has room
            parts = ScoreParts.of(leading, rows, apart=None if "weight" in dtypes else half)
            pool = Pooled(rows, dtypes, parts, threads=self.threads)
            walked = pool.walk(wanted)
            if "weight" not in dtypes:
                placements = self._place(rows, leading, wanted)
        if drawn is not None and pool is not None and walked is not None:
            drawing = Drawing(drawn, pool.totals, walked, pool.score_range[0])
        if drawing is not None and pool is not None and self.config.statistics.cluster is None:
            ruler = Ruler.make(
                drawing.marks(), drawing.edges(), dtypes["score"], weight=pool.totals.rows
            )
        self.clock.stop("scores")
        smooth = _smooth(wanted, placements)
        by_kind: dict[str, GroupResults] = {}
        for grouping in groupings:
            kind = f"{grouping.name}s"
            for store in rows.shares(grouping):
                results = measure_groups(
                    store,
                    grouping,
                    [request for request in self.requests if over(request) == kind],
                    list(smooth.values()) if kind == "users" else [],
                    placements=placements,
                    keep=self.keeps,
                    ruler=ruler if kind == "users" else None,
                    threads=self.threads,
                )
                if kind in by_kind:
                    by_kind[kind].merge(results)
                else:
                    by_kind[kind] = results
        self.clock.stop("users")
        return _Seen(by_kind, smooth, pool, walked, drawing)

    def _place(self, rows: ModelRows, leading: Leading, wanted: Wanted) -> Placements | None:
        """What rows do to areas; None where nobody asks."""
        areas = [request for request in wanted.requests if request.metric.name in AREAS]

        def find_mixed() -> npt.NDArray[np.bool_]:
            return leading.find_mixed(rows)

        return place_rows(leading.first, leading.shift, leading.counts, areas, find_mixed)

    def _check_probabilities(
        self, leading: Leading, dtypes: Mapping[str, type], wanted: Wanted, table: Table
    ) -> None:
        low, high = leading.score_range(dtypes["score"])
        if wanted.probabilities and not (low >= 0.0 and high <= 1.0) and not math.isnan(low):
            names = [r.label for r in wanted.requests if r.metric.name in _PROBABILITIES]
            raise DataError(
                f"{', '.join(names)} needs scores from 0 to 1, these go from {low!r} to {high!r}",
                code="not-a-probability",
                at=table.at,
                hint='if they are logits: score = "1 / (1 + exp(-score))" under [labels.columns]',
            )

    def _measured(self, seen: "_Seen") -> Measured:
        """Numbers in the order of the requests, and columns of users where they are needed."""
        by_kind, smooth = seen.by_kind, seen.smooth
        level, users = self.config.statistics.level, by_kind["users"]
        values = None
        if seen.pool is not None and seen.walked is not None:
            values = Values(seen.pool.totals, seen.walked)
        means = {kind: iter(results.means) for kind, results in by_kind.items()}
        numbers, n_best = [], 0
        for request in self.requests:
            if over(request) != "rows":
                mean = next(means[over(request)])
                numbers.append(Number.of_mean(request, mean, level=level))
                continue
            assert values is not None
            value = values.of(request, n_best)
            n_best += is_best(request)
            error = users.spread.std_error(smooth[request]) if request in smooth else None
            numbers.append(Number.of_rows(value, error, users.n_groups, level=level))
        if not self.keeps:
            return Measured(numbers, users.n_groups)
        columns = {}
        for kind, results in by_kind.items():
            own = [request for request in self.requests if over(request) == kind]
            rows = [request for request in self.requests if over(request) == "rows"]
            columns[kind] = results.kept.columns(
                list(zip(own, results.means, strict=True)),
                results.spread,
                [smooth.get(request) for request in rows] if kind == "users" else [],
            )
        return Measured(numbers, users.n_groups, columns)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the rows of one model, or of a segment of its users, were looked through for."""

    by_kind: Mapping[str, GroupResults]
    smooth: Mapping[Request, Smooth]
    pool: Pooled | None
    walked: Walked | None
    drawing: Drawing | None


def _smooth(wanted: Wanted, placements: Placements | None) -> dict[Request, Smooth]:
    """The requests over all rows that have a standard error."""
    found = {request: smooth_of(request) for request in wanted.requests}
    return {
        request: smooth
        for request, smooth in found.items()
        if smooth is not None and (placements is not None or request.metric.name not in AREAS)
    }


_PROBABILITIES = ("log-loss", "normalised-entropy", "Brier", "ECE", "calibration")


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
    if not pool.totals.positives or not pool.totals.negatives:
        message = "all labels are of one kind"
        found.append(Warning_("one-class", message, name))
    return found


def _truth_counts(tallies: Mapping[str, RowTally], found: Findings) -> TruthCounts:
    """The labels of the model that has most rows; models have their own counts too."""
    if not tallies:
        return TruthCounts(0, 0, {}, 0, 0, 0)
    name = max(tallies, key=lambda each: tallies[each].rows)
    tally = tallies[name]
    return TruthCounts(
        tally.rows,
        tally.rows_used,
        dict(tally.dropped),
        found.users[name],
        0,
        found.pairs[name],
    )
