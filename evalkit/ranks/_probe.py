"""One rankings log, streamed past the truth: batches, threads, policies and counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Policies
from evalkit.errors import DataError, EvalkitError, raise_all
from evalkit.keys import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    KeyCollisionError,
    Keys,
    Sample,
    Share,
    as_array,
    as_keys,
    ids_follow_keys,
    same_ids,
)
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._order import order_by_catalogue, order_in_batch
from evalkit.ranks._records import (
    BAD_RANKS,
    BAD_SCORES,
    DEFERRED,
    DUPLICATES,
    MAX_RANK,
    N_COUNTERS,
    NO_RANK,
    PRESENT,
    REAPPEARED,
    ROWS,
    SEEN,
    TIES,
    UNKNOWN_ROWS,
    WORST,
    Found,
    Ranks,
)
from evalkit.sources import Table, reading
from evalkit.threads import ordered_map
from evalkit.truth import (
    Train,
    Truth,
    drop_null_ids,
    name_users,
    null_id_error,
)

BATCH_ROWS = 1 << 17  # arrays of so many rows stay in a core's cache
BATCH_LISTS = 1 << 12
KEPT_UNKNOWN = 1 << 22  # keys of unknown users, with repeats, before they are made distinct

Mode = Literal["rank", "strength", "place"]
Array = npt.NDArray[np.int64]

_NO_INTS: Array = np.empty(0, dtype=np.int64)
_NO_RANKS: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)
_COPIES = {"best": 1, "first": 2, "last": 3, "count": 4}


class _ReappearedError(Exception):
    """A user came back after its rows had ended: ranks by counting need two scans."""


@dataclass(slots=True)
class ModelProbe:
    """The ranks of one model, and where its rows went.

    Args:
        searched: which duplicates were looked for: "relevant" or "all".
        given_ranks: like `Ranks.state`, of the ranks as given, where lists are put in order anew.
    """

    model: str
    ranks: Ranks
    searched: str
    rows: int = 0
    null_ids: int = 0
    unknown_rows: int = 0
    not_sampled: int = 0
    duplicates: int = 0
    bad_scores: int = 0
    bad_rank_rows: int = 0
    seen: int = 0
    ties: int = 0
    users_with_bad_ranks: int = 0
    score_disagreements: int = 0
    problems: list[EvalkitError] = field(default_factory=list)
    unknown_keys: list[Keys] = field(default_factory=list)
    copies: list[tuple[Array, npt.NDArray[np.int32]]] = field(default_factory=list)
    n_kept_unknown: int = 0
    users_without_truth: int = 0
    strengths: Array = field(default_factory=lambda: _NO_INTS)
    given_ranks: Array = field(default_factory=lambda: _NO_INTS)

    def take(self, found: Found, *, again: bool = False) -> None:
        """Add what a batch gave; `again`: its rows were counted before."""
        counters = found.counters
        self.duplicates += int(counters[DUPLICATES])
        self.ties += int(counters[TIES])
        if not again:
            self.unknown_rows += int(counters[UNKNOWN_ROWS])
            self.bad_rank_rows += int(counters[BAD_RANKS])
            self.bad_scores += int(counters[BAD_SCORES])
            self.seen += int(counters[SEEN])
            self.keep_unknown(found.unknown_users)
        if found.copy_places.size:
            self.copies.append((found.copy_places, found.copy_ranks))

    def keep_unknown(self, keys: Keys) -> None:
        """Remember ranked users that the truth lacks, each once in the end."""
        if not keys.size:
            return
        self.unknown_keys.append(keys)
        self.n_kept_unknown += keys.size
        if self.n_kept_unknown > KEPT_UNKNOWN:
            distinct = np.unique(np.concatenate(self.unknown_keys))
            self.unknown_keys = [distinct]
            self.n_kept_unknown = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of one model with whole lists of users where the mode needs them."""

    probe: ModelProbe
    frame: pl.DataFrame
    first_row: int


@dataclass(slots=True)
class RankScan:
    """How one rankings table is read and probed."""

    table: Table
    model: str | None
    truth: Truth
    policies: Policies
    threads: int
    train: Train | None = None
    drop_seen: bool = False
    sample: Sample | None = None
    share: Share | None = None
    progress: Callable[[int], None] | None = None
    probes: dict[str, ModelProbe] = field(default_factory=dict)
    checksums: npt.NDArray[np.uint64] = field(default_factory=lambda: _checksums(4096))

    @property
    def has_rank(self) -> bool:
        """Whether the log names ranks."""
        return "rank" in self._names

    @property
    def has_score(self) -> bool:
        """Whether the log names scores."""
        return "score" in self._names

    @property
    def _names(self) -> list[str]:
        return self.table.frame.collect_schema().names()

    @property
    def mode(self) -> Mode:
        """Ranks as given, ranks counted from strengths, or a row's place in its user's rows."""
        if self.has_rank:
            by_count = self.policies.bad_ranks == "compress" or self.drop_seen
            return "strength" if by_count else "rank"
        return "strength" if self.has_score else "place"

    @property
    def needs_whole_lists(self) -> bool:
        """Whether a policy asks for what hits alone cannot say."""
        if self.mode == "rank":
            return self.policies.duplicates in ("first", "last")
        return self.policies.duplicates != "error"

    def run(self) -> dict[str, ModelProbe]:
        """Probe the whole table; one entry for each model in it, in order of name."""
        if self.needs_whole_lists:
            self._scan_whole_lists()
        elif self.mode == "rank":
            self._scan(self._probe_ranks, whole_users=False)
        else:
            try:
                work = self._probe_places if self.mode == "place" else self._count_strengths
                self._scan(work, whole_users=True)
            except _ReappearedError:
                self.probes.clear()
                self._scan_twice()
        if self.model is not None and self.model not in self.probes:
            self._probe_of(self.model)
        for probe in self.probes.values():
            self._finish(probe)
        return dict(sorted(self.probes.items()))

    # -- reading ---------------------------------------------------------------------------

    def _columns(self, *, with_rows: bool) -> list[pl.Expr]:
        schema = self.table.frame.collect_schema()
        columns = self.truth.user_plan.select(USER_KEY)
        columns += [pl.col(ITEM)] if self.table.is_list else self.truth.item_plan.select(ITEM_KEY)
        if self.has_rank:
            columns.append(_rank(schema["rank"]))
        if self.has_score and not (self.has_rank and self.mode == "strength"):
            columns.append(pl.col("score") if self.table.is_list else _score(schema["score"]))
        if "model" in schema:
            columns.append(pl.col("model").cast(pl.String))
        return columns

    def _batches(self, *, ordered: bool) -> Iterator[_Batch]:
        frame = self.table.frame.select(self._columns(with_rows=ordered))
        first_row = 0
        # batches as they come are one chunk each; asking for a size would copy them together
        batches = frame.collect_batches(maintain_order=ordered, engine="streaming")
        for rows in _sized(batches, BATCH_LISTS if self.table.is_list else BATCH_ROWS):
            flat = self._explode(rows) if self.table.is_list else rows
            for name, part in self._split_models(flat):
                probe = self._probe_of(name)
                kept = self._rows_of_ours(probe, part)
                if kept.height:
                    yield _Batch(probe, kept, first_row)
            first_row += flat.height
            if self.progress is not None:
                self.progress(flat.height)

    def _rows_of_ours(self, probe: ModelProbe, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with ids, of this share of the users and of the sample; the others are counted."""
        kept, n_null = drop_null_ids(rows)
        if self.share is not None:
            kept = kept.filter(pl.Series(self.share.holds(as_keys(kept[USER_KEY]))))
            n_null = n_null if self.share.is_first else 0
        probe.null_ids += n_null
        probe.rows += kept.height + n_null
        if self.sample is not None:
            chosen = kept.filter(pl.Series(self.sample.holds(kept)))
            probe.not_sampled += kept.height - chosen.height
            kept = chosen
        return kept

    def _explode(self, lists: pl.DataFrame) -> pl.DataFrame:
        lists = lists.filter(pl.col(ITEM).is_not_null())
        lengths = lists[ITEM].list.len()
        if bool((lengths == 0).any()):
            for name, part in self._split_models(lists.filter(lengths == 0)):
                self._mark_present(self._probe_of(name), part)
            lists = lists.filter(lengths > 0)
        columns = [ITEM, "score"] if "score" in lists.columns else [ITEM]
        if "score" in columns and bool((lists["score"].list.len() != lists[ITEM].list.len()).any()):
            raise DataError(
                "lists of items and of scores differ in length",
                code="ragged-lists",
                at=self.table.at,
                hint="give every item one score",
            )
        flat = lists.explode(columns)
        others = [name for name in flat.columns if name not in (ITEM, "score")]
        keys = self.truth.item_plan.select(ITEM_KEY)
        score = [_score(flat.schema["score"])] if "score" in columns else []
        return flat.select(*others, *keys, *score)

    def _mark_present(self, probe: ModelProbe, lists: pl.DataFrame) -> None:
        lists = lists.drop_nulls(USER_KEY)
        if self.sample is not None:
            lists = lists.filter(pl.Series(self.sample.holds(lists)))
        users = as_keys(lists[USER_KEY])
        if self.share is not None:
            users = users[self.share.holds(users)]
        codes = self._codes(users)
        probe.ranks.state[4 * codes[codes >= 0] + PRESENT] = 1
        probe.keep_unknown(users[codes < 0])

    def _codes(self, users: Keys) -> Array:
        return self.truth.pairs.codes_of(users)

    def _split_models(self, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
        if "model" not in rows.columns:
            yield self.model or "", rows
            return
        if rows["model"].null_count():
            raise DataError(
                "rows of the rankings name no model",
                code="null-model",
                at=self.table.at,
                hint='leave them out: where = "model is not null"',
            )
        for name, part in rows.partition_by(
            "model", maintain_order=True, include_key=False, as_dict=True
        ).items():
            yield str(name[0]), part

    def _probe_of(self, name: str) -> ModelProbe:
        if name not in self.probes:
            probe = ModelProbe(
                name,
                Ranks.empty(self.truth.pairs),
                "all" if self.needs_whole_lists else "relevant",
            )
            if self.mode == "rank" and self.has_score:
                probe.strengths = np.full(self.truth.pairs.items.size, WORST, dtype=np.int64)
            if self.has_rank and (self.mode == "strength" or self.needs_whole_lists):
                probe.given_ranks = np.zeros(4 * self.truth.pairs.n_users, dtype=np.int64)
            self.probes[name] = probe
        return self.probes[name]

    def _scan(self, work: Callable[[_Batch], list[Found]], *, whole_users: bool) -> None:
        def probe(batch: _Batch) -> tuple[ModelProbe, list[Found]]:
            return batch.probe, work(batch)

        batches = self._batches(ordered=whole_users)
        if whole_users:
            batches = _whole_users(batches)
        with reading(self.table):
            for model, results in ordered_map(probe, batches, threads=self.threads):
                for number, found in enumerate(results):
                    if whole_users and found.counters[REAPPEARED]:
                        raise _ReappearedError
                    model.take(found, again=number > 0)

    # -- the work on one batch ---------------------------------------------------------------

    @property
    def _shift(self) -> int:
        return self.truth.pairs.shift

    def _probe_ranks(self, batch: _Batch) -> list[Found]:
        strengths = _NO_INTS
        if self.has_score:
            strengths, _ = _strengths(batch.frame["score"])
        ranks = as_array(batch.frame["rank"])
        found = self._lower(batch, ranks, strengths)
        if self.train is not None:
            seen, _ = self._seen(batch.frame)
            found.counters[SEEN] = (seen & (ranks >= self.policies.first_rank)).sum()
        return [found]

    def _probe_places(self, batch: _Batch) -> list[Found]:
        batch, _, tally = self._drop_rows(batch)
        found = self._lower(batch, _NO_RANKS, _NO_INTS)
        found.counters += tally
        return [found]

    def _lower(
        self,
        batch: _Batch,
        ranks: npt.NDArray[np.int32],
        strengths: Array,
        *,
        with_hits: bool = False,
    ) -> Found:
        users, items = as_keys(batch.frame[USER_KEY]), as_keys(batch.frame[ITEM_KEY])
        pairs = self.truth.pairs
        found = Found.room(users.size)
        with_hits = with_hits or self._must_verify
        kernels.probe_ranks(
            users,
            items,
            ranks,
            self.policies.first_rank - 1,
            strengths,
            pairs.table,
            self._shift,
            pairs.slot_bits,
            pairs.counts,
            pairs.items,
            batch.probe.ranks.ranks,
            batch.probe.strengths,
            batch.probe.ranks.state,
            self.checksums,
            found.counters,
            found.unknown_users,
            found.run_rows if with_hits else _NO_INTS,
            found.run_codes if with_hits else _NO_INTS,
            found.hit_rows if with_hits else _NO_INTS,
            found.hit_places if with_hits else _NO_INTS,
            found.copy_places,
            found.copy_ranks,
        )
        found = found.trim()
        self._verify(batch.frame, items, found)
        return found

    def _note_ranks(self, batch: _Batch) -> None:
        """Look at ranks as given before they become an order."""
        if batch.probe.given_ranks.size:
            kernels.note_ranks(
                as_keys(batch.frame[USER_KEY]),
                as_array(batch.frame["rank"]),
                self.policies.first_rank - 1,
                self._lowest_rank,
                self.truth.pairs.table,
                self._shift,
                self.truth.pairs.slot_bits,
                batch.probe.given_ranks,
            )

    def _count_strengths(self, batch: _Batch) -> list[Found]:
        self._note_ranks(batch)
        batch, strengths, tally = self._drop_rows(batch)
        found = self._count(batch, strengths, _NO_INTS, second_look=False)
        found.counters += tally
        if not found.counters[DEFERRED]:
            return [found]
        rows = found.deferred
        frame = batch.frame[rows]
        orders = order_in_batch(
            self.policies.ties,
            self.truth.item_plan,
            frame,
            as_keys(frame[ITEM_KEY]),
            batch.first_row + rows,
        )
        again = _Batch(batch.probe, frame, batch.first_row)
        return [found, self._count(again, strengths[rows], orders, second_look=True)]

    def _count(self, batch: _Batch, strengths: Array, orders: Array, *, second_look: bool) -> Found:
        users, items = as_keys(batch.frame[USER_KEY]), as_keys(batch.frame[ITEM_KEY])
        pairs = self.truth.pairs
        found = Found.room(users.size, 0 if second_look else users.size)
        kernels.count_strengths(
            users,
            items,
            strengths,
            orders,
            pairs.table,
            self._shift,
            pairs.slot_bits,
            pairs.counts,
            pairs.items,
            batch.probe.ranks.ranks,
            batch.probe.ranks.state,
            found.counters,
            found.unknown_users,
            found.run_rows,
            found.run_codes,
            found.hit_rows,
            found.hit_places,
            found.copy_places,
            found.copy_ranks,
            found.deferred,
            second_look,
        )
        found = found.trim()
        self._verify(batch.frame, items, found)
        return found

    def _drop_rows(self, batch: _Batch) -> tuple[_Batch, Array, Array]:
        """The batch without rows that never get a rank, strengths of the others, and counts."""
        frame = batch.frame
        tally = np.zeros(N_COUNTERS, dtype=np.int64)
        strengths, bad = self._strengths_of(batch)
        if bad is not None:
            tally[BAD_RANKS if self.has_rank else BAD_SCORES] = bad.sum()
            if self.has_rank or self.policies.bad_scores == "drop":
                frame, strengths = frame.filter(pl.Series(~bad)), strengths[~bad]
        seen, tally[SEEN] = self._seen(frame)
        if self.drop_seen and tally[SEEN]:
            frame, strengths = frame.filter(pl.Series(~seen)), strengths[~seen]
        return _Batch(batch.probe, frame, batch.first_row), strengths, tally

    @property
    def _lowest_rank(self) -> int:
        """The lowest rank that gives a row its place; compressing takes any, as an order."""
        return NO_RANK + 1 if self.policies.bad_ranks == "compress" else self.policies.first_rank

    def _strengths_of(self, batch: _Batch) -> tuple[Array, npt.NDArray[np.bool_] | None]:
        """Integers that order as the list does, and which rows have no place in it, if any."""
        frame = batch.frame
        if self.has_rank:
            ranks = as_array(frame["rank"])
            bad = ranks < self._lowest_rank
            if bad.any():  # rows of unknown users are counted as such, whatever their ranks
                bad[bad] = self._codes(as_keys(frame[USER_KEY])[bad]) >= 0
            return -ranks.astype(np.int64), bad if bad.any() else None
        if self.has_score:
            return _strengths(frame["score"])
        first = batch.first_row
        return -np.arange(first, first + frame.height, dtype=np.int64), None

    def _seen(self, frame: pl.DataFrame) -> tuple[npt.NDArray[np.bool_], int]:
        train = self.train
        if train is None:
            return np.empty(0, dtype=np.bool_), 0
        users, items = as_keys(frame[USER_KEY]), as_keys(frame[ITEM_KEY])
        seen = np.zeros(users.size, dtype=np.bool_)
        pairs = train.pairs
        n_seen = kernels.mark_seen(
            users, items, pairs.table, pairs.shift, pairs.slot_bits, pairs.counts, pairs.items, seen
        )
        if n_seen and self.truth.item_plan.hashed:
            places = np.searchsorted(train.item_keys, items[seen])
            if not same_ids(frame.select(ITEM).filter(pl.Series(seen)), train.item_ids[places]):
                raise KeyCollisionError
        return seen, int(n_seen)

    @property
    def _must_verify(self) -> bool:
        return self.truth.user_plan.hashed or self.truth.item_plan.hashed

    def _verify(self, frame: pl.DataFrame, items: Keys, found: Found) -> None:
        truth = self.truth
        if truth.user_plan.hashed:
            real = frame.select(truth.user_plan.columns)[found.run_rows]
            if not same_ids(real, truth.user_ids[found.run_codes]):
                raise KeyCollisionError
            if not ids_follow_keys(frame.select(truth.user_plan.columns), frame[USER_KEY]):
                raise KeyCollisionError
        if truth.item_plan.hashed and found.hit_rows.size:
            places = np.searchsorted(truth.item_keys, items[found.hit_rows])
            if not same_ids(frame.select(ITEM)[found.hit_rows], truth.item_ids[places]):
                raise KeyCollisionError

    # -- two scans: users whose rows do not lie together ---------------------------------------

    def _scan_twice(self) -> None:
        pairs, n_places = self.truth.pairs, self.truth.pairs.items.size
        ties = self.policies.ties
        direct = ties == "input" or (
            not self.truth.item_plan.hashed and not ties.startswith("item-text")
        )
        orders_of: Callable[[pl.DataFrame, Keys], Array] | None = None
        hit_orders: dict[str, Array] = {}
        best: dict[str, Array] = {}
        ordered = self.mode == "place" or ties == "input"

        def orders_for(batch: _Batch) -> Array:
            if not direct:
                return _NO_INTS
            rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
            keys = as_keys(batch.frame[ITEM_KEY])
            return order_in_batch(ties, self.truth.item_plan, batch.frame, keys, rows)

        def prepare(batches: Iterator[_Batch]) -> Iterator[_Batch]:
            for batch in batches:
                name = batch.probe.model
                if name not in best:
                    best[name] = np.full(n_places, WORST, dtype=np.int64)
                    hit_orders[name] = np.zeros(n_places, dtype=np.int64)
                yield batch

        def find(batch: _Batch) -> tuple[ModelProbe, Found]:
            self._note_ranks(batch)
            orders = orders_for(batch)
            batch, strengths, orders, tally = self._drop_rows_with(batch, orders)
            users, items = as_keys(batch.frame[USER_KEY]), as_keys(batch.frame[ITEM_KEY])
            found = Found.room(users.size)
            name = batch.probe.model
            kernels.find_best(
                users, items, strengths, orders, pairs.table, self._shift, pairs.slot_bits,
                pairs.counts, pairs.items, batch.probe.ranks.ranks, best[name], hit_orders[name],
                batch.probe.ranks.state, found.counters, found.unknown_users, found.run_rows,
                found.run_codes, found.hit_rows, found.hit_places, found.copy_places,
            )  # fmt: skip
            found = found.trim()
            found.copy_ranks[:] = 0
            found.counters += tally
            self._verify(batch.frame, items, found)
            return batch.probe, found

        with reading(self.table):
            first = prepare(self._batches(ordered=ordered))
            for probe, found in ordered_map(find, first, threads=self.threads):
                probe.take(found)
        places = {name: np.empty(n_places, dtype=np.int64) for name in best}
        n_shown = {name: np.zeros(pairs.n_users, dtype=np.int64) for name in best}
        beaten = {name: np.zeros(n_places, dtype=np.int32) for name in best}
        tied = {name: np.zeros(n_places, dtype=np.int32) for name in best}
        is_tied = {name: np.zeros(n_places, dtype=np.uint8) for name in best}
        for name, probe in self.probes.items():
            if name in best:
                kernels.order_best(
                    pairs.starts, pairs.counts, probe.ranks.ranks, best[name], 0, pairs.n_users,
                    places[name], n_shown[name],
                )  # fmt: skip
        counted = {
            name: (each.rows, each.null_ids, each.not_sampled) for name, each in self.probes.items()
        }

        def beat(
            frame: pl.DataFrame, strengths: Array, orders: Array, name: str, only: bool
        ) -> Array:
            users, items = as_keys(frame[USER_KEY]), as_keys(frame[ITEM_KEY])
            deferred = np.empty(users.size, dtype=np.int64)
            counters = np.zeros_like(Found.room(0).counters)
            probe = self.probes[name]
            kernels.count_beaten(
                users, items, strengths, orders, pairs.table, self._shift, pairs.slot_bits,
                pairs.items, probe.ranks.ranks, best[name], hit_orders[name], probe.ranks.state,
                places[name], n_shown[name], beaten[name], tied[name], is_tied[name], counters,
                deferred, only,
            )  # fmt: skip
            return deferred[: counters[DEFERRED]]

        def count(batch: _Batch) -> list[tuple[str, pl.DataFrame, Array]]:
            orders = orders_for(batch)
            batch, strengths, orders, _ = self._drop_rows_with(batch, orders)
            name = batch.probe.model
            left = beat(batch.frame, strengths, orders, name, False)
            return [(name, batch.frame[left], strengths[left])] if left.size else []

        with reading(self.table):
            second = self._batches(ordered=ordered)
            for results in ordered_map(count, second, threads=self.threads):
                for name, frame, strengths in results:
                    if orders_of is None:
                        orders_of, of_places = order_by_catalogue(ties, self.truth)
                        hit_orders.update(dict.fromkeys(best, of_places))
                    orders = orders_of(frame, as_keys(frame[ITEM_KEY]))
                    beat(frame, strengths, orders, name, True)
        for name, (n_rows, n_null, not_sampled) in counted.items():
            probe = self.probes[name]
            probe.rows, probe.null_ids, probe.not_sampled = n_rows, n_null, not_sampled
        for name, probe in self.probes.items():
            if name in best:
                kernels.rank_beaten(
                    pairs.starts, places[name], n_shown[name], beaten[name], tied[name],
                    probe.ranks.ranks,
                )  # fmt: skip
                probe.ties = int(is_tied[name].sum())

    def _drop_rows_with(self, batch: _Batch, orders: Array) -> tuple[_Batch, Array, Array, Array]:
        if not orders.size:
            kept, strengths, tally = self._drop_rows(batch)
            return kept, strengths, orders, tally
        named = batch.frame.with_columns(pl.Series("__order", orders))
        kept, strengths, tally = self._drop_rows(_Batch(batch.probe, named, batch.first_row))
        return kept, strengths, as_array(kept.frame["__order"]), tally

    # -- whole lists -----------------------------------------------------------------------------

    def _scan_whole_lists(self) -> None:
        """Hold every list of the truth's users, drop copies, and probe the ranks that result."""
        parts: dict[str, list[pl.DataFrame]] = {}

        def collect(batch: _Batch) -> tuple[ModelProbe, Found, pl.DataFrame]:
            self._note_ranks(batch)
            rows = np.arange(batch.first_row, batch.first_row + batch.frame.height)
            named = _Batch(
                batch.probe, batch.frame.with_columns(pl.Series("__row", rows)), batch.first_row
            )
            kept, strengths, tally = self._drop_rows(named)
            frame = kept.frame.with_columns(pl.Series("__strength", strengths))
            users = as_keys(frame[USER_KEY])
            codes = self._codes(users)
            found = Found.room(0)
            found.counters += tally
            found.counters[UNKNOWN_ROWS] = int((codes < 0).sum())
            found.unknown_users = np.unique(users[codes < 0])
            known = frame.with_columns(pl.Series("__code", codes)).filter(pl.col("__code") >= 0)
            if self.truth.user_plan.hashed:
                found.run_rows = np.arange(known.height)
                found.run_codes = as_array(known["__code"])
                self._verify(known, as_keys(known[ITEM_KEY]), found)
            return batch.probe, found, known

        with reading(self.table):
            batches = self._batches(ordered=True)
            for probe, found, known in ordered_map(collect, batches, threads=self.threads):
                probe.take(found)
                parts.setdefault(probe.model, []).append(known)
        for name, frames in parts.items():
            self._probe_whole_lists(self._probe_of(name), pl.concat(frames))

    def _probe_whole_lists(self, probe: ModelProbe, rows: pl.DataFrame) -> None:
        plan = self.truth.item_plan
        orders = order_in_batch(
            self.policies.ties, plan, rows, as_keys(rows[ITEM_KEY]), as_array(rows["__row"])
        )
        rows = rows.with_columns(pl.Series("__order", orders)).sort(
            ["__code", "__strength", "__order", "__row"],
            descending=[False, True, False, False],
            maintain_order=True,
        )
        codes, items = as_array(rows["__code"]), as_keys(rows[ITEM_KEY])
        given = _NO_INTS
        if self.mode == "rank":
            given = as_array(rows["rank"]).astype(np.int64) - (self.policies.first_rank - 1)
        kept = np.zeros(rows.height, dtype=np.bool_)
        ranks = np.zeros(rows.height, dtype=np.int64)
        policy = _COPIES[self.policies.duplicates]
        n_copies = kernels.clean_lists(
            codes, items, as_array(rows["__row"]), given, policy, kept, ranks
        )
        frame = rows.filter(pl.Series(kept))
        final = (ranks[kept] + self.policies.first_rank - 1).astype(np.int32)
        batch = _Batch(probe, frame, 0)
        found = self._lower(batch, final, _NO_INTS, with_hits=True)
        probe.take(found)
        probe.duplicates = int(n_copies)
        if self.mode == "strength":
            shared = _shared_strengths(frame["__code"], frame["__strength"], items[kept])
            probe.ties = int(shared[found.hit_rows].sum())
        if self.mode == "rank":  # ranks stay as they are, and so does the length of the list
            probe.ranks.state[ROWS::4] = probe.given_ranks[ROWS::4]
            probe.ranks.state[MAX_RANK::4] = probe.given_ranks[MAX_RANK::4]

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self, probe: ModelProbe) -> None:
        if probe.unknown_keys:
            distinct = np.unique(np.concatenate(probe.unknown_keys))
            probe.users_without_truth = int(distinct.size)
            probe.unknown_keys = []
        if probe.copies:
            places = np.concatenate([places for places, _ in probe.copies])
            ranks = np.concatenate([ranks for _, ranks in probe.copies])
            order = np.lexsort((ranks, places))
            probe.copies = []
            probe.ranks.copy_places, probe.ranks.copy_ranks = places[order], ranks[order]
        policies = self.policies
        if self.has_rank:
            self._check_ranks(probe)
        if probe.strengths.size:
            pairs = self.truth.pairs
            probe.score_disagreements = kernels.count_disagreements(
                pairs.starts, pairs.counts, probe.ranks.ranks, probe.strengths
            )
            probe.strengths = _NO_INTS
        at = self._at(probe)
        if probe.null_ids and policies.null_ids == "error":
            probe.problems.append(null_id_error("rankings", probe.null_ids, at))
        if probe.bad_scores and policies.bad_scores == "error":
            probe.problems.append(
                DataError(
                    f"{probe.bad_scores:,} scores are null or NaN",
                    code="bad-score",
                    at=at,
                    hint='write bad_scores = "last" or "drop" under [policies]',
                )
            )
        self._check_duplicates(probe, at)
        if policies.duplicates != "count":
            probe.ranks.copy_places, probe.ranks.copy_ranks = _NO_INTS, _NO_RANKS
        if probe.unknown_rows and policies.unknown_users == "error":
            probe.problems.append(
                DataError(
                    f"{probe.users_without_truth:,} ranked users are not in the truth",
                    code="unknown-users",
                    at=at,
                    hint='write unknown_users = "skip" under [policies]',
                )
            )

    def _at(self, probe: ModelProbe) -> str:
        return f"{self.table.at} (model {probe.model})" if self.model is None else self.table.at

    def _low_rank_error(self, probe: ModelProbe, at: str) -> DataError:
        return DataError(
            f"{probe.bad_rank_rows:,} ranks are null or below {self.policies.first_rank}",
            code="bad-rank",
            at=at,
            hint="write first_rank = 0 under [policies] if ranks start there, "
            'or bad_ranks = "keep" to drop these rows',
        )

    def _check_ranks(self, probe: ModelProbe) -> None:
        state = probe.given_ranks if probe.given_ranks.size else probe.ranks.state
        most = int(state[ROWS::4].max()) if state.size else 0
        checksums = self.checksums if most < self.checksums.size else _checksums(most + 1)
        bad = np.empty(self.truth.pairs.n_users, dtype=np.int64)
        n_bad = int(kernels.find_bad_ranks(state, checksums, bad))
        probe.users_with_bad_ranks = n_bad
        if self.policies.bad_ranks != "error":
            return
        at = self._at(probe)
        if probe.bad_rank_rows:
            probe.problems.append(self._low_rank_error(probe, at))
        elif n_bad:
            probe.problems.append(
                DataError(
                    f"the ranks of {n_bad:,} users have gaps or repeats",
                    code="bad-ranks",
                    at=f"{at}: {name_users(self.truth, bad[:n_bad])}",
                    hint='write bad_ranks = "keep" or "compress" under [policies], '
                    "or first_rank = 0 if ranks start there",
                )
            )

    def _check_duplicates(self, probe: ModelProbe, at: str) -> None:
        if not probe.duplicates or self.policies.duplicates != "error":
            return
        places = np.unique(probe.ranks.copy_places)
        codes = np.searchsorted(self._sorted_starts[0], places, side="right") - 1
        users = np.unique(self._sorted_starts[1][codes])
        probe.problems.append(
            DataError(
                f"{probe.duplicates:,} rows list a relevant item a second time",
                code="duplicate-item",
                at=f"{at}: {name_users(self.truth, users)}",
                hint='write duplicates = "best" under [policies] to keep the best rank',
            )
        )

    @property
    def _sorted_starts(self) -> tuple[Array, Array]:
        pairs = self.truth.pairs
        filled = np.flatnonzero(pairs.counts > 0)
        order = filled[np.argsort(pairs.starts[filled], kind="stable")]
        return pairs.starts[order], order


def scan_ranks(scan: RankScan) -> dict[str, ModelProbe]:
    """Probe a rankings table; every problem of every model at once.

    Raises:
        DataError: as the policies ask [duplicate-item, bad-ranks, bad-rank, bad-score, null-id,
            unknown-users, null-model, ragged-lists].
        KeyCollisionError: two ids share a key.
    """
    probes = scan.run()
    raise_all([problem for probe in probes.values() for problem in probe.problems])
    return probes


def _sized(frames: Iterator[pl.DataFrame], most: int) -> Iterator[pl.DataFrame]:
    """The same rows in frames of `most` rows at most; small frames are joined."""
    small: list[pl.DataFrame] = []
    n_small = 0
    for frame in frames:
        if n_small + frame.height < most // 4:
            small.append(frame)
            n_small += frame.height
            continue
        if n_small:
            frame = pl.concat([*small, frame])
            small, n_small = [], 0
        yield from frame.iter_slices(most)
    if n_small:
        yield pl.concat(small)


def _whole_users(batches: Iterator[_Batch]) -> Iterator[_Batch]:
    """The same rows, cut where users end: a user cut by a batch's border comes as one batch."""
    waiting: dict[str, _Batch] = {}
    for batch in batches:
        users = as_keys(batch.frame[USER_KEY])
        name, begin = batch.probe.model, 0
        held = waiting.pop(name, None)
        if held is not None:
            begin = _run_length(users, as_keys(held.frame[USER_KEY])[-1])
            joined = pl.concat([held.frame, batch.frame[:begin]]) if begin else held.frame
            held = _Batch(held.probe, joined, held.first_row)
            if begin == users.size:
                waiting[name] = held
                continue
            yield held
        last = users.size - _run_length(users[::-1], users[-1])
        if last > begin:
            yield _Batch(batch.probe, batch.frame[begin:last], batch.first_row + begin)
        waiting[name] = _Batch(batch.probe, batch.frame[last:], batch.first_row + last)
    yield from waiting.values()


def _run_length(users: Keys, user: np.uint64) -> int:
    """How many of the first users are `user`."""
    size = 4096
    while True:
        differs = users[:size] != user
        if differs.any():
            return int(differs.argmax())
        if size >= users.size:
            return int(users.size)
        size *= 16


def _rank(dtype: pl.DataType) -> pl.Expr:
    rank = pl.col("rank")
    if dtype.is_float():
        rank = pl.when(rank == rank.floor()).then(rank)
    return rank.cast(pl.Int32, strict=False).fill_null(NO_RANK).alias("rank")


def _score(dtype: pl.DataType) -> pl.Expr:
    """Scores as float64, or as int64 where they are integers that float64 might round."""
    if dtype.is_integer() and dtype not in (pl.UInt64, pl.Int128, pl.UInt128):
        return pl.col("score").cast(pl.Int64)
    return pl.col("score").cast(pl.Float64)


def _strengths(scores: pl.Series) -> tuple[Array, npt.NDArray[np.bool_] | None]:
    """Integers that order as the scores do, and which rows have no usable score, if any."""
    if scores.dtype == pl.Int64:
        if not scores.null_count():
            return as_array(scores), None
        return as_array(scores.fill_null(WORST)), scores.is_null().to_numpy()
    values = as_array(scores.fill_null(float("nan")))
    strengths = np.empty(values.size, dtype=np.int64)
    n_bad = kernels.strengths_of_floats(values.view(np.int64), strengths)
    return strengths, np.isnan(values) if n_bad else None


def _shared_strengths(codes: pl.Series, strengths: pl.Series, items: Keys) -> npt.NDArray[np.bool_]:
    """Which rows of sorted lists are as strong as a row of another item in their list."""
    if not items.size:
        return np.zeros(0, dtype=np.bool_)
    code, strength = as_array(codes), as_array(strengths)
    is_first = (code[1:] != code[:-1]) | (strength[1:] != strength[:-1])
    begins = np.concatenate([[0], np.flatnonzero(is_first) + 1])
    shared = np.minimum.reduceat(items, begins) != np.maximum.reduceat(items, begins)
    spread: npt.NDArray[np.bool_] = np.repeat(shared, np.diff([*begins, items.size]))
    return spread


def _checksums(n: int) -> npt.NDArray[np.uint64]:
    sums = np.empty(n, dtype=np.uint64)
    kernels.rank_checksums(sums)
    return sums
