"""Rankings held against a truth: one share of the users measured, sums merged, and concluded."""

from evalkit.planning.tables import open_tables
from evalkit.planning.work import Kind
from evalkit.rankings._conclude import inputs_of
from evalkit.rankings._run import conclude_rankings, measure_rankings, run_rankings
from evalkit.rankings._sums import RankingSums

__all__ = ["RANKINGS", "RankingSums", "inputs_of"]

RANKINGS = Kind(RankingSums, open_tables, run_rankings, measure_rankings, conclude_rankings)
