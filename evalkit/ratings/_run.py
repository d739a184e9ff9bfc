"""Ratings from config to report."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evalkit.config import Config
from evalkit.errors import DataError, MachineError
from evalkit.keys import KeyCollisionError
from evalkit.ledger import Clock
from evalkit.metrics import Request, over
from evalkit.plan import Given
from evalkit.ratings._drawing import Drawing, Edges
from evalkit.ratings._pairs import (
    Extremes,
    PairReader,
    PairShare,
    check_pairs,
    refuse_policies,
    shares_of,
)
from evalkit.ratings._smooth import SMOOTH, user_sums
from evalkit.ratings._sums import PairSums
from evalkit.report import (
    Input,
    Report,
    TruthCounts,
    Warning_,
)
from evalkit.rows import (
    Findings,
    HeldRows,
    Keeping,
    KeptParts,
    Measured,
    ModelRows,
    Models,
    Number,
    Reading,
    RowSegments,
    RowTally,
    TermSums,
    UserSources,
    WeightedMean,
    check_resampled,
    check_rows,
    compares,
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
from evalkit.segments import ALL, Segment
from evalkit.sources import Table, open_predictions, open_ratings
from evalkit.threads import ordered_map

SEEDS = range(1, 17)
COPIES = 3  # of rows in memory, where segments are: as they were read, joined, by segment


def run_ratings(
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
    """The report of a config with [ratings].

    Args:
        given: tables in memory, in place of the paths of [ratings] and then [[predictions]].
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
    check_resampled(config)
    tables = _open(config, given.rankings)
    held = [*given.rankings, *([None] * len(config.ratings))]
    own = list(zip(config.ratings, held, strict=False))
    sources = open_user_sources(config, own, given.segments)
    clock.line.tables = [table for _, table in tables.all]
    keeping = None
    if per_user:
        keeping = Keeping.of(requests, tables.all[0][1].user_names, per_user_folder)
    clock.start()
    for seed in SEEDS:
        try:
            run = _Run(
                config, requests, tables, sources, keeping, threads, memory_limit, sample, clock
            )
            return run.report(seed)
        except KeyCollisionError:
            continue
    raise MachineError("ids share their keys under every seed", code="key-collision")


@dataclass(frozen=True, slots=True)
class _Tables:
    truth: Table | None  # where predictions are in tables of their own
    models: Models

    @property
    def all(self) -> list[tuple[str | None, Table]]:
        return ([(None, self.truth)] if self.truth is not None else []) + list(self.models)


def _open(config: Config, given: Sequence[object | None]) -> _Tables:
    held = [*given, *([None] * (len(config.ratings) + len(config.predictions)))]
    alone = not config.predictions
    n_ratings = len(config.ratings)

    def opening(place: int) -> Table:
        if place < n_ratings:
            return open_ratings(config.ratings[place], held[place], alone=alone)
        return open_predictions(config.predictions[place - n_ratings], held[place])

    places = range(n_ratings + len(config.predictions))
    opened = open_all([lambda place=place: opening(place) for place in places])  # type: ignore[misc]
    if alone:
        return _Tables(None, [(t.model, o) for t, o in zip(config.ratings, opened, strict=True)])
    names = [table.model for table in config.predictions]
    return _Tables(opened[0], list(zip(names, opened[1:], strict=True)))


def open_ratings_of(config: Config) -> list[Table]:
    """The table of ratings, then those of predictions, or all tables with both; segments last."""
    own = [(table, None) for table in config.ratings]
    segments = open_user_sources(config, own, {}).inputs
    return [*(table for _, table in _open(config, ()).all), *segments]


@dataclass(slots=True)
class _Part:
    """What one part of the users gives."""

    sums: PairSums
    means: list[WeightedMean]  # of requests over users
    spread: TermSums
    kept: KeptParts
    drawing: Drawing | None
    n_users: int
    most_rows: int
    tally: RowTally

    def merge(self, other: "_Part") -> None:
        """Take over what other users give."""
        self.sums.merge(other.sums)
        for mine, theirs in zip(self.means, other.means, strict=True):
            mine.merge(theirs)
        self.spread.merge(other.spread)
        self.kept.merge(other.kept)
        if self.drawing is not None and other.drawing is not None:
            self.drawing.merge(other.drawing)
        self.n_users += other.n_users
        self.most_rows = max(self.most_rows, other.most_rows)
        self.tally.add(other.tally)


@dataclass(frozen=True, slots=True)
class _Run:
    config: Config
    requests: Sequence[Request]
    tables: _Tables
    sources: UserSources
    keeping: Keeping | None
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
        tables = [table for _, table in self.tables.all]
        user = group_by("user", [*tables, *self.sources.tables], seed)
        find_users(config, tables, user, self.sources, found, sample=self.sample)
        clock.stop("segments")
        named = [table for table in tables if "item" in table.frame.collect_schema()]
        item = group_by("item", named, seed) if named else None
        reader = PairReader(config.policies, item)
        room = room_beside(
            config,
            self.requests,
            [SMOOTH[each.metric.name] for each in self.requests if over(each) == "rows"],
            [table for _, table in self.tables.models],
            [user],
            limit=self.memory_limit,
            threads=self.threads,
            copies=COPIES if self.sources.segments else 1,
            sample=self.sample,
            keeps=self.keeping is not None,
        )
        reading = Reading(
            (user,),
            reader.columns,
            reader.prepare,
            reader.dtypes,
            config.policies,
            self.threads,
            self.sample,
            clock.line.advance,
            room,
            reader.mark,
            tables,
        )
        truth, held = self._ratings(reading)
        tallies: dict[str, RowTally] = {}
        for model, table in self.tables.models:
            for name, rows in reading.models_of(model, table, held=held):
                clock.stop("read")
                if name in tallies:
                    raise DataError(
                        f"two tables have rows of {name!r}", code="duplicate-model", at=table.at
                    )
                tallies[name] = rows.tally
                joined = [rows] if truth is None else [truth, rows]
                shares = shares_of(joined, user, item)
                self._measure(name, shares, _extremes(joined), rows.tally, table, found)
                rows.forget()
                found.warnings += check_rows(config, {name: rows}, {name: table.at})
                found.warnings += _warnings(name, rows.tally)
                n_lost = rows.tally.noted.get("users_without_rows", 0)
                found.warnings += warn_of_lost(name, n_lost)
                clock.stop("measure")
        if len({tally.rows_used for tally in tallies.values()}) > 1:
            message = "models predict different numbers of pairs: errors stand on other rows each"
            found.warnings.append(Warning_("different-pairs", message))
        return make_report(
            config,
            self.requests,
            self._inputs(truth, tallies),
            tallies,
            self._truth_counts(truth, tallies, found),
            found,
            clock,
            threads=self.threads,
            sample=self.sample,
        )

    def _ratings(self, reading: Reading) -> tuple[ModelRows | None, bool | None]:
        """The true ratings, where they are a table of their own; whether all tables are held."""
        truth = self.tables.truth
        if truth is None:
            return None, None
        largest = max(
            (table for _, table in self.tables.models), key=lambda table: table.n_rows_hint() or 0
        )
        held = reading.holds([truth, largest])
        ((_, rows),) = reading.models_of("", truth, held=held)
        return rows, held

    def _inputs(self, truth: ModelRows | None, tallies: Mapping[str, RowTally]) -> list[Input]:
        table = self.tables.truth
        if table is None or truth is None:
            return inputs_of("ratings", self.tables.models, tallies, self.sources)
        first = Input("ratings", None, table.paths, truth.tally.rows, table.fingerprint())
        return [first, *inputs_of("predictions", self.tables.models, tallies, self.sources)]

    def _truth_counts(
        self, truth: ModelRows | None, tallies: Mapping[str, RowTally], found: Findings
    ) -> TruthCounts:
        """Of the table of ratings; without one, the rated pairs of the model that has most."""
        if truth is not None:
            repeats = max((t.noted.get("truth_duplicates", 0) for t in tallies.values()), default=0)
            rated, dropped = truth.tally.rows, {"duplicate": repeats}
            dropped |= {reason: number for reason, number in truth.tally.dropped.items() if number}
        else:
            rated = max(
                (t.rows - t.dropped.get("unrated", 0) - t.dropped.get("null_id", 0)
                 for t in tallies.values()),
                default=0,
            )  # fmt: skip
            dropped = {}
        users = max(
            (
                found.users.get(name, 0) + tally.noted.get("users_without_prediction", 0)
                for name, tally in tallies.items()
            ),
            default=0,
        )
        used = rated - sum(dropped.values())
        return TruthCounts(rated, used, dropped, users, 0, used)

    # ---------------------------------------------------------------- measuring

    def _measure(
        self,
        name: str,
        shares: Iterator[PairShare],
        extremes: Extremes,
        tally: RowTally,
        table: Table,
        found: Findings,
    ) -> None:
        edges = Edges.around(extremes)
        totals: dict[Segment, _Part] = {}
        for share in shares:
            for segment, users in self._split(share, tally, found.segments):
                for part in self._add_up(users, edges, is_drawn=segment == ALL):
                    if segment in totals:
                        totals[segment].merge(part)
                    else:
                        totals[segment] = part
        total = totals[ALL]
        tally.add(total.tally)
        check_pairs(tally, self.config.policies, table, joined=self.tables.truth is not None)
        if tally.noted.pop("repeats", None) is not None:
            tally.noted["duplicates"] = 0  # or they were refused
        found.users[name] = total.n_users
        found.most_rows[name] = total.most_rows
        for segment, each in totals.items():
            found.measured.setdefault(segment, {})[name] = self._measured(each)
        over_users = [request for request in self.requests if over(request) == "users"]
        found.warnings += warn_of_infinite(name, over_users, total.means)
        if tally.rows_used and total.drawing is not None:
            found.distributions.append(total.drawing.histogram(name))
            found.graphs += total.drawing.graphs(name, level=self.config.statistics.level)

    def _split(
        self, share: PairShare, tally: RowTally, segments: RowSegments | None
    ) -> Iterator[tuple[Segment, PairShare]]:
        """All users of a share, and those of each segment."""
        if segments is None:
            yield ALL, share
            return
        store, found = share.join(threads=self.threads)
        tally.add(found)
        joined = HeldRows(RowTally(), {share.user.name: store}, self.threads)
        yield ALL, PairShare([store], share.user, None)
        for segment, rows in segments.split(joined, share.user, threads=self.threads):
            for own in rows.shares(share.user):
                yield segment, PairShare([own], share.user, None)

    def _add_up(self, share: PairShare, edges: Edges, *, is_drawn: bool) -> Iterator[_Part]:
        """What each part of some users gives."""
        own = [request for request in self.requests if over(request) == "users"]
        pooled = tuple(dict.fromkeys(r.metric.name for r in self.requests if over(r) == "rows"))
        low, high = float(edges.ratings[0]), float(edges.ratings[-1])
        middle = (low + high) / 2.0 if math.isfinite(low) else 0.0

        def measure(part: int) -> _Part:
            pairs = share.part(part)
            starts, ratings, predictions = pairs.starts, pairs.ratings, pairs.predictions
            sums = PairSums(pooled)
            sums.add(ratings, predictions)
            sizes = np.diff(starts)
            values, means = np.empty((sizes.size, len(own))), [WeightedMean() for _ in own]
            for place, (request, mean) in enumerate(zip(own, means, strict=True)):
                value = np.empty(sizes.size)
                request.metric.kernel(starts, ratings, predictions, *request.encoded, value)
                mean.add(value, np.ones(sizes.size))
                values[:, place] = value
            spread, kept = TermSums([SMOOTH[name] for name in pooled]), KeptParts()
            terms = user_sums(spread.terms, starts, ratings, predictions, middle)
            spread.add(terms)
            if self.keeps:
                kept.add(pairs.keys, values, np.ones(values.shape), terms)
            drawing = None
            if is_drawn:
                drawing = Drawing(edges, bands=self.config.statistics.cluster is None)
                drawing.add(pairs)
            most = int(sizes.max(initial=0))
            return _Part(sums, means, spread, kept, drawing, sizes.size, most, pairs.tally)

        return ordered_map(measure, range(share.n_parts), threads=self.threads)

    def _measured(self, total: _Part) -> Measured:
        """Numbers in the order of the requests, and columns of users where they are needed."""
        level, means = self.config.statistics.level, iter(total.means)
        numbers = []
        for request in self.requests:
            if over(request) == "users":
                numbers.append(Number.of_mean(request, next(means), level=level))
                continue
            constant = str(dict(request.parameters).get("constant", "undefined"))
            value = total.sums.value(request.metric.name, constant)
            error = total.spread.std_error(SMOOTH[request.metric.name])
            numbers.append(Number.of_rows(value, error, total.n_users, level=level))
        if not self.keeps:
            return Measured(numbers, total.n_users)
        own = [request for request in self.requests if over(request) == "users"]
        rows = [SMOOTH[each.metric.name] for each in self.requests if over(each) == "rows"]
        columns = total.kept.columns(list(zip(own, total.means, strict=True)), total.spread, rows)
        return Measured(numbers, total.n_users, {"users": columns})


def _extremes(tables: Sequence[ModelRows]) -> Extremes:
    total = Extremes.nothing()
    for each in tables:
        found = each.tally.marks.get("extremes")
        if isinstance(found, Extremes):
            total.merge(found)
    return total


def _warnings(name: str, tally: RowTally) -> list[Warning_]:
    found = []
    unpredicted = tally.noted.get("unpredicted", 0)
    unrated = tally.dropped.get("unrated", 0)
    if unpredicted:
        message = f"{unpredicted:,} true ratings have no prediction and are left out: errors say "
        found.append(Warning_("unpredicted", message + "nothing about them", name))
    if unrated:
        message = f"{unrated:,} predictions have no true rating and are left out"
        found.append(Warning_("unrated", message, name))
    if repeats := tally.noted.get("truth_duplicates", 0):
        message = f"{repeats:,} ratings repeat a pair; the largest rating counts"
        found.append(Warning_("duplicate-truth", message))
    return found
