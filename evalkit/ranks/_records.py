"""What probing writes into and gives back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalkit.errors import CountedError, EvalkitError
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Flags, Int32s, Ints, Keys
from evalkit.kernels.threads import ordered_map, slices_of
from evalkit.metrics import Lists
from evalkit.sources.ids import distinct_keys
from evalkit.truth import UserItems

NO_INTS: Ints = np.empty(0, dtype=np.int64)
NO_RANKS: Int32s = np.empty(0, dtype=np.int32)

NOT_RANKED = 2**31 - 1  # or the largest number that an entry of ranks holds
NO_RANK = -(2**31)  # of a row whose rank is null or no whole number
WORST = -(2**63)  # the strength of a score that is no number

# fields of a user's state, and how many a user has
ROWS, MAX_RANK, N_FIELDS = 0, 1, 4

# counters of one batch
UNKNOWN_ROWS, UNKNOWN_RUNS, KNOWN_RUNS, HITS, DUPLICATES, BAD_RANKS = range(6)
REAPPEARED, TIES, DEFERRED, BAD_SCORES, SEEN, TOO_DEEP, COPIES = range(6, 13)
N_COUNTERS = 13

RUNS = 64  # that are looked up together, so that memory answers while others are asked
WORDS_A_PIECE = 1 << 18  # of new memory, that one thread fills
CANDIDATES = 512  # rows whose items pass a filter, looked at together


@kernel(allocates=False)
def look_at_lists(small, present, lengths):  # type: ignore[no-untyped-def]
    """Whether users have a list, and its rows, from what `UserState` counts."""
    for user in range(present.size):
        lengths[user] = small[user * N_FIELDS + ROWS]
        present[user] = small[user * N_FIELDS + MAX_RANK] >= 0 or lengths[user] > 0


class DeepRanksError(Exception):
    """A rank is larger than what was taken to be enough: the log is read anew."""


class UserState(NamedTuple):
    """What is counted of each user's rows: 16 bytes, seen in two ways.

    Args:
        small: int32[n_users * 4]: rows, the largest rank (-1: no list), two halves of the checksum.
        wide: int64[n_users * 2], the same memory: the checksum of the ranks is every second one.
    """

    small: Int32s
    wide: Ints

    @classmethod
    def empty(cls, n_users: int, threads: int = 1) -> "UserState":
        """Nobody has a list; threads share the time that new memory takes."""
        wide = np.empty(2 * n_users, dtype=np.int64)

        def fill(piece: slice) -> None:
            wide[piece] = 0
            wide[piece].view(np.int32)[MAX_RANK::N_FIELDS] = -1

        for _ in ordered_map(fill, slices_of(wide.size, WORDS_A_PIECE), threads=threads):
            pass
        return cls(wide.view(np.int32), wide)

    @property
    def rows(self) -> Int32s:
        """int32[n_users], rows of each user's list."""
        return self.small[ROWS::N_FIELDS]

    @property
    def largest(self) -> Int32s:
        """int32[n_users], the largest rank of each user; -1 without any list."""
        return self.small[MAX_RANK::N_FIELDS]


@dataclass(frozen=True, slots=True)
class Dropped:
    """The written ranks of rows that were seen in training, which close up the lists.

    Args:
        users: uint64[n_rows], keys, sorted.
        ranks: int32[n_rows], ascending within a user.
    """

    users: Keys
    ranks: Int32s

    @classmethod
    def of(cls, users: Keys, ranks: Int32s) -> "Dropped":
        """Put rows in order."""
        order = np.lexsort((ranks, users))
        return cls(users[order], ranks[order])

    @classmethod
    def joined(cls, parts: "Sequence[Dropped]") -> "Dropped":
        """Put the rows of several parts in order."""
        users = np.concatenate([part.users for part in parts])
        return cls.of(users, np.concatenate([part.ranks for part in parts]))


@dataclass(frozen=True, slots=True)
class ListHits:
    """Every row that shows a relevant item, copies too, where lists were held whole.

    Args:
        starts: int64[n_users + 1], the rows of each user, by rank.
        places: int64[n_rows], of their items among the truth's.
        ranks: int32[n_rows], from 1.
        firsts, lasts: int32[n_rows], the ranks that rows of the same score take up together.
        untils: int32[n_rows], the smallest rank of a row that stands later in the log.
        positive: bool[n_rows], whether the score is above 0, or none is given.
    """

    starts: Ints
    places: Ints
    ranks: Int32s
    firsts: Int32s
    lasts: Int32s
    untils: Int32s
    positive: Flags

    @classmethod
    def joined(cls, n_users: int, parts: "Sequence[HitRows]") -> "ListHits":
        """The rows of several parts, each of which has all rows of its users."""
        users, *columns = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((columns[1], users))
        starts = np.searchsorted(users[order], np.arange(n_users + 1)).astype(np.int64)
        return cls(starts, *(each[order] for each in columns))


HitRows = tuple[npt.NDArray[Any], ...]  # users' codes and the columns of `ListHits`, in any order


class TiedRanks(NamedTuple):
    """Where rows of equal scores stand, whatever their order.

    Args:
        firsts, lasts: int16 or int32[n_places], the ranks that the rows of a hit's score take up
            together; 0 of a hit that shares its score with no row. Empty where none does.
    """

    firsts: npt.NDArray[np.int16 | np.int32]
    lasts: npt.NDArray[np.int16 | np.int32]

    def over(self, places: Ints) -> "TiedRanks":
        """Those of some places."""
        return TiedRanks(self.firsts[places], self.lasts[places]) if self.firsts.size else self


NO_TIES = TiedRanks(NO_RANKS, NO_RANKS)
_making = Lock()


@dataclass(slots=True)
class Ranks:
    """What the rankings of one model say about the truth.

    Args:
        ranks: int16 or int32[n_places] beside the truth's items; the largest number of its type
            where a list lacks the item.
        state: what was counted of each user's rows.
        copies: places and ranks of further copies of an item, by place, then rank.
        rows: the same and more, where lists were held whole and somebody asks.
        lists: the lists themselves, where metrics of lists are asked for.
        tied: of hits whose score other rows have too, until it is known what their order moves.
    """

    ranks: npt.NDArray[np.int16 | np.int32]
    state: UserState
    copy_places: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    copy_ranks: Int32s = field(default_factory=lambda: np.empty(0, np.int32))
    rows: ListHits | None = None
    lists: Lists | None = None
    tied: TiedRanks = NO_TIES

    def room_for_ties(self) -> TiedRanks:
        """Arrays for hits of equal scores, which are made when the first is met."""
        with _making:
            if not self.tied.firsts.size:
                self.tied = TiedRanks(np.zeros_like(self.ranks), np.zeros_like(self.ranks))
        return self.tied

    @classmethod
    def empty(cls, pairs: UserItems, threads: int = 1, *, is_deep: bool = True) -> "Ranks":
        """Nothing ranked yet; threads share the time that new memory takes.

        Args:
            is_deep: ranks of any size come, not only those below 32,767.
        """
        kind: type[np.int16] | type[np.int32] = np.int32 if is_deep else np.int16
        ranks = np.empty(pairs.n_places, dtype=kind)

        def fill(piece: slice) -> None:
            ranks[piece] = np.iinfo(kind).max

        for _ in ordered_map(fill, slices_of(ranks.size, WORDS_A_PIECE), threads=threads):
            pass
        state = UserState.empty(pairs.n_users, threads)
        return cls(ranks, state, tied=TiedRanks(ranks[:0], ranks[:0]))

    @property
    def lengths(self) -> Int32s:
        """int32[n_users], rows of each user's list."""
        return self.state.rows

    @property
    def present(self) -> Flags:
        """Whether the user has a list, be it an empty one."""
        return self.lists_of_users()[0]

    def lists_of_users(self) -> tuple[Flags, Int32s]:
        """Whether each user has a list, be it an empty one, and its rows."""
        present = np.empty(self.state.small.size // N_FIELDS, dtype=np.bool_)
        lengths = np.empty(present.size, dtype=np.int32)
        look_at_lists(self.state.small, present, lengths)
        return present, lengths

    def has_list(self, users: Ints) -> Flags:
        """bool[n], whether each of some users has a list, be it an empty one."""
        return (self.state.largest[users] >= 0) | (self.state.rows[users] > 0)

    @property
    def depth(self) -> int:
        """The deepest rank of any user of the truth."""
        if not self.state.small.size:
            return 0
        return max(0, int(self.state.rows.max()), int(self.state.largest.max()))


class RankedRows(NamedTuple):
    """Rows of rankings as kernels take them; what is not there is empty.

    Args:
        users, items: uint64[n_rows], keys.
        ranks: int32[n_rows], as given.
        strengths: int64[n_rows], which order as the scores do.
        orders: int64[n_rows], the smaller first among equal strengths.
    """

    users: Keys
    items: Keys
    ranks: Int32s = NO_RANKS
    strengths: Ints = NO_INTS
    orders: Ints = NO_INTS


class BestRows(NamedTuple):
    """What the first of two scans finds of the best row of each relevant item.

    Args:
        strengths, orders: int64[n_places], of that row; orders are empty where keys say them.
    """

    strengths: Ints
    orders: Ints

    @classmethod
    def nothing(cls, n_places: int, *, ordered: bool) -> "BestRows":
        """Nothing is shown yet."""
        strengths = np.full(n_places, WORST, dtype=np.int64)
        return cls(strengths, np.zeros(n_places if ordered else 0, dtype=np.int64))


class ShownItems(NamedTuple):
    """The relevant items that lists show, and what the second of two scans counts for each.

    Args:
        firsts: int64[n_users + 1], where those of each user begin, from strongest to weakest.
        marks: int64[n_shown * 2], which are used together: the strength of each, and how many rows
            beat this item and no stronger one.
        places: int64[n_shown].
        orders: int64[n_shown], of equally strong rows.
        tied: int32[n_shown], equal rows that stand before it.
        equal: int32[n_shown], rows that are as strong, without its own.
        by_key: a row's order is its item's key with the bits of `flip` turned over.
    """

    firsts: Ints
    marks: Ints
    places: Ints
    orders: Ints
    tied: Int32s
    equal: Int32s
    by_key: bool
    flip: np.uint64

    @classmethod
    def room(cls, firsts: Ints, flip: np.uint64 | None) -> "ShownItems":
        """Room for so many; nothing is counted."""
        n_shown = int(firsts[-1])
        return cls(
            firsts,
            np.zeros(2 * max(n_shown, 1), dtype=np.int64),
            np.empty(n_shown, dtype=np.int64),
            np.zeros(n_shown, dtype=np.int64),
            np.zeros(n_shown, dtype=np.int32),
            np.zeros(n_shown, dtype=np.int32),
            flip is not None,
            np.uint64(0) if flip is None else flip,
        )


class BatchResults(NamedTuple):
    """What one batch of rows gave, beside what it wrote into `Ranks`.

    Args:
        counters: int64[N_COUNTERS].
        unknown_users: keys of ranked users that the truth lacks, some of them several times.
        run_rows, run_codes: first row and user code of each run of rows of a known user.
        hit_rows, hit_places: row and place of each hit.
        copy_places, copy_ranks: copies of items that had been seen, and the worse of both ranks.
        deferred: rows whose order among equals needs the real ids.
        hit_ranks, begins, ends, entries, passes, candidates: room to work in.
    """

    counters: Ints
    unknown_users: Keys
    run_rows: Ints
    run_codes: Ints
    hit_rows: Ints
    hit_places: Ints
    copy_places: Ints
    copy_ranks: Int32s
    deferred: Ints
    hit_ranks: Ints
    begins: Ints
    ends: Ints
    entries: Ints
    passes: Bytes
    candidates: Ints

    @classmethod
    def room(cls, n_rows: int) -> "BatchResults":
        """Room for the most that `n_rows` rows can give."""

        def ints(n: int = n_rows) -> Ints:
            return np.empty(n, dtype=np.int64)

        return cls(
            counters=np.zeros(N_COUNTERS, dtype=np.int64),
            unknown_users=np.empty(n_rows, dtype=np.uint64),
            run_rows=ints(),
            run_codes=ints(),
            hit_rows=ints(),
            hit_places=ints(),
            copy_places=ints(),
            copy_ranks=np.empty(n_rows, dtype=np.int32),
            deferred=ints(),
            hit_ranks=ints(),
            begins=ints(2 * RUNS),
            ends=ints(2 * RUNS),
            entries=ints(RUNS),
            passes=np.empty(CANDIDATES, dtype=np.uint8),
            candidates=ints(CANDIDATES),
        )

    @classmethod
    def counted(cls, counters: Ints) -> "BatchResults":
        """What was counted, and nothing else."""
        return cls.room(0)._replace(counters=counters)

    def kept(self, *, with_hits: bool = False) -> "BatchResults":
        """Copies of what has been found, so that the room can be used again."""
        counters = self.counters.copy()
        n_hits = int(counters[HITS]) if with_hits else 0
        n_copies = int(counters[DUPLICATES])
        return self._replace(
            counters=counters,
            unknown_users=self.unknown_users[: int(counters[UNKNOWN_RUNS])].copy(),
            run_rows=NO_INTS,
            run_codes=NO_INTS,
            hit_rows=self.hit_rows[:n_hits].copy(),
            hit_places=self.hit_places[:n_hits].copy(),
            copy_places=self.copy_places[:n_copies].copy(),
            copy_ranks=self.copy_ranks[:n_copies].copy(),
            deferred=self.deferred[: int(counters[DEFERRED])].copy(),
        )


KEPT_UNKNOWN = 1 << 22  # keys of unknown users, with repeats, before they are made distinct


@dataclass(slots=True)
class ModelProbe:
    """The ranks of one model, and where its rows went.

    Args:
        searched: which duplicates were looked for: "relevant" or "all".
        copied_rows: rows of the lists looked at that list an item of any kind again.
        several_lists: users of the truth with more than one row of a table of lists.
        given: the state of the ranks as given, where lists are put in order anew.
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
    copied_rows: int = 0
    several_lists: int = 0
    users_with_bad_ranks: int = 0
    score_disagreements: int = 0
    problems: list[EvalkitError] = field(default_factory=list)
    unknown_keys: list[Keys] = field(default_factory=list)
    copies: list[tuple[Ints, Int32s]] = field(default_factory=list)
    n_kept_unknown: int = 0
    users_without_truth: int = 0
    strengths: Ints = field(default_factory=lambda: NO_INTS)
    given: UserState | None = None
    hit_rows: list[HitRows] = field(default_factory=list)  # for `Ranks.rows`

    def refuse_rows(self, code: str, n: int, message: str, at: str, hint: str, **told: Any) -> None:
        """Note rows that a policy does not allow, as `CountedError` tells them."""
        self.problems.append(CountedError(message, n, code=code, at=at, hint=hint, **told))

    def start_as(self, other: "ModelProbe") -> None:
        """Take over what was counted of the same rows for `other`."""
        counts = ("rows", "null_ids", "unknown_rows", "not_sampled", "bad_scores", "bad_rank_rows")
        for name in (*counts, "seen", "several_lists", "n_kept_unknown"):
            setattr(self, name, getattr(other, name))
        self.unknown_keys = list(other.unknown_keys)
        mine, theirs = self.ranks.state.largest, other.ranks.state.largest
        np.maximum(mine, np.minimum(theirs, 0), out=mine)  # empty lists
        if self.given is not None and other.given is not None:
            self.given.wide[:] = other.given.wide

    def take(self, found: BatchResults) -> None:
        """Add what a batch gave."""
        counters = found.counters
        if counters[TOO_DEEP]:
            raise DeepRanksError
        self.duplicates += int(counters[DUPLICATES])
        self.ties += int(counters[TIES])
        self.copied_rows += int(counters[COPIES])
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
            distinct = distinct_keys(np.concatenate(self.unknown_keys))
            self.unknown_keys = [distinct]
            self.n_kept_unknown = 0
