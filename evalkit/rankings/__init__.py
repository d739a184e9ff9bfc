"""Rankings held against a truth: one share of the users measured, sums merged, and concluded."""

from evalkit.planning.work import Kind
from evalkit.rankings._conclude import inputs_of
from evalkit.rankings._run import conclude_rankings, measure_rankings, open_logs, run_rankings
from evalkit.rankings._sums import RankingSums

__all__ = ["RANKINGS", "RankingSums", "conclude_rankings", "inputs_of", "measure_rankings"]

RANKINGS = Kind(RankingSums, open_logs, run_rankings, measure_rankings, conclude_rankings)
