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
