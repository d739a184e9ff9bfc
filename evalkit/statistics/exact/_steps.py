"""Exact sums of values at many cutoffs, of which most are what they were at the one before."""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats
from evalkit.kernels.intrinsics import float_bits
from evalkit.statistics.exact._kernels import ABSOLUTE, INFINITY, TOGETHER, add_powers, add_some
from evalkit.statistics.exact._sums import ExactSums

ALIKE = 8  # values of neighbouring cutoffs, compared at once


@kernel(allocates=False)
def add_column(values, sums, place):  # type: ignore[no-untyped-def]
    """Add a few thousand values in one place."""
    add_some(values, sums.limbs[place], sums.counts[place], sums.waiting[place])
    add_powers(values, sums.powers[place])


@kernel(allocates=False)
def pack_steps(values, begin, end, room, n_steps):  # type: ignore[no-untyped-def]
    """Put what differs from the cutoff before, and what it differs from, side by side.

    Gives how many that are, of rows `begin` to `end`; at the first cutoff all differ.
    """
    n_steps[:] = 0
    n_steps[0] = total = np.int64(end - begin)
    n_columns = values.shape[1]
    for row in range(begin, end):
        own, before, column = values[row], values[row, 0], 1
        room[0, 0, row - begin] = before
        while column < n_columns:
            stop = min(column + ALIKE, n_columns)
            if column + ALIKE <= n_columns:
                away, bits = np.int64(0), float_bits(before)
                for place in range(ALIKE):  # many at a time
                    away |= float_bits(own[column + place]) ^ bits
                if away == 0:
                    column = stop
                    continue
            for place in range(column, stop):
                value = own[place]
                if float_bits(value) != float_bits(before):
                    room[0, place, n_steps[place]] = value
                    room[1, place, n_steps[place]] = before
                    n_steps[place] += 1
                    total += 1
                    before = value
            column = stop
    return total


@kernel(allocates=False)
def add_steps(values, first_column, room, n_steps, plain, come, gone):  # type: ignore[no-untyped-def]
    """Add float64[n_users, n_cutoffs]: where few values differ from those at the cutoff before,
    these to `come` and what they replace to `gone`; else all of them to `plain`.

    `room` is float64[2, n_cutoffs, TOGETHER], `n_steps` int64[n_cutoffs].
    """
    n_rows, n_columns = values.shape
    for begin in range(0, n_rows, TOGETHER):
        end = min(begin + TOGETHER, n_rows)
        n_changed = pack_steps(values, begin, end, room, n_steps)
        is_plain = 2 * n_changed > (end - begin) * n_columns
        for column in range(n_columns):
            place = first_column + column
            if is_plain:
                for row in range(begin, end):
                    room[0, column, row - begin] = values[row, column]
                add_column(room[0, column, : end - begin], plain, place)
            elif n_steps[column] > 0:
                add_column(room[0, column, : n_steps[column]], come, place)
                if column > 0:
                    add_column(room[1, column, : n_steps[column]], gone, place)


@kernel(allocates=False)
def raise_largest(values, largest):  # type: ignore[no-untyped-def]
    """Raise the bits of each column's largest absolute value; NaN is none."""
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):  # many at a time
            bits = float_bits(values[row, column]) & ABSOLUTE
            largest[column] = max(largest[column], np.int64(0) if bits > INFINITY else bits)


class StepSums:
    """Exact sums of columns that are cutoffs of metrics, while values are added to them.

    Args:
        widths: how many columns each metric has.
    """

    def __init__(self, widths: tuple[int, ...]) -> None:
        self.widths = widths
        self._parts = [ExactSums(sum(widths)) for _ in range(3)]
        self._largest = np.zeros(sum(widths), dtype=np.int64)

    def add(self, values: Floats, *, first_column: int) -> None:
        """Add float64[n_users, n_cutoffs] of one metric; NaN is counted, not added."""
        n_users, n_columns = values.shape
        for each in self._parts:
            each.make_room(n_users)
        values = np.ascontiguousarray(values)
        raise_largest(values, self._largest[first_column : first_column + n_columns])
        add_steps(
            values,
            first_column,
            np.empty((2, n_columns, TOGETHER)),
            np.empty(n_columns, dtype=np.int64),
            *(each.numbers for each in self._parts),
        )

    def merge(self, other: "StepSums") -> None:
        """Take over another thread's sums."""
        for own, others in zip(self._parts, other._parts, strict=True):
            own.merge(others)
        np.maximum(self._largest, other._largest, out=self._largest)

    def sums(self) -> ExactSums:
        """Of every column."""
        plain, come, gone = self._parts
        found = ExactSums(plain.n_columns)
        for each in self._parts:
            each.settle()
        ends = np.cumsum(self.widths)
        for name in ("limbs", "counts", "powers"):
            steps = getattr(come, name) - getattr(gone, name)
            whole = getattr(found, name)
            for begin, end in zip(ends - self.widths, ends, strict=True):
                np.cumsum(steps[begin:end], axis=0, out=whole[begin:end])
            whole += getattr(plain, name)
        found.largest[:] = self._largest
        found.make_room(1)
        return found
