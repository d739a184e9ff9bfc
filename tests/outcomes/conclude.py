"""From the sums of all shares to a report; no row is read."""

from collections.abc import Sequence

from evalkit.errors import DataError
from evalkit.inference.conclude import Inference
from evalkit.planning.counters import Clock, versions
from evalkit.planning.record import RunResults, make_report
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.report import Counts, ModelCounts, Report, TruthCounts, Warning_
from outcomes.merge import GroupCounts


def conclude_outcomes(
    left: ShareResult, work: MeasureOptions, told: Sequence[Warning_], clock: Clock | None
) -> Report:
    """The report of all shares: each group is a model."""
    clock = work.started(clock)
    config, groups = left.config, left.sums.groups
    if not groups:
        raise DataError("no row has a user and a group", code="empty-input", at=left.inputs[0].role)
    names = sorted(groups)
    inference = Inference.of(config, config.requests, names, left.sums.totals)
    clock.stop("aggregate")
    n_rows, n_used = (
        sum(each.rows for each in groups.values()),
        sum(_used(each) for each in groups.values()),
    )
    n_users = sum(each.users for each in groups.values())
    truth = TruthCounts(n_rows, n_used, {"null_id": 0}, n_users, 0, n_used, None)
    counts = Counts(truth, {name: _counts_of(groups[name]) for name in names})
    found = RunResults(counts, inference, (*told, *inference.warnings))
    meta = clock.meta(n_rows, work.useful_threads, versions())
    return make_report(config, found, left.inputs, meta, clock=clock, sample=work.sample)


def _used(group: GroupCounts) -> int:
    return group.rows - group.null_ids - group.bad_scores


def _counts_of(group: GroupCounts) -> ModelCounts:
    return ModelCounts(
        rows=group.rows,
        rows_used=_used(group),
        rows_dropped={"null_id": group.null_ids, "bad_score": group.bad_scores},
        users=group.users,
        users_without_ranking=0,
        users_without_truth=0,
        duplicates=0,
        duplicates_searched="none",
        seen_in_train=None,
        bad_ranks=0,
        ties=0,
        depth=group.depth,
    )
