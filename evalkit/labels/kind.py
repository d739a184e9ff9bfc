"""What is done with labels on the street."""

from evalkit.labels.conclude import truth_counts, warnings_of
from evalkit.labels.measure import LabelRun
from evalkit.labels.open import check_labels, open_tables
from evalkit.rows.measure import OfSums, RowsKind
from evalkit.rows.merge import kind_of_rows

KIND = kind_of_rows(
    RowsKind(open_tables, check_labels, LabelRun, OfSums(warnings_of, truth_counts))
)
