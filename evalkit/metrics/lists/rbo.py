# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Rank-biased overlap with the list of another model."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric, number

EXTRAPOLATED, PREFIX, NORMALIZED, AVERAGE = 0, 1, 2, 3


def tables(values, context):
    """The other lists, and how many items there are."""
    return context.reference, context.items.popularity.size


@list_metric(
    name="rbo",
    aliases=("rank_biased_overlap",),
    summary="Agreement of the list with the reference's, where the first ranks weigh most.",
    formula="(1 - p) / p * sum over depths d of p^d * common items / d, and what lies behind",
    latex=r"\frac{1-p}{p} \sum_{d} \frac{|A_{1:d} \cap B_{1:d}|}{d} p^d",
    source="Webber et al. 2010, A similarity measure for indefinite rankings, equation 32",
    bounds=(0.0, 1.0),
    undefined="for a user whom the reference has no list for",
    higher_is_better=None,
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
    needs=("reference",),
    tables=tables,
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
        for place in range(n):
            marks[lists.items[begin + place]] = 0
        for place in range(m):
            marks[reference.items[other + place]] = 0
