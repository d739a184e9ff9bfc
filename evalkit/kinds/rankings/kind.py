# ruff: noqa: F401  # engines take some names from here
"""What is done with rankings on the street."""

from evalkit.config import Config
from evalkit.kinds.rankings._global_stats import (
    LATEST,
    NOTED,
    note_share,
    stats_of,
    unknown_to_shares,
    with_weights,
)
from evalkit.kinds.rankings._job import RankingJob, RankingTask
from evalkit.kinds.rankings.conclude import conclude, conclude_rankings, inputs_of
from evalkit.kinds.rankings.measure import measure_rankings, measure_users
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.kinds.rankings.open import open_logs
from evalkit.planning.tables import open_tables
from evalkit.planning.work import Kind, MeasureOptions
from evalkit.report import Report


def run_rankings(config: Config, measure_options: MeasureOptions) -> Report:
    """The report of all users at once."""
    tables, remarks = open_logs(config, measure_options)
    clock = measure_options.clock(tables.logs)
    job = RankingJob(tables.config, measure_options, clock, tables=tables, remarks=remarks)
    sums = measure_users(job, measure_options.memory_limit)
    return conclude(job, sums, inputs_of(job.tables), job.writer)


KIND = Kind(
    RankingSums, open_tables, run_rankings, measure_rankings, conclude_rankings, on_spark=True
)
