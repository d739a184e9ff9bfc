"""Sums of users, and of all rounds of a segment, while batches of rounds come by.

A term of a round is cut into multiples of 2^-8 and of 2^-48 that are added up as integers, so that
neither the order of rows nor threads nor batches change a bit; it is rounded at 2^-49.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints, Keys
from evalkit.kernels.intrinsics import float_bits, prefetch
from evalkit.sources.ids import KeyCollisionError, as_keys, hash_ids, mix

COARSE, FINE = 2.0**8, 2.0**48
PARTS = ("c", "f")
MOST_CHUNKS = 16  # of ids that rows are held against
CARRY, MASK = 40, (1 << 40) - 1
OF_SQUARES = 2.0**-16  # what squares of weights are scaled by
LARGEST = 2.0**38  # of a term: a batch of them stays below 2^62
SMALLEST, N_EDGES = -4, 29  # powers of 2 that bins of weights end with
N_BINS = 5  # integers of a bin of weights: rounds, then w r and r in two
AHEAD = 12  # rows between asking for the sums of a unit and using them


@kernel(allocates=False)
def find_slots(keys, table, n_used, slots, firsts):  # type: ignore[no-untyped-def]
    """The number of each row's key, by first appearance; gives how many there are then.

    `table` uint64[2 * n_places] of key and number + 1, n_places a power of two. `firsts`
    int64[n_rows] gets the rows of new keys.
    """
    n_known = n_used
    last = np.uint64(table.size // 2 - 1)
    for row in range(keys.size):
        ahead = mix(keys[min(row + AHEAD, keys.size - 1)]) & last
        prefetch(table, 2 * ahead)
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
    """Add one value to the two integers at a place; the second stays below 2^40."""
    coarse = np.floor(value * COARSE)
    fine = sums[at + 1] + np.int64(np.rint((value - coarse / COARSE) * FINE))
    sums[at] += np.int64(coarse) + (fine >> CARRY)
    sums[at + 1] = fine & MASK


@kernel(allocates=False)
def add_rounds(  # type: ignore[no-untyped-def]
    rewards, predicted, firsts, weights, means, rules, slots, sums, cells, spreads, bins, tops,
    largest,
):  # fmt: skip
    """Add what rounds weigh and earn to the sums of their users, and to those of all rounds.

    `rewards`, `predicted`, `firsts` (1 at position 1; may be empty) float64[n_rows]; `weights`
    float64[n_targets, n_kinds, n_rows], of the item first; `means` float64[n_targets, n_rows] the
    targets' predicted rewards; `rules` float64[n_rules, 7], of `TermColumns.rules`. `sums`
    are of `slots`, in the order of `TermColumns.names`; `spreads` of `cells`, in that of
    `TermColumns.spreads`. `bins` int64[n_targets * (N_EDGES + 1) * 5] of weights up to each edge:
    rounds, w r and r; `tops` float64[n_targets, 10] the largest |w r|, falling; `largest`
    float64[1] the largest term.
    """
    # Wide: numba takes arrays, and a tuple of them is slower to call.
    n_rows, n_targets, n_rules = rewards.size, weights.shape[0], rules.shape[0]
    n_kinds = weights.shape[1]
    n_shared = 3 if firsts.size else 2
    width = 2 * (n_shared + n_targets * n_rules)
    last, one = tops.shape[1] - 1, np.int64(COARSE)
    term = 0.0
    for row in range(n_rows):
        at = slots[row] * width
        ahead = slots[min(row + AHEAD, n_rows - 1)] * width
        for line in range(0, width, 8):
            prefetch(sums, ahead + line)
        reward = rewards[row]
        sums[at] += one
        add_value(reward, sums, at + 2)
        if firsts.size:
            sums[at + 4] += one * (firsts[row] == 1.0)
        at += 2 * n_shared
        spread = 2 * cells[row] * n_targets * (n_kinds + 1)
        for target in range(n_targets):
            weight = weights[target, 0, row]
            add_value(weight * weight * OF_SQUARES, spreads, spread + 2 * target)
            spreads[spread + 2 * (n_targets + target)] += one * (weight == 0.0)
            for kind in range(1, n_kinds):
                square = weights[target, kind, row] * weights[target, kind, row] * OF_SQUARES
                add_value(square, spreads, spread + 2 * ((kind + 1) * n_targets + target))
                term = max(term, square)
            place = ((float_bits(weight) - 1) >> 52) - 1022 - SMALLEST
            place = min(max(place, 0), N_EDGES)
            place = N_BINS * (target * (N_EDGES + 1) + place)
            bins[place] += 1
            earned = weight * reward
            if reward != 0.0:
                add_value(earned, bins, place + 1)
                add_value(reward, bins, place + 3)
                earned = abs(earned)
                if earned > tops[target, last]:
                    other = last
                    while other > 0 and tops[target, other - 1] < earned:
                        tops[target, other] = tops[target, other - 1]
                        other -= 1
                    tops[target, other] = earned
            term = max(term, weight * weight * OF_SQUARES, abs(reward))
            for rule in range(n_rules):
                value = 0.0
                if rules[rule, 0] < 2.0:
                    which = np.int64(rules[rule, 1])
                    value = weights[target, which, row]
                    cap, tau, shrink = rules[rule, 4], rules[rule, 5], rules[rule, 6]
                    if cap + tau + shrink > 0.0:
                        if cap > 0.0:
                            value = min(value, cap)
                        if tau > 0.0 and value > tau:
                            value = 0.0
                        if shrink > 0.0:
                            value = value * shrink / (value * value + shrink)
                    if rules[rule, 0] == 1.0:
                        value *= reward - predicted[row] if rules[rule, 2] > 0.0 else reward
                if rules[rule, 3] > 0.0:
                    value += means[target, row]
                if value != 0.0:
                    add_value(value, sums, at)
                    term = max(term, abs(value))
                at += 2
    largest[0] = max(largest[0], term)


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
    sums: Ints = field(default_factory=lambda: np.zeros((0, 0, 2), np.int64))
    table: Keys = field(default_factory=lambda: np.zeros(2, np.uint64))

    def slots_of(self, rows: pl.DataFrame) -> Ints:
        """The unit of each row, all of which have sums then.

        Raises:
            KeyCollisionError: two units share a key.
        """
        slots = self._slots(rows) if self.by else np.zeros(rows.height, np.int64)
        if not self.by:
            self.n_units = 1
        if len(self.sums) <= self.n_units:
            grown = np.zeros((2 * self.n_units + 1, len(self.terms), 2), np.int64)
            if len(self.sums):
                grown[: len(self.sums)] = self.sums
            self.sums = grown
        return slots

    def _slots(self, rows: pl.DataFrame) -> Ints:
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
        return pl.concat(self.ids).hstack(self._integers()) if self.by else self._integers()

    def _integers(self) -> pl.DataFrame:
        found = self.sums[: self.n_units]
        return pl.DataFrame(
            pl.Series(f"{part}|{name}", found[:, place, limb])
            for place, name in enumerate(self.terms)
            for limb, part in enumerate(PARTS)
        )


def sum_of_parts(frame: pl.DataFrame, name: str) -> float:
    """The sum of a term over all units of `parts`."""
    coarse, fine = (int(frame[f"{part}|{name}"].sum()) for part in PARTS)
    return coarse / COARSE + fine / FINE
