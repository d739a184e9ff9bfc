"""How much memory is taken by what is kept of users beside their rows."""

from collections.abc import Sequence

import polars as pl

from evalkit.errors import MachineError
from evalkit.kernels.memory import fits, room_to_compile
from evalkit.kinds.pointwise.counts import Grouping
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.passes import MemoryBudget
from evalkit.kinds.pointwise.spread import TermSums
from evalkit.metrics import Smooth, over
from evalkit.sources import Table, reading

BYTES_OF_AN_ID = 64  # of a user whose ids are hashed: they are kept too
SLACK = 1.15  # the number of users is an estimate
COPIES_OF_TERMS, COPIES_OF_VALUES = 2, 3  # while they are put in order


def budget_beside(
    job: RowJob,
    numbers: Sequence[Smooth],
    tables: Sequence[Table],
    groupings: Sequence[Grouping],
    *,
    copies: int,
) -> MemoryBudget:
    """Room for rows, less what is kept of their users.

    Args:
        numbers: over all rows, of the requests.
        tables: of models.
        copies: how often a row is in memory.
    Raises:
        MachineError: what is kept leaves no room [memory-limit].
    """
    config, limit, threads = job.config, job.work.memory_limit, job.threads
    if limit is None or not (job.keeps or config.segments.named):  # nobody counts users
        return MemoryBudget(limit, threads, copies)
    n_sets = 1 + len(config.segments.named) + len(config.segments.cross)
    n_means = sum(over(request) != "rows" for request in job.requests)
    values = 8 * (1 + len(job.requests))
    terms = 8 * (1 + 2 * n_means + len(TermSums(numbers).terms))
    known = 16 * n_sets + BYTES_OF_AN_ID * groupings[0].plan.hashed
    counts = [sum(_count_groups(table, each) for each in groupings) for table in tables]
    share = SLACK * (1.0 if job.work.sample is None else job.work.sample)
    n_users, n_largest = int(share * sum(counts)), int(share * max(counts, default=0))
    beside = n_users * known
    at_end = beside
    if job.keeps:
        beside += n_sets * (n_users * values + n_largest * COPIES_OF_TERMS * terms)
        at_end += (n_sets + COPIES_OF_VALUES) * n_users * values
    needed = MemoryBudget(limit, threads, copies, kept=max(beside, at_end)).taken()
    if not fits(needed, limit):
        needed += room_to_compile()
        raise MachineError(
            f"what is kept of about {n_users:,} users needs {needed >> 20:,} MiB, the limit is "
            f"{limit >> 20:,} MiB",
            code="memory-limit",
            hint=f"give --memory-limit {(needed >> 20) + 64}MiB, or ask for fewer metrics",
        )
    return MemoryBudget(limit, threads, copies, kept=beside)


def _count_groups(table: Table, grouping: Grouping) -> int:
    """About how many users, or sessions, there are; of each model that the rows name."""
    model = [pl.col("model")] if "model" in table.frame.collect_schema() else []
    whole = pl.struct([*grouping.plan.canonical(), *model]).hash()
    with reading(table):
        found = table.frame.select(whole.approx_n_unique()).collect(engine="streaming")
    return int(found.item())
