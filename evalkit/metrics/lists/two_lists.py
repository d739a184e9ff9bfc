# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""A list beside one of a reference: what both show, and in which order."""

import math
from functools import partial

import numpy as np

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric, number

pair_metric = partial(
    list_metric,
    bounds=(0.0, 1.0),
    undefined="for a user whom the reference has no list for",
    higher_is_better=None,
    needs=("reference",),
    tables=lambda values, context: (context.reference, context.items.popularity.size),
)


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


OVER_K, ZERO = 0, 1


@pair_metric(
    name="overlap",
    aliases=("intersection",),
    summary="Share of the list that the reference shows this user too.",
    formula="items in both lists / k",
    latex=r"\frac{|A \cap B|}{k}",
    source="Webber et al. 2010, A similarity measure for indefinite rankings, p. 20:6",
    parameters=(
        choice(
            "den",
            {"k": "the cutoff", "n": "the items that are shown"},
            doc="What the common items are divided by.",
        ),
        number(
            "ref_k",
            0.0,
            above=-1.0,
            is_whole=True,
            tried=3.0,
            doc="Ranks of the reference that are looked at; 0: as many as of the list.",
        ),
        choice(
            "lacking",
            {"nan": "has no value", "zero": "has nothing in common with it"},
            doc="A user whom the reference has no list for.",
        ),
    ),
)
@kernel
def overlap(lists, within, cutoffs, reference, n_items, den, ref_k, lacking, out):
    """Common items over the cutoff; without one over the length of the list."""
    counts = np.empty((out.shape[0], out.shape[1], 3), dtype=np.int64)
    count_common(lists, reference, within, cutoffs, int(ref_k), n_items, counts)
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            below = within[user, column]
            if below > 0 and den == OVER_K and cutoffs[column] != NO_CUTOFF:
                below = cutoffs[column]
            is_there = below > 0 and (reference.lengths[user] > 0 or lacking == ZERO)
            out[user, column] = counts[user, column, 0] / below if is_there else math.nan


@pair_metric(
    name="jaccard",
    aliases=("jaccard_index",),
    summary="Items that the list and the reference share, of all that either of them shows.",
    formula="items in both lists / items in either",
    latex=r"\frac{|A \cap B|}{|A \cup B|}",
    source="Jaccard 1912, The distribution of the flora in the alpine zone, New Phytologist 11, "
    "p. 44",
)
@kernel
def jaccard(lists, within, cutoffs, reference, n_items, out):
    """Common items over all items of both."""
    counts = np.empty((out.shape[0], out.shape[1], 3), dtype=np.int64)
    count_common(lists, reference, within, cutoffs, 0, n_items, counts)
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            both, one, other = counts[user, column]
            is_there = one > 0 and other > 0
            out[user, column] = both / (one + other - both) if is_there else math.nan


@pair_metric(
    name="kendall_tau",
    aliases=("tau",),
    summary="Whether the list and the reference put the items that both show in one order.",
    formula="(pairs in one order - pairs in the other) / pairs of items in both lists",
    latex=r"\frac{C - D}{C + D}",
    source="Kendall 1945, The treatment of ties in ranking problems, Biometrika 33, p. 239",
    bounds=(-1.0, 1.0),
    undefined="with fewer than two items in common",
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


@pair_metric(
    name="least_item_promoted",
    aliases=("LIP",),
    summary="Ranks below the cutoff from which the first items were brought up, in the reference.",
    formula="max(0, largest rank in the reference of the first k items - k)",
    latex=r"\max\left(0, \max_{i \in L_{1:k}} rank_B(i) - k\right)",
    source="Ekstrand et al. 2024, LensKit for Python, metrics/reranking/_lip.py",
    bounds=(0.0, math.inf),
    parameters=(
        choice(
            "ranks",
            {"one": "count from 1", "zero": "count from 0, so that one promotion less is seen"},
            doc="Ranks of the reference.",
        ),
    ),
)
@kernel
def least_item_promoted(lists, within, cutoffs, reference, n_items, ranks, out):
    """The worst rank so far less the cutoff; items that the reference lacks are left out."""
    marks = np.zeros(n_items, dtype=np.int32)
    for user in range(out.shape[0]):
        mark(reference, user, marks)
        begin, place, worst = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                worst = max(worst, marks[lists.items[begin + place]])
                place += 1
            k = place if cutoffs[column] == NO_CUTOFF else cutoffs[column]
            is_there = reference.lengths[user] > 0
            out[user, column] = max(0, worst - ranks - k) if is_there else math.nan
        clear(reference, user, marks)


EXTRAPOLATED, PREFIX, NORMALIZED, AVERAGE = 0, 1, 2, 3


@pair_metric(
    name="rbo",
    aliases=("rank_biased_overlap",),
    summary="Agreement of the list with the reference's, where the first ranks weigh most.",
    formula="(1 - p) / p * sum over depths d of p^d * common items / d, and what lies behind",
    latex=r"\frac{1-p}{p} \sum_{d} \frac{|A_{1:d} \cap B_{1:d}|}{d} p^d",
    source="Webber et al. 2010, A similarity measure for indefinite rankings, equation 32",
    parameters=(
        number("p", 0.9, above=0.0, below=1.0, doc="Who looks one rank further."),
        choice(
            "tail",
            {
                "extrapolated": "as the shown ranks agree, so do those behind them",
                "prefix": "nothing is added for ranks behind the shorter list",
                "normalized": "the prefix to the cutoff, over the sum of its weights",
                "average": "the mean agreement of all depths of the shorter list, without p",
            },
            doc="What becomes of ranks that the lists do not show.",
        ),
    ),
)
@kernel
def rbo(lists, within, cutoffs, reference, n_items, p, tail, out):
    """Agreement summed over depths, each cutoff as if both lists ended there."""
    marks = np.zeros(n_items, dtype=np.int8)  # 1: the list has shown it; 2: the other one; 3: both
    for user in range(out.shape[0]):
        begin, n = lists.starts[user], lists.lengths[user]
        other, m = reference.starts[user], reference.lengths[user]
        short, common, at_short, depth = min(n, m), 0, 0, 0
        total = behind = plain = weights = whole = 0.0
        weight = 1.0 if tail != EXTRAPOLATED else p  # of depth 1, without 1 - p
        for column in range(out.shape[1]):
            if n == 0 or m == 0:
                out[user, column] = math.nan
                continue
            end = min(max(n, m), cutoffs[column])
            if tail == NORMALIZED and cutoffs[column] != NO_CUTOFF:
                end = cutoffs[column]
            while depth < end:
                if depth < n:
                    item = lists.items[begin + depth]
                    common += marks[item] == 2
                    marks[item] |= 1
                if depth < m:
                    item = reference.items[other + depth]
                    common += marks[item] == 1
                    marks[item] |= 2
                depth += 1
                if depth <= short:
                    at_short = common
                    plain += common / depth
                    total += common / depth * weight
                elif tail == EXTRAPOLATED:
                    total += common / depth * weight
                    behind += at_short * (depth - short) / (short * depth) * weight
                elif tail == NORMALIZED:
                    total += common / depth * weight
                weights += weight
                weight *= p
                if depth == max(n, m):
                    whole = total / weights
            if tail == EXTRAPOLATED:
                s = min(short, end)
                shown = (total + behind) * (1.0 - p) / p
                rest = (common - at_short) / end + at_short / s
                out[user, column] = shown + rest * weight / p
            elif tail == PREFIX:
                out[user, column] = total * (1.0 - p)
            elif tail == NORMALIZED:
                out[user, column] = whole if cutoffs[column] == NO_CUTOFF else total / weights
            else:
                out[user, column] = plain / min(short, end)
        clear(lists, user, marks)
        clear(reference, user, marks)
