"""From sums of pairs to numbers, counts and warnings of ratings; no row is read."""

from collections.abc import Mapping

from evalkit.kinds.pointwise.conclude import Findings
from evalkit.kinds.pointwise.counts import RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.measure import warn_of_lost
from evalkit.kinds.pointwise.units import Measured, measured_of
from evalkit.kinds.ratings.merge import RatingSums
from evalkit.report import TruthCounts, Warning_


def measured(job: RowJob, total: RatingSums) -> Measured:
    """Numbers in the order of the requests, and columns of users where they are needed."""
    made = {request: total.pairs.made[request] for request in job.over("rows")}
    known = {each: of.smooth for each, of in made.items() if of.smooth is not None}
    limits = {each: of.limits for each, of in made.items() if of.limits is not None}
    return measured_of(job, {"users": total.users}, total.pairs.value, known, limits)


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
    found += warn_of_lost(name, row_counts.noted.get("users_without_rows", 0))
    if repeats := row_counts.noted.get("truth_duplicates", 0):
        message = f"{repeats:,} ratings repeat a pair; the largest rating counts"
        found.append(Warning_("duplicate-truth", message))
    return found
