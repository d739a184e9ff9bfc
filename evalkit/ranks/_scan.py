"""How a rankings log is read and its rows are probed, batch by batch."""

# Long: one scan, whose steps share its state.

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from evalkit.config import Policies
from evalkit.errors import DataError
from evalkit.kernels.arrays import Bytes, Flags, Int32s, Ints, Keys
from evalkit.kernels.threads import finished_map, ordered_map
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._copies import MANY_ROWS, TEXT_ROW, count_copies
from evalkit.ranks._counting import count_strengths
from evalkit.ranks._order import order_in_batch
from evalkit.ranks._records import (
    BAD_RANKS,
    BAD_SCORES,
    COPIES,
    DEFERRED,
    HITS,
    KNOWN_RUNS,
    N_COUNTERS,
    NO_INTS,
    NO_RANK,
    NO_RANKS,
    REAPPEARED,
    SEEN,
    UNKNOWN_ROWS,
    WORST,
    BatchResults,
    Dropped,
    ModelProbe,
    RankedRows,
    Ranks,
    UserState,
)
from evalkit.ranks._rows import (
    Batch,
    cut_by_user,
    make_checksums,
    rank_column,
    rows_of,
    score_column,
    strengths_of_scores,
    unshifted,
)
from evalkit.ranks._unsorted import Gatherer, Portion, are_unsorted
from evalkit.sources import Table, reading
from evalkit.sources.hints import keep_rows
from evalkit.sources.ids import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    KeyCollisionError,
    Sample,
    Share,
    as_array,
    as_keys,
    ids_follow_keys,
)
from evalkit.truth import BATCH_ROWS, Train, Truth, choose_rows, rows_together

if TYPE_CHECKING:
    from evalkit.item_lists import ListCollector

BATCH_LISTS = 1 << 12
SMALL_LOG = 1 << 25  # rows, up to which a row group more would save no time, and take 80 MiB
WHOLE_LIST_TIES = ("numba", "numba-reversed", "mean-rank", "last-rank")

Mode = Literal["rank", "strength", "place"]


class ReappearedError(Exception):
    """A user came back after its rows had ended: ranks by counting need two scans."""


def are_held_whole(
    policies: Policies, *, has_rank: bool, has_score: bool, depth: int | None = 0
) -> bool:
    """Whether policies ask of lists what hits alone cannot say.

    Args:
        depth: ranks of the lists themselves that are asked for; None for all.
    """
    if depth is None or (depth and has_rank and policies.bad_ranks == "keep"):
        return True  # rows may share a rank
    if has_score and not has_rank and policies.ties in WHOLE_LIST_TIES:
        return True
    if has_rank and policies.bad_ranks != "compress":
        looked_for = ("first", "last", "multiply", *(("best",) if depth else ()))
        return policies.duplicates in looked_for  # copies
    return policies.duplicates != "error"


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
    detailed: bool = False  # somebody asks for `Ranks.rows`
    collector: "ListCollector | None" = None  # somebody asks for `Ranks.lists`
    known_models: Sequence[str] = ()  # that other shares have rows of
    room: int = 0  # bytes of rows that may be held, so that they are read once
    columns: tuple[str, ...] = field(init=False)
    probes: dict[str, ModelProbe] = field(default_factory=dict)
    checksums: Keys = field(default_factory=lambda: make_checksums(4096))
    rooms: SimpleQueue[BatchResults] = field(default_factory=SimpleQueue)
    dropped: dict[str, Dropped] = field(default_factory=dict)  # of the whole log, by model
    n_lists: dict[str, Bytes] = field(default_factory=dict)  # of users, up to 2
    gatherer: Gatherer | None = None  # of rows whose users lie apart
    one_list_in: int = field(init=False)  # lists that are searched for copies
    is_deep: bool = False  # ranks may be too large for two bytes

    def __post_init__(self) -> None:
        self.columns = tuple(self.table.frame.collect_schema())
        self.one_list_in = 1 if self.about_rows < MANY_ROWS else 16

    @property
    def has_rank(self) -> bool:
        """Whether the log names ranks."""
        return "rank" in self.columns

    @property
    def has_score(self) -> bool:
        """Whether the log names scores."""
        return "score" in self.columns

    @property
    def about_rows(self) -> int:
        """Rows of the log, of a share of it too, as far as its size tells."""
        hint = self.table.n_rows_hint()
        return (self.table.n_text_bytes or 0) // TEXT_ROW if hint is None else hint

    @property
    def mode(self) -> Mode:
        """Ranks as given, ranks counted from strengths, or a row's place in its user's rows."""
        if self.has_rank:
            return "strength" if self.policies.bad_ranks == "compress" else "rank"
        return "strength" if self.has_score else "place"

    @property
    def has_equals(self) -> bool:
        """Whether equal scores may leave rows without an order."""
        return self.has_score and not self.has_rank

    @property
    def needs_whole_lists(self) -> bool:
        """Whether a policy asks for what hits alone cannot say."""
        return self.detailed or are_held_whole(
            self.policies,
            has_rank=self.has_rank,
            has_score=self.has_score,
            depth=0 if self.collector is None else self.collector.depth,
        )

    # -- reading ---------------------------------------------------------------------------

    def _columns(self) -> list[pl.Expr]:
        schema = self.table.frame.collect_schema()
        columns = [pl.col(ITEM)] if self.table.is_list else []
        if self.has_rank:
            columns.append(rank_column(schema["rank"]))
        if self.has_score and not (self.has_rank and self.mode == "strength"):
            columns.append(
                pl.col("score") if self.table.is_list else self.score_column(schema["score"])
            )
        if "model" in schema:
            columns.append(pl.col("model").cast(pl.String))
        return columns

    def score_column(self, dtype: pl.DataType) -> pl.Expr:
        """Scores in the type in which they are compared."""
        column = score_column(dtype)
        if self.policies.score_type == "float32" and not self.needs_whole_lists:
            column = pl.col("score") if dtype == pl.UInt64 else column
            return column.cast(pl.Float32)
        return column

    def values_of(self, scores: pl.Series) -> pl.Series:
        """What the scores of a batch are in the log, for whoever looks at more than their order."""
        dtype = self.table.frame.collect_schema()["score"]
        inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else dtype
        return unshifted(scores) if inner == pl.UInt64 else scores

    def batches(self) -> Iterator[Batch]:
        """The rows of the log, counted, by model, as they stand in the log."""
        first_row = 0
        most, is_hashed = BATCH_LISTS, self.truth.user_plan.hashed or self.truth.item_plan.hashed
        if not self.table.is_list:
            most = rows_together(self.share, has_texts=is_hashed)
        keys = {USER_KEY: self.truth.user_plan}
        if not self.table.is_list:
            keys[ITEM_KEY] = self.truth.item_plan
        two_ahead = self.share is None and not is_hashed and self.about_rows > SMALL_LOG
        columns = self._columns()
        self.n_lists.clear()
        for rows in self.table.stream(columns, keys=keys, most=most, two_ahead=two_ahead):
            flat = self._explode(rows) if self.table.is_list else rows
            if self.has_rank and flat["rank"].null_count():
                flat = flat.with_columns(pl.col("rank").fill_null(NO_RANK))
            for name, part in self._split_models(flat):
                probe = self.probe_of(name)
                kept = self._rows_of_ours(probe, part)
                if kept.height:
                    yield Batch(probe, kept, first_row)
            first_row += flat.height
            if self.progress is not None:
                self.progress(flat.height)

    def _rows_of_ours(self, probe: ModelProbe, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with ids, of this share of the users and of the sample; the others are counted."""
        kept, n_null, not_sampled = choose_rows(rows, self.share, self.sample)
        probe.null_ids += n_null
        probe.not_sampled += not_sampled
        probe.rows += kept.height + n_null + not_sampled
        return kept

    def _explode(self, lists: pl.DataFrame) -> pl.DataFrame:
        if lists[ITEM].null_count():
            lists = lists.filter(pl.col(ITEM).is_not_null())
        lengths = lists[ITEM].list.len()
        if bool((lengths == 0).any()):
            for name, part in self._split_models(lists.filter(lengths == 0)):
                self._mark_present(self.probe_of(name), part)
            lists, lengths = lists.filter(lengths > 0), lengths.filter(lengths > 0)
        for name, part in self._split_models(lists):
            self._count_lists(self.probe_of(name), part)
        columns = [ITEM, "score"] if "score" in lists.columns else [ITEM]
        if "score" in columns and bool(lists["score"].list.len().ne_missing(lengths).any()):
            message = "lists of items and of scores differ in length"
            hint = "give every item one score"
            raise DataError(message, code="ragged-lists", at=self.table.at, hint=hint)
        flat = lists.explode(columns)
        others = [name for name in flat.columns if name not in (ITEM, "score")]
        keys = self.truth.item_plan.select(ITEM_KEY)
        score = [self.score_column(flat.schema["score"])] if "score" in columns else []
        return flat.select(*others, *keys, *score)

    def _count_lists(self, probe: ModelProbe, lists: pl.DataFrame) -> None:
        """Note users of the truth who have had a list before, which goes on in this one."""
        if probe.model not in self.n_lists:
            self.n_lists[probe.model] = np.zeros(self.truth.pairs.n_users, dtype=np.uint8)
            probe.several_lists = 0
        users, index = as_keys(lists[USER_KEY].drop_nulls()), self.truth.pairs.index
        probe.several_lists += kernels.count_lists(users, index, self.n_lists[probe.model])

    def _mark_present(self, probe: ModelProbe, lists: pl.DataFrame) -> None:
        lists = lists.drop_nulls(USER_KEY)
        if self.sample is not None:
            lists = lists.filter(pl.Series(self.sample.holds(lists)))
        if self.share is not None:
            lists = lists.filter(pl.Series(self.share.holds(lists)))
        users = as_keys(lists[USER_KEY])
        codes = self.codes(users)
        largest = probe.ranks.state.largest
        largest[codes[codes >= 0]] = np.maximum(largest[codes[codes >= 0]], 0)
        probe.keep_unknown(users[codes < 0])

    def codes(self, users: Keys) -> Ints:
        """User code of each row, -1 for users that the truth lacks."""
        return self.truth.pairs.codes_of(users)

    def _split_models(self, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
        if "model" not in rows.columns:
            yield self.model or "", rows
            return
        if rows["model"].null_count():
            message = "rows of the rankings name no model"
            hint = keep_rows(self.table, "model")
            raise DataError(message, code="null-model", at=self.table.at, hint=hint)
        for name, part in rows.partition_by(
            "model", maintain_order=True, include_key=False, as_dict=True
        ).items():
            yield str(name[0]), part

    def probe_of(self, name: str) -> ModelProbe:
        """What is known of a model; made when the model is first met."""
        if name not in self.probes:
            probe = ModelProbe(
                name,
                Ranks.empty(self.truth.pairs, self.threads, is_deep=self.is_deep),
                "all"
                if self.needs_whole_lists and self.policies.duplicates != "error"
                else "relevant",
            )
            if self.mode == "rank" and self.has_score:
                probe.strengths = np.full(self.truth.pairs.n_places, WORST, dtype=np.int64)
            if self.has_rank and (
                self.mode == "strength" or self.needs_whole_lists or self.drop_seen
            ):
                probe.given = UserState.empty(self.truth.pairs.n_users)
            self.probes[name] = probe
        return self.probes[name]

    def scan(
        self, work: Callable[[Batch], list[tuple[str, BatchResults]]], *, whole_users: bool
    ) -> None:
        """Stream the log through `work`; `whole_users`: no batch cuts a user's run of rows."""
        of_lists = self.table.is_list and self.model is not None
        cut = cut_by_user(self.batches(), of_lists=of_lists)
        batches = cut if whole_users else self._gather_apart()
        with reading(self.table):
            for results in finished_map(work, batches, threads=self.threads):  # sums alone
                for model, found in results:
                    if whole_users and found.counters[REAPPEARED]:
                        raise ReappearedError
                    self.probes[model].take(found)
        if self.gatherer is not None:
            for model, found in self.gatherer.finish(self.threads):
                self.probes[model].take(found)

    def _gather_apart(self) -> Iterator[Batch]:
        """All batches; from the first one on rows are gathered, if its users lie apart."""
        for number, batch in enumerate(self.batches()):
            if number == 0 and are_unsorted(as_keys(batch.frame[USER_KEY])):
                self.gatherer = self.gather(self._look_up_apart, self.verified)
            yield batch

    def gather(
        self,
        look_up: Callable[[str, Portion, BatchResults], None],
        settle: Callable[[BatchResults, pl.DataFrame], BatchResults],
        *,
        at_once: bool = False,
    ) -> Gatherer:
        """What gathers this log's rows; hashed ids are compared while their batch is there.

        Where a memory limit makes shares of the users, no more than a batch waits either.
        """
        is_hashed = self.truth.user_plan.hashed or self.truth.item_plan.hashed
        at_once |= is_hashed or self.share is not None
        given = self.truth.pairs.index, look_up, self.take_room, settle
        return Gatherer(*given, at_once, is_wide=is_hashed)

    def _look_up_apart(self, model: str, portion: Portion, found: BatchResults) -> None:
        probe, first = self.probes[model], self.policies.first_rank
        ranks, state = probe.ranks.ranks, probe.ranks.state
        index, strengths = self.truth.pairs.index, probe.strengths
        kernels.probe_unsorted(portion, first - 1, index, ranks, strengths, state, found)

    # -- the work on one batch ---------------------------------------------------------------

    def probe_ranks(self, batch: Batch) -> list[tuple[str, BatchResults]]:
        """Probe a batch whose ranks are given."""
        model = batch.probe.model
        has_reappeared = self.note_ranks(batch)
        ranks, row_counts = as_array(batch.frame["rank"]), np.zeros(N_COUNTERS, dtype=np.int64)
        if self.train is not None:
            seen = self.seen_ranked(batch.frame)
            self._count_seen(batch.frame, seen, row_counts)
            if self.drop_seen:
                batch, ranks = self._without(seen, batch)
        if self.collector is not None:
            index, first = self.truth.pairs.index, self.policies.first_rank
            self.collector.place(batch.probe.model, batch.frame, index, ranks, first)
        strengths = NO_INTS
        if self.has_score:
            strengths, _ = strengths_of_scores(batch.frame["score"])
        if self.gatherer is not None:
            rows = rows_of(batch.frame)._replace(ranks=ranks, strengths=strengths)
            return [
                (model, BatchResults.counted(row_counts)),
                *self.gatherer.add(model, rows, batch.frame),
            ]
        found = self.lower(batch, ranks, strengths)
        found.counters[:] += row_counts
        found.counters[REAPPEARED] |= has_reappeared
        return [(model, found)]

    def _count_seen(self, frame: pl.DataFrame, seen: Flags, row_counts: Ints) -> None:
        """Count rows that the training log holds; those of users whom the truth lacks as theirs."""
        row_counts[SEEN] = n_seen = int(seen.sum())
        is_extra = self.truth.is_extra
        if n_seen and is_extra is not None and self.policies.unknown_users != "count":
            row_counts[SEEN] -= int(is_extra[self.codes(as_keys(frame[USER_KEY])[seen])].sum())
            row_counts[UNKNOWN_ROWS] = (n_seen - row_counts[SEEN]) * self.drop_seen

    def _without(self, seen: Flags, batch: Batch) -> tuple[Batch, Int32s]:
        """The rows of a batch that were not seen, and their ranks with the gaps closed."""
        dropped = self.dropped.get(batch.probe.model) or self.dropped_of(seen, batch.frame)
        if not dropped.users.size:
            return batch, as_array(batch.frame["rank"])
        kept = batch.frame.filter(pl.Series(~seen)) if seen.any() else batch.frame
        return Batch(batch.probe, kept, batch.first_row), self.closed_up(kept, dropped)

    def dropped_of(self, seen: Flags, frame: pl.DataFrame) -> Dropped:
        """The rows of a frame that were seen."""
        return Dropped.of(as_keys(frame[USER_KEY])[seen], as_array(frame["rank"])[seen])

    def closed_up(self, frame: pl.DataFrame, dropped: Dropped) -> Int32s:
        """Ranks as written, each less the dropped rows of its user that were ranked better."""
        ranks = np.empty(frame.height, dtype=np.int32)
        kernels.close_up(
            as_keys(frame[USER_KEY]),
            as_array(frame["rank"]),
            self.policies.first_rank,
            dropped.users,
            dropped.ranks,
            ranks,
        )
        return ranks

    def find_dropped(self) -> None:
        """Read the log once for the rows that were seen, where users come back later in it."""
        found: dict[str, list[Dropped]] = {}

        def find(batch: Batch) -> tuple[str, Dropped]:
            dropped = self.dropped_of(self.seen_ranked(batch.frame), batch.frame)
            return batch.probe.model, dropped

        with reading(self.table):
            for model, dropped in ordered_map(find, self.batches(), threads=self.threads):
                found.setdefault(model, []).append(dropped)
        self.dropped = {model: Dropped.joined(parts) for model, parts in found.items()}
        self.probes.clear()

    def probe_places(self, batch: Batch) -> list[tuple[str, BatchResults]]:
        """Probe a batch in which a row's rank is its place in its user's rows."""
        batch, strengths, row_counts = self.drop_rows(batch)
        self.collect(batch, strengths, has_all_rows=True)
        self.count_copies(rows_of(batch.frame), row_counts)
        found = self.lower(batch, NO_RANKS, NO_INTS)
        found.counters[:] += row_counts
        return [(batch.probe.model, found)]

    def collect(self, batch: Batch, strengths: Ints, *, has_all_rows: bool) -> None:
        """Put rows into the lists that somebody asks for.

        Args:
            has_all_rows: of each of their users.
        """
        if self.collector is not None:
            given = batch.probe.model, batch.frame, self.truth.pairs.index, strengths
            self.collector.insert(*given, self.policies.ties, has_all_rows=has_all_rows)

    def count_copies(self, rows: RankedRows, counters: Ints) -> None:
        """Count rows that list an item of any kind again, in all lists, or in some of many."""
        if self.policies.duplicates == "error":
            counters[COPIES] = count_copies(rows, self.truth.pairs.index, self.one_list_in)

    def restart(self, *, is_deep: bool = False) -> None:
        """Forget what has been found: the log is read anew."""
        self.is_deep |= is_deep
        self.probes.clear()
        self.gatherer = None
        if self.collector is not None:
            self.collector.restart()

    def lower(
        self, batch: Batch, ranks: Int32s, strengths: Ints, *, with_hits: bool = False
    ) -> BatchResults:
        """Run the kernel that lowers ranks, and check what it matched by hashed ids."""
        rows = rows_of(batch.frame)._replace(ranks=ranks, strengths=strengths)
        found = self.take_room(rows.users.size)
        kernels.probe_ranks(
            rows,
            self.policies.first_rank - 1,
            self.truth.pairs.index,
            batch.probe.ranks.ranks,
            batch.probe.strengths,
            batch.probe.ranks.state,
            self.checksums,
            found,
        )
        return self.verified(found, batch.frame, with_hits=with_hits)

    def take_room(self, n_rows: int) -> BatchResults:
        """Room for what a batch gives, which another batch may have used before."""
        room = None
        with suppress(Empty):
            room = self.rooms.get_nowait()
        if room is None or room.unknown_users.size < n_rows:
            room = BatchResults.room(max(n_rows, BATCH_ROWS if n_rows > BATCH_ROWS // 64 else 0))
        room.counters[:] = 0
        return room

    def give_room_back(self, room: BatchResults, *, with_hits: bool = False) -> BatchResults:
        """What was found, in arrays of its own."""
        found = room.kept(with_hits=with_hits)
        self.rooms.put(room)
        return found

    def verified(
        self, room: BatchResults, frame: pl.DataFrame, *, with_hits: bool = False
    ) -> BatchResults:
        """The same of rows of a frame, whose hashed ids are compared."""
        self.verify(frame, room)
        return self.give_room_back(room, with_hits=with_hits)

    def note_ranks(self, batch: Batch) -> bool:
        """Look at ranks as given before they become an order; whether a user came back."""
        return batch.probe.given is not None and self.note_into(batch.probe.given, batch.frame)

    def note_into(self, state: UserState, frame: pl.DataFrame) -> bool:
        """Note rows, largest rank and checksum of users; whether one of them had been noted."""
        return bool(
            kernels.note_ranks(
                as_keys(frame[USER_KEY]),
                as_array(frame["rank"]),
                self.policies.first_rank - 1,
                self.lowest_rank,
                self.truth.pairs.index,
                state,
            )
        )

    def count_strengths(self, batch: Batch) -> list[tuple[str, BatchResults]]:
        """Probe a batch whose ranks are counted from strengths."""
        self.note_ranks(batch)
        batch, strengths, row_counts = self.drop_rows(batch)
        self.collect(batch, strengths, has_all_rows=True)
        self.count_copies(rows_of(batch.frame), row_counts)
        found = self._count(batch, strengths, NO_INTS, second_look=False)
        found.counters[:] += row_counts
        model = batch.probe.model
        if not found.counters[DEFERRED]:
            return [(model, found)]
        rows = found.deferred
        frame = batch.frame[rows]
        orders = order_in_batch(
            self.policies.ties,
            self.truth.item_plan,
            frame,
            as_keys(frame[ITEM_KEY]),
            batch.first_row + rows,
        )
        again = Batch(batch.probe, frame, batch.first_row)
        second = self._count(again, strengths[rows], orders, second_look=True)
        return [(model, found), (model, second)]

    def _count(
        self, batch: Batch, strengths: Ints, orders: Ints, *, second_look: bool
    ) -> BatchResults:
        rows = rows_of(batch.frame)._replace(strengths=strengths, orders=orders)
        found, ranks = self.take_room(rows.users.size), batch.probe.ranks
        tied = ranks.room_for_ties() if second_look else ranks.tied
        index = self.truth.pairs.index
        count_strengths(rows, index, ranks.ranks, ranks.state, found, second_look, tied)
        return self.verified(found, batch.frame)

    def drop_rows(self, batch: Batch) -> tuple[Batch, Ints, Ints]:
        """The batch without rows that never get a rank, strengths of the others, and counts."""
        frame = batch.frame
        row_counts = np.zeros(N_COUNTERS, dtype=np.int64)
        strengths, bad = self._strengths_of(batch)
        if bad is not None:
            row_counts[BAD_RANKS if self.has_rank else BAD_SCORES] = bad.sum()
            if self.has_rank or self.policies.bad_scores == "drop":
                frame, strengths = frame.filter(pl.Series(~bad)), strengths[~bad]
        seen, _ = self.seen(frame)
        self._count_seen(frame, seen, row_counts)
        if self.drop_seen and seen.any():
            frame, strengths = frame.filter(pl.Series(~seen)), strengths[~seen]
        return Batch(batch.probe, frame, batch.first_row), strengths, row_counts

    @property
    def lowest_rank(self) -> int:
        """The lowest rank that gives a row its place; compressing takes any, as an order."""
        return NO_RANK + 1 if self.policies.bad_ranks == "compress" else self.policies.first_rank

    def _strengths_of(self, batch: Batch) -> tuple[Ints, Flags | None]:
        """Integers that order as the list does, and which rows have no place in it, if any."""
        frame = batch.frame
        if self.has_rank:
            ranks = as_array(frame["rank"])
            bad = ranks < self.lowest_rank
            if bad.any():  # rows of unknown users are counted as such, whatever their ranks
                bad[bad] = self.codes(as_keys(frame[USER_KEY])[bad]) >= 0
            return -ranks.astype(np.int64), bad if bad.any() else None
        if self.has_score:
            return strengths_of_scores(frame["score"])
        first = batch.first_row
        return -np.arange(first, first + frame.height, dtype=np.int64), None

    def seen_ranked(self, frame: pl.DataFrame) -> Flags:
        """Which rows the training log holds and whose written rank is a place in a list."""
        seen, _ = self.seen(frame)
        in_list: Flags = as_array(frame["rank"]) >= self.policies.first_rank
        return seen & in_list

    def seen(self, frame: pl.DataFrame) -> tuple[Flags, int]:
        """Which rows the training log holds, and how many."""
        train = self.train
        if train is None:
            return np.empty(0, dtype=np.bool_), 0
        users, items = as_keys(frame[USER_KEY]), as_keys(frame[ITEM_KEY])
        seen = np.zeros(users.size, dtype=np.bool_)
        room = self.take_room(users.size)
        n_seen = kernels.mark_seen(users, items, train.pairs.index, room, seen)
        self.rooms.put(room)
        known = train.known_items
        if n_seen and known is not None:
            if not known.are_those_of(items, frame, np.flatnonzero(seen)):
                raise KeyCollisionError
        return seen, int(n_seen)

    def verify(self, frame: pl.DataFrame, found: BatchResults) -> None:
        """Compare the real ids of what matched by hashed keys."""
        truth, counters = self.truth, found.counters
        if truth.known_users is not None:
            keys, rows = as_keys(frame[USER_KEY]), found.run_rows[: counters[KNOWN_RUNS]]
            if not truth.known_users.are_those_of(keys, frame, rows):
                raise KeyCollisionError
            columns = [frame[name] for name in truth.user_plan.columns]
            if not ids_follow_keys(columns, keys):
                raise KeyCollisionError
        if truth.known_items is not None and counters[HITS]:
            keys, rows = as_keys(frame[ITEM_KEY]), found.hit_rows[: counters[HITS]]
            if not truth.known_items.are_those_of(keys, frame, rows):
                raise KeyCollisionError
