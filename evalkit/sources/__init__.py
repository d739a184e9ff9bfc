"""Logs of any format, local or in a store, as lazy frames with evalkit's column names."""

from evalkit.sources.columns import guess_columns
from evalkit.sources.memory import open_given
from evalkit.sources.paths import FORMATS
from evalkit.sources.table import Table, reading
from evalkit.sources.tables import open_log, open_rankings, open_train, open_truth, read_schema

__all__ = [
    "FORMATS",
    "Table",
    "guess_columns",
    "open_given",
    "open_log",
    "open_rankings",
    "open_train",
    "open_truth",
    "read_schema",
    "reading",
]
