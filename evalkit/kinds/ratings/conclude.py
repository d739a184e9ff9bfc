"""From sums of pairs to numbers, counts and warnings of ratings; no row is read."""

from collections.abc import Mapping

from evalkit.aggregate.segments import ALL, Segment
from evalkit.kinds.pointwise import measure
from evalkit.kinds.pointwise.conclude import Findings
from evalkit.kinds.pointwise.counts import RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.units import Measured, measured_of
from evalkit.kinds.ratings._sums import check_domains
from evalkit.kinds.ratings.merge import RatingSums
from evalkit.kinds.ratings.read import check_pairs
from evalkit.metrics import Request, over
from evalkit.report import TruthCounts, Warning_


def measured(job: RowJob, total: RatingSums) -> Measured:
    """Numbers in the order of the requests, and columns of users where they are needed."""
    made = {request: total.pairs.made[request] for request in job.over("rows")}
    known = {each: of.smooth for each, of in made.items() if of.smooth is not None}
    limits = {each: of.limits for each, of in made.items() if of.limits is not None}
    return measured_of(job, {"users": total.users}, total.pairs.value, known, limits)


def conclude_model(
    job: RowJob,
    found: Findings,
    name: str,
    totals: Mapping[Segment, RatingSums],
    row_counts: RowOutcomes,
    table: measure.SourceTable,
) -> None:
    """Everything of one model, of the sums of all users.

    Raises:
        DataError: pairs or ratings that policies or metrics do not allow.
    """
    total = totals[ALL]
    check_pairs(row_counts, job.config.policies, table)
    check_domains(job, total.pairs, table.at)
    if row_counts.noted.pop("repeats", None) is not None:
        row_counts.noted["duplicates"] = 0  # or they were refused
    found.users[name] = total.users.n_units
    found.most_rows[name] = total.users.most_rows
    for segment, each in totals.items():
        found.measured.setdefault(segment, {})[name] = measured(job, each)
    found.warnings += measure.warn_of_infinite(name, job.over("users"), total.users.means)
    if row_counts.rows_used and total.drawing is not None:
        found.distributions.append(total.drawing.histogram(name))
        found.graphs += total.drawing.graphs(name, level=job.config.statistics.level)
    found.warnings += measure.check_rows(job.config, name, row_counts, table.at)
    found.warnings += warnings_of(name, row_counts)


def adds_up(request: Request) -> bool:
    """Whether a number is made of sums; others need the order of all pairs."""
    return over(request) == "users" or (over(request) == "rows" and not request.over_rows.made)


def conclude_sums(
    job: RowJob, found: Findings, own: measure.ModelSums, table: measure.SourceTable
) -> None:
    """Everything of one model, of the sums that shares of the users left."""
    totals = {
        segment: RatingSums.of_kept(job, each, own.means[segment], own.n_users[segment])
        for segment, each in own.row_sums.items()
    }
    totals[ALL].users.most_rows = own.most_rows
    row_counts = own.row_counts
    conclude_model(job, found, own.name, totals, row_counts, table)
    own.noted = row_counts.noted
    for segment in totals:
        known = found.measured[segment][own.name]
        found.measured[segment][own.name] = Measured(known.numbers, known.n_users)


def truth_counts(
    truth: RowOutcomes | None, counts_by_model: Mapping[str, RowOutcomes], found: Findings
) -> TruthCounts:
    """Of the table of ratings; without one, the rated pairs of the model that has most."""
    if len({row_counts.rows_used for row_counts in counts_by_model.values()}) > 1:
        message = "models predict different numbers of pairs: errors stand on other rows each"
        found.warnings.append(Warning_("different-pairs", message))
    if truth is not None:
        repeats = max(
            (t.noted.get("truth_duplicates", 0) for t in counts_by_model.values()), default=0
        )
        rated, dropped = truth.rows, {"duplicate": repeats}
        dropped |= {reason: number for reason, number in truth.dropped.items() if number}
    else:
        rated = max(
            (t.rows - t.dropped.get("unrated", 0) - t.dropped.get("null_id", 0)
             for t in counts_by_model.values()),
            default=0,
        )  # fmt: skip
        dropped = {}
    users = max(
        (
            found.users.get(name, 0) + row_counts.noted.get("users_without_prediction", 0)
            for name, row_counts in counts_by_model.items()
        ),
        default=0,
    )
    used = rated - sum(dropped.values())
    return TruthCounts(rated, used, dropped, users, 0, used)


def warnings_of(name: str, row_counts: RowOutcomes) -> list[Warning_]:
    found = []
    unpredicted = row_counts.noted.get("unpredicted", 0)
    unrated = row_counts.dropped.get("unrated", 0)
    if unpredicted:
        message = f"{unpredicted:,} true ratings have no prediction and are left out: errors say "
        found.append(Warning_("unpredicted", message + "nothing about them", name))
    if unrated:
        message = f"{unrated:,} predictions have no true rating and are left out"
        found.append(Warning_("unrated", message, name))
    found += measure.warn_of_lost(name, row_counts.noted.get("users_without_rows", 0))
    if repeats := row_counts.noted.get("truth_duplicates", 0):
        message = f"{repeats:,} ratings repeat a pair; the largest rating counts"
        found.append(Warning_("duplicate-truth", message))
    return found
