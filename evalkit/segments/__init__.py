"""Users, or relevant items, in groups: by a table, by the truth's own columns, by number."""

from evalkit.segments._buckets import (
    MOST_GROUPS,
    SMALL,
    SMALL_KEY,
    UNKNOWN,
    Groups,
    SeenValues,
    SortKey,
    quantile_edges,
)
from evalkit.segments._cells import ALL, CellSet, Segment, make_cells, most_cells
from evalkit.segments._items import ItemPart, read_item_segments
from evalkit.segments._opened import SegmentTable, open_segments
from evalkit.segments._users import (
    UserSegments,
    cross_segments,
    hash_clusters,
    no_cluster,
    numbers_of,
    read_clusters,
    read_user_values,
    read_weights,
    split_users,
)

__all__ = [
    "ALL",
    "MOST_GROUPS",
    "SMALL",
    "SMALL_KEY",
    "UNKNOWN",
    "CellSet",
    "Groups",
    "ItemPart",
    "SeenValues",
    "Segment",
    "SegmentTable",
    "SortKey",
    "UserSegments",
    "cross_segments",
    "hash_clusters",
    "make_cells",
    "most_cells",
    "no_cluster",
    "numbers_of",
    "open_segments",
    "quantile_edges",
    "read_clusters",
    "read_item_segments",
    "read_user_values",
    "read_weights",
    "split_users",
]
