"""Rankings held against a truth: one share of the users measured, sums merged, and concluded."""

from evalkit.rankings._conclude import conclude, inputs_of
from evalkit.rankings._job import RankingJob, RankingTask
from evalkit.rankings._measure import measure_share
from evalkit.rankings._splits import find_edges
from evalkit.rankings._sums import Origin, RankingSums

__all__ = [
    "Origin",
    "RankingJob",
    "RankingSums",
    "RankingTask",
    "conclude",
    "find_edges",
    "inputs_of",
    "measure_share",
]
