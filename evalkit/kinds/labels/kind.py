"""What is done with labels on the street."""

from evalkit.kinds.labels.conclude import truth_counts, warnings_of
from evalkit.kinds.labels.measure import LabelRun
from evalkit.kinds.labels.open import check_labels, open_tables
from evalkit.kinds.pointwise.measure import RowsKind, SumsReading
from evalkit.kinds.pointwise.merge import kind_of_rows

KIND = kind_of_rows(
    RowsKind(open_tables, check_labels, LabelRun, SumsReading(warnings_of, truth_counts))
)
