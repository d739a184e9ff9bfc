"""Fisher's sign-flip test of paired differences, in the pass over the users.

Were the two models alike, each user's difference could as well have had the other sign. The test
asks how many choices of signs give a sum at least as far from 0. Up to 18 users that differ, all
choices are tried; of more, `replicates` random ones, whose signs are hashes of seed, user key and
replicate (`_draws` says which), so that neither order nor threads nor shards can change a bit.

Differences are rounded to a grid of 2^-36 of the largest possible one, so that sums are whole
numbers. Sums that differ by less than this rounding may have moved them count as equally far.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evalkit.kernels.arrays import Floats, Int32s, Ints, Keys

from ._draws import CHUNK, GRID_BITS, MOST_USERS, SIGNS, Drawn, add_weighted
from ._grid import grid_exponent
from .bootstrap import check_replicates, prepare_block, refuse_users
from .paired import PairedTest
from .tails import p_of_draws

MOST_EXACT = 18  # 262,144 choices of signs
SIGN_SEED = 0x5851F42D4C957F2D  # signs and Poisson weights of one seed have nothing in common


def estimate_bytes(n_columns: int, *, replicates: int, n_segments: int = 1) -> int:
    """Peak memory of one `SignFlips`, of which every thread has one."""
    chunks = -(-replicates // CHUNK) * CHUNK
    return 8 * n_segments * (chunks * (n_columns + 1) + n_columns * (2 + MOST_EXACT))


class FlipsState(NamedTuple):
    """Sums under random signs as they are kept in a file."""

    replicates: int
    seed: int
    n_users: int
    exponents: Ints
    sums: Ints
    totals: Ints
    counts: Ints
    few: dict[tuple[int, int], list[int]]


class SignFlips:
    """Sums of differences under random signs, while they are filled.

    Args:
        largest: for each column a bound of the absolute differences.
        replicates: at least 100.
        seed: any integer; the report repeats it.
        n_segments: segments that are kept apart; all users together are their sum.
    Raises:
        RequestError: there are too few replicates [too-few-replicates].
    """

    def __init__(
        self, largest: Sequence[float], *, replicates: int, seed: int, n_segments: int = 1
    ) -> None:
        check_replicates(replicates)
        n_columns = len(largest)
        chunks = -(-replicates // CHUNK) * CHUNK
        self.replicates = replicates
        self.seed = seed
        self.exponents = np.array([grid_exponent(bound) for bound in largest], dtype=np.int64)
        self.sums: Ints = np.zeros((n_segments, n_columns, chunks), dtype=np.int64)
        self.totals: Ints = np.zeros((n_segments, n_columns), dtype=np.int64)
        self.counts: Ints = np.zeros((n_segments, n_columns), dtype=np.int64)  # that are not 0
        self.n_users = 0
        self._few: dict[tuple[int, int], list[int]] = {}  # the differences, while they are few

    def add(self, keys: Keys, differences: Floats, segments: Int32s | None = None) -> None:
        """Add users.

        Args:
            keys: uint64[n_users], stable hashes of the ids, no key twice.
            differences: float64[n_users, n_columns], NaN where undefined: left out.
            segments: int32[n_users], below 0 for users to be left out.
        Raises:
            DataError: differences are larger than their bound [value-beyond-bound], or there are
                more than 33,554,432 users [too-many-users].
        """
        n_segments, n_columns = self.totals.shape
        prepared = prepare_block(
            keys, differences, segments, self.exponents, self.seed ^ SIGN_SEED, n_segments
        )
        if prepared is None:
            return
        starts, codes, grid, n_undefined = prepared
        if n_undefined:
            np.nan_to_num(grid, copy=False, nan=0.0)
        self._count_users(codes.size)
        whole = grid.astype(np.int64)
        firsts = np.flatnonzero(np.diff(codes, prepend=-1))
        self.totals[codes[firsts]] += np.add.reduceat(whole, firsts, axis=0)
        self.counts[codes[firsts]] += np.add.reduceat((whole != 0).astype(np.int64), firsts, axis=0)
        for first, last in zip(firsts, [*firsts[1:], codes.size], strict=True):
            segment = int(codes[first])
            for column in np.flatnonzero(self.counts[segment] <= MOST_EXACT):
                some = whole[first:last, column]
                self._few.setdefault((segment, int(column)), []).extend(some[some != 0].tolist())
        add_weighted(
            starts,
            codes,
            grid,
            SIGNS,
            self.replicates,
            Drawn(self.sums, np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0, 0), dtype=np.int64)),
            np.empty((2 * n_columns + 2, CHUNK)),
            np.empty(CHUNK, dtype=np.int32),
        )

    def merge(self, other: "SignFlips") -> None:
        """Take over another thread's or shard's sums of the same columns, seed and segments."""
        self._count_users(other.n_users)
        self.sums += other.sums
        self.totals += other.totals
        self.counts += other.counts
        for place, some in other._few.items():
            if self.counts[place] <= MOST_EXACT:
                self._few.setdefault(place, []).extend(some)

    def over(self, segments: Ints) -> "SignFlips":
        """The sums over some of the segments, as those of one."""
        found = object.__new__(SignFlips)
        found.replicates, found.seed, found.exponents = self.replicates, self.seed, self.exponents
        found.sums = self.sums[segments].sum(axis=0, keepdims=True)
        found.totals = self.totals[segments].sum(axis=0, keepdims=True)
        found.counts = self.counts[segments].sum(axis=0, keepdims=True)
        found.n_users = self.n_users
        chosen = set(segments.tolist())
        found._few = {}
        for (segment, column), some in self._few.items():
            if segment in chosen and found.counts[0, column] <= MOST_EXACT:
                found._few.setdefault((0, column), []).extend(some)
        return found

    def state(self) -> FlipsState:
        """What makes the same sums elsewhere."""
        return FlipsState(
            self.replicates,
            self.seed,
            self.n_users,
            self.exponents,
            self.sums,
            self.totals,
            self.counts,
            {place: sorted(self._few[place]) for place in sorted(self._few)},
        )

    @classmethod
    def of_state(cls, state: FlipsState) -> "SignFlips":
        """The sums that `state` was taken of.

        Raises:
            ValueError: there are no such sums.
        """
        found = object.__new__(cls)
        for name, value in state._asdict().items():
            setattr(found, "_few" if name == "few" else name, value)
        chunks = -(-state.replicates // CHUNK) * CHUNK
        columns = (len(state.totals), state.exponents.size)
        shapes = [state.totals.shape, state.counts.shape, state.sums.shape]
        if shapes != [columns, columns, (*columns, chunks)]:
            raise ValueError("sums of flipped signs are of another shape")
        return found

    def _count_users(self, n_users: int) -> None:
        self.n_users += n_users
        if self.n_users > MOST_USERS:
            refuse_users(self.n_users)

    def test(self, column: int) -> PairedTest:
        """Two-sided test of "the signs mean nothing".

        The statistic is the sum of the differences. Of random signs p is
        (1 + replicates at least as far off) / (1 + replicates), or that of a normal tail where
        these are few (`tails`); never below that of the rarest signs, 2 in 2^users.

        Source:
            Fisher 1935, The Design of Experiments, section 21; Phipson and Smyth 2010,
            Statistical Applications in Genetics and Molecular Biology 9(1), article 39.
        """
        # two sums, each off by half a unit a user
        count, total = int(self.counts[:, column].sum()), int(self.totals[:, column].sum())
        statistic = float(np.ldexp(float(total), int(self.exponents[column]) - GRID_BITS))
        if count <= MOST_EXACT:
            places = [(code, column) for code in range(len(self.totals))]
            sums = signed_sums([each for place in places for each in self._few.get(place, ())])
            return PairedTest(
                statistic, np.count_nonzero(np.abs(sums) >= abs(total) - count) / sums.size, count
            )
        sums = self.sums[:, column, : self.replicates].sum(axis=0).astype(np.float64)
        p_value, is_tail = p_of_draws(sums, abs(total) - count, df=math.inf)
        return PairedTest(statistic, max(p_value, math.ldexp(1.0, 1 - count)), count, is_tail)


def signed_sums(whole: Sequence[int]) -> Ints:
    """int64[2^n], the sums of n numbers under every choice of signs."""
    sums = np.zeros(1, dtype=np.int64)
    for number in whole:
        sums = np.concatenate([sums + number, sums - number])
    return sums
