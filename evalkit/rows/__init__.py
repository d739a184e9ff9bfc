"""Tables of rows that are no rankings: read, grouped by user, sorted, and reported.

What `ratings` and `labels` share. Rows stream into a `Store`, which brings those of one user
together; each part of it is sorted whole, so nothing depends on the order of rows or threads.
"""

from evalkit.rows._bins import bin_of, nice_edges
from evalkit.rows._job import RowJob
from evalkit.rows._kernels import count_leading, count_within, find_ranges, place_scores
from evalkit.rows._means import WeightedMean, product_and_rest
from evalkit.rows._numbers import KeptParts, Measured, Number
from evalkit.rows._partial import RowSums, kind_of_rows
from evalkit.rows._passes import Columns, HeldRows, ModelRows, Room, bytes_of, shares_together
from evalkit.rows._reading import Reading
from evalkit.rows._repeats import find_repeats
from evalkit.rows._room import room_beside
from evalkit.rows._segments import RowSegments
from evalkit.rows._spread import Floats, TermSums
from evalkit.rows._store import (
    Batch,
    Column,
    Numbered,
    Placing,
    Store,
    by_hash,
    number_groups,
    order_keys,
    parts_for,
    sort_labels,
    sort_packed,
    sort_rows,
    values_of,
)
from evalkit.rows._street import (
    Models,
    RowRun,
    RowsKind,
    check_rows,
    check_sums,
    count_lost,
    float_column,
    inputs_of,
    open_all,
    warn_of_infinite,
    warn_of_lost,
)
from evalkit.rows._tally import Grouping, Rows, RowTally

__all__ = [
    "Batch",
    "Column",
    "Columns",
    "Floats",
    "Grouping",
    "HeldRows",
    "KeptParts",
    "Measured",
    "ModelRows",
    "Models",
    "Number",
    "Numbered",
    "Placing",
    "Reading",
    "Room",
    "RowJob",
    "RowRun",
    "RowSegments",
    "RowSums",
    "RowTally",
    "Rows",
    "RowsKind",
    "Store",
    "TermSums",
    "WeightedMean",
    "bin_of",
    "by_hash",
    "bytes_of",
    "check_rows",
    "check_sums",
    "count_leading",
    "count_lost",
    "count_within",
    "find_ranges",
    "find_repeats",
    "float_column",
    "inputs_of",
    "kind_of_rows",
    "nice_edges",
    "number_groups",
    "open_all",
    "order_keys",
    "parts_for",
    "place_scores",
    "product_and_rest",
    "room_beside",
    "shares_together",
    "sort_labels",
    "sort_packed",
    "sort_rows",
    "values_of",
    "warn_of_infinite",
    "warn_of_lost",
]
