"""Ratings from config to report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evalkit.config import Config
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
from evalkit.report import Input, TruthCounts, Warning_
from evalkit.rows.job import RowJob
from evalkit.rows.passes import HeldRows, ModelRows
from evalkit.rows.reading import Reading
from evalkit.rows.room import room_beside
from evalkit.rows.run import (
    Models,
    RowRun,
    check_rows,
    check_sums,
    inputs_of,
    open_all,
    warn_of_infinite,
    warn_of_lost,
)
from evalkit.rows.segments import RowSegments
from evalkit.rows.tally import RowTally
from evalkit.segments import ALL, Segment
from evalkit.sources import Guessing, Table, open_predictions, open_ratings

COPIES = 3  # of rows in memory, where segments are: as they were read, joined, by segment


def check_ratings(job: RowJob) -> None:
    """Refuse what cannot be asked of ratings."""
    refuse_policies(job.config.policies)
    check_sums(job.requests, has_sum, has_part)


def open_tables(config: Config, given: Given) -> tuple[Config, list[Table]]:
    """The table of ratings, then those of predictions, or all tables with both."""
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
    sections = {"ratings": opened[:n_ratings], "predictions": opened[n_ratings:]}
    return settle_columns(config, sections), opened


@dataclass
class RatingRun(RowRun):
    """A run of ratings, whose predictions stand beside them or in tables of their own."""

    def start(self) -> None:
        """Open the room for rows; read true ratings that are a table of their own."""
        job, rows = self.job, list(self.tables.rows)
        self.alone = not job.config.predictions
        named = [table for table in rows if "item" in table.frame.collect_schema()]
        self.item = self.group_by("item", named) if named else None
        smooth = [each.over_rows.smooth for each in job.over("rows")]
        numbers = [each for each in smooth if each is not None]
        models = [table for _, table in self.models]
        copies = COPIES if self.tables.sources.segments else 1
        room = room_beside(job, numbers, models, [self.user], copies=copies)
        reader = PairReader(job.config.policies, self.item)
        self.reading = Reading([self.user], job, reader, room, reader.mark, rows)
        self.truth: ModelRows | None = None
        self.held: bool | None = None

    @property
    def models(self) -> Models:
        """The tables with predictions."""
        config, rows = self.job.config, self.tables.rows
        if self.alone:
            names = [each.model for each in config.ratings]
            return list(zip(names, rows, strict=True))
        names = [each.model for each in config.predictions]
        return list(zip(names, rows[1:], strict=True))

    def rows_of(self, model: str | None, table: Table) -> Iterator[tuple[str, ModelRows]]:
        """The rows of each model of a table; true ratings are read before the first."""
        if not self.alone and self.truth is None:
            ratings, *predictions = self.tables.rows
            largest = max(predictions, key=lambda each: each.n_rows_hint() or 0)
            self.held = self.reading.holds([ratings, largest])
            ((_, self.truth),) = self.reading.models_of("", ratings, held=self.held)
        return self.reading.models_of(model, table, held=self.held)

    def measure(self, name: str, rows: ModelRows, table: Table) -> None:
        """Everything of one model."""
        joined = [rows] if self.truth is None else [self.truth, rows]
        shares = shares_of(joined, self.user, self.item)
        self._measure(name, shares, _extremes(joined), rows.tally, table)
        rows.forget()
        found = self.found
        found.warnings += check_rows(self.job.config, {name: rows}, {name: table.at})
        found.warnings += _warnings(name, rows.tally)
        self.job.clock.stop("measure")

    def inputs(self) -> list[Input]:
        """Of ratings, of predictions, and of users."""
        sources = self.tables.sources
        if self.truth is None:
            return inputs_of("ratings", self.models, self.tallies, sources)
        first = input_of(self.tables.rows[0], self.truth.tally.rows, "ratings")
        return [first, *inputs_of("predictions", self.models, self.tallies, sources)]

    def truth_counts(self) -> TruthCounts:
        """Of the table of ratings; without one, the rated pairs of the model that has most."""
        truth, tallies, found = self.truth, self.tallies, self.found
        if len({tally.rows_used for tally in tallies.values()}) > 1:
            message = "models predict different numbers of pairs: errors stand on other rows each"
            found.warnings.append(Warning_("different-pairs", message))
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
    ) -> None:
        job, found = self.job, self.found
        measurer, edges = Measurer(job), Edges.around(extremes)
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
        check_pairs(tally, job.config.policies, table, joined=self.truth is not None)
        if tally.noted.pop("repeats", None) is not None:
            tally.noted["duplicates"] = 0  # or they were refused
        found.users[name] = total.n_users
        found.most_rows[name] = total.most_rows
        for segment, each in totals.items():
            found.measured.setdefault(segment, {})[name] = measurer.measured(each)
        found.warnings += warn_of_infinite(name, job.over("users"), total.means)
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
