"""Items by user: one compressed array, a hash table to find users, filters to pass items over."""

from evalkit.pairs._build import UserItems, build_user_items, first_gap, merge_sort
from evalkit.pairs._index import (
    FEW_ITEMS,
    Grades,
    Index,
    code_of,
    count_of,
    find_item,
    may_hold,
    relevance_at,
    select_candidates,
    start_of,
)
from evalkit.pairs._rows import ManyGradesError, PairRows
from evalkit.pairs._shared import count_shared
from evalkit.pairs._table import find_entry, home_entry

__all__ = [
    "FEW_ITEMS",
    "Grades",
    "Index",
    "ManyGradesError",
    "PairRows",
    "UserItems",
    "build_user_items",
    "code_of",
    "count_of",
    "count_shared",
    "find_entry",
    "find_item",
    "first_gap",
    "home_entry",
    "may_hold",
    "merge_sort",
    "relevance_at",
    "select_candidates",
    "start_of",
]
