"""Sums of users, and of all rounds of a segment, while batches of rounds come by.

A term of a round is cut into multiples of 2^-8 and of 2^-48 that are added up as integers, so that
neither the order of rows nor threads nor batches change a bit; it is rounded at 2^-49.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import prefetch
from evalkit.sources.ids import KeyCollisionError, as_keys, hash_ids, mix

COARSE, FINE = 2.0**8, 2.0**48
PARTS = ("c", "f")
MOST_CHUNKS = 16  # of ids that rows are held against
AHEAD = 6  # rows between asking for the sums of a unit and using them

Integers = npt.NDArray[np.int64]


@kernel(allocates=False)
def find_slots(keys, table, n_used, slots, firsts):  # type: ignore[no-untyped-def]
    """The number of each row's key, by first appearance; gives how many there are then.

    `table` uint64[2 * n_places] of key and number + 1, n_places a power of two. `firsts`
    int64[n_rows] gets the rows of new keys.
    """
    n_known = n_used
    last = np.uint64(table.size // 2 - 1)
    for row in range(keys.size):
        place = mix(keys[row]) & last
        while table[2 * place + np.uint64(1)] != 0 and table[2 * place] != keys[row]:
            place = (place + np.uint64(1)) & last
        if table[2 * place + np.uint64(1)] == 0:
            firsts[n_used - n_known] = row
            n_used += 1
            table[2 * place] = keys[row]
            table[2 * place + np.uint64(1)] = np.uint64(n_used)
        slots[row] = np.int64(table[2 * place + np.uint64(1)]) - 1
    return n_used


@kernel(allocates=False)
def add_value(value, sums, at):  # type: ignore[no-untyped-def]
    """Add one value to the two integers at a place."""
    coarse = np.floor(value * COARSE)
    sums[at] += np.int64(coarse)
    sums[at + 1] += np.int64(np.rint((value - coarse / COARSE) * FINE))


@kernel(allocates=False)
def add_rows(values, slots, sums):  # type: ignore[no-untyped-def]
    """Add float64[n_terms, n_rows] to int64[n_slots * n_terms * 2]; gives the largest in size."""
    largest, width = 0.0, 2 * values.shape[0]
    for row in range(slots.size):
        begin = slots[row] * width
        ahead = slots[min(row + AHEAD, slots.size - 1)] * width
        for line in range(0, width, 8):
            prefetch(sums, ahead + line)
        for term in range(values.shape[0]):
            add_value(values[term, row], sums, begin + 2 * term)
            largest = max(largest, abs(values[term, row]))
    return largest


@kernel(allocates=False)
def add_weights(values, weights, slots, sums):  # type: ignore[no-untyped-def]
    """Add squares of weights, then whether they are 0, to int64[n_slots * 2 * n_targets * 2].

    `weights` int64[n_targets]: which of the values they are. Gives the largest square.
    """
    largest = 0.0
    for target in range(weights.size):
        for row in range(slots.size):
            weight, at = values[weights[target], row], 2 * (2 * slots[row] * weights.size + target)
            add_value(weight * weight, sums, at)
            sums[at + 2 * weights.size] += np.int64(COARSE) * (weight == 0.0)
            largest = max(largest, weight * weight)
    return largest


@kernel(allocates=False)
def keep_largest(values, tops):  # type: ignore[no-untyped-def]
    """Keep the largest absolute values in `tops`, float64 in descending order."""
    last = tops.size - 1
    for row in range(values.size):
        value = abs(values[row])
        if value > tops[last]:
            place = last
            while place > 0 and tops[place - 1] < value:
                tops[place] = tops[place - 1]
                place -= 1
            tops[place] = value


@dataclass(slots=True)
class TermUnits:
    """Sums of units: of the different values of some columns.

    Args:
        by: the columns.
        terms: what is added up, by name.
        seed: of hashes of the ids.
    """

    by: Sequence[str]
    terms: Sequence[str]
    seed: int
    ids: list[pl.DataFrame] = field(default_factory=list)
    n_units: int = 0
    sums: Integers = field(default_factory=lambda: np.zeros((0, 0, 2), np.int64))
    table: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(2, np.uint64))

    def add(self, rows: pl.DataFrame, values: npt.NDArray[np.float64]) -> float:
        """Add rounds, float64[n_terms, n_rows]; the largest value by absolute size.

        Raises:
            KeyCollisionError: two units share a key.
        """
        slots = self._room_for(rows)
        return float(add_rows(values, slots, self.sums.reshape(-1)))

    def add_weights(
        self, rows: pl.DataFrame, values: npt.NDArray[np.float64], weights: Sequence[int]
    ) -> float:
        """Add what those of the values weigh that are weights; the largest square."""
        slots = self._room_for(rows)
        return float(add_weights(values, np.array(weights), slots, self.sums.reshape(-1)))

    def _room_for(self, rows: pl.DataFrame) -> Integers:
        """The unit of each row, all of which have sums then."""
        slots = self._slots(rows) if self.by else np.zeros(rows.height, np.int64)
        if not self.by:
            self.n_units = 1
        if len(self.sums) < self.n_units:
            grown = np.zeros((self.n_units * 5 // 4, len(self.terms), 2), np.int64)
            if len(self.sums):
                grown[: len(self.sums)] = self.sums
            self.sums = grown
        return slots

    def _slots(self, rows: pl.DataFrame) -> Integers:
        ids = rows.select(self.by)
        is_own = len(self.by) == 1 and ids.dtypes[0].is_integer()
        itself = pl.col(self.by[0]).cast(pl.Int64, wrap_numerical=True)
        key = itself if is_own else hash_ids(pl.struct(self.by), self.seed)
        keys = as_keys(ids.select(key).to_series())
        wanted = 1 << int(2 * (self.n_units + rows.height)).bit_length()
        if self.table.size < 2 * wanted:
            old = self.table.reshape(-1, 2)
            old = old[old[:, 1] > 0]
            old = old[np.argsort(old[:, 1])]
            self.table = np.zeros(2 * wanted, np.uint64)
            own, unused = np.ascontiguousarray(old[:, 0]), np.empty((2, len(old)), np.int64)
            find_slots(own, self.table, 0, unused[0], unused[1])
        (slots, firsts), before = np.empty((2, rows.height), np.int64), self.n_units
        self.n_units = int(find_slots(keys, self.table, before, slots, firsts))
        if self.n_units > before or not self.ids:
            self.ids.append(ids[firsts[: self.n_units - before]])
        if not is_own:
            known = self.ids[0] if len(self.ids) == 1 else pl.concat(self.ids)
            known = known.rechunk() if known.n_chunks() > MOST_CHUNKS else known
            self.ids = [known]
            if not ids.equals(known[slots]):
                raise KeyCollisionError
        return slots

    def whole(self) -> pl.DataFrame:
        """All sums, as floats, in the order of the units."""
        found = self.sums[: self.n_units]
        sums = [
            pl.Series(name, found[:, place, 0] / COARSE + found[:, place, 1] / FINE)
            for place, name in enumerate(self.terms)
        ]
        return pl.concat(self.ids).hstack(sums).sort(self.by)

    def parts(self) -> pl.DataFrame:
        """The same as the integers that they are added up as: two columns a term."""
        found = self.sums[: self.n_units]
        sums = [
            pl.Series(f"{part}|{name}", found[:, place, limb])
            for place, name in enumerate(self.terms)
            for limb, part in enumerate(PARTS)
        ]
        return pl.DataFrame(sums) if not self.by else pl.concat(self.ids).hstack(sums)


def sum_of_parts(frame: pl.DataFrame, name: str) -> float:
    """The sum of a term over all units of `parts`."""
    coarse, fine = (int(frame[f"{part}|{name}"].sum()) for part in PARTS)
    return coarse / COARSE + fine / FINE
