"""Labels from config to report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evalkit.config import Config
from evalkit.errors import DataError, RequestError
from evalkit.labels._groups import has_part
from evalkit.labels._measuring import Measurer
from evalkit.labels._parts import Leading
from evalkit.labels._rows import LabelReader, mark_scores, refuse_policies
from evalkit.labels._walk import has_sum
from evalkit.metrics import over
from evalkit.planning.tables import Given, settle_columns
from evalkit.report import Report, TruthCounts, Warning_
from evalkit.rows import (
    Findings,
    Grouping,
    ModelRows,
    Models,
    Reading,
    Room,
    RowJob,
    RowTally,
    UserSide,
    check_rows,
    check_sums,
    count_lost,
    find_repeats,
    find_users,
    group_by,
    inputs_of,
    make_report,
    open_all,
    open_user_sources,
    room_beside,
    try_seeds,
    warn_of_lost,
)
from evalkit.segments import ALL
from evalkit.sources import Table, open_labels


def run_labels(job: RowJob) -> Report:
    """The report of a config with [labels].

    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: the rows do not fit into the memory [memory-limit].
    """
    refuse_policies(job.config.policies)
    check_sums(job.requests, has_sum, has_part)
    _check_sessions(job)
    config, opened = _open(job.config, job.given)
    job = replace(job, config=config)
    side = job.begin(config.labels, opened)
    pairs = list(zip(config.labels, opened, strict=True))
    models = [(table.model, each) for table, each in pairs]
    thresholds = {id(each): table.threshold for table, each in pairs}
    return try_seeds(_Run(job, side, models, thresholds).report)


def _open(config: Config, given: Given) -> tuple[Config, list[Table]]:
    """Every table of labels, opened, and the config with the columns that they are read by."""
    held = [*given.rankings, *([None] * len(config.labels))]
    guessing = given.guessing(config)
    actions = [
        partial(open_labels, table, one, replace(guessing, section=f"labels[{place}]"))
        for place, (table, one) in enumerate(zip(config.labels, held, strict=False))
    ]
    tables = open_all(actions)
    return settle_columns(config, {"labels": tables}), tables


def open_all_of(config: Config) -> tuple[Config, list[Table]]:
    """Every table of labels, then those of segments."""
    config, tables = _open(config, Given())
    own = [(table, None) for table in config.labels]
    return config, [*tables, *open_user_sources(config, own, {}).inputs]


def _check_sessions(job: RowJob) -> None:
    config = job.config
    asked = [request.label for request in job.requests if over(request) == "sessions"]
    of_users = {
        "segments": bool(config.segments.named),
        "clusters": config.statistics.cluster is not None,
    }
    for what in [what for what, is_there in of_users.items() if asked and is_there]:
        raise RequestError(
            f"{', '.join(asked)} is over sessions, and {what} are of users",
            code="sessions-in-segments" if what == "segments" else "sessions-in-clusters",
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
    job: RowJob
    side: UserSide
    models: Models
    thresholds: Mapping[int, float | None]

    def report(self, seed: int) -> Report:
        """Read, measure and report; keys of ids are made with `seed`."""
        job, found = self.job, Findings()
        tables = [table for _, table in self.models]
        groupings = self._groupings(tables, seed)
        find_users(job, self.side, tables, groupings[0], found)
        reader = LabelReader(job.config.policies, self.thresholds)
        room = self._room(tables, groupings)
        reading = self._reading(reader, groupings, room)
        tallies: dict[str, RowTally] = {}
        for model, table in self.models:  # one after the other: only one is in memory
            repeats = self._find_repeats(table, room)
            for name, rows in reading.models_of(model, table):
                job.clock.stop("read")
                if name in tallies:
                    raise DataError(
                        f"two tables have rows of {name!r}", code="duplicate-model", at=table.at
                    )
                tallies[name] = rows.tally
                if repeats is not None:
                    self._note_repeats(name, table, repeats, rows.tally, found)
                found.warnings += check_rows(job.config, {name: rows}, {name: table.at})
                found.warnings += warn_of_lost(name, count_lost(rows, groupings[0]))
                measurer = Measurer(job, reader.dtypes(table))
                self._measure(name, rows, measurer, groupings, table, found)
        inputs = inputs_of("labels", self.models, tallies, self.side.sources)
        truth = _truth_counts(tallies, found)
        return make_report(job, self.side.keeping, inputs, tallies, truth, found)

    def _groupings(self, tables: Sequence[Table], seed: int) -> list[Grouping]:
        """Of users, and of sessions where metrics are over these."""
        found = [group_by("user", [*tables, *self.side.sources.tables], seed)]
        if any(over(request) == "sessions" for request in self.job.requests):
            found.append(group_by("session", tables, seed))
        return found

    def _room(self, tables: Sequence[Table], groupings: Sequence[Grouping]) -> Room:
        smooth = [each.over_rows.smooth for each in self.job.requests if over(each) == "rows"]
        numbers = [each for each in smooth if each is not None]
        copies = 2 if self.side.sources.segments else 1
        return room_beside(self.job, numbers, tables, groupings, copies=copies)

    def _reading(self, reader: LabelReader, groupings: Sequence[Grouping], room: Room) -> Reading:
        job = self.job
        return Reading(
            groupings,
            reader.columns,
            reader.prepare,
            reader.dtypes,
            job.config.policies,
            job.threads,
            job.sample,
            job.clock.line.advance,
            room,
            mark_scores if any(over(each) == "rows" for each in job.requests) else None,
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
        if number and self.job.config.policies.duplicates == "error":
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
        measurer: Measurer,
        groupings: Sequence[Grouping],
        table: Table,
        found: Findings,
    ) -> None:
        """Everything of one model: its segments first, then all users, whose rows are forgotten."""
        leading = rows.tally.marks.pop("scores", Leading.nothing())
        assert isinstance(leading, Leading)
        _check_probabilities(leading, measurer, table)
        if found.segments is not None:
            for segment, part in found.segments.split(rows, groupings[0], threads=self.job.threads):
                seen = measurer.look(part, groupings[:1], Leading.of_all(part))
                found.measured.setdefault(segment, {})[name] = measurer.measured(seen)
            self.job.clock.stop("segments")
        seen = measurer.look(rows, groupings, leading, name)
        rows.forget()
        found.warnings += seen.warnings(name, self.job.requests)
        found.graphs += seen.graphs(level=self.job.config.statistics.level)
        found.users[name], found.most_rows[name] = seen.users.n_groups, seen.users.most_rows
        found.pairs[name] = rows.tally.noted.get("positives", 0)
        found.measured.setdefault(ALL, {})[name] = measurer.measured(seen)


def _check_probabilities(leading: Leading, measurer: Measurer, table: Table) -> None:
    low, high = leading.score_range(measurer.dtypes["score"])
    names = [each.label for each in measurer.pooled if each.metric.of_probabilities]
    if names and not (low >= 0.0 and high <= 1.0) and not math.isnan(low):
        raise DataError(
            f"{', '.join(names)} needs scores from 0 to 1, these go from {low!r} to {high!r}",
            code="not-a-probability",
            at=table.at,
            hint='if they are logits: score = "1 / (1 + exp(-score))" under [labels.columns]',
        )


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
