"""From what was found in rows to a report; no row is read any more."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evalkit import report
from evalkit.aggregate.segments import ALL, SeenValues, Segment
from evalkit.aggregate.sums import GrandTotals
from evalkit.aggregate.user_values.checks import convention_warnings
from evalkit.kernels.arrays import Keys
from evalkit.kinds.pointwise._clusters import Clusters
from evalkit.kinds.pointwise._comparing import infer
from evalkit.kinds.pointwise._kept import Keeping, without_values
from evalkit.kinds.pointwise.counts import WORD, RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.segments import RowSegments, RowUsers, UserSources
from evalkit.kinds.pointwise.units import Measured, RowSums, UnitSums
from evalkit.planning.counters import input_of, versions
from evalkit.planning.meeting import null_words
from evalkit.planning.record import RunResults, make_report
from evalkit.sources import Table

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
    graphs: list[report.Graph] = field(default_factory=list)
    distributions: list[report.Distribution] = field(default_factory=list)
    warnings: list[report.Warning_] = field(default_factory=list)
    users: dict[str, int] = field(default_factory=dict)  # by model
    most_rows: dict[str, int] = field(default_factory=dict)  # of one user, by model
    pairs: dict[str, int] = field(default_factory=dict)  # labels 1, or rated pairs, by model
    sums: dict[tuple[Segment, str], UnitSums] = field(default_factory=dict)  # of shares of users
    row_sums: dict[tuple[Segment, str], RowSums] = field(default_factory=dict)  # likewise


def conclude_rows(
    job: RowJob,
    found: Findings,
    counts_by_model: Mapping[str, RowOutcomes],
    hash_users: Callable[[Keys], Keys],
    *,
    inputs: Sequence[report.Input],
    truth: report.TruthCounts,
    keeping: Keeping | None,
    n_lonely: int | None = None,
) -> report.Report:
    """The report of what was found in the rows of all models."""
    config, requests, clock = job.config, job.requests, job.clock
    if job.work.sample is not None:
        message = f"numbers stand on a sample of {job.work.sample:.2%} of the users"
        found.warnings.append(report.Warning_("sample", message))
    found.warnings += convention_warnings(config, requests)
    notes = (name.partition(" ") for each in counts_by_model.values() for name in each.noted)
    words = (text for kind, _, text in notes if kind == WORD)
    found.warnings += null_words(config.kind, "user", words)
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
    told = RunResults(
        counts=report.Counts(
            truth,
            {
                name: _model_counts(name, row_counts, found)
                for name, row_counts in counts_by_model.items()
            },
        ),
        inference=inference,
        warnings=(*found.warnings, *inference.warnings),
        graphs=found.graphs,
        distributions=found.distributions,
        per_user_values=kept,
    )
    meta = clock.meta(sum(each.rows for each in inputs), job.threads, versions())
    return make_report(config, told, inputs, meta, clock=clock, sample=job.work.sample)


def _model_counts(name: str, row_counts: RowOutcomes, found: Findings) -> report.ModelCounts:
    return report.ModelCounts(
        rows=row_counts.rows,
        rows_used=row_counts.rows_used,
        rows_dropped=dict(row_counts.dropped),
        users=found.users.get(name, 0),
        users_without_ranking=row_counts.noted.get("users_without_prediction", 0),
        users_without_truth=row_counts.noted.get("users_without_rating", 0),
        duplicates=row_counts.noted.get("duplicates", 0),
        duplicates_searched="all" if "duplicates" in row_counts.noted else "none",
        seen_in_train=None,
        bad_ranks=0,
        ties=0,
        depth=found.most_rows.get(name, 0),
    )


def inputs_of(
    role: str, models: Models, counts_by_model: Mapping[str, RowOutcomes], sources: UserSources
) -> list[report.Input]:
    """A record of every table that was read."""
    found = []
    for model, table in models:
        rows = (
            sum(row_counts.rows for row_counts in counts_by_model.values())
            if model is None
            else counts_by_model[model].rows
        )
        found.append(input_of(table, rows, role, model))
    found += [input_of(table, table.count_rows(), "segments") for table in sources.inputs]
    return found
