"""Ranks by counting where the rows of a user do not lie together: the log is read twice."""

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from evalkit.kernels.threads import ordered_map
from evalkit.keys import ITEM_KEY, USER_KEY, Keys, as_array, as_keys
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._order import order_by_catalogue, order_in_batch
from evalkit.ranks._records import NO_INTS, WORST, Array, Found, ModelProbe
from evalkit.ranks._rows import Batch
from evalkit.ranks._scan import RankScan
from evalkit.sources import reading


def scan_twice(scan: RankScan) -> None:
    """Find the best score of each relevant item, then count the rows that beat it."""
    pairs, n_places = scan.truth.pairs, scan.truth.pairs.n_places
    ties = scan.policies.ties
    direct = ties == "input" or (
        not scan.truth.item_plan.hashed and not ties.startswith("item-text")
    )
    orders_of: Callable[[pl.DataFrame, Keys], Array] | None = None
    hit_orders: dict[str, Array] = {}
    best: dict[str, Array] = {}

    def orders_for(batch: Batch) -> Array:
        if not direct:
            return NO_INTS
        rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
        keys = as_keys(batch.frame[ITEM_KEY])
        return order_in_batch(ties, scan.truth.item_plan, batch.frame, keys, rows)

    def prepare(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            name = batch.probe.model
            if name not in best:
                best[name] = np.full(n_places, WORST, dtype=np.int64)
                hit_orders[name] = np.zeros(n_places, dtype=np.int64)
            yield batch

    def find(batch: Batch) -> tuple[ModelProbe, Found]:
        scan.note_ranks(batch)
        orders = orders_for(batch)
        batch, strengths, orders, tally = _drop_rows_with(scan, batch, orders)
        users, items = as_keys(batch.frame[USER_KEY]), as_keys(batch.frame[ITEM_KEY])
        found = scan.take_room(users.size)
        name = batch.probe.model
        kernels.find_best(
            users, items, strengths, orders, pairs.index, batch.probe.ranks.ranks, best[name],
            hit_orders[name], batch.probe.ranks.state, found,
        )  # fmt: skip
        scan.verify(batch.frame, items, found)
        found = scan.give_room_back(found)
        found.counters[:] += tally
        return batch.probe, found

    with reading(scan.table):
        first = prepare(scan.batches())
        for probe, found in ordered_map(find, first, threads=scan.threads):
            probe.take(found)
    places = {name: np.empty(n_places, dtype=np.int64) for name in best}
    n_shown = {name: np.zeros(pairs.n_users, dtype=np.int64) for name in best}
    beaten = {name: np.zeros(n_places, dtype=np.int32) for name in best}
    tied = {name: np.zeros(n_places, dtype=np.int32) for name in best}
    is_tied = {name: np.zeros(n_places, dtype=np.uint8) for name in best}
    for name, probe in scan.probes.items():
        if name in best:
            kernels.order_best(
                pairs.starts, pairs.counts, probe.ranks.ranks, best[name], 0, pairs.n_users,
                places[name], n_shown[name],
            )  # fmt: skip
    counted = {
        name: (each.rows, each.null_ids, each.not_sampled) for name, each in scan.probes.items()
    }

    def beat(frame: pl.DataFrame, strengths: Array, orders: Array, name: str, only: bool) -> Array:
        users, items = as_keys(frame[USER_KEY]), as_keys(frame[ITEM_KEY])
        found = scan.take_room(users.size)
        probe = scan.probes[name]
        kernels.count_beaten(
            users, items, strengths, orders, pairs.index, probe.ranks.ranks, best[name],
            hit_orders[name], probe.ranks.state, places[name], n_shown[name], beaten[name],
            tied[name], is_tied[name], found, only,
        )  # fmt: skip
        return scan.give_room_back(found).deferred

    def count(batch: Batch) -> list[tuple[str, pl.DataFrame, Array]]:
        orders = orders_for(batch)
        batch, strengths, orders, _ = _drop_rows_with(scan, batch, orders)
        name = batch.probe.model
        left = beat(batch.frame, strengths, orders, name, False)
        return [(name, batch.frame[left], strengths[left])] if left.size else []

    with reading(scan.table):
        second = scan.batches()
        for results in ordered_map(count, second, threads=scan.threads):
            for name, frame, strengths in results:
                if orders_of is None:
                    orders_of, of_places = order_by_catalogue(ties, scan.truth)
                    hit_orders.update(dict.fromkeys(best, of_places))
                orders = orders_of(frame, as_keys(frame[ITEM_KEY]))
                beat(frame, strengths, orders, name, True)
    for name, (n_rows, n_null, not_sampled) in counted.items():
        probe = scan.probes[name]
        probe.rows, probe.null_ids, probe.not_sampled = n_rows, n_null, not_sampled
    for name, probe in scan.probes.items():
        if name in best:
            kernels.rank_beaten(
                pairs.starts, places[name], n_shown[name], beaten[name], tied[name],
                probe.ranks.ranks,
            )  # fmt: skip
            probe.ties = int(is_tied[name].sum())


def _drop_rows_with(
    scan: RankScan, batch: Batch, orders: Array
) -> tuple[Batch, Array, Array, Array]:
    if not orders.size:
        kept, strengths, tally = scan.drop_rows(batch)
        return kept, strengths, orders, tally
    named = batch.frame.with_columns(pl.Series("__order", orders))
    kept, strengths, tally = scan.drop_rows(Batch(batch.probe, named, batch.first_row))
    return kept, strengths, as_array(kept.frame["__order"]), tally
