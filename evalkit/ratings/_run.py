"""Ratings from config to report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evalkit.config import Config
from evalkit.errors import DataError
from evalkit.metrics import over
from evalkit.planning.ledger import input_of
from evalkit.planning.tables import Given, settle_columns
from evalkit.ratings._drawing import Edges
from evalkit.ratings._measuring import Measurer, Part
from evalkit.ratings._pairs import (
    Extremes,
    PairReader,
    PairShare,
    check_pairs,
    refuse_policies,
    shares_of,
)
from evalkit.ratings._sums import has_part, has_sum
from evalkit.report import Input, Report, TruthCounts, Warning_
from evalkit.rows import (
    Findings,
    Grouping,
    HeldRows,
    ModelRows,
    Models,
    Reading,
    RowJob,
    RowSegments,
    RowTally,
    UserSide,
    check_rows,
    check_sums,
    find_users,
    group_by,
    inputs_of,
    make_report,
    open_all,
    open_user_sources,
    room_beside,
    try_seeds,
    warn_of_infinite,
    warn_of_lost,
)
from evalkit.segments import ALL, Segment
from evalkit.sources import Guessing, Table, open_predictions, open_ratings

COPIES = 3  # of rows in memory, where segments are: as they were read, joined, by segment


def run_ratings(job: RowJob) -> Report:
    """The report of a config with [ratings].

    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: the rows do not fit into the memory [memory-limit].
    """
    refuse_policies(job.config.policies)
    check_sums(job.requests, has_sum, has_part)
    config, tables = _open(job.config, job.given)
    job = replace(job, config=config)
    side = job.begin(job.config.ratings, [table for _, table in tables.all])
    return try_seeds(_Run(job, side, tables).report)


@dataclass(frozen=True, slots=True)
class _Tables:
    truth: Table | None  # where predictions are in tables of their own
    models: Models

    @property
    def all(self) -> list[tuple[str | None, Table]]:
        return ([(None, self.truth)] if self.truth is not None else []) + list(self.models)


def _open(config: Config, given: Given) -> tuple[Config, _Tables]:
    """Every table, opened, and the config with the columns that they are read by."""
    alone, n_ratings = not config.predictions, len(config.ratings)
    held = [*given.rankings, *([None] * (n_ratings + len(config.predictions)))]
    guessing = given.guessing(config)

    def of(section: str, place: int) -> Guessing:
        return replace(guessing, section=f"{section}[{place}]")

    actions = [
        partial(open_ratings, table, held[place], of("ratings", place), alone=alone)
        for place, table in enumerate(config.ratings)
    ]
    actions += [
        partial(open_predictions, table, held[n_ratings + place], of("predictions", place))
        for place, table in enumerate(config.predictions)
    ]
    opened = open_all(actions)
    config = settle_columns(
        config, {"ratings": opened[:n_ratings], "predictions": opened[n_ratings:]}
    )
    if alone:
        names = [table.model for table in config.ratings]
        return config, _Tables(None, list(zip(names, opened, strict=True)))
    names = [table.model for table in config.predictions]
    return config, _Tables(opened[0], list(zip(names, opened[1:], strict=True)))


def open_ratings_of(config: Config) -> tuple[Config, list[Table]]:
    """The table of ratings, then those of predictions, or all tables with both; segments last."""
    config, tables = _open(config, Given())
    own = [(table, None) for table in config.ratings]
    segments = open_user_sources(config, own, {}).inputs
    return config, [*(table for _, table in tables.all), *segments]


@dataclass(frozen=True, slots=True)
class _Run:
    job: RowJob
    side: UserSide
    tables: _Tables

    def report(self, seed: int) -> Report:
        """Read, measure and report; keys of ids are made with `seed`."""
        job, found = self.job, Findings()
        tables = [table for _, table in self.tables.all]
        user = group_by("user", [*tables, *self.side.sources.tables], seed)
        named = [table for table in tables if "item" in table.frame.collect_schema()]
        item = group_by("item", named, seed) if named else None
        find_users(job, self.side, tables, user, found)
        reading = self._reading(PairReader(job.config.policies, item), user, tables)
        truth, held = self._ratings(reading)
        tallies: dict[str, RowTally] = {}
        for model, table in self.tables.models:
            for name, rows in reading.models_of(model, table, held=held):
                job.clock.stop("read")
                if name in tallies:
                    raise DataError(
                        f"two tables have rows of {name!r}", code="duplicate-model", at=table.at
                    )
                tallies[name] = rows.tally
                joined = [rows] if truth is None else [truth, rows]
                shares = shares_of(joined, user, item)
                self._measure(name, shares, _extremes(joined), rows.tally, table, found)
                rows.forget()
                found.warnings += check_rows(job.config, {name: rows}, {name: table.at})
                found.warnings += _warnings(name, rows.tally)
                job.clock.stop("measure")
        if len({tally.rows_used for tally in tallies.values()}) > 1:
            message = "models predict different numbers of pairs: errors stand on other rows each"
            found.warnings.append(Warning_("different-pairs", message))
        inputs, counts = self._inputs(truth, tallies), self._truth_counts(truth, tallies, found)
        return make_report(job, self.side.keeping, inputs, tallies, counts, found)

    def _reading(self, reader: PairReader, user: Grouping, tables: Sequence[Table]) -> Reading:
        job = self.job
        smooth = [each.over_rows.smooth for each in job.requests if over(each) == "rows"]
        numbers = [each for each in smooth if each is not None]
        models = [table for _, table in self.tables.models]
        copies = COPIES if self.side.sources.segments else 1
        return Reading(
            (user,),
            reader.columns,
            reader.prepare,
            reader.dtypes,
            job.config.policies,
            job.threads,
            job.sample,
            job.clock.line.advance,
            room_beside(job, numbers, models, [user], copies=copies),
            reader.mark,
            tables,
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
            return inputs_of("ratings", self.tables.models, tallies, self.side.sources)
        first = input_of(table, truth.tally.rows, "ratings")
        return [first, *inputs_of("predictions", self.tables.models, tallies, self.side.sources)]

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

    def _measure(
        self,
        name: str,
        shares: Iterator[PairShare],
        extremes: Extremes,
        tally: RowTally,
        table: Table,
        found: Findings,
    ) -> None:
        job, measurer, edges = self.job, Measurer(self.job), Edges.around(extremes)
        totals: dict[Segment, Part] = {}
        for share in shares:
            for segment, users in self._split(share, tally, found.segments):
                for part in measurer.add_up(users, edges, is_drawn=segment == ALL):
                    if segment in totals:
                        totals[segment].merge(part)
                    else:
                        totals[segment] = part
        total = totals[ALL]
        tally.add(total.tally)
        check_pairs(tally, job.config.policies, table, joined=self.tables.truth is not None)
        if tally.noted.pop("repeats", None) is not None:
            tally.noted["duplicates"] = 0  # or they were refused
        found.users[name] = total.n_users
        found.most_rows[name] = total.most_rows
        for segment, each in totals.items():
            found.measured.setdefault(segment, {})[name] = measurer.measured(each)
        over_users = [request for request in job.requests if over(request) == "users"]
        found.warnings += warn_of_infinite(name, over_users, total.means)
        if tally.rows_used and total.drawing is not None:
            found.distributions.append(total.drawing.histogram(name))
            found.graphs += total.drawing.graphs(name, level=job.config.statistics.level)

    def _split(
        self, share: PairShare, tally: RowTally, segments: RowSegments | None
    ) -> Iterator[tuple[Segment, PairShare]]:
        """All users of a share, and those of each segment."""
        if segments is None:
            yield ALL, share
            return
        store, found = share.join(threads=self.job.threads)
        tally.add(found)
        joined = HeldRows(RowTally(), {share.user.name: store}, self.job.threads)
        yield ALL, PairShare([store], share.user, None)
        for segment, rows in segments.split(joined, share.user, threads=self.job.threads):
            for own in rows.shares(share.user):
                yield segment, PairShare([own], share.user, None)


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
    found += warn_of_lost(name, tally.noted.get("users_without_rows", 0))
    if repeats := tally.noted.get("truth_duplicates", 0):
        message = f"{repeats:,} ratings repeat a pair; the largest rating counts"
        found.append(Warning_("duplicate-truth", message))
    return found
