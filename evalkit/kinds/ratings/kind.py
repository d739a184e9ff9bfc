"""What is done with ratings on the street."""

from evalkit.kinds.pointwise.measure import RowsKind
from evalkit.kinds.pointwise.merge import kind_of_rows
from evalkit.kinds.ratings.measure import RatingRun
from evalkit.kinds.ratings.open import check_ratings, open_tables

KIND = kind_of_rows(RowsKind(open_tables, check_ratings, RatingRun))
