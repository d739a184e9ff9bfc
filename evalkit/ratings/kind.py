"""What is done with ratings on the street."""

from evalkit.ratings._run import RatingRun, check_ratings, open_tables
from evalkit.rows.run import RowsKind
from evalkit.rows.shares import kind_of_rows

KIND = kind_of_rows(RowsKind(open_tables, check_ratings, RatingRun))
