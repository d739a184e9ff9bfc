"""Measures one share of the users: rows -> values of users -> exact sums of each group."""

import numpy as np
import polars as pl

from evalkit.aggregate.segments import ALL
from evalkit.aggregate.sums import add_to
from evalkit.config import Config
from evalkit.errors import DataError, RequestError
from evalkit.planning.counters import input_of
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.sources import Table, reading
from evalkit.sources.ids import USER_KEY, DrawnShare, Sample, plan_ids, try_seeds
from evalkit.statistics.exact import ExactSums
from outcomes.merge import GroupCounts, OutcomeSums
from outcomes.open import open_outcomes


def measure_outcomes(config: Config, work: MeasureOptions) -> ShareResult:
    """The sums of one share of the users."""
    if work.per_user:
        raise RequestError("values of users are not kept of outcomes", code="per-user-off")
    opened = open_outcomes(config, work.given)
    if work.opened is not None:
        work.opened(opened.all)
    table = opened.outcomes
    types = {
        name: dtype
        for name, dtype in table.frame.collect_schema().items()
        if name.startswith("user_")
    }

    def measure(seed: int) -> tuple[OutcomeSums, int]:
        plan = plan_ids("user", [(table.role, table.at, types)], seed=seed)
        rows = table.frame.select(*plan.select(USER_KEY), "group", "outcome")
        with reading(table):
            frame = rows.collect(engine="streaming")
        is_null = frame[USER_KEY].is_null() | frame["group"].is_null()
        known = frame.filter(~is_null)
        held = np.ones(known.height, dtype=np.bool_)
        if work.share[1] > 1:
            held &= DrawnShare(work.share[0] - 1, work.share[1], plan).holds(known)
        if work.sample is not None:
            held &= Sample(work.sample, plan).holds(known)
        n_null = int(is_null.sum()) if work.share[0] == 1 else 0
        return _sums_of(opened.config, known.filter(pl.Series(held)), n_null, table), frame.height

    sums, n_rows = try_seeds(measure)
    ids = {"user": tuple(map(str, types.values()))}
    return ShareResult(opened.config, ids, [input_of(table, n_rows, "outcomes")], sums)


def _sums_of(config: Config, rows: pl.DataFrame, n_null: int, table: Table) -> OutcomeSums:
    """What some rows of whole users add up to."""
    outcome = pl.col("outcome").cast(pl.Float64)
    is_good = outcome.is_finite().fill_null(False)
    policies, n_bad = config.policies, rows.height - rows.filter(is_good).height
    if n_null and policies.null_ids == "error":
        raise DataError(f"{n_null:,} rows have no user or no group", code="null-id", at=table.at)
    if n_bad and policies.bad_scores == "error":
        message = f"{n_bad:,} outcomes are null or no finite number"
        raise DataError(message, code="bad-score", at=table.at)
    sums = OutcomeSums()
    for (name,), group in sorted(rows.group_by(pl.col("group").cast(pl.String))):
        good = group.filter(is_good).sort(USER_KEY, outcome)
        sizes = good.group_by(USER_KEY, maintain_order=True).len()["len"].to_numpy()
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        outcomes = good.select(outcome).to_series().to_numpy()
        values = np.empty((sizes.size, len(config.requests)))
        for column, request in enumerate(config.requests):
            out = np.empty(sizes.size)
            request.metric.kernel(starts, outcomes, *request.encoded, out)
            values[:, column] = out
        found = ExactSums(values.shape[1])
        found.add(values)
        add_to(sums.totals.models, (ALL, str(name)), found)
        n_here = n_null if not sums.groups else 0  # rows without a group are told of the first
        depth = int(sizes.max(initial=0))
        counts = GroupCounts(
            group.height + n_here, n_here, group.height - good.height, sizes.size, depth
        )
        sums.groups[str(name)] = counts
    return sums
