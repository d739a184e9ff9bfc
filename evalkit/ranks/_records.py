"""What probing writes into and gives back."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evalkit.errors import EvalkitError
from evalkit.keys import Keys
from evalkit.pairs import UserItems

Array = npt.NDArray[np.int64]

NO_INTS: Array = np.empty(0, dtype=np.int64)
NO_RANKS: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)

NOT_RANKED = 2**31 - 1
NO_RANK = -(2**31)  # of a row whose rank is null or no whole number
WORST = -(2**63)  # the strength of a score that is no number

# fields of a user's state
ROWS, MAX_RANK, CHECK, PRESENT = range(4)

# counters of one batch
UNKNOWN_ROWS, UNKNOWN_RUNS, KNOWN_RUNS, HITS, DUPLICATES, BAD_RANKS = range(6)
REAPPEARED, TIES, DEFERRED, BAD_SCORES, SEEN = range(6, 11)
N_COUNTERS = 11


@dataclass(slots=True)
class Ranks:
    """What the rankings of one model say about the truth.

    Args:
        ranks: int32[n_places] beside the truth's items; NOT_RANKED where a list lacks the item.
        state: int64[n_users * 4]: rows, largest rank, checksum of ranks, whether a list exists.
        copies: places and ranks of further copies of an item, by place, then rank.
    """

    ranks: npt.NDArray[np.int32]
    state: npt.NDArray[np.int64]
    copy_places: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    copy_ranks: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    @classmethod
    def empty(cls, pairs: UserItems) -> "Ranks":
        """Nothing ranked yet."""
        ranks = np.full(pairs.items.size, NOT_RANKED, dtype=np.int32)
        return cls(ranks, np.zeros(4 * pairs.n_users, dtype=np.int64))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """int64[n_users], rows of each user's list."""
        return self.state[ROWS::4]

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Whether the user has a list, be it an empty one."""
        return (self.state[PRESENT::4] > 0) | (self.state[ROWS::4] > 0)

    @property
    def depth(self) -> int:
        """The deepest rank of any user of the truth."""
        if not self.state.size:
            return 0
        return int(max(self.state[ROWS::4].max(), self.state[MAX_RANK::4].max()))


@dataclass(slots=True)
class Found:
    """What one batch of rows gave, beside what it wrote into `Ranks`.

    Args:
        counters: int64[N_COUNTERS].
        unknown_users: keys of ranked users that the truth lacks, some of them several times.
        run_rows, run_codes: first row and user code of each run of rows of a known user.
        hit_rows, hit_places: row and place of each hit.
        copy_places, copy_ranks: copies of items that had been seen, and the worse of both ranks.
        deferred: rows whose order among equals needs the real ids.
    """

    counters: npt.NDArray[np.int64]
    unknown_users: Keys
    run_rows: npt.NDArray[np.int64]
    run_codes: npt.NDArray[np.int64]
    hit_rows: npt.NDArray[np.int64]
    hit_places: npt.NDArray[np.int64]
    copy_places: npt.NDArray[np.int64]
    copy_ranks: npt.NDArray[np.int32]
    deferred: npt.NDArray[np.int64]

    @classmethod
    def room(cls, n_rows: int, n_deferred: int = 0) -> "Found":
        """Room for the most that `n_rows` rows can give."""
        return cls(
            np.zeros(N_COUNTERS, dtype=np.int64),
            np.empty(n_rows, dtype=np.uint64),
            np.empty(n_rows, dtype=np.int64),
            np.empty(n_rows, dtype=np.int64),
            np.empty(n_rows, dtype=np.int64),
            np.empty(n_rows, dtype=np.int64),
            np.empty(n_rows, dtype=np.int64),
            np.empty(n_rows, dtype=np.int32),
            np.empty(n_deferred, dtype=np.int64),
        )

    def trim(self) -> "Found":
        """The same without unused room."""
        known, hits = int(self.counters[KNOWN_RUNS]), int(self.counters[HITS])
        copies = int(self.counters[DUPLICATES])
        return Found(
            self.counters,
            self.unknown_users[: int(self.counters[UNKNOWN_RUNS])].copy(),
            self.run_rows[:known],
            self.run_codes[:known],
            self.hit_rows[:hits],
            self.hit_places[:hits],
            self.copy_places[:copies].copy(),
            self.copy_ranks[:copies].copy(),
            self.deferred[: int(self.counters[DEFERRED])],
        )


KEPT_UNKNOWN = 1 << 22  # keys of unknown users, with repeats, before they are made distinct


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
    strengths: Array = field(default_factory=lambda: NO_INTS)
    given_ranks: Array = field(default_factory=lambda: NO_INTS)

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
