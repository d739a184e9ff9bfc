"""Ranks by counting where the rows of a user do not lie together: the log is read twice."""

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from evalkit.ids import ITEM_KEY, USER_KEY, Keys, as_array, as_keys
from evalkit.kernels.threads import ordered_map
from evalkit.ranks import _beaten as kernels
from evalkit.ranks._order import order_by_catalogue, order_in_batch
from evalkit.ranks._records import NO_INTS, Array, Best, Found, RankedRows, Ranks, Shown
from evalkit.ranks._rows import Batch
from evalkit.ranks._scan import RankScan
from evalkit.sources import reading
from evalkit.truth import UserItems, cut


def scan_twice(scan: RankScan) -> None:
    """Find the best score of each relevant item, then count the rows that beat it."""
    # Long: two passes that share what is read and found.
    pairs = scan.truth.pairs
    ties = scan.policies.ties
    direct = ties == "input" or (
        not scan.truth.item_plan.hashed and not ties.startswith("item-text")
    )
    orders_of: Callable[[pl.DataFrame, Keys], Array] | None = None
    best: dict[str, Best] = {}

    def prepare(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            name = batch.probe.model
            if name not in best:
                best[name] = Best.nothing(pairs.n_places)
            yield batch

    def find(batch: Batch) -> tuple[Batch, Array, Found]:
        scan.note_ranks(batch)
        batch, strengths, orders, tally = _drop_rows(scan, batch, direct=direct)
        users, items = as_keys(batch.frame[USER_KEY]), as_keys(batch.frame[ITEM_KEY])
        found = scan.take_room(users.size)
        name = batch.probe.model
        rows = RankedRows(users, items, strengths=strengths, orders=orders)
        ranks = batch.probe.ranks
        kernels.find_best(rows, pairs.index, ranks.ranks, best[name], ranks.state, found)
        scan.verify(batch.frame, items, found)
        found = scan.give_room_back(found)
        found.counters[:] += tally
        return batch, strengths, found

    with reading(scan.table):
        first = prepare(scan.batches())
        for batch, strengths, found in ordered_map(find, first, threads=scan.threads):
            batch.probe.take(found)
            scan.collect(batch, strengths, has_all_rows=False)  # in their order
    shown = {
        name: _order_shown(pairs, scan.probes[name].ranks, best.pop(name), scan.threads)
        for name in list(best)
    }
    counted = {
        name: (each.rows, each.null_ids, each.not_sampled) for name, each in scan.probes.items()
    }

    def beat(frame: pl.DataFrame, strengths: Array, orders: Array, name: str, only: bool) -> Array:
        users, items = as_keys(frame[USER_KEY]), as_keys(frame[ITEM_KEY])
        found = scan.take_room(users.size)
        rows = RankedRows(users, items, strengths=strengths, orders=orders)
        kernels.count_beaten(rows, pairs.index, shown[name], found, only)
        return scan.give_room_back(found).deferred

    def count(batch: Batch) -> list[tuple[str, pl.DataFrame, Array]]:
        batch, strengths, orders, _ = _drop_rows(scan, batch, direct=direct)
        name = batch.probe.model
        left = beat(batch.frame, strengths, orders, name, False)
        return [(name, batch.frame[left], strengths[left])] if left.size else []

    with reading(scan.table):
        second = scan.batches()
        for results in ordered_map(count, second, threads=scan.threads):
            for name, frame, strengths in results:
                if orders_of is None:
                    orders_of, of_places = order_by_catalogue(ties, scan.truth)
                    shown.update({
                        each: known._replace(orders=of_places[known.places])
                        for each, known in shown.items()
                    })  # fmt: skip
                orders = orders_of(frame, as_keys(frame[ITEM_KEY]))
                beat(frame, strengths, orders, name, True)
    for name, (n_rows, n_null, not_sampled) in counted.items():
        probe = scan.probes[name]
        probe.rows, probe.null_ids, probe.not_sampled = n_rows, n_null, not_sampled
    for name, each in shown.items():
        probe = scan.probes[name]
        kernels.rank_shown(each, probe.ranks.ranks)
        probe.ties = int(each.is_tied.sum())


def _order_shown(pairs: UserItems, ranks: Ranks, best: Best, threads: int) -> Shown:
    """The relevant items that lists show, each user's from strongest to weakest."""
    pieces = cut(pairs.n_users, 4 * threads)
    given = pairs.starts, pairs.counts, ranks.ranks
    n_shown = np.zeros(pairs.n_users + 1, dtype=np.int64)

    def count(piece: tuple[int, int]) -> None:
        kernels.count_shown(*given, *piece, n_shown[1:])

    for _ in ordered_map(count, pieces, threads=threads):
        pass
    shown = Shown.room(np.cumsum(n_shown))

    def order(piece: tuple[int, int]) -> None:
        kernels.order_shown(*given, best, *piece, shown)

    for _ in ordered_map(order, pieces, threads=threads):
        pass
    return shown


def _drop_rows(scan: RankScan, batch: Batch, *, direct: bool) -> tuple[Batch, Array, Array, Array]:
    """What `RankScan.drop_rows` leaves, and orders of equals where rows tell them by themselves."""
    rows = NO_INTS
    if scan.policies.ties == "input":
        rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
        numbered = batch.frame.with_columns(pl.Series("__row", rows))
        batch = Batch(batch.probe, numbered, batch.first_row)
    kept, strengths, tally = scan.drop_rows(batch)
    if not direct:
        return kept, strengths, NO_INTS, tally
    if rows.size:
        rows = as_array(kept.frame["__row"])
    keys, plan = as_keys(kept.frame[ITEM_KEY]), scan.truth.item_plan
    orders = order_in_batch(scan.policies.ties, plan, kept.frame, keys, rows)
    return kept, strengths, orders, tally
