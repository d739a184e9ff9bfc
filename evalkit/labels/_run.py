"""Labels from config to report."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from evalkit.config import Config
from evalkit.errors import DataError, RequestError
from evalkit.labels._groups import has_part
from evalkit.labels._measuring import Measurer
from evalkit.labels._parts import Leading
from evalkit.labels._rows import LabelReader, mark_scores, refuse_policies
from evalkit.labels._walk import has_sum
from evalkit.planning.tables import Given, settle_columns
from evalkit.report import Input, TruthCounts, Warning_
from evalkit.rows.job import RowJob
from evalkit.rows.passes import ModelRows, Room
from evalkit.rows.reading import Reading
from evalkit.rows.repeats import find_repeats
from evalkit.rows.room import room_beside
from evalkit.rows.run import (
    Models,
    RowRun,
    check_rows,
    check_sums,
    count_lost,
    inputs_of,
    open_all,
    warn_of_lost,
)
from evalkit.rows.tally import RowTally
from evalkit.segments import ALL
from evalkit.sources import Table, open_labels


def check_labels(job: RowJob) -> None:
    """Refuse what cannot be asked of labels."""
    refuse_policies(job.config.policies)
    check_sums(job.requests, has_sum, has_part)
    _check_sessions(job)


def open_tables(config: Config, given: Given) -> tuple[Config, list[Table]]:
    """Every table of labels, opened, and the config with the columns that they are read by."""
    held = [*given.rankings, *([None] * len(config.labels))]
    guessing = given.guessing(config)
    actions = [
        partial(open_labels, table, one, replace(guessing, section=f"labels[{place}]"))
        for place, (table, one) in enumerate(zip(config.labels, held, strict=False))
    ]
    tables = open_all(actions)
    return settle_columns(config, {"labels": tables}), tables


def _check_sessions(job: RowJob) -> None:
    config = job.config
    asked = [request.label for request in job.over("sessions")]
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


@dataclass
class LabelRun(RowRun):
    """A run of labels."""

    def start(self) -> None:
        """Sessions are grouped where metrics are over these."""
        job, rows = self.job, self.tables.rows
        self.groupings = [self.user]
        if job.over("sessions"):
            self.groupings.append(self.group_by("session", rows))
        pooled = job.over("rows")
        smooth = [each.over_rows.smooth for each in pooled]
        numbers = [each for each in smooth if each is not None]
        copies = 2 if self.tables.sources.segments else 1
        self.room = room_beside(job, numbers, rows, self.groupings, copies=copies)
        self._given = list(zip(job.config.labels, rows, strict=True))
        thresholds = {id(table): each.threshold for each, table in self._given}
        self.reader = LabelReader(job.config.policies, thresholds)
        self.reading = Reading(
            self.groupings, job, self.reader, self.room, mark_scores if pooled else None
        )

    @property
    def models(self) -> Models:
        """The tables of the config."""
        return [(each.model, table) for each, table in self._given]

    def rows_of(self, model: str | None, table: Table) -> Iterator[tuple[str, ModelRows]]:
        """The rows of each model of a table, whose repeats are found first."""
        self.repeats = self._find_repeats(table, self.room)
        return self.reading.models_of(model, table)

    def inputs(self) -> list[Input]:
        """Of labels, and of users."""
        return inputs_of("labels", self.models, self.tallies, self.tables.sources)

    def _find_repeats(self, table: Table, room: Room) -> dict[str | None, int] | None:
        """How many rows of each model are there again; None where rows name no items."""
        if "item" not in table.frame.collect_schema():
            return None
        return find_repeats(table, ["item", "time"], room)

    def _note_repeats(self, name: str, table: Table, tally: RowTally) -> None:
        """Rows of a user, an item and a time that are there again: refused, or counted."""
        repeats = self.repeats
        if repeats is None:
            return
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
            self.found.warnings.append(Warning_("duplicate-row", message, name))

    def measure(self, name: str, rows: ModelRows, table: Table) -> None:
        """Everything of one model: its segments first, then all users, whose rows are forgotten."""
        job, found, tally = self.job, self.found, rows.tally
        self._note_repeats(name, table, tally)
        found.warnings += check_rows(job.config, {name: rows}, {name: table.at})
        found.warnings += warn_of_lost(name, count_lost(rows, self.user))
        measurer = Measurer(job, self.reader.dtypes(table))
        leading = tally.marks.pop("scores", Leading.nothing())
        assert isinstance(leading, Leading)
        _check_probabilities(leading, measurer, table)
        if found.segments is not None:
            for segment, part in found.segments.split(rows, self.user, threads=job.threads):
                seen = measurer.look(part, [self.user], Leading.of_all(part))
                found.measured.setdefault(segment, {})[name] = measurer.measured(seen)
            job.clock.stop("segments")
        seen = measurer.look(rows, self.groupings, leading, name)
        rows.forget()
        found.warnings += seen.warnings(name, job.requests)
        found.graphs += seen.graphs(level=job.config.statistics.level)
        found.users[name], found.most_rows[name] = seen.users.n_groups, seen.users.most_rows
        found.pairs[name] = tally.noted.get("positives", 0)
        found.measured.setdefault(ALL, {})[name] = measurer.measured(seen)

    def truth_counts(self) -> TruthCounts:
        """The labels of the model that has most rows; models have their own counts too."""
        tallies, found = self.tallies, self.found
        if not tallies:
            return TruthCounts(0, 0, {}, 0, 0, 0)
        name = max(tallies, key=lambda each: tallies[each].rows)
        tally, n_users, n_pairs = tallies[name], found.users[name], found.pairs[name]
        return TruthCounts(tally.rows, tally.rows_used, dict(tally.dropped), n_users, 0, n_pairs)


def _check_probabilities(leading: Leading, measurer: Measurer, table: Table) -> None:
    low, high = leading.score_range(measurer.dtypes["score"])
    names = [each.label for each in measurer.job.over("rows") if each.metric.of_probabilities]
    if names and not (low >= 0.0 and high <= 1.0) and not math.isnan(low):
        raise DataError(
            f"{', '.join(names)} needs scores from 0 to 1, these go from {low!r} to {high!r}",
            code="not-a-probability",
            at=table.at,
            hint='if they are logits: score = "1 / (1 + exp(-score))" under [labels.columns]',
        )
