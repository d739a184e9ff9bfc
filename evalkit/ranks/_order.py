"""The order of rows with equal scores, resolved only where equals meet a relevant item."""

from collections.abc import Callable

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Ints, Keys
from evalkit.sources.ids import ITEM, IdPlan, as_array
from evalkit.truth import Truth

_SIGN, _NONE, _ALL = np.uint64(1 << 63), np.uint64(0), np.uint64((1 << 64) - 1)


def item_series(plan: IdPlan, frame: pl.DataFrame, keys: Keys) -> pl.Series:
    """The item ids of rows: real ones where keys are hashes, else read from the keys."""
    if plan.hashed:
        return frame[ITEM]
    dtype = plan.dtypes[0]
    physical = pl.Series(ITEM, keys if plan.unsigned else keys.view(np.int64))
    return (physical.cast(pl.Int32) if dtype == pl.Date else physical).cast(dtype)


def order_in_batch(ties: str, plan: IdPlan, frame: pl.DataFrame, keys: Keys, rows: Ints) -> Ints:
    """int64[n_rows], smaller first, comparable among these rows alone.

    Args:
        ties: the policy: item, item-desc, item-text, item-text-desc or input.
        rows: place of each row in the whole log.
    """
    if ties == "input":
        return rows
    flip = flip_of_keys(ties, plan)
    if flip is not None:
        return (keys ^ flip).view(np.int64)
    series = item_series(plan, frame, keys)
    if ties.startswith("item-text"):
        series = _text(series)
    orders = as_array(series.rank("dense").cast(pl.Int64))
    return ~orders if ties.endswith("-desc") else orders


def flip_of_keys(ties: str, plan: IdPlan) -> np.uint64 | None:
    """The bits of a key that are turned over in an item's order, as int64; None: no key says it."""
    if ties not in ("item", "item-desc") or plan.hashed:
        return None
    return (_SIGN if plan.unsigned else _NONE) ^ (_ALL if ties == "item-desc" else _NONE)


def order_by_catalogue(
    ties: str, truth: Truth
) -> tuple[Callable[[pl.DataFrame, Keys], Ints], Ints]:
    """Orders that are comparable between batches, against the truth's items.

    Returns:
        A function from rows to their orders, and the orders of the truth's places.
    """
    plan = truth.item_plan
    keys, known = truth.item_keys(), truth.known_items
    ids = item_series(plan, pl.DataFrame() if known is None else known.ids_of(keys), keys)
    if ties.startswith("item-text"):
        ids = _text(ids)
    catalogue = ids.unique().sort()
    descending = ties.endswith("-desc")

    def place(items: pl.Series) -> Ints:
        left = catalogue.search_sorted(items, side="left").cast(pl.Int64).to_numpy()
        right = catalogue.search_sorted(items, side="right").cast(pl.Int64).to_numpy()
        orders: Ints = 2 * left + (right > left)  # an id between two others gets an even number
        return ~orders if descending else orders

    def orders_of(frame: pl.DataFrame, row_keys: Keys) -> Ints:
        items = item_series(plan, frame, row_keys)
        return place(_text(items) if ties.startswith("item-text") else items)

    return orders_of, place(ids)[np.searchsorted(keys, truth.pairs.item_keys())]


def _text(items: pl.Series) -> pl.Series:
    return items if items.dtype == pl.Binary else items.cast(pl.String)
