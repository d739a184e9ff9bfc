# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Kendall's tau of the items that a list shares with that of another model."""

import math

import numpy as np

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._two_lists import clear, column_of, mark


def tables(values, context):
    """The other lists, and how many items there are."""
    return context.reference, context.items.popularity.size


@list_metric(
    name="kendall_tau",
    aliases=("tau",),
    summary="Whether the list and the reference put the items that both show in one order.",
    formula="(pairs in one order - pairs in the other) / pairs of items in both lists",
    latex=r"\frac{C - D}{C + D}",
    source="Kendall 1945, The treatment of ties in ranking problems, Biometrika 33, p. 239",
    bounds=(-1.0, 1.0),
    undefined="with fewer than two items in common",
    higher_is_better=None,
    needs=("reference",),
    tables=tables,
)
@kernel
def kendall_tau(lists, within, cutoffs, reference, n_items, out):
    """Signs of all pairs of common items; a pair counts from the cutoff on that shows it."""
    n_cutoffs = out.shape[1]
    marks = np.zeros(n_items, dtype=np.int32)
    signs, pairs = np.zeros(n_cutoffs + 1), np.zeros(n_cutoffs + 1)
    longest = 0
    for user in range(out.shape[0]):
        longest = max(longest, within[user, n_cutoffs - 1])
    ranks = np.empty(longest, dtype=np.int64)
    columns = np.empty(longest, dtype=np.int64)
    for user in range(out.shape[0]):
        signs[:] = 0.0
        pairs[:] = 0.0
        mark(reference, user, marks)
        begin, n = lists.starts[user], 0
        for place in range(within[user, n_cutoffs - 1]):
            item = lists.items[begin + place]
            rank = marks[item]
            if rank <= 0:
                continue
            marks[item] = -1
            column = column_of(max(place + 1, rank), cutoffs)
            for before in range(n):
                later = max(column, columns[before])
                signs[later] += 1.0 if ranks[before] < rank else -1.0
                pairs[later] += 1.0
            ranks[n], columns[n] = rank, column
            n += 1
        clear(lists, user, marks)
        clear(reference, user, marks)
        sign = pair = 0.0
        for column in range(n_cutoffs):
            sign += signs[column]
            pair += pairs[column]
            out[user, column] = sign / pair if pair > 0.0 else math.nan
