# mypy: disable-error-code="no-untyped-def, assignment"
"""Kernels that walk over distinct scores from the highest to the lowest."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Int32s, Ints
from evalkit.kernels.intrinsics import float_bits, prefetch
from evalkit.statistics.exact import LIMB_BITS, add_shifted

ONE = np.uint64(1)
HALF = 26  # lower bits of a mantissa that are added apart, so that sums of many fit 64 bits
LOWER_HALF = (1 << HALF) - 1

AT_A_TIME = 4  # areas
AHEAD = 16  # rows whose influence is fetched before it is read


@kernel(allocates=False)
def count_ties(packed, first, above_1, above_0, bits, found):
    """Rows with label 1 and 0 at each distinct score, and down to it; how many scores there are.

    Args:
        packed: what a turned-round key has more than `first`, times 2, and the label; ascending.
        above_1, above_0: rows with higher scores.
        bits: gets those of the scores, as wide as they are.
        found: float64[4, n_rows], gets rows with label 1 and 0, at a score and down to it.
    """
    positives, negatives, sum_1, sum_0 = found[0], found[1], found[2], found[3]
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    good = np.float64(above_1)
    n_groups = -1
    last = np.uint64(0)
    for row in range(packed.size):
        each = np.uint64(packed[row])
        key = each >> ONE
        n_groups += row == 0 or key != last
        last = key
        good += np.float64(each & ONE)
        bits[n_groups] = key
        sum_1[n_groups] = good
        sum_0[n_groups] = row  # rows before this one
    n_groups += 1
    old_1, old_0 = np.float64(above_1), np.float64(above_0)
    for place in range(n_groups):
        key = ~(np.uint64(bits[place]) + first)
        bits[place] = (key ^ sign if key & sign else ~key) & (sign | (sign - ONE))
        new_1 = sum_1[place]
        new_0 = above_1 + above_0 + sum_0[place] + 1.0 - new_1
        positives[place] = new_1 - old_1
        negatives[place] = new_0 - old_0
        sum_0[place] = new_0
        old_1, old_0 = new_1, new_0
    return n_groups


@kernel(allocates=False)
def tie_groups(keys, labels, weights, distinct, positives, negatives):
    """Weight of the rows with label 1 and 0 at each distinct key; how many keys there are.

    `weights` is empty where each row weighs 1. Added up in the order of the rows, which ascend.
    """
    n_groups = -1
    weighted = weights.size > 0
    for row in range(keys.size):
        if row == 0 or keys[row] != keys[row - 1]:
            n_groups += 1
            distinct[n_groups] = keys[row]
            positives[n_groups] = 0.0
            negatives[n_groups] = 0.0
        weight = weights[row] if weighted else 1.0
        if labels[row] != 0:
            positives[n_groups] += weight
        else:
            negatives[n_groups] += weight
    return n_groups + 1


@kernel(allocates=False)
def cumulate(values, start, out):
    """Sums up to and with each value, from `start` on; what rounding loses is carried along."""
    total, lost = start, 0.0
    for place in range(values.size):
        value = values[place] + lost
        fresh = total + value
        back = fresh - total
        lost = (total - (fresh - back)) + (value - back)
        total = fresh
        out[place] = total
    return total


@kernel(allocates=False)
def count_won_pairs(positives, negatives, above, half):
    """Twice the pairs of a 1 and a 0 in which the 1 scores higher; whole numbers, rows weigh 1.

    `above`: rows with label 1 that score above the first group. `half`: 1 where ties count half.
    """
    won = 0
    seen = int(above)
    for place in range(positives.size):
        here = int(positives[place])
        won += int(negatives[place]) * (2 * seen + (here if half != 0 else 0))
        seen += here
    return won


@kernel(allocates=False)
def precision_terms(positives, sum_1, sum_0, precision_before, steps, lines):
    """Recall that each group adds, times P, times precision; by steps and by lines.

    Only groups with a label 1; how many there are. `sum_1`, `sum_0`: rows down to each group.
    """
    n_terms = 0
    for place in range(positives.size):
        if positives[place] > 0.0:
            rows = sum_1[place] + sum_0[place]
            precision = sum_1[place] / rows
            rows = sum_1[place - 1] + sum_0[place - 1] if place > 0 else 0.0
            before = sum_1[place - 1] / rows if rows > 0.0 else precision_before
            steps[n_terms] = positives[place] * precision
            lines[n_terms] = positives[place] * ((precision + before) / 2.0)
            n_terms += 1
    return n_terms


@kernel(allocates=False)
def choose_weighty(scores, weights, chosen, weights_of_chosen):
    """The scores that have a weight, and it; how many there are."""
    n_chosen = 0
    for place in range(scores.size):
        chosen[n_chosen] = scores[place]
        weights_of_chosen[n_chosen] = weights[place]
        n_chosen += weights[place] > 0.0
    return n_chosen


@kernel(allocates=False)
def set_infinite_aside(losses, weights):
    """The weight of infinite losses, which become 0."""
    infinite = 0.0
    for place in range(losses.size):
        if losses[place] == math.inf:
            infinite += weights[place]
            losses[place] = 0.0
    return infinite


@kernel(allocates=False)
def count_from(scores, thresholds, counts):
    """How many scores, which descend, are at least each threshold."""
    for number in range(thresholds.size):
        low, high = 0, scores.size
        while low < high:
            middle = (low + high) >> 1
            if scores[middle] >= thresholds[number]:
                low = middle + 1
            else:
                high = middle
        counts[number] = low


@kernel(allocates=False)
def find_bin_ends(sum_1, sum_0, positives, negatives, total, ends):
    """Where the groups end that begin in each of as many bins of equally many rows as `ends`."""
    n_bins = ends.size
    for number in range(n_bins):
        low, high = 0, sum_1.size
        while low < high:
            middle = (low + high) >> 1
            before = sum_1[middle] + sum_0[middle] - (positives[middle] + negatives[middle])
            if np.int64(min(before * n_bins / total, n_bins - 1.0)) <= number:
                low = middle + 1
            else:
                high = middle
        ends[number] = low


@kernel(allocates=False)
def area_up_to(positives, negatives, above_1, above_0, most, out):
    """Area of each group's piece of the ROC curve, in pairs, as far as `most` false positives.

    How many groups are above the last false positive that counts.
    """
    sum_1, sum_0 = above_1, above_0
    for place in range(positives.size):
        if sum_0 >= most:
            return place
        here, there = positives[place], negatives[place]
        width = min(there, most - sum_0)
        out[place] = 0.0
        if width > 0.0:
            rise = here * (width / there)
            out[place] = width * (sum_1 + rise / 2.0)
        sum_1 += here
        sum_0 += there
    return positives.size


@kernel(allocates=False)
def take_in(limbs, value, times, exponent, high, low):
    """Add a value so many times to what waits for values of its exponent; what waits then."""
    if value == 0.0:
        return exponent, high, low
    bits = float_bits(value)
    found = max(np.int64(1), (bits >> 52) & 0x7FF)
    if found != exponent:
        add_waiting(limbs, exponent, high, low)
        high = low = np.int64(0)
    mantissa = bits & 0xFFFFFFFFFFFFF
    if bits & 0x7FF0000000000000 != 0:
        mantissa |= 0x10000000000000
    if bits < 0:
        mantissa = -mantissa
    return found, high + (mantissa >> HALF) * times, low + (mantissa & LOWER_HALF) * times


@kernel(allocates=False)
def add_waiting(limbs, exponent, high, low):
    """Bring what waits for values of one exponent into the limbs."""
    if exponent < 0x7FF:
        add_shifted(limbs, low, exponent - 1)
        add_shifted(limbs, high, exponent - 1 + HALF)


@kernel(allocates=False)
def add_values(values, limbs):
    """Add values, those that are finite."""
    exponent, high, low = np.int64(1), np.int64(0), np.int64(0)
    for place in range(values.size):
        exponent, high, low = take_in(limbs, values[place], 1, exponent, high, low)
    add_waiting(limbs, exponent, high, low)
    carry_up(limbs)


@kernel(allocates=False)
def add_multiples(values, times, limbs):
    """Add values, each as often as a whole number says; all of these together are below 2^36."""
    exponent, high, low = np.int64(1), np.int64(0), np.int64(0)
    for place in range(values.size):
        n = np.int64(times[place])
        exponent, high, low = take_in(limbs, values[place], n, exponent, high, low)
    add_waiting(limbs, exponent, high, low)
    carry_up(limbs)


@kernel(allocates=False)
def carry_up(limbs):
    """Bring every limb but the last into 32 bits; the rest moves up."""
    for limb in range(limbs.size - 1):
        over = limbs[limb] >> LIMB_BITS
        limbs[limb] -= over << LIMB_BITS
        limbs[limb + 1] += over


@kernel(allocates=False)
def find_ends(keys, least, shift, ends):
    """The smallest and the largest key of each cell of their leading bits, into `ends`[n, 2]."""
    for row in range(keys.size):
        key = np.uint64(keys[row])
        cell = np.int64((key - least) >> shift)
        ends[cell, 0] = min(ends[cell, 0], key)
        ends[cell, 1] = max(ends[cell, 1], key)


@kernel(allocates=False)
def add_up_influence(starts, keys, labels, least, shift, influence, out):
    """The influence of each group's rows on areas over all rows.

    `out` float64[n_groups, n], `influence` float64[2, n_cells, n]; n is a multiple of `AT_A_TIME`.
    """
    for group in range(out.shape[0]):
        for first in range(0, out.shape[1], AT_A_TIME):
            sum_0 = sum_1 = sum_2 = sum_3 = 0.0
            for row in range(starts[group], starts[group + 1]):
                ahead = min(row + AHEAD, keys.size - 1)
                cell = np.int64((np.uint64(keys[ahead]) - least) >> shift)
                prefetch(influence[np.int64(labels[ahead] != 0), cell], first)
                cell = np.int64((np.uint64(keys[row]) - least) >> shift)
                each = influence[np.int64(labels[row] != 0), cell]
                sum_0 += each[first]
                sum_1 += each[first + 1]
                sum_2 += each[first + 2]
                sum_3 += each[first + 3]
            out[group, first] = sum_0
            out[group, first + 1] = sum_1
            out[group, first + 2] = sum_2
            out[group, first + 3] = sum_3


@kernel(allocates=False)
def add_up_weights(starts, scores, labels, weights, rows, positives, predicted):
    """The weight of each group's rows, of those with label 1, and its scores times weights."""
    for group in range(rows.size):
        total = good = score = 0.0
        for row in range(starts[group], starts[group + 1]):
            total += weights[row]
            score += scores[row] * weights[row]
            if labels[row] != 0:
                good += weights[row]
        rows[group] = total
        positives[group] = good
        predicted[group] = score


@kernel(allocates=False)
def add_up_losses(starts, losses, weights, out):
    """The losses of each group's rows times their weights."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            if weights[row] > 0.0:
                total += weights[row] * losses[row]
        out[group] = total


@kernel(allocates=False)
def add_up_called(starts, scores, labels, weights, threshold, true_1, false_1):
    """The weight of each group's rows from a threshold on, with label 1 and 0."""
    for group in range(true_1.size):
        good = bad = 0.0
        for row in range(starts[group], starts[group + 1]):
            if scores[row] >= threshold:
                if labels[row] != 0:
                    good += weights[row]
                else:
                    bad += weights[row]
        true_1[group] = good
        false_1[group] = bad


class SortedRows(NamedTuple):
    """Rows of users, which ascend by key within a user."""

    starts: Ints
    keys: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    weights: Floats


class Marks(NamedTuple):
    """Points, the share of the rows at each that it counts, and where to look for a key.

    `table` has the points before each cell of 2^shift keys, from that of the first point on.
    """

    points: npt.NDArray[Any]
    shares: Floats
    shift: np.uint64
    table: Int32s


@kernel(allocates=False)
def add_up_points(rows, marks, scale, sums, totals):
    """Add to the sums over users of squares and products of their rows above each point.

    Rows ascend by key within a user. A point counts rows with keys below its own, and a share of
    those that equal it. `sums`[n_points, 7] gets what a point has more than the one before.
    """
    starts, keys, labels, weights = rows.starts, rows.keys, rows.labels, rows.weights
    points, shares, shift, table = marks.points, marks.shares, marks.shift, marks.table
    n_points = points.size
    first_cell = np.uint64(points[0]) >> shift if n_points > 0 else np.uint64(0)
    last_cell = np.uint64(table.size - 1)
    for user in range(starts.size - 1):
        first, end = np.int64(starts[user]), np.int64(starts[user + 1])
        good = bad = 0.0
        for row in range(first, end):
            weight = weights[row]
            if labels[row] != 0:
                good += weight
            else:
                bad += weight
        totals[0] += np.int64(np.rint(good * good * scale))
        totals[1] += np.int64(np.rint(good * bad * scale))
        totals[2] += np.int64(np.rint(bad * bad * scale))
        above_1 = above_0 = old_1 = old_0 = 0.0
        place = np.int64(0)
        row = first
        while row < end and place < n_points:
            key = keys[row]
            here_1 = here_0 = 0.0
            while row < end and keys[row] == key:
                weight = weights[row]
                if labels[row] != 0:
                    here_1 += weight
                else:
                    here_0 += weight
                row += 1
            cell = np.uint64(key) >> shift
            cell = cell - first_cell if cell > first_cell else np.uint64(0)
            place = np.int64(table[min(cell, last_cell)])
            while place < n_points and points[place] < key:
                place += 1
            while place < n_points:
                share = shares[place] if points[place] == key else 1.0
                new_1, new_0 = above_1 + share * here_1, above_0 + share * here_0
                sums[place, 1] += np.int64(np.rint((new_1 * new_0 - old_1 * old_0) * scale))
                if new_1 != old_1:
                    sums[place, 0] += np.int64(np.rint((new_1 * new_1 - old_1 * old_1) * scale))
                    sums[place, 3] += np.int64(np.rint((new_1 - old_1) * good * scale))
                    sums[place, 4] += np.int64(np.rint((new_1 - old_1) * bad * scale))
                if new_0 != old_0:
                    sums[place, 2] += np.int64(np.rint((new_0 * new_0 - old_0 * old_0) * scale))
                    sums[place, 5] += np.int64(np.rint((new_0 - old_0) * good * scale))
                    sums[place, 6] += np.int64(np.rint((new_0 - old_0) * bad * scale))
                old_1, old_0 = new_1, new_0
                if points[place] != key or share == 1.0:
                    break
                place += 1
            above_1 += here_1
            above_0 += here_0


@kernel(allocates=False)
def add_up_bins(starts, keys, labels, weights, edges, scale, sums):
    """Add to the sums over users of squares and products of rows and labels 1 in each bin.

    `edges`: the largest key of each bin; rows ascend by key within a user.
    """
    for user in range(starts.size - 1):
        place = np.int64(0)
        rows = good = 0.0
        end = np.int64(starts[user + 1])
        for row in range(np.int64(starts[user]), end):
            while keys[row] > edges[place]:
                sums[place, 0] += np.int64(np.rint(rows * rows * scale))
                sums[place, 1] += np.int64(np.rint(rows * good * scale))
                sums[place, 2] += np.int64(np.rint(good * good * scale))
                rows = good = 0.0
                place += 1
            weight = weights[row]
            rows += weight
            if labels[row] != 0:
                good += weight
        sums[place, 0] += np.int64(np.rint(rows * rows * scale))
        sums[place, 1] += np.int64(np.rint(rows * good * scale))
        sums[place, 2] += np.int64(np.rint(good * good * scale))
