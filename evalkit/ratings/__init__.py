"""Predicted ratings against true ones: errors, over all pairs and averaged over users."""

from evalkit.ratings._run import RatingRun, check_ratings, open_tables
from evalkit.rows.run import RowsKind
from evalkit.rows.shares import kind_of_rows

RATINGS = kind_of_rows(RowsKind(open_tables, check_ratings, RatingRun))
