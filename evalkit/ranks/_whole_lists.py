"""What hits alone cannot say: every list of the truth's users is held whole."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.kernels.threads import ordered_map
from evalkit.metrics import TIED
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._numba_order import numba_order
from evalkit.ranks._order import order_in_batch
from evalkit.ranks._records import (
    KNOWN_RUNS,
    NO_INTS,
    UNKNOWN_ROWS,
    Array,
    BatchResults,
    Dropped,
    ListHits,
    ModelProbe,
    Ranks,
    UserState,
)
from evalkit.ranks._rows import Batch, shared_strengths, strengths_of_scores
from evalkit.ranks._scan import RankScan
from evalkit.sources import reading
from evalkit.sources.ids import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    IdPlan,
    KeyCollisionError,
    Keys,
    as_array,
    as_keys,
    distinct_keys,
    same_ids,
)

UNORDERED_TIES = (*TIED, "mean-rank", "last-rank")  # rules that are no order of equal scores
_COPIES = {"best": 1, "first": 2, "last": 3}
_KEEP = 4
_NEVER = 2**31 - 2  # no rank is that deep


def scan_whole_lists(scans: Sequence[RankScan]) -> None:
    """Hold every list of the truth's users once, and probe it by the policies of each scan."""
    scan, *others = scans
    parts: dict[str, list[pl.DataFrame]] = {}
    gone: dict[str, list[Dropped]] = {}
    closes_up = scan.drop_seen and scan.mode == "rank"

    def collect(batch: Batch) -> tuple[ModelProbe, BatchResults, pl.DataFrame, Dropped | None]:
        scan.note_ranks(batch)
        seen = scan.seen_ranked(batch.frame) if closes_up else None
        dropped = None if seen is None else scan.dropped_of(seen, batch.frame)
        rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
        named = Batch(
            batch.probe, batch.frame.with_columns(pl.Series("__row", rows)), batch.first_row
        )
        kept, strengths, row_counts = scan.drop_rows(named)
        frame = kept.frame.with_columns(pl.Series("__strength", strengths))
        users = as_keys(frame[USER_KEY])
        codes = scan.codes(users)
        unknown = codes < 0
        found = BatchResults.room(0)._replace(unknown_users=distinct_keys(users[unknown]))
        found.counters[:] = row_counts
        found.counters[UNKNOWN_ROWS] += int(unknown.sum())
        known = frame.with_columns(pl.Series("__code", codes)).filter(pl.col("__code") >= 0)
        if scan.truth.user_plan.hashed:
            every_row = found._replace(
                counters=np.zeros_like(found.counters),
                run_rows=np.arange(known.height),
                run_codes=as_array(known["__code"]),
            )
            every_row.counters[KNOWN_RUNS] = known.height
            scan.verify(known, every_row)
        return batch.probe, found, known, dropped

    with reading(scan.table):
        batches = scan.batches()
        for probe, found, known, dropped in ordered_map(collect, batches, threads=scan.threads):
            probe.take(found)
            parts.setdefault(probe.model, []).append(known)
            if dropped is not None:
                gone.setdefault(probe.model, []).append(dropped)
    for other in others:
        for name, probe in scan.probes.items():
            other.probe_of(name).start_as(probe)
    for name, frames in parts.items():
        rows = pl.concat(frames)
        frames.clear()
        if closes_up:
            ranks = scan.closed_up(rows, Dropped.joined(gone[name]))
            strengths = pl.Series("__strength", -ranks.astype(np.int64))
            rows = rows.with_columns(pl.Series("rank", ranks), strengths)
        for each in scans:
            _probe_whole_lists(each, each.probe_of(name), rows)


def _probe_whole_lists(scan: RankScan, probe: ModelProbe, rows: pl.DataFrame) -> None:
    policies, plan = scan.policies, scan.truth.item_plan
    if scan.mode == "strength" and scan.has_score and policies.score_type == "float32":
        strengths, _ = strengths_of_scores(
            scan.values_of(rows["score"]).cast(pl.Float32).cast(pl.Float64)
        )
        rows = rows.with_columns(pl.Series("__strength", strengths))
    by_numba = scan.has_equals and policies.ties.startswith("numba")
    policy, n_dropped = _COPIES.get(policies.duplicates, _KEEP), 0
    if by_numba:
        if policy != _KEEP:
            before, policy = rows.height, _KEEP
            rows = _as_dictionaries(rows, policies.duplicates)
            n_dropped = before - rows.height
        rows = rows.sort(["__code", "__row"])
        values = scan.values_of(rows["score"]).cast(pl.Float64)
        scores = as_array(values.fill_nan(-np.inf).fill_null(-np.inf))
        orders = numba_order(as_array(rows["__code"]), scores, policies.ties)
        rows = rows.with_columns(pl.Series("__order", orders)).sort(["__code", "__order"])
    else:
        ties = policies.ties if policies.ties.startswith("item") else "input"
        orders = order_in_batch(ties, plan, rows, as_keys(rows[ITEM_KEY]), as_array(rows["__row"]))
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
        given = as_array(rows["rank"]).astype(np.int64) - (policies.first_rank - 1)
    kept = np.zeros(rows.height, dtype=np.bool_)
    ranks = np.zeros(rows.height, dtype=np.int64)
    n_copies = kernels.clean_lists(
        codes, items, as_array(rows["__row"]), given, policy, kept, ranks
    )
    frame, ranks = rows.filter(pl.Series(kept)), ranks[kept]
    if scan.collector is not None:
        taken = frame
        if scan.has_equals and policies.ties in UNORDERED_TIES:
            taken = _by_item(frame, plan)
        scan.collector.take_whole(probe.model, taken, as_array(taken["__code"]), ranks)
    firsts, lasts = _tie_ranks(scan, frame, ranks)
    if scan.has_equals and policies.ties == "mean-rank":
        ranks = (firsts + lasts) // 2
    elif scan.has_equals and policies.ties == "last-rank":
        ranks = lasts
    final = (ranks + policies.first_rank - 1).astype(np.int32)
    batch = Batch(probe, frame, 0)
    if probe.strengths.size:
        strengths, _ = strengths_of_scores(frame["score"])
    found = scan.lower(batch, final, strengths, with_hits=True)
    probe.take(found)
    if policies.duplicates != "error":
        probe.duplicates = int(n_copies) + n_dropped
    if scan.mode == "strength":
        shared = shared_strengths(frame["__code"], frame["__strength"], items[kept])
        probe.ties = int(shared[found.hit_rows].sum())
    if probe.ties and scan.has_equals and policies.ties not in UNORDERED_TIES:
        _note_ties(probe.ranks, found, ranks, firsts, lasts)
    if scan.mode == "rank":  # copies take their ranks, so the list is as long as with them
        state = UserState.empty(scan.truth.pairs.n_users)
        scan.note_into(state, rows)
        probe.ranks.state.rows[:] = state.rows
        probe.ranks.state.largest[:] = state.largest
    if scan.detailed:
        probe.ranks.rows = _list_hits(scan, frame, found, ranks, firsts, lasts)


def _by_item(rows: pl.DataFrame, plan: IdPlan) -> pl.DataFrame:
    """Lists in which the smaller id of equal scores stands first: no rule orders these."""
    given = as_keys(rows[ITEM_KEY]), as_array(rows["__row"])
    orders = order_in_batch("item", plan, rows, *given)
    return rows.with_columns(pl.Series("__order", orders)).sort(
        ["__code", "__strength", "__order", "__row"], descending=[False, True, False, False]
    )


def _as_dictionaries(rows: pl.DataFrame, duplicates: str) -> pl.DataFrame:
    """One row an item, as a dictionary keeps it: where the item first stood."""
    by = ["__code", ITEM_KEY]
    row = {
        "first": pl.col("__row").arg_min(),
        "last": pl.col("__row").arg_max(),
        "best": pl.col("__strength").arg_max(),
    }[duplicates]
    others = [name for name in rows.columns if name not in (*by, "__row")]
    return (
        rows.sort("__row")
        .group_by(by, maintain_order=True)
        .agg(pl.col("__row").min(), pl.col(others).get(row))
        .select(rows.columns)
    )


def _tie_ranks(scan: RankScan, frame: pl.DataFrame, ranks: Array) -> tuple[Array, Array]:
    """The first and the last rank that the rows of each row's score take up together.

    Where ranks are given they order, and rows of one score tie where they stand side by side.
    """
    if not frame.height or not (scan.has_equals or (scan.mode == "rank" and scan.has_score)):
        return ranks, ranks
    codes = as_array(frame["__code"])
    if scan.mode == "rank":
        order = np.lexsort((ranks, codes))
        strengths, _ = strengths_of_scores(frame["score"])
    else:
        order, strengths = np.arange(codes.size), as_array(frame["__strength"])
    code, strength, rank = codes[order], strengths[order], ranks[order]
    begins = np.ones(code.size, dtype=np.bool_)
    begins[1:] = (code[1:] != code[:-1]) | (strength[1:] != strength[:-1])
    begins[1:] |= rank[1:] != rank[:-1] + 1
    starts = np.flatnonzero(begins)
    sizes = np.diff([*starts, code.size])
    firsts, lasts = np.empty_like(ranks), np.empty_like(ranks)
    firsts[order] = np.repeat(rank[starts], sizes)
    lasts[order] = np.repeat(rank[starts + sizes - 1], sizes)
    return firsts, lasts


def _note_ties(
    shown: Ranks, found: BatchResults, ranks: Array, firsts: Array, lasts: Array
) -> None:
    """The ranks that rows of equal scores take up, of the best row of each item that is a hit."""
    rows, places = found.hit_rows, found.hit_places
    is_tied = (lasts[rows] > firsts[rows]) & (shown.ranks[places] == ranks[rows])
    rows, places, tied = rows[is_tied], places[is_tied], shown.room_for_ties()
    most = np.iinfo(tied.lasts.dtype).max - 1
    tied.firsts[places], tied.lasts[places] = firsts[rows], np.minimum(lasts[rows], most)


def _list_hits(
    scan: RankScan,
    frame: pl.DataFrame,
    found: BatchResults,
    ranks: Array,
    firsts: Array,
    lasts: Array,
) -> ListHits:
    """The rows that show a relevant item, with what the other rows of their lists say of them."""
    codes = as_array(frame["__code"])
    untils = _untils(codes, as_array(frame["__row"]), ranks)
    rows, places = found.hit_rows, found.hit_places
    if scan.has_score and "score" in frame.columns:
        positive = (scan.values_of(frame["score"]).fill_null(0) > 0).to_numpy()[rows]
    else:
        positive = np.ones(rows.size, dtype=np.bool_)
    shown = ranks[rows] >= 1
    rows, places, positive = rows[shown], places[shown], positive[shown]
    order = np.lexsort((ranks[rows], codes[rows]))
    rows = rows[order]
    n_users = scan.truth.pairs.n_users
    return ListHits(
        np.searchsorted(codes[rows], np.arange(n_users + 1)).astype(np.int64),
        places[order],
        ranks[rows].astype(np.int32),
        firsts[rows].astype(np.int32),
        lasts[rows].astype(np.int32),
        untils[rows].astype(np.int32),
        positive[order],
    )


def _untils(codes: Array, places: Array, ranks: Array) -> Array:
    """The smallest rank among the rows that stand later in the log, in the same list."""
    untils = np.full(codes.size, _NEVER, dtype=np.int64)
    if codes.size < 2:
        return untils
    order = np.lexsort((-places, codes))  # each list from its last row to its first
    code, rank = codes[order], ranks[order]
    lists = np.cumsum(np.concatenate([[0], code[1:] != code[:-1]]))
    least = np.minimum.accumulate(rank - lists * (_NEVER + 1)) + lists * (_NEVER + 1)
    later = np.full(codes.size, _NEVER, dtype=np.int64)
    inside = code[1:] == code[:-1]
    later[1:][inside] = least[:-1][inside]
    untils[order] = later
    return untils


def _verify_copies(rows: pl.DataFrame, codes: Array, items: Keys) -> None:
    """Items of one list that share a key are one item.

    Raises:
        KeyCollisionError: they are not.
    """
    order = np.lexsort((items, codes))
    same: npt.NDArray[np.bool_] = (items[order][1:] == items[order][:-1]) & (
        codes[order][1:] == codes[order][:-1]
    )
    ids = rows.select(ITEM)
    if not same_ids(ids[order[1:][same]], ids[order[:-1][same]]):
        raise KeyCollisionError
