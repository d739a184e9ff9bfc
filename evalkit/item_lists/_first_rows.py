"""Where each item first stands in the training log, and in which order users have their own."""

import numpy as np
import polars as pl

from evalkit.item_lists._codes import ItemCodes
from evalkit.kernels.arrays import Ints
from evalkit.metrics import Lists
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM_KEY, USER_KEY, IdPlan, as_keys
from evalkit.truth import Truth

BATCH_ROWS = 1 << 18


def find_first_rows(table: Table, items: ItemCodes) -> Ints:
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


def of_all_items(first_rows: Ints | None, n: int) -> Ints | None:
    """First rows of all items, also of those that were met after train, which lacks them."""
    if first_rows is None:
        return None
    nowhere = int(first_rows.max(initial=0)) + 1
    return np.pad(first_rows, (0, n - first_rows.size), constant_values=nowhere)


def histories_in_order(table: Table, users: IdPlan, items: ItemCodes, truth: Truth) -> Lists:
    """The items of each user of the truth's training rows, each by its first row."""
    owners, codes = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    with reading(table):
        columns = [users.key().alias(USER_KEY), *items.plan.select(ITEM_KEY)]
        for rows in table.stream(columns, most=BATCH_ROWS):
            known = rows.drop_nulls([USER_KEY, ITEM_KEY])
            own = truth.codes_of(as_keys(known[USER_KEY]))
            owners.append(own[own >= 0])
            codes.append(items.codes_of_rows(known)[own >= 0])
    pairs = pl.DataFrame({"user": np.concatenate(owners), "item": np.concatenate(codes)})
    ordered = pairs.unique(maintain_order=True).sort("user", maintain_order=True)
    lengths = np.bincount(ordered["user"].to_numpy(), minlength=truth.n_users)
    return Lists(np.cumsum(lengths) - lengths, lengths, ordered["item"].to_numpy())
