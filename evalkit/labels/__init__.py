"""Scored rows with labels: classification, calibration and ranking, pooled and by user."""

from evalkit.labels._run import open_all_of, run_labels
from evalkit.rows import RowsKind

LABELS = RowsKind(open_all_of, run_labels)

__all__ = ["LABELS"]
