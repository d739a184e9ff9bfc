"""Ranks by counting where the rows of a user do not lie together: the log is read twice."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.ranks import _beaten as kernels
from evalkit.ranks import _records as records
from evalkit.ranks._copies import MOST_HELD, HeldRows
from evalkit.ranks._order import flip_of_keys, order_by_catalogue
from evalkit.ranks._records import BatchResults, BestRows, ModelProbe, Ranks, ShownItems
from evalkit.ranks._rows import Batch, rows_of
from evalkit.ranks._scan import RankScan
from evalkit.ranks._unsorted import Portion
from evalkit.sources import reading
from evalkit.sources.ids import as_array
from evalkit.truth import UserItems, cut


def scan_twice(scan: RankScan) -> None:
    """Find the best score of each relevant item, then count the rows that beat it."""
    pairs = scan.truth.pairs
    ties = scan.policies.ties
    is_input, flip = ties == "input", flip_of_keys(ties, scan.truth.item_plan)
    orders_of: Callable[[pl.DataFrame, Keys], Ints] | None = None
    best: dict[str, BestRows] = {}

    def prepare(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            name = batch.probe.model
            if name not in best:
                best[name] = BestRows.nothing(pairs.n_places, ordered=is_input)
            yield batch

    def look_for_best(model: str, portion: Portion, found: BatchResults) -> None:
        ranks, state = scan.probes[model].ranks.ranks, scan.probes[model].ranks.state
        kernels.find_best(portion, pairs.index, ranks, best[model], state, found)

    n_items = scan.table.most_items() if scan.table.is_list else scan.about_rows
    held = HeldRows((scan.about_rows if n_items is None else n_items) < MOST_HELD)
    by_catalogue = not is_input and flip is None
    gatherer = scan.gather(look_for_best, scan.verified, at_once=by_catalogue)

    def find(batch: Batch) -> tuple[Batch, Ints, list[tuple[str, BatchResults]]]:
        scan.note_ranks(batch)
        batch, strengths, orders, row_counts = drop_rows(scan, batch)
        rows = rows_of(batch.frame)._replace(strengths=strengths, orders=orders)
        held.add(batch.probe.model, rows)
        done = gatherer.add(batch.probe.model, rows, batch.frame)
        return batch, strengths, [(batch.probe.model, BatchResults.counted(row_counts)), *done]

    with reading(scan.table):
        first = prepare(scan.batches())
        for batch, strengths, done in ordered_map(find, first, threads=scan.threads):
            for name, found in done:
                scan.probes[name].take(found)
            scan.collect(batch, strengths, has_all_rows=False)  # in their order
    for name, found in gatherer.finish(scan.threads):
        scan.probes[name].take(found)
    shown, counted = dict[str, ShownItems](), dict[str, tuple[int, int, int]]()
    for name in list(best):
        probe = scan.probes[name]
        counted[name] = probe.rows, probe.null_ids, probe.not_sampled
        shown[name] = _order_shown(pairs, probe.ranks, best.pop(name), flip, scan.threads)

    def beat(model: str, portion: Portion, found: BatchResults) -> None:
        kernels.count_beaten(portion, pairs.index, shown[model], found)

    gatherer = replace(gatherer, look_up=beat, settle=lambda found, _: scan.give_room_back(found))

    def count(batch: Batch) -> list[tuple[str, pl.DataFrame, Ints]]:
        batch, strengths, orders, _ = drop_rows(scan, batch)
        rows = rows_of(batch.frame)._replace(strengths=strengths, orders=orders)
        done = gatherer.add(batch.probe.model, rows, batch.frame)
        left = [(name, found.deferred) for name, found in done if found.deferred.size]
        return [(name, batch.frame[rows], strengths[rows]) for name, rows in left]

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
                rows = rows_of(frame)._replace(strengths=strengths)
                rows = rows._replace(orders=orders_of(frame, rows.items))
                found = scan.take_room(frame.height)
                kernels.hold_equals(rows, pairs.index, shown[name], found)
                scan.give_room_back(found)
    for _ in gatherer.finish(scan.threads):
        pass
    _count_copies(scan, held)
    for name, (n_rows, n_null, not_sampled) in counted.items():
        probe = scan.probes[name]
        probe.rows, probe.null_ids, probe.not_sampled = n_rows, n_null, not_sampled
    for name, shown_items in shown.items():
        _rank(scan.probes[name], shown_items)


def _count_copies(scan: RankScan, held: HeldRows) -> None:
    """Rows of a user and an item that are there again."""
    for name, rows in held.by_user():
        counters = np.zeros(records.N_COUNTERS, dtype=np.int64)
        scan.count_copies(rows, counters)
        scan.probes[name].take(BatchResults.counted(counters))


def _rank(probe: ModelProbe, shown: ShownItems) -> None:
    """Give the items that lists show their ranks, once all rows that beat them are counted."""
    probe.ties = int((shown.equal > 0).sum())
    tied = probe.ranks.room_for_ties() if probe.ties else probe.ranks.tied
    kernels.rank_shown(shown, probe.ranks.ranks, tied)


def _order_shown(
    pairs: UserItems, ranks: Ranks, best: BestRows, flip: np.uint64 | None, threads: int
) -> ShownItems:
    """The relevant items that lists show, each user's from strongest to weakest."""
    pieces = cut(pairs.n_users, 4 * threads)
    lists = pairs.starts, pairs.counts
    n_shown = np.zeros(pairs.n_users + 1, dtype=np.int64)

    def count(piece: tuple[int, int]) -> None:
        kernels.count_shown(*lists, ranks.ranks, *piece, n_shown[1:])

    for _ in ordered_map(count, pieces, threads=threads):
        pass
    shown = ShownItems.room(np.cumsum(n_shown), flip)
    items = pairs.index.lows, pairs.index.highs

    def order(piece: tuple[int, int]) -> None:
        kernels.order_shown(lists, items, ranks.ranks, best, *piece, shown)

    for _ in ordered_map(order, pieces, threads=threads):
        pass
    return shown


def drop_rows(scan: RankScan, batch: Batch) -> tuple[Batch, Ints, Ints, Ints]:
    """What `RankScan.drop_rows` leaves, and the places of rows where equals stand by them."""
    if scan.policies.ties != "input":
        kept, strengths, row_counts = scan.drop_rows(batch)
        return kept, strengths, records.NO_INTS, row_counts
    rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
    numbered = batch.frame.with_columns(pl.Series("__row", rows))
    kept, strengths, row_counts = scan.drop_rows(Batch(batch.probe, numbered, batch.first_row))
    return kept, strengths, as_array(kept.frame["__row"]), row_counts
