# mypy: disable-error-code="no-untyped-def"
"""AP: precision averaged over the relevant items; its mean is MAP."""

import math

from evalkit.metrics import NO_CUTOFF, choice, kernel, metric

HITS, EVERY_RANK = 0, 1
MIN_K, RELEVANT, MIN_LENGTH, OVER_HITS, K = 0, 1, 2, 3, 4
LONGEST_SUM = 4096  # ranks that are added up one by one
EULER = 0.5772156649015329


@kernel(allocates=False)
def harmonic(number):
    """1 + 1/2 + ... + 1/number by its expansion, exact to float64 above a thousand."""
    inverse = 1.0 / number
    square = inverse * inverse
    return math.log(number) + EULER + inverse / 2.0 - square / 12.0 + square * square / 120.0


@kernel(allocates=False)
def precision_sum(n_hits, after, last):
    """The precisions at ranks `after` + 1 to `last` added up, with `n_hits` above all of them."""
    total = 0.0
    if n_hits > 0:
        end = min(last, after + LONGEST_SUM)
        for rank in range(after + 1, end + 1):
            total += n_hits / rank
        if end < last:
            total += n_hits * (harmonic(last) - harmonic(end))
    return total


@metric(
    name="AP",
    aliases=(
        "MAP",
        "average_precision",
        "mean_average_precision",
        "map_cut(over='relevant')",
    ),
    summary="Precision at each relevant item shown, averaged over those that could be shown.",
    formula="sum over hits at ranks 1 to k of (hits up to that rank / rank) / min(k, |R|)",
    latex=r"\frac{1}{\min(k, |R|)} \sum_{i=1}^{k} h_i \frac{1}{i} \sum_{j=1}^{i} h_j",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.4, p. 160",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(
        choice(
            "over",
            {
                "min_k": "min(k, relevant items), so that a list of k items can reach 1",
                "relevant": "all relevant items",
                "min_length": "min(k, length of the list, relevant items)",
                "hits": "the hits at ranks 1 to k: missing items cost nothing",
                "k": "the cutoff, or the length of the list without one",
            },
            doc="What the sum is divided by.",
        ),
        choice(
            "terms",
            {
                "hits": "the precision at each hit",
                "every_rank": "the precision at every rank from 1 to k, hit or not",
            },
            doc="What is summed up.",
        ),
    ),
)
@kernel(allocates=False)
def ap(hits, relevant, lengths, cutoffs, over, terms, out):
    """Sum of precisions up to each cutoff over its divisor; NaN for a user without relevant."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, start, end = hits.starts[user], hits.starts[user], hits.starts[user + 1]
        total = 0.0
        after = 0  # with every_rank: the ranks whose precision `total` holds
        for column in range(cutoffs.size):
            cutoff = cutoffs[column]
            n_ranks = lengths[user] if cutoff == NO_CUTOFF else cutoff
            while hit < end and hits.ranks[hit] <= cutoff:
                if terms == HITS:
                    total += (hit - start + 1) / hits.ranks[hit]
                else:
                    total += precision_sum(hit - start, after, hits.ranks[hit] - 1)
                    after = hits.ranks[hit] - 1
                hit += 1
            value = total
            if terms == EVERY_RANK:
                value += precision_sum(hit - start, after, n_ranks)
            divisor = n_relevant
            if over == MIN_K:
                divisor = min(cutoff, n_relevant)
            elif over == MIN_LENGTH:
                divisor = min(min(cutoff, lengths[user]), n_relevant)
            elif over == OVER_HITS:
                divisor = hit - start
            elif over == K:
                divisor = n_ranks
            if n_relevant == 0:
                out[user, column] = math.nan
            else:
                out[user, column] = value / divisor if divisor > 0 else 0.0
