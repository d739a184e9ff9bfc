"""What is done with labels on the street."""

from evalkit.labels._run import LabelRun, check_labels, open_tables
from evalkit.rows.run import RowsKind
from evalkit.rows.shares import kind_of_rows

KIND = kind_of_rows(RowsKind(open_tables, check_labels, LabelRun))
