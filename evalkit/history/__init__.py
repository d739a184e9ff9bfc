"""Past runs: found by name, listed, tagged, compared user by user, explained, pruned."""

from evalkit.history._find import (
    LAST_PASSED,
    find_named,
    find_run,
    is_by_time,
    load_named,
    load_together,
    read_tags,
    tag_run,
    untag,
)
from evalkit.history._index import INDEX, TABLES, Rows, open_index, query, refresh
from evalkit.history._prune import prune
from evalkit.history._selected import name_selected
from evalkit.history._trends import read_trends
from evalkit.history._truths import differences_of_measure
