"""Rankings held against a truth: one share of the users measured, sums merged, and concluded."""

from evalkit.planning.tables import open_tables
from evalkit.planning.work import Kind
from evalkit.rankings._conclude import inputs_of
from evalkit.rankings._job import RankingTask
from evalkit.rankings._known import (
    LATEST,
    NOTED,
    known_of,
    note_share,
    unknown_to_shares,
    with_weights,
)
from evalkit.rankings._run import conclude_rankings, measure_rankings, open_job, run_rankings
from evalkit.rankings._sums import RankingSums

RANKINGS = Kind(RankingSums, open_tables, run_rankings, measure_rankings, conclude_rankings)
