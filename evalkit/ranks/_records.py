"""What probing writes into and gives back."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evalkit.keys import Keys
from evalkit.pairs import UserItems

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
