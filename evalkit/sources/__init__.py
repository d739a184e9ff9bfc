"""Logs of any format, local or in a store, as lazy frames; their ids as 64-bit keys.

In: paths, frames and the columns that a config names.
Out: `Table`: a lazy frame with evalkit's column names; keys of ids.
Open first: `table.py`, then `tables.py`.
"""

from evalkit.sources.checksums import verifying
from evalkit.sources.extents import Extent
from evalkit.sources.given import (
    Ids,
    are_lists,
    check_pairing,
    columns_in,
    frame_of,
    is_one_ranking,
    with_all_users,
)
from evalkit.sources.guess import ROLE_KEYS, ChosenColumns, Guessing, Order, guess_columns
from evalkit.sources.memory import (
    Named,
    Shape,
    describe_given,
    is_spark,
    open_given,
    refuse_of_files,
)
from evalkit.sources.noted import MOST_BYTES
from evalkit.sources.paths import FORMATS, refuse_absent
from evalkit.sources.pieces import Piece
from evalkit.sources.splits import HELD_OUT, NEVER_TRAIN, TRAIN, Splitter, flag_part, parts_of_files
from evalkit.sources.suggestions import (
    BLANK,
    counts_from_zero,
    guess_table,
    read_groups,
    read_kinds,
    read_models,
    read_schema,
    read_splitters,
    read_time,
    told_form,
)
from evalkit.sources.table import Made, Table, reading, spell_guesses
from evalkit.sources.tables import (
    OwnTable,
    open_columns,
    open_items,
    open_labels,
    open_log,
    open_own_values,
    open_predictions,
    open_rankings,
    open_ratings,
    open_section,
    open_split,
    open_train,
    open_truth,
    open_values,
    settle,
)
from evalkit.sources.times import newest_second, refuse_dates
from evalkit.sources.versions import Version
