"""The truth: interactions by user in one array, and a hash table to find users.

In: tables of interactions.
Out: `Truth`: users, their items, what finds both.
Open first: `_read.py`, then `_build.py`.

`_read` reads interactions and drops repeats by policy; `_rows` gathers what was read; `_build`
groups it: items by user in one compressed array, filters to pass items over; `_ids` keeps the real
ids of hashed keys; `_seen_rows` keeps the training log on disk between passes; `_table` is the hash
table that finds users; `_index` is what kernels look things up in.
"""

from evalkit.truth._build import (
    UserItems,
    build_user_items,
)
from evalkit.truth._ids import KnownIds
from evalkit.truth._index import (
    FEW_ITEMS,
    Grades,
    Index,
    code_of,
    count_of,
    count_unknown,
    find_item,
    may_hold,
    prefetch_filter,
    relevance_at,
    select_candidates,
    start_of,
)
from evalkit.truth._propensity import relevant_weights, weigh, with_weights
from evalkit.truth._read import (
    BATCH_ROWS,
    TRUTH_CODES,
    Interactions,
    Train,
    Truth,
    build_train,
    build_truth,
    choose_rows,
    choose_users,
    count_in_train,
    drop_null_ids,
    first_users,
    null_id_error,
    rows_together,
)
from evalkit.truth._rows import LONE_RUNS, PairRows, count_runs
from evalkit.truth._seen_rows import SeenRows
from evalkit.truth._shared import count_shared
from evalkit.truth._sorting import first_gap, item_at, merge_sort, sort_keys
from evalkit.truth._table import (
    ENTRY,
    count_partitions,
    cut,
    entry_of,
    find_entry,
    home_entry,
    partition_of,
)
