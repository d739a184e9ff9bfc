# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected intra-list diversity: of the relevant items, the first ranks first."""

import math

import numpy as np

from evalkit.metrics import ATTENTION, PATIENCE, choice, kernel, list_metric
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import stands_in
from evalkit.metrics.lists._pairs import cosine, features, jaccard_distance

COSINE = 0


def needs(values):
    """Vectors or genres, and the right answers."""
    return ("vector" if values["distance"] == "cosine" else "genres", "relevant")


def tables(values, context):
    """The features of items, and right answers."""
    return features({"distance": values["distance"]}, context.items), context.relevant


@list_metric(
    name="eild",
    aliases=("expected_intra_list_diversity",),
    summary="How different the relevant items of a list are, by the attention of their ranks.",
    formula="sum over hits i of w(i) * mean of d(i, j) over hits j, by w(max(1, j - i)) / sum of w",
    latex=r"\frac{\sum_i w(i) r_i \frac{\sum_{j \ne i} w(j - i) r_j d(i, j)}"
    r"{\sum_{j \ne i} w(j - i) r_j}}{\sum_i w(i)}",
    source="Vargas and Castells 2011, Rank and relevance in novelty and diversity metrics, p. 113",
    bounds=(0.0, 2.0),
    undefined="for a user without relevant items; with fewer than two known items",
    parameters=(
        choice(
            "distance",
            {
                "cosine": "1 less the cosine of the vectors",
                "jaccard": "genres that one alone has, of those that either has",
            },
            doc="How far two items are from each other.",
        ),
        ATTENTION,
        PATIENCE,
    ),
    needs=needs,
    tables=tables,
)
@kernel
def eild(lists, within, cutoffs, some, relevant, distance, attention, patience, out):
    """Each hit's mean distance to the others, kept as sums that grow with every hit."""
    longest = 0
    for user in range(out.shape[0]):
        longest = max(longest, within[user, out.shape[1] - 1])
    hits = np.empty(longest, dtype=np.int64)
    above, below = np.empty(longest), np.empty(longest)
    next_one = attention_of(1, attention, patience)
    for user in range(out.shape[0]):
        begin, place, n, known, weights = lists.starts[user], 0, 0, 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                weights += attention_of(place + 1, attention, patience)
                if some.state[item] >= 0:
                    known += 1
                    if stands_in(relevant, user, item):
                        above[n] = below[n] = 0.0
                        for number in range(n):
                            other = lists.items[begin + hits[number]]
                            if distance == COSINE:
                                far = 1.0 - cosine(some.rows, some.norms, other, item)
                            else:
                                far = jaccard_distance(some.bits, some.sizes, other, item)
                            weight = attention_of(place - hits[number], attention, patience)
                            above[number] += weight * far
                            below[number] += weight
                            above[n] += next_one * far
                            below[n] += next_one
                        hits[n] = place
                        n += 1
                place += 1
            total = 0.0
            for position in range(n):
                if below[position] > 0.0:
                    weight = attention_of(hits[position] + 1, attention, patience)
                    total += weight * above[position] / below[position]
            is_there = known > 1 and relevant.lengths[user] > 0
            out[user, column] = total / weights if is_there else math.nan
