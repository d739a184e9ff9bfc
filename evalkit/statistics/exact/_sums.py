"""Exact sums of columns of values, of all rows or by cell, and what is read from them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from evalkit.kernels.arrays import Floats, Int32s, Ints
from evalkit.statistics.exact import _kernels as kernels

Limbs = Ints

ROWS_READ = 1 << 12
SPARE_BITS = 896  # which are 0 in sums of values that are no smaller than most are
LOW_BITS, LOW_BITS_OF_SQUARES = (1 << SPARE_BITS) - 1, (1 << 2 * SPARE_BITS) - 1
CELLS_TOGETHER = 16  # whose sums are made side by side, in memory that is used again
NO_OUTCOMES = np.zeros((0, 0, 3), dtype=np.int64)


Value = TypeVar("Value")


class _Once(Generic[Value]):
    """What is found when it is first asked for: `functools.cached_property`, without its lock."""

    def __init__(self, find: Callable[["ExactSum"], Value]) -> None:
        self._find, self.__doc__ = find, find.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, of: "ExactSum", _: type) -> Value:
        value = of.__dict__[self._name] = self._find(of)
        return value


@dataclass(frozen=True)  # no slots: what is read again and again is rounded once
class ExactSum:
    """Number, sum and sum of squares of float64 values, all of them exact.

    Args:
        count: how many values.
        scaled: their sum times 2^1074.
        squares: the sum of their squares times 2^2148.
    """

    count: int = 0
    scaled: int = 0
    squares: int = 0

    def merge(self, other: "ExactSum") -> "ExactSum":
        """The sums over both parts."""
        return ExactSum(
            self.count + other.count, self.scaled + other.scaled, self.squares + other.squares
        )

    def without(self, other: "ExactSum") -> "ExactSum":
        """The sums over this part less those of a part of it."""
        return ExactSum(
            self.count - other.count, self.scaled - other.scaled, self.squares - other.squares
        )

    @property
    def total(self) -> float:
        """The correctly rounded sum, equal to `math.fsum`; infinite where no float holds it."""
        try:
            return self.scaled / (1 << kernels.SCALE_BITS)
        except OverflowError:
            return math.inf if self.scaled > 0 else -math.inf

    @property
    def whole(self) -> int:
        """The sum without what is behind the point."""
        return self.scaled >> kernels.SCALE_BITS

    @_Once
    def mean(self) -> float:
        """The correctly rounded mean; NaN of nothing."""
        if not self.count:
            return math.nan
        if self.scaled & LOW_BITS:
            return self.scaled / (self.count << kernels.SCALE_BITS)
        return (self.scaled >> SPARE_BITS) / (self.count << kernels.SCALE_BITS - SPARE_BITS)

    @_Once
    def is_own_square(self) -> bool:
        """Whether values and their squares have one sum."""
        return self.squares == self.scaled << kernels.SCALE_BITS

    @_Once
    def std_error(self) -> float | None:
        """Standard error of the mean, s / sqrt(n) with n - 1 in the variance.

        None below two values, and where no float holds it.
        """
        n = self.count
        if n < 2:
            return None
        is_plain = self.scaled & LOW_BITS or self.squares & LOW_BITS_OF_SQUARES
        spare = 0 if is_plain else SPARE_BITS
        scaled, squares = self.scaled >> spare, self.squares >> 2 * spare
        spread = n * squares - scaled * scaled  # n (n - 1) times the variance
        try:
            return math.sqrt(spread / (n * n * (n - 1) << 2 * (kernels.SCALE_BITS - spare)))
        except OverflowError:
            return None


class SumsState(NamedTuple):
    """Sums as they are kept in a file.

    Args:
        used: int64[n_used], the limbs that are not 0 everywhere.
        numbers: int64[n_cells * n_columns, ...], these limbs, counts, powers, largest values.
    """

    n_columns: int
    n_cells: int
    used: Ints
    numbers: Ints


@dataclass(frozen=True, slots=True)
class Paired:
    """What is taken from values, and who wins by that.

    Args:
        baseline: float64[n_users, n_cutoffs], beside the values.
        outcomes: int64[n_cells, n_columns, 3], wins, ties, losses of the values: they are added.
    """

    baseline: Floats
    outcomes: Ints
    higher_is_better: bool


class ExactSums:
    """Exact sums of several columns of values while they are being filled by kernels.

    Args:
        n_columns: columns that are summed side by side.
        n_cells: groups of rows that are summed apart.
    """

    def __init__(self, n_columns: int, n_cells: int = 1) -> None:
        self.n_columns, self.n_cells = n_columns, n_cells
        # full, or none: those below are all that hold something, and take a twentieth of the room
        self._limbs: Limbs | None = np.zeros((n_cells * n_columns, kernels.N_LIMBS), dtype=np.int64)
        self.counts = np.zeros((n_cells * n_columns, kernels.N_COUNTS), dtype=np.int64)
        self.largest = np.zeros(n_cells * n_columns, dtype=np.int64)  # bits of absolute values
        self.powers = np.zeros((n_cells * n_columns, kernels.N_POWERS), dtype=np.int64)
        # what is not yet in the limbs, which are many times as large and so far from the core
        self.waiting = np.zeros((n_cells * n_columns, kernels.N_WAITING), dtype=np.int64)
        self._adds = 0
        self._is_settled = True
        self._may_wait = True  # whether limbs hold something says what waits, and nothing else
        # of settled sums: the limbs that are not all 0, and which they are
        self._used: Limbs | None = None
        self._places = np.empty(0, dtype=np.int64)
        self._marks: Ints | None = None  # limbs that hold something anywhere
        # what was read of every number, once they are settled
        self._sums: list[ExactSum] | None = None
        self._skewnesses: list[float] | None = None

    def add(
        self,
        values: Floats,
        *,
        first_column: int = 0,
        rows: "CellRows | None" = None,
        paired: "Paired | None" = None,
    ) -> int:
        """Add float64[n_users, n_cutoffs]; NaN is counted, not added.

        Args:
            first_column: the column of the sums that the first one of the values belongs to.
            rows: which rows belong to which cell; all to the first one when left out.
            paired: what is taken from the values before.
        Returns:
            How many rows have a value alone, or a baseline's alone.
        """
        n_users, n_columns = values.shape
        if n_users == 0 or n_columns == 0:
            return 0
        self._count(n_users)
        rows = CellRows.in_one(n_users) if rows is None else rows
        values = np.ascontiguousarray(values)  # another layout would be compiled for anew
        if paired is None:
            paired = Paired(values[:0], NO_OUTCOMES, higher_is_better=True)
        n_alone = kernels.add_cells(
            values,
            np.ascontiguousarray(paired.baseline),
            rows.order,
            rows.begins,
            np.empty((2, n_columns, min(kernels.TOGETHER, n_users) + kernels.APART)),
            first_column,
            paired.higher_is_better,
            paired.outcomes,
            self.n_columns,
            self.limbs,
            self.counts,
            self.largest,
            self.powers,
            self.waiting,
        )
        return int(n_alone)

    def make_room(self, n_values: int) -> None:
        """Be ready for so many more values of a column, which a kernel is about to add."""
        self._count(n_values)
        self._may_wait = False

    def _count(self, n_values: int) -> None:
        if self._adds + n_values > kernels.ADDS_BEFORE_CARRY:
            self.settle()
        self._adds += n_values
        self._changed()

    @property
    def limbs(self) -> Limbs:
        """int64[n_cells * n_columns, N_LIMBS], of the sum and of that of squares."""
        if self._limbs is None:
            limbs = np.zeros((self.n_cells * self.n_columns, kernels.N_LIMBS), dtype=np.int64)
            limbs[:, self._places] = self._find_used()
            self._limbs = limbs
        return self._limbs

    @limbs.setter
    def limbs(self, limbs: Limbs) -> None:
        self._limbs = limbs

    def _find_marks(self) -> Ints:
        """The limbs that are not all 0, whatever else waits; few of many, as values are alike."""
        if self._marks is None:
            limbs = (
                self.limbs[self.waiting[:, kernels.HAS_LIMBS] != 0]
                if self._may_wait
                else self.limbs
            )
            marks = np.zeros(kernels.N_LIMBS, dtype=np.int64)
            kernels.mark_used(limbs, marks)
            self._marks = np.flatnonzero(marks)
        return self._marks

    def _find_used(self) -> Limbs:
        self.settle()
        if self._used is None:
            self._places = self._find_marks()
            self._used = np.ascontiguousarray(self.limbs[:, self._places])
        self._limbs = None
        return self._used

    def used_limbs(self) -> tuple[Limbs, Ints]:
        """int64[n_cells * n_columns, n_used], the limbs that are not all 0, and which they are."""
        return self._find_used(), self._places

    def _changed(self) -> None:
        self._limbs = self.limbs  # before it is forgotten what they hold
        self._is_settled, self._used, self._marks = False, None, None
        self._sums = self._skewnesses = None

    def settle(self) -> None:
        """Bring everything that waits into the limbs, and these into 32 bits."""
        if not self._is_settled:
            kernels.settle_all(self.waiting, self.limbs)
            kernels.carry(self.limbs)
            self._adds, self._is_settled, self._may_wait, self._marks = 1, True, False, None

    def merge(self, other: "ExactSums") -> None:
        """Take over another thread's sums."""
        self.merge_columns(other, 0)

    def merge_columns(self, other: "ExactSums", first_column: int) -> None:
        """Take over sums of columns from this one on; of some columns those of one cell."""
        self.settle()
        other.settle()
        are_packed = self._limbs is None and other._limbs is None
        own = slice(first_column, first_column + other.counts.shape[0])
        self.limbs[own] += other.limbs
        self.counts[own] += other.counts
        self.powers[own] += other.powers
        self.largest[own] = np.maximum(self.largest[own], other.largest)
        self._may_wait = False
        self._changed()
        if are_packed:  # they may be very many
            other._limbs = None
            self._find_used()

    def state(self) -> SumsState:
        """What makes the same sums elsewhere: the same numbers for any way that they were added."""
        limbs = self._find_used()
        own = limbs.any(axis=0)  # its own alone, also where others were made beside it
        for low in (2, 4):  # 30 bits each, and the rest above
            self.powers[:, low + 1] += self.powers[:, low] >> 30
            self.powers[:, low] &= 0x3FFFFFFF
        numbers = (limbs[:, own], self.counts, self.powers, self.largest[:, None])
        used = self._places[own]
        return SumsState(self.n_columns, self.n_cells, used, np.concatenate(numbers, axis=1))

    @classmethod
    def of_state(cls, state: SumsState) -> "ExactSums":
        """The sums that `state` was taken of.

        Raises:
            ValueError: there are no such sums.
        """
        n_used, numbers = state.used.size, state.numbers
        shape = (state.n_cells * state.n_columns, n_used + kernels.N_COUNTS + kernels.N_POWERS + 1)
        if min(state.n_cells, state.n_columns) < 0 or numbers.shape != shape:
            raise ValueError("numbers of sums are of another shape")
        found = cls(state.n_columns, state.n_cells)
        found.limbs[:, state.used] = numbers[:, :n_used]
        found.counts = numbers[:, n_used : n_used + kernels.N_COUNTS].copy()
        found.powers = numbers[:, n_used + kernels.N_COUNTS : -1].copy()
        found.largest = numbers[:, -1].copy()
        found._adds, found._may_wait = 1, False
        found._find_used()
        return found

    def take(self, columns: Ints) -> "ExactSums":
        """The same sums with columns in another order."""
        self.settle()
        taken = ExactSums(columns.size, self.n_cells)
        places = (np.arange(self.n_cells)[:, None] * self.n_columns + columns).ravel()
        taken.limbs, taken.counts = self.limbs[places], self.counts[places]
        taken.largest, taken.powers = self.largest[places], self.powers[places]
        taken._may_wait = False
        return taken

    def over(self, cells: Ints, columns: Ints | None = None) -> "ExactSums":
        """The sums over some of the cells, as those of one.

        Args:
            columns: which, in this order; all of them by default.
        """
        return self.over_each([cells], columns)[0]

    def over_each(self, groups: Sequence[Ints], columns: Ints | None = None) -> "list[ExactSums]":
        """The sums over each group of the cells, as those of one cell; `columns` as `over`."""
        if columns is None:
            columns = np.arange(self.n_columns)
        found = []
        for first in range(0, len(groups), CELLS_TOGETHER):
            cells = groups[first : first + CELLS_TOGETHER]
            some = ExactSums(columns.size, len(cells))
            kernels.sum_cells(
                np.concatenate(cells),
                np.cumsum([0, *map(len, cells)]),
                columns,
                self.n_columns,
                self.numbers,
                self._may_wait,
                self._find_marks(),
                some.numbers,
            )
            some._is_settled = False
            found += [some._cell(number) for number in range(len(cells))]
        return found

    def _cell(self, number: int) -> "ExactSums":
        """The sums of one cell."""
        rows = slice(number * self.n_columns, (number + 1) * self.n_columns)
        cell = ExactSums(self.n_columns, 0)
        cell._limbs, cell._used, cell._places = None, self._find_used()[rows], self._places
        cell.n_cells, cell._adds, cell._may_wait = 1, 1, False
        cell.counts, cell.largest = self.counts[rows], self.largest[rows]
        cell.powers, cell.waiting = self.powers[rows], self.waiting[rows]
        return cell

    @property
    def numbers(self) -> kernels.Numbers:
        """The arrays that kernels add to."""
        return kernels.Numbers(self.limbs, self.counts, self.largest, self.powers, self.waiting)

    def n_undefined(self, column: int) -> int:
        """Values that were NaN."""
        return int(self.counts[column, 1])

    def n_infinite(self, column: int) -> int:
        """Values that were infinite, which no sum holds."""
        return int(self.counts[column, 2])

    def n_zero(self, column: int) -> int:
        """Values that were 0."""
        return int(self.counts[column, 3])

    def largest_of(self, column: int) -> float:
        """The largest absolute value; 0 of nothing."""
        return float(self.largest.view(np.float64)[column])

    def skewness_of(self, column: int) -> float:
        """The third central moment over the variance to the power 1.5, both over n.

        Of values cut to 2^-20, by exact sums of their powers; NaN where a value is beyond -1 and
        1, below two values, or where they hardly differ.
        """
        if self._skewnesses is None:
            counts = self.counts[:, 0].tolist()
            self._skewnesses = [*map(skewness, counts, self.powers.tolist())]
        return self._skewnesses[column]

    def sum_of(self, column: int) -> ExactSum:
        """The exact sums of a column's finite values."""
        if self._sums is None:
            used, places = self._find_used(), self._places
            split = int(np.searchsorted(places, kernels.SUM_LIMBS))
            totals = _wholes(used[:, :split], places[:split], kernels.SUM_LIMBS)
            squares = _wholes(
                used[:, split:], places[split:] - kernels.SUM_LIMBS, kernels.SQUARE_LIMBS
            )
            self._sums = [*map(ExactSum, self.counts[:, 0].tolist(), totals, squares)]
        return self._sums[column]


def skewness(count: int, powers: list[int]) -> float:
    """That of a column, of its sums of powers of cut values."""
    n, total, *limbs = powers
    squares, cubes = limbs[0] + (limbs[1] << 30), limbs[2] + (limbs[3] << 30)
    spread = n * squares - total * total  # n^2 times the variance
    if n < count or n < 2 or spread < (kernels.LEAST_SPREAD * n) ** 2:
        return math.nan
    third: int = n * n * cubes - 3 * n * total * squares + 2 * total**3  # n^3 times the moment
    return third / math.sqrt(spread) ** 3


@dataclass(frozen=True, slots=True)
class CellRows:
    """Which rows of a block belong to which cell.

    Args:
        order: int64[n_rows], the rows cell by cell.
        begins: int64[n_cells + 1], where each cell's rows begin in `order`.
    """

    order: Ints
    begins: Ints

    @classmethod
    def in_one(cls, n_rows: int) -> "CellRows":
        """All rows in the first cell."""
        return cls(np.arange(n_rows), np.array([0, n_rows]))

    @classmethod
    def of(cls, cells: Int32s, n_cells: int) -> "CellRows":
        """The rows by the cell of each."""
        if n_cells == 1:
            return cls.in_one(cells.size)
        order = np.empty(cells.size, dtype=np.int64)
        begins = np.zeros(n_cells + 1, dtype=np.int64)
        kernels.sort_by_cell(cells, order, begins)
        return cls(order, begins)


def _wholes(limbs: Limbs, places: Ints, n_limbs: int) -> Iterator[int]:
    """The number in each row of settled limbs, of 32 bits each; the last of all has its sign.

    Args:
        limbs: those that hold something; the others are 0.
        places: of these, among `n_limbs`.
    """
    low = int(places[0]) if places.size else 0
    high = min(int(places[-1]) + 2, n_limbs) if places.size else 1  # a 0 above is no sign
    size = 4 * (high - low)
    for first in range(0, limbs.shape[0], ROWS_READ):  # at one time: they are many bytes
        some = limbs[first : first + ROWS_READ]
        whole = np.zeros((some.shape[0], high - low), dtype="<u4")
        whole[:, places - low] = some.astype("<u4")
        content = whole.tobytes()
        for place in range(0, len(content), size):
            number = int.from_bytes(content[place : place + size], "little", signed=True)
            yield number << (kernels.LIMB_BITS * low)
