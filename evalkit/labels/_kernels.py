# mypy: disable-error-code="no-untyped-def, assignment"
"""Kernels that walk over distinct scores from the highest to the lowest."""

import math

import numpy as np

from evalkit.metrics import kernel, minus_ln, minus_ln_of_rest
from evalkit.native import prefetch

STRIDE = 16  # points that are passed over at once
AHEAD = 8  # rows whose influence is fetched before it is read


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
    before = precision_before
    for place in range(positives.size):
        rows = sum_1[place] + sum_0[place]
        precision = sum_1[place] / rows if rows > 0.0 else before
        if positives[place] > 0.0:
            steps[n_terms] = positives[place] * precision
            lines[n_terms] = positives[place] * ((precision + before) / 2.0)
            n_terms += 1
        before = precision
    return n_terms


@kernel(allocates=False)
def log_losses(scores, positives, negatives, clip, losses, counts, infinite):
    """-ln of the probability of each group's labels and how often it comes, finite ones only.

    How many there are; `infinite` gets the weight of rows whose loss is infinite.
    """
    n_losses = 0
    for place in range(scores.size):
        score = min(max(scores[place], clip), 1.0 - clip)
        if positives[place] > 0.0:
            loss = minus_ln(score)
            if loss == math.inf:
                infinite[0] += positives[place]
            elif loss > 0.0:
                losses[n_losses] = loss
                counts[n_losses] = positives[place]
                n_losses += 1
        if negatives[place] > 0.0:
            loss = minus_ln_of_rest(score)
            if loss == math.inf:
                infinite[0] += negatives[place]
            elif loss > 0.0:
                losses[n_losses] = loss
                counts[n_losses] = negatives[place]
                n_losses += 1
    return n_losses


@kernel(allocates=False)
def square_losses(scores, positives, negatives, losses, counts):
    """(score - label)^2 of each group's labels and how often it comes; how many there are."""
    n_losses = 0
    for place in range(scores.size):
        if positives[place] > 0.0:
            error = scores[place] - 1.0
            losses[n_losses] = error * error
            counts[n_losses] = positives[place]
            n_losses += 1
        if negatives[place] > 0.0:
            losses[n_losses] = scores[place] * scores[place]
            counts[n_losses] = negatives[place]
            n_losses += 1
    return n_losses


@kernel(allocates=False)
def area_up_to(positives, negatives, above_1, above_0, most, out):
    """Area of each group's piece of the ROC curve, in pairs, as far as `most` false positives."""
    sum_1, sum_0 = above_1, above_0
    for place in range(positives.size):
        here, there = positives[place], negatives[place]
        width = min(there, most - sum_0)
        out[place] = 0.0
        if width > 0.0:
            rise = here * (width / there)
            out[place] = width * (sum_1 + rise / 2.0)
        sum_1 += here
        sum_0 += there


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
    """The influence of each group's rows on areas over all rows; `out` float64[n_groups, n]."""
    for group in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[group, column] = 0.0
        for row in range(starts[group], starts[group + 1]):
            ahead = min(row + AHEAD, keys.size - 1)
            cell = np.int64((np.uint64(keys[ahead]) - least) >> shift)
            prefetch(influence[cell, np.int64(labels[ahead] != 0)], 0)
            cell = np.int64((np.uint64(keys[row]) - least) >> shift)
            kind = np.int64(labels[row] != 0)
            for column in range(out.shape[1]):
                out[group, column] += influence[cell, kind, column]


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


@kernel(allocates=False)
def add_up_points(starts, keys, labels, weights, points, shares, scale, sums, totals):
    """Add to the sums over users of squares and products of their rows above each point.

    Rows ascend by key within a user. A point counts rows with keys below its own, and a share of
    those that equal it. `sums`[n_points, 7] gets what a point has more than the one before.
    """
    n_points = points.size
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
            while place + STRIDE <= n_points and points[place + STRIDE - 1] < key:
                place += STRIDE
            while place < n_points and points[place] < key:
                place += 1
            while place < n_points:
                share = shares[place] if points[place] == key else 1.0
                new_1, new_0 = above_1 + share * here_1, above_0 + share * here_0
                sums[place, 0] += np.int64(np.rint((new_1 * new_1 - old_1 * old_1) * scale))
                sums[place, 1] += np.int64(np.rint((new_1 * new_0 - old_1 * old_0) * scale))
                sums[place, 2] += np.int64(np.rint((new_0 * new_0 - old_0 * old_0) * scale))
                sums[place, 3] += np.int64(np.rint((new_1 - old_1) * good * scale))
                sums[place, 4] += np.int64(np.rint((new_1 - old_1) * bad * scale))
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
