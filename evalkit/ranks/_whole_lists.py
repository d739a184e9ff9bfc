"""What hits alone cannot say: every list of the truth's users is looked at whole."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Ints
from evalkit.kernels.threads import finished_map, ordered_map
from evalkit.metrics import TIED
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._numba_order import numba_order
from evalkit.ranks._order import order_in_batch
from evalkit.ranks._records import (
    DUPLICATES,
    KNOWN_RUNS,
    NO_INTS,
    NO_TIES,
    REAPPEARED,
    TIES,
    UNKNOWN_ROWS,
    BatchResults,
    Dropped,
    HitRows,
    ListHits,
    ModelProbe,
    Ranks,
    UserState,
)
from evalkit.ranks._rows import Batch, cut_by_user, shared_strengths, strengths_of_scores
from evalkit.ranks._scan import RankScan, ReappearedError
from evalkit.sources import reading
from evalkit.sources.ids import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    IdPlan,
    KeyCollisionError,
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
    """Probe every list of the truth's users by the policies of each scan.

    Lists are probed as they come, and held only where users come back, or seen items are dropped
    from ranks as given.
    """
    scan, *others = scans
    is_held = _closes_up(scan)
    if not is_held:
        try:
            _scan_by_user(scans)
        except ReappearedError:
            is_held = True
            for each in scans:
                each.restart()
    if is_held:
        _scan_held(scans)
    for other in others:
        for name, probe in scan.probes.items():
            other.probe_of(name).start_as(probe)
    for each in scans:
        for probe in each.probes.values():
            if not probe.ties:  # but of an item with its copies
                probe.ranks.tied = NO_TIES
            if probe.hit_rows:
                probe.ranks.rows = ListHits.joined(each.truth.pairs.n_users, probe.hit_rows)
                probe.hit_rows = []
            if each.mode == "rank" and not _closes_up(each):
                assert probe.given is not None
                _lengthen(probe, probe.given)


def _lengthen(probe: ModelProbe, state: UserState) -> None:
    """Copies take their ranks, so lists are as long as with them."""
    probe.ranks.state.rows[:] = state.rows
    probe.ranks.state.largest[:] = state.largest


def _closes_up(scan: RankScan) -> bool:
    return scan.drop_seen and scan.mode == "rank"


def _scan_by_user(scans: Sequence[RankScan]) -> None:
    """Probe lists in batches that hold all rows of each of their users.

    Raises:
        ReappearedError: none do.
    """
    scan = scans[0]

    def batches() -> Iterator[Batch]:
        for batch in cut_by_user(scan.batches()):
            for each in scans:
                each.probe_of(batch.probe.model)
            yield batch

    def look(batch: Batch) -> list[tuple[ModelProbe, BatchResults]]:
        found, rows = _known_rows(scan, batch)
        lists = np.cumsum(np.diff(as_array(rows["__list"]), prepend=-1) != 0)  # as they come
        rows = rows.with_columns(pl.Series("__list", lists))
        probes = [each.probes[batch.probe.model] for each in scans]
        probed = [_probe(each, own, rows) for each, own in zip(scans, probes, strict=True)]
        return [(batch.probe, found), *zip(probes, probed, strict=True)]

    with reading(scan.table):
        for results in finished_map(look, batches(), threads=scan.threads):
            for probe, found in results:
                if found.counters[REAPPEARED]:
                    raise ReappearedError
                probe.take(found)


def _scan_held(scans: Sequence[RankScan]) -> None:
    """Hold every list, and probe all of a model at once."""
    scan = scans[0]
    parts: dict[str, list[pl.DataFrame]] = {}
    gone: dict[str, list[Dropped]] = {}

    def collect(batch: Batch) -> tuple[ModelProbe, BatchResults, pl.DataFrame, Dropped | None]:
        seen = scan.seen_ranked(batch.frame) if _closes_up(scan) else None
        dropped = None if seen is None else scan.dropped_of(seen, batch.frame)
        return batch.probe, *_known_rows(scan, batch), dropped

    with reading(scan.table):
        batches = scan.batches()
        for probe, found, known, dropped in ordered_map(collect, batches, threads=scan.threads):
            probe.take(found)
            parts.setdefault(probe.model, []).append(known)
            if dropped is not None:
                gone.setdefault(probe.model, []).append(dropped)
    for name, frames in parts.items():
        rows = pl.concat(frames)
        frames.clear()
        if gone:
            ranks = scan.closed_up(rows, Dropped.joined(gone[name]))
            strengths = pl.Series("__strength", -ranks.astype(np.int64))
            rows = rows.with_columns(pl.Series("rank", ranks), strengths)
        for each in scans:
            probe = each.probe_of(name)
            probe.take(_probe(each, probe, rows))
            if gone:
                state = UserState.empty(scan.truth.pairs.n_users)
                scan.note_into(state, rows)
                _lengthen(probe, state)


def _known_rows(scan: RankScan, batch: Batch) -> tuple[BatchResults, pl.DataFrame]:
    """The rows of a batch that may have a rank, of users whom the truth has; others are counted."""
    scan.note_ranks(batch)
    rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
    named = Batch(batch.probe, batch.frame.with_columns(pl.Series("__row", rows)), batch.first_row)
    kept, strengths, row_counts = scan.drop_rows(named)
    users = as_keys(kept.frame[USER_KEY])
    codes = scan.codes(users)
    unknown = codes < 0
    found = BatchResults.room(0)._replace(unknown_users=distinct_keys(users[unknown]))
    found.counters[:] = row_counts
    found.counters[UNKNOWN_ROWS] += int(unknown.sum())
    columns = pl.Series("__strength", strengths), pl.Series("__list", codes)
    known = kept.frame.with_columns(columns)
    if unknown.any():
        known = known.filter(pl.col("__list") >= 0)
    if scan.truth.user_plan.hashed:
        codes = as_array(known["__list"])
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        runs = found._replace(
            counters=np.zeros_like(found.counters), run_rows=begins, run_codes=codes[begins]
        )
        runs.counters[KNOWN_RUNS] = begins.size
        scan.verify(known, runs)
    return found, known


def _probe(scan: RankScan, probe: ModelProbe, rows: pl.DataFrame) -> BatchResults:
    """Probe whole lists; what they give has not been taken."""
    policies, plan = scan.policies, scan.truth.item_plan
    if scan.mode == "strength" and scan.has_score and policies.score_type == "float32":
        strengths, _ = strengths_of_scores(scan.values_of(rows["score"]).cast(pl.Float32))
        rows = rows.with_columns(pl.Series("__strength", strengths))
    by_numba = scan.has_equals and policies.ties.startswith("numba")
    policy, n_dropped = _COPIES.get(policies.duplicates, _KEEP), 0
    if by_numba:
        if policy != _KEEP:
            before, policy = rows.height, _KEEP
            rows = _as_dictionaries(rows, policies.duplicates)
            n_dropped = before - rows.height
        rows = rows.sort(["__list", "__row"])
        values = scan.values_of(rows["score"]).cast(pl.Float64)
        scores = as_array(values.fill_nan(-np.inf).fill_null(-np.inf))
        orders = numba_order(as_array(rows["__list"]), scores, policies.ties)
        rows = rows.with_columns(pl.Series("__order", orders)).sort(["__list", "__order"])
    else:
        rows = _in_order(rows, policies.ties if policies.ties.startswith("item") else "input", plan)
    codes, items = as_array(rows["__list"]), as_keys(rows[ITEM_KEY])
    given, strengths = NO_INTS, NO_INTS
    if scan.mode == "rank":
        given = as_array(rows["rank"]).astype(np.int64) - (policies.first_rank - 1)
    kept = np.ones(rows.height, dtype=np.bool_)
    ranks, firsts = np.zeros((2, rows.height), dtype=np.int64)
    n_copies = kernels.clean_lists(
        codes, items, as_array(rows["__row"]), given, policy, kept, ranks, firsts
    )
    if n_copies and plan.hashed:
        _verify_copies(rows.select(ITEM), firsts)
    frame = rows
    if not kept.all():
        frame, ranks = rows.filter(pl.Series(kept)), ranks[kept]
    if scan.collector is not None:
        taken = frame
        if scan.has_equals and policies.ties in UNORDERED_TIES:
            taken = _in_order(frame, "item", plan)
        users = scan.codes(as_keys(taken[USER_KEY]))
        scan.collector.take_whole(probe.model, taken, users, ranks)
    firsts, lasts = _tie_ranks(scan, frame, ranks)
    if scan.has_equals and policies.ties == "mean-rank":
        ranks = (firsts + lasts) // 2
    elif scan.has_equals and policies.ties == "last-rank":
        ranks = lasts
    final = (ranks + policies.first_rank - 1).astype(np.int32)
    if probe.strengths.size:
        strengths, _ = strengths_of_scores(frame["score"])
    found = scan.lower(Batch(probe, frame, 0), final, strengths, with_hits=True)
    if policies.duplicates != "error":
        found.counters[DUPLICATES] = n_copies + n_dropped
    if scan.mode == "strength":
        shared = shared_strengths(frame["__list"], frame["__strength"], as_keys(frame[ITEM_KEY]))
        found.counters[TIES] = int(shared[found.hit_rows].sum())
    if scan.has_equals and policies.ties not in UNORDERED_TIES:
        _note_ties(probe.ranks, found, ranks, firsts, lasts)
    if scan.detailed:
        probe.hit_rows.append(_hit_rows(scan, frame, found, ranks, firsts, lasts))
    return found


def _in_order(rows: pl.DataFrame, ties: str, plan: IdPlan) -> pl.DataFrame:
    """Lists by number, from strongest to weakest; equals as `ties` says, then as they came."""
    lists, strengths = as_array(rows["__list"]), as_array(rows["__strength"])
    is_stronger = (lists[1:] == lists[:-1]) & (strengths[1:] > strengths[:-1])
    is_sorted = not ((lists[1:] < lists[:-1]) | is_stronger).any()
    order = np.arange(lists.size) if is_sorted else np.lexsort((~strengths, lists))
    lists, strengths = lists[order], strengths[order]
    is_equal = (lists[1:] == lists[:-1]) & (strengths[1:] == strengths[:-1])
    has_ties = ties != "input" and bool(is_equal.any())
    if has_ties:
        tied = np.flatnonzero(np.append(is_equal, False) | np.insert(is_equal, 0, False))
        frame = rows[order[tied]]
        orders = order_in_batch(ties, plan, frame, as_keys(frame[ITEM_KEY]), tied)
        order[tied] = order[tied][np.lexsort((orders, ~strengths[tied], lists[tied]))]
    return rows if is_sorted and not has_ties else rows[order]


def _as_dictionaries(rows: pl.DataFrame, duplicates: str) -> pl.DataFrame:
    """One row an item, as a dictionary keeps it: where the item first stood."""
    by = ["__list", ITEM_KEY]
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


def _tie_ranks(scan: RankScan, frame: pl.DataFrame, ranks: Ints) -> tuple[Ints, Ints]:
    """The first and the last rank that the rows of each row's score take up together.

    Where ranks are given they order, and rows of one score tie where they stand side by side.
    """
    if not frame.height or not (scan.has_equals or (scan.mode == "rank" and scan.has_score)):
        return ranks, ranks
    codes = as_array(frame["__list"])
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
    sizes = np.diff(starts, append=code.size)
    firsts, lasts = np.empty_like(ranks), np.empty_like(ranks)
    firsts[order] = np.repeat(rank[starts], sizes)
    lasts[order] = np.repeat(rank[starts + sizes - 1], sizes)
    return firsts, lasts


def _note_ties(shown: Ranks, found: BatchResults, ranks: Ints, firsts: Ints, lasts: Ints) -> None:
    """The ranks that rows of equal scores take up, of the best row of each item that is a hit."""
    rows, places = found.hit_rows, found.hit_places
    is_tied = (lasts[rows] > firsts[rows]) & (shown.ranks[places] == ranks[rows])
    if not is_tied.any():
        return
    rows, places, tied = rows[is_tied], places[is_tied], shown.room_for_ties()
    most = np.iinfo(tied.lasts.dtype).max - 1
    tied.firsts[places], tied.lasts[places] = firsts[rows], np.minimum(lasts[rows], most)


def _hit_rows(
    scan: RankScan, frame: pl.DataFrame, found: BatchResults, ranks: Ints, firsts: Ints, lasts: Ints
) -> HitRows:
    """The rows that show a relevant item, with what the other rows of their lists say of them."""
    codes = as_array(frame["__list"])
    untils = _untils(codes, as_array(frame["__row"]), ranks)
    rows, places = found.hit_rows, found.hit_places
    if scan.has_score and "score" in frame.columns:
        positive = (scan.values_of(frame["score"]).fill_null(0) > 0).to_numpy()[rows]
    else:
        positive = np.ones(rows.size, dtype=np.bool_)
    shown = ranks[rows] >= 1
    rows, places, positive = rows[shown], places[shown], positive[shown]
    return (
        scan.codes(as_keys(frame[USER_KEY])[rows]),
        places,
        ranks[rows].astype(np.int32),
        firsts[rows].astype(np.int32),
        lasts[rows].astype(np.int32),
        untils[rows].astype(np.int32),
        positive,
    )


def _untils(codes: Ints, places: Ints, ranks: Ints) -> Ints:
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


def _verify_copies(ids: pl.DataFrame, firsts: Ints) -> None:
    """Items of one list that share a key are one item.

    Raises:
        KeyCollisionError: they are not.
    """
    copies = np.flatnonzero(firsts != np.arange(firsts.size))
    if not same_ids(ids[copies], ids[firsts[copies]]):
        raise KeyCollisionError
