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
from dataclasses import dataclass, replace

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


@dataclass(slots=True, eq=False)
class SignFlips:
    """Sums of differences under random signs, while they are filled.

    Raises:
        ValueError: arrays, as those of a file, do not belong together.
    """

    replicates: int
    seed: int
    n_users: int
    exponents: Ints
    sums: Ints
    totals: Ints
    counts: Ints  # of differences that are not 0
    few: dict[tuple[int, int], list[int]]  # the differences, while they are few

    def __post_init__(self) -> None:
        chunks = -(-self.replicates // CHUNK) * CHUNK
        columns = (len(self.totals), self.exponents.size)
        shapes = [self.totals.shape, self.counts.shape, self.sums.shape]
        if shapes != [columns, columns, (*columns, chunks)]:
            raise ValueError("sums of flipped signs are of another shape")

    @classmethod
    def empty(
        cls, largest: Sequence[float], *, replicates: int, seed: int, n_segments: int = 1
    ) -> "SignFlips":
        """Sums of nobody yet.

        Args:
            largest: for each column a bound of the absolute differences.
            replicates: at least 100.
            seed: any integer; the report repeats it.
            n_segments: segments that are kept apart; all users together are their sum.
        Raises:
            RequestError: there are too few replicates [too-few-replicates].
        """
        check_replicates(replicates)
        exponents = np.array([grid_exponent(bound) for bound in largest], dtype=np.int64)
        columns = (n_segments, len(largest))
        shapes = (*columns, -(-replicates // CHUNK) * CHUNK), columns, columns
        sums, totals, counts = (np.zeros(shape, dtype=np.int64) for shape in shapes)
        return cls(replicates, seed, 0, exponents, sums, totals, counts, {})

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
                self.few.setdefault((segment, int(column)), []).extend(some[some != 0].tolist())
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
        for place, some in other.few.items():
            if self.counts[place] <= MOST_EXACT:
                self.few.setdefault(place, []).extend(some)

    def over(self, segments: Ints) -> "SignFlips":
        """The sums over some of the segments, as those of one."""
        own = (self.sums, self.totals, self.counts)
        sums, totals, counts = (each[segments].sum(axis=0, keepdims=True) for each in own)
        chosen, few = set(segments.tolist()), dict[tuple[int, int], list[int]]()
        for (segment, column), some in self.few.items():
            if segment in chosen and counts[0, column] <= MOST_EXACT:
                few.setdefault((0, column), []).extend(some)
        return replace(self, sums=sums, totals=totals, counts=counts, few=few)

    def as_kept(self) -> "SignFlips":
        """The same sums, whoever was added first."""
        return replace(self, few={place: sorted(self.few[place]) for place in sorted(self.few)})

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
            sums = signed_sums([each for place in places for each in self.few.get(place, ())])
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
