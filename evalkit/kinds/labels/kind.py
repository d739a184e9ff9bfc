"""What is done with labels on the street."""

from evalkit.kinds.labels.conclude import conclude_sums, truth_counts
from evalkit.kinds.labels.measure import LabelRun
from evalkit.kinds.labels.open import check_labels, open_tables
from evalkit.kinds.pointwise.measure import RowsKind, SumsReading
from evalkit.kinds.pointwise.merge import kind_of_rows
from evalkit.metrics import over

OF_SUMS = SumsReading(
    lambda request: over(request) == "users",
    conclude_sums,
    lambda _, counts_by_model, found: truth_counts(counts_by_model, found),
)
KIND = kind_of_rows(RowsKind(open_tables, check_labels, LabelRun, OF_SUMS))
