"""Where each item first stands in the training log."""

import numpy as np
import numpy.typing as npt

from evalkit.ids import ITEM_KEY
from evalkit.lists._codes import ItemCodes
from evalkit.sources import Table, reading

BATCH_ROWS = 1 << 18


def find_first_rows(table: Table, items: ItemCodes) -> npt.NDArray[np.int64]:
    """int64[n_items]: the number of each item's first row; rows have numbers as they stand there.

    An item that the log lacks has the number behind the last.
    """
    first, n_rows = np.empty(0, dtype=np.int64), 0
    with reading(table):
        for rows in table.stream(items.plan.select(ITEM_KEY), most=BATCH_ROWS):
            known = rows.drop_nulls(ITEM_KEY)
            codes = items.codes_of_rows(known)
            nowhere = np.iinfo(np.int64).max
            first = np.pad(first, (0, items.n - first.size), constant_values=nowhere)
            np.minimum.at(first, codes, n_rows + np.arange(codes.size))
            n_rows += codes.size
    return np.minimum(first, n_rows)
