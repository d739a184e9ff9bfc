"""Predicted ratings against true ones: errors, over all pairs and averaged over users."""

from evalkit.ratings._run import open_ratings_of, run_ratings
from evalkit.rows import RowsKind

RATINGS = RowsKind(open_ratings_of, run_ratings)

__all__ = ["RATINGS"]
