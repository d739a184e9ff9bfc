"""Past runs: found by name, listed, tagged, compared user by user, explained, pruned."""

from evalkit.runs.history._find import (
    LAST_PASSED,
    find_named,
    find_run,
    hint_of_runs,
    is_by_time,
    load_named,
    load_together,
    name_selected,
    read_tags,
    tag_run,
    untag,
)
from evalkit.runs.history._index import INDEX, TABLES, QueryRows, open_index, query, refresh
from evalkit.runs.history._prune import prune
from evalkit.runs.history._trends import read_trends
from evalkit.runs.history._truths import differences_of_measure
