"""Scored rows with labels: classification, calibration and ranking, pooled and by user."""

from evalkit.labels._run import LabelRun, check_labels, open_tables
from evalkit.rows.run import RowsKind
from evalkit.rows.shares import kind_of_rows

LABELS = kind_of_rows(RowsKind(open_tables, check_labels, LabelRun))
