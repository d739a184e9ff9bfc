"""Users, or relevant items, in groups: by a table, by the truth's own columns, by number."""

from evalkit.aggregate.segments._buckets import (
    MOST_GROUPS,
    SMALL,
    SMALL_KEY,
    UNKNOWN,
    IdGroups,
    SeenValues,
    SortKey,
    quantile_edges,
)
from evalkit.aggregate.segments._cells import ALL, CellSet, Segment, make_cells, most_cells
from evalkit.aggregate.segments._items import ItemPart, read_item_segments
from evalkit.aggregate.segments._opened import SegmentTable, open_segments
from evalkit.aggregate.segments._users import (
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
