"""What is done with rankings on the street."""

from evalkit.config import Config
from evalkit.planning.tables import open_tables
from evalkit.planning.work import Kind, Work
from evalkit.rankings._job import RankingTask
from evalkit.rankings._known import (
    LATEST,
    NOTED,
    known_of,
    note_share,
    unknown_to_shares,
    with_weights,
)
from evalkit.rankings.conclude import conclude, conclude_rankings, inputs_of
from evalkit.rankings.measure import measure_rankings, measure_users
from evalkit.rankings.merge import RankingSums
from evalkit.rankings.open import open_job
from evalkit.report import Report

__all__ = [
    "KIND",
    "LATEST",
    "NOTED",
    "RankingSums",
    "RankingTask",
    "inputs_of",
    "known_of",
    "note_share",
    "open_job",
    "unknown_to_shares",
    "with_weights",
]


def run_rankings(config: Config, work: Work) -> Report:
    """The report of all users at once."""
    job = open_job(config, work)
    sums = measure_users(job, work.memory_limit)
    return conclude(job, sums, inputs_of(job.tables), job.writer)


KIND = Kind(
    RankingSums,
    open_tables,
    run_rankings,
    measure_rankings,
    conclude_rankings,
    on_spark=True,
)
