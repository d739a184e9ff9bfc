"""What is done with ratings on the street."""

from evalkit.kinds.pointwise.measure import RowsKind, SumsReading
from evalkit.kinds.pointwise.merge import kind_of_rows
from evalkit.kinds.ratings.conclude import adds_up, conclude_sums, truth_counts
from evalkit.kinds.ratings.measure import RatingRun, survey
from evalkit.kinds.ratings.open import check_ratings, open_tables

OF_SUMS = SumsReading(adds_up, conclude_sums, truth_counts, survey)
KIND = kind_of_rows(RowsKind(open_tables, check_ratings, RatingRun, OF_SUMS))
