"""From sums of pairs to numbers, counts and warnings of ratings; no row is read."""

from collections.abc import Mapping

from evalkit.ratings.merge import RatingSums
from evalkit.report import TruthCounts, Warning_
from evalkit.rows.conclude import Findings
from evalkit.rows.job import RowJob
from evalkit.rows.measure import warn_of_lost
from evalkit.rows.tally import RowTally
from evalkit.rows.units import Measured, measured_of


def measured(job: RowJob, total: RatingSums) -> Measured:
    """Numbers in the order of the requests, and columns of users where they are needed."""
    smooth = {each: each.over_rows.smooth for each in job.over("rows")}
    known = {request: number for request, number in smooth.items() if number is not None}
    return measured_of(job, {"users": total.users}, total.pairs.value, known)


def truth_counts(
    truth: RowTally | None, tallies: Mapping[str, RowTally], found: Findings
) -> TruthCounts:
    """Of the table of ratings; without one, the rated pairs of the model that has most."""
    if len({tally.rows_used for tally in tallies.values()}) > 1:
        message = "models predict different numbers of pairs: errors stand on other rows each"
        found.warnings.append(Warning_("different-pairs", message))
    if truth is not None:
        repeats = max((t.noted.get("truth_duplicates", 0) for t in tallies.values()), default=0)
        rated, dropped = truth.rows, {"duplicate": repeats}
        dropped |= {reason: number for reason, number in truth.dropped.items() if number}
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


def warnings_of(name: str, tally: RowTally) -> list[Warning_]:
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
