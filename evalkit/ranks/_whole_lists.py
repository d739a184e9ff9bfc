"""What hits alone cannot say: every list of the truth's users is held whole."""

import numpy as np
import polars as pl

from evalkit.keys import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    KeyCollisionError,
    Keys,
    as_array,
    as_keys,
    same_ids,
)
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._order import order_in_batch
from evalkit.ranks._records import (
    KNOWN_RUNS,
    NO_INTS,
    UNKNOWN_ROWS,
    Array,
    Found,
    ModelProbe,
)
from evalkit.ranks._rows import Batch, shared_strengths, strengths_of_scores
from evalkit.ranks._scan import RankScan
from evalkit.sources import reading
from evalkit.threads import ordered_map

_COPIES = {"best": 1, "first": 2, "last": 3, "count": 4}


def scan_whole_lists(scan: RankScan) -> None:
    """Hold every list of the truth's users, drop copies, and probe the ranks that result."""
    parts: dict[str, list[pl.DataFrame]] = {}

    def collect(batch: Batch) -> tuple[ModelProbe, Found, pl.DataFrame]:
        scan.note_ranks(batch)
        rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
        named = Batch(
            batch.probe, batch.frame.with_columns(pl.Series("__row", rows)), batch.first_row
        )
        kept, strengths, tally = scan.drop_rows(named)
        frame = kept.frame.with_columns(pl.Series("__strength", strengths))
        users = as_keys(frame[USER_KEY])
        codes = scan.codes(users)
        unknown = codes < 0
        found = Found.room(0)._replace(unknown_users=np.unique(users[unknown]))
        found.counters[:] = tally
        found.counters[UNKNOWN_ROWS] = int(unknown.sum())
        known = frame.with_columns(pl.Series("__code", codes)).filter(pl.col("__code") >= 0)
        if scan.truth.user_plan.hashed:
            every_row = found._replace(
                counters=np.zeros_like(found.counters),
                run_rows=np.arange(known.height),
                run_codes=as_array(known["__code"]),
            )
            every_row.counters[KNOWN_RUNS] = known.height
            scan.verify(known, as_keys(known[ITEM_KEY]), every_row)
        return batch.probe, found, known

    with reading(scan.table):
        batches = scan.batches()
        for probe, found, known in ordered_map(collect, batches, threads=scan.threads):
            probe.take(found)
            parts.setdefault(probe.model, []).append(known)
    for name, frames in parts.items():
        _probe_whole_lists(scan, scan.probe_of(name), pl.concat(frames))


def _probe_whole_lists(scan: RankScan, probe: ModelProbe, rows: pl.DataFrame) -> None:
    plan = scan.truth.item_plan
    orders = order_in_batch(
        scan.policies.ties, plan, rows, as_keys(rows[ITEM_KEY]), as_array(rows["__row"])
    )
    rows = rows.with_columns(pl.Series("__order", orders)).sort(
        ["__code", "__strength", "__order", "__row"],
        descending=[False, True, False, False],
        maintain_order=True,
    )
    codes, items = as_array(rows["__code"]), as_keys(rows[ITEM_KEY])
    if plan.hashed:
        _verify_copies(rows, codes, items)
    given, strengths = NO_INTS, NO_INTS
    if scan.mode == "rank":
        given = as_array(rows["rank"]).astype(np.int64) - (scan.policies.first_rank - 1)
    kept = np.zeros(rows.height, dtype=np.bool_)
    ranks = np.zeros(rows.height, dtype=np.int64)
    policy = _COPIES[scan.policies.duplicates]
    n_copies = kernels.clean_lists(
        codes, items, as_array(rows["__row"]), given, policy, kept, ranks
    )
    frame = rows.filter(pl.Series(kept))
    final = (ranks[kept] + scan.policies.first_rank - 1).astype(np.int32)
    batch = Batch(probe, frame, 0)
    if probe.strengths.size:
        strengths, _ = strengths_of_scores(frame["score"])
    found = scan.lower(batch, final, strengths, with_hits=True)
    probe.take(found)
    probe.duplicates = int(n_copies)
    if scan.mode == "strength":
        shared = shared_strengths(frame["__code"], frame["__strength"], items[kept])
        probe.ties = int(shared[found.hit_rows].sum())
    if probe.given is not None and scan.mode == "rank":  # so does the length of the list
        probe.ranks.state.rows[:] = probe.given.rows
        probe.ranks.state.largest[:] = probe.given.largest


def _verify_copies(rows: pl.DataFrame, codes: Array, items: Keys) -> None:
    """Items of one list that share a key are one item.

    Raises:
        KeyCollisionError: they are not.
    """
    order = np.lexsort((items, codes))
    same = (items[order][1:] == items[order][:-1]) & (codes[order][1:] == codes[order][:-1])
    ids = rows.select(ITEM)
    if not same_ids(ids[order[1:][same]], ids[order[:-1][same]]):
        raise KeyCollisionError
