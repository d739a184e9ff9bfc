"""Rankings held against a truth: one share of the users measured, sums merged, and concluded."""

from evalkit.rankings._conclude import conclude
from evalkit.rankings._job import RankingJob
from evalkit.rankings._measure import measure_share
from evalkit.rankings._splits import find_edges
from evalkit.rankings._sums import RankingSums

__all__ = ["RankingJob", "RankingSums", "conclude", "find_edges", "measure_share"]
