# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""What two lists of a user have in common, at each cutoff."""

import numpy as np

from evalkit.metrics import kernel


@kernel(allocates=False)
def column_of(rank, cutoffs):
    """The first cutoff, or place behind all, whose first ranks hold this one."""
    for column in range(cutoffs.size):
        if rank <= cutoffs[column]:
            return column
    return cutoffs.size


@kernel(allocates=False)
def mark(lists, user, marks):
    """Note of each item of a list the first rank that shows it."""
    begin = lists.starts[user]
    for place in range(lists.lengths[user]):
        item = lists.items[begin + place]
        if marks[item] == 0:
            marks[item] = place + 1


@kernel(allocates=False)
def clear(lists, user, marks):
    """Forget the marks of a list's items."""
    begin = lists.starts[user]
    for place in range(lists.lengths[user]):
        marks[lists.items[begin + place]] = 0


@kernel
def count_common(lists, reference, within, cutoffs, ref_k, n_items, out):
    """Fill `out` int64[n_users, n_cutoffs, 3]: different items in both, in one, in the other.

    Args:
        ref_k: how many ranks of the reference are looked at; 0 for as many as of the list.
    """
    marks = np.zeros(n_items, dtype=np.int32)
    n_cutoffs = cutoffs.size
    out[:] = 0
    for user in range(out.shape[0]):
        mark(reference, user, marks)
        begin, other = lists.starts[user], reference.starts[user]
        for place in range(reference.lengths[user]):
            if marks[reference.items[other + place]] == place + 1:
                if ref_k > 0:
                    if place < ref_k:
                        out[user, 0, 2] += 1
                else:
                    column = column_of(place + 1, cutoffs)
                    if column < n_cutoffs:
                        out[user, column, 2] += 1
        for place in range(within[user, n_cutoffs - 1]):
            item = lists.items[begin + place]
            rank = marks[item]
            if rank < 0:
                continue  # the list has shown it already
            column = column_of(place + 1, cutoffs)
            out[user, column, 1] += 1
            if rank > 0 and (ref_k == 0 or rank <= ref_k):
                if ref_k == 0:
                    column = column_of(max(place + 1, rank), cutoffs)
                if column < n_cutoffs:
                    out[user, column, 0] += 1
            marks[item] = -1
        clear(lists, user, marks)
        clear(reference, user, marks)
        for column in range(1, n_cutoffs):
            for which in range(3):
                out[user, column, which] += out[user, column - 1, which]
