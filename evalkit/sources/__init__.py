"""Logs of any format, local or in a store, as lazy frames with evalkit's column names."""

from evalkit.sources.columns import guess_columns
from evalkit.sources.memory import open_given
from evalkit.sources.paths import FORMATS
from evalkit.sources.table import Table, reading
from evalkit.sources.tables import (
    OwnTable,
    open_labels,
    open_log,
    open_own_values,
    open_predictions,
    open_rankings,
    open_ratings,
    open_train,
    open_truth,
    open_values,
    read_schema,
)

__all__ = [
    "FORMATS",
    "OwnTable",
    "Table",
    "guess_columns",
    "open_given",
    "open_labels",
    "open_log",
    "open_own_values",
    "open_predictions",
    "open_rankings",
    "open_ratings",
    "open_train",
    "open_truth",
    "open_values",
    "read_schema",
    "reading",
]
