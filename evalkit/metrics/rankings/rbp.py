# mypy: disable-error-code="no-untyped-def"
"""RBP: what a user sees who goes on to the next rank with a fixed probability."""

from evalkit.metrics import Unbiased, choice, kernel, metric, number
from evalkit.metrics.rankings._gain import BELOW_THRESHOLD, view_of_gain

BINARY, RELEVANCE = 0, 2


@kernel(allocates=False)
def power(base, exponent):
    """`base` to a whole `exponent` >= 0 by squaring: the same bits with and without the JIT."""
    value = 1.0
    while exponent > 0:
        if exponent & 1:
            value *= base
        base *= base
        exponent >>= 1
    return value


@kernel(allocates=False)
def rbp_weighted(hits, relevant, lengths, cutoffs, patience, gain, below_threshold, out):
    """Discounted weights of hits up to each cutoff."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        total = 0.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                total += hits.gains[hit] * power(patience, hits.ranks[hit] - 1)
                hit += 1
            out[user, column] = (1.0 - patience) * total


@metric(
    name="RBP",
    aliases=("rank_biased_precision",),
    summary="Expected share of relevant items seen by a user who stops after every rank by chance.",
    formula="(1 - patience) * sum over hits at ranks 1 to k of gain * patience^(rank - 1)",
    latex=r"(1 - p) \sum_{i=1}^{k} g_i \, p^{i - 1}",
    source="Moffat and Zobel 2008, Rank-Biased Precision for Measurement of Retrieval "
    "Effectiveness, ACM Transactions on Information Systems 27(1), article 2, pp. 2:1-2:27",
    bounds=(0.0, 1.0),
    undefined="never; 0 for a user without relevant items",
    parameters=(
        number(
            "patience",
            0.8,
            above=0.0,
            below=1.0,
            tried=0.95,
            doc="The probability p of going on to the next rank; trec_eval takes 0.9.",
        ),
        choice(
            "gain",
            {
                "binary": "1 for every relevant item",
                "linear": "the relevance over the largest of the user's items, as in trec_eval",
                "relevance": "the relevance itself, as in ranx: above 1 the value may pass 1",
            },
            doc="What an item of a certain relevance is worth.",
        ),
        BELOW_THRESHOLD,
    ),
    view=view_of_gain,
    unbiased=Unbiased(rbp_weighted, only={"gain": ("binary",)}),
)
@kernel(allocates=False)
def rbp(hits, relevant, lengths, cutoffs, patience, gain, below_threshold, out):
    """Discounted gains of hits up to each cutoff."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        first = relevant.starts[user]
        largest = relevant.gains[first] if first < relevant.starts[user + 1] else 0.0
        total = 0.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                factor = power(patience, hits.ranks[hit] - 1)
                if gain == BINARY:
                    total += factor
                elif gain == RELEVANCE:
                    total += hits.gains[hit] * factor
                elif largest > 0.0:
                    total += hits.gains[hit] / largest * factor
                hit += 1
            out[user, column] = (1.0 - patience) * total
