"""What is done with ratings on the street."""

from evalkit.ratings.measure import RatingRun
from evalkit.ratings.open import check_ratings, open_tables
from evalkit.rows.measure import RowsKind
from evalkit.rows.merge import kind_of_rows

KIND = kind_of_rows(RowsKind(open_tables, check_ratings, RatingRun))
