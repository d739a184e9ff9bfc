"""From what was found in rows to a report; no row is read any more."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evalkit.ids import Keys
from evalkit.planning.ledger import input_of, versions
from evalkit.planning.record import Found, make_report
from evalkit.report import (
    Counts,
    Distribution,
    Graph,
    Input,
    ModelCounts,
    Report,
    TruthCounts,
    Warning_,
)
from evalkit.rows._clusters import Clusters
from evalkit.rows._comparing import infer
from evalkit.rows._kept import Keeping, without_values
from evalkit.rows.job import RowJob
from evalkit.rows.segments import RowSegments, RowUsers, UserSources
from evalkit.rows.tally import RowTally
from evalkit.rows.units import Measured, UnitSums
from evalkit.segments import ALL, SeenValues, Segment
from evalkit.sources import Table
from evalkit.sums import GrandTotals
from evalkit.values.checks import convention_warnings

Models = Sequence[tuple[str | None, Table]]


@dataclass(slots=True)
class Findings:
    """Everything that a run of rows found."""

    measured: dict[Segment, dict[str, Measured]] = field(default_factory=dict)
    segments: RowSegments | None = None
    clusters: Clusters | None = None
    row_users: RowUsers | None = None
    seen_values: SeenValues = field(default_factory=SeenValues)
    totals: GrandTotals = field(default_factory=GrandTotals)
    graphs: list[Graph] = field(default_factory=list)
    distributions: list[Distribution] = field(default_factory=list)
    warnings: list[Warning_] = field(default_factory=list)
    users: dict[str, int] = field(default_factory=dict)  # by model
    most_rows: dict[str, int] = field(default_factory=dict)  # of one user, by model
    pairs: dict[str, int] = field(default_factory=dict)  # labels 1, or rated pairs, by model
    sums: dict[tuple[Segment, str], UnitSums] = field(default_factory=dict)  # of shares of users


def conclude_rows(
    job: RowJob,
    found: Findings,
    tallies: Mapping[str, RowTally],
    hash_users: Callable[[Keys], Keys],
    *,
    inputs: Sequence[Input],
    truth: TruthCounts,
    keeping: Keeping | None,
    n_lonely: int | None = None,
) -> Report:
    """The report of what was found in the rows of all models."""
    config, requests, clock = job.config, job.requests, job.clock
    if job.work.sample is not None:
        message = f"numbers stand on a sample of {job.work.sample:.2%} of the users"
        found.warnings.append(Warning_("sample", message))
    found.warnings += convention_warnings(config, requests)
    if found.segments is not None:
        found.segments.note(found.totals, found.measured)
    inference = infer(
        config,
        requests,
        found.measured,
        found.totals,
        clusters=found.clusters,
        hash_users=hash_users,
        threads=job.threads,
        n_lonely=n_lonely,
    )
    kept = None
    if keeping is not None and found.row_users is not None:
        kept = keeping.keep(requests, found.measured.get(ALL, {}), found.row_users)
        found.warnings += without_values(requests)
    clock.stop("aggregate")
    told = Found(
        counts=Counts(
            truth,
            {name: _model_counts(name, tally, found) for name, tally in tallies.items()},
        ),
        inference=inference,
        warnings=(*found.warnings, *inference.warnings),
        graphs=found.graphs,
        distributions=found.distributions,
        per_user_values=kept,
    )
    meta = clock.meta(sum(each.rows for each in inputs), job.threads, versions())
    return make_report(config, told, inputs, meta, clock=clock, sample=job.work.sample)


def _model_counts(name: str, tally: RowTally, found: Findings) -> ModelCounts:
    return ModelCounts(
        rows=tally.rows,
        rows_used=tally.rows_used,
        rows_dropped=dict(tally.dropped),
        users=found.users.get(name, 0),
        users_without_ranking=tally.noted.get("users_without_prediction", 0),
        users_without_truth=tally.noted.get("users_without_rating", 0),
        duplicates=tally.noted.get("duplicates", 0),
        duplicates_searched="all" if "duplicates" in tally.noted else "none",
        seen_in_train=None,
        bad_ranks=0,
        ties=0,
        depth=found.most_rows.get(name, 0),
    )


def inputs_of(
    role: str, models: Models, tallies: Mapping[str, RowTally], sources: UserSources
) -> list[Input]:
    """A record of every table that was read."""
    found = []
    for model, table in models:
        rows = (
            sum(tally.rows for tally in tallies.values()) if model is None else tallies[model].rows
        )
        found.append(input_of(table, rows, role, model))
    found += [input_of(table, table.count_rows(), "segments") for table in sources.inputs]
    return found
