# mypy: disable-error-code="no-untyped-def"
"""ERR and nERR: how soon a user is satisfied who stops at what satisfies."""

import math

from evalkit.metrics import kernel, metric
from evalkit.metrics.rankings._gain import MAX_RELEVANCE

SOURCE = (
    "Chapelle, Metzler, Zhang and Grinspan 2009, Expected reciprocal rank for graded relevance, "
    "Proceedings of CIKM, pp. 622-624"
)


@kernel(allocates=False)
def satisfied(relevance, most):
    """The chance that an item of this relevance satisfies, of a scale up to `most`."""
    return (math.pow(2.0, min(max(relevance, 0.0), most)) - 1.0) / math.pow(2.0, most)


@kernel(allocates=False)
def fill_err(hits, cutoffs, most, out):
    """Expected reciprocal ranks up to each cutoff."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        total, goes_on = 0.0, 1.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                share = satisfied(hits.gains[hit], most)
                total += goes_on * share / hits.ranks[hit]
                goes_on *= 1.0 - share
                hit += 1
            out[user, column] = total


@metric(
    name="ERR",
    aliases=("expected_reciprocal_rank",),
    summary="Expected reciprocal of the rank at which a user is satisfied and stops.",
    formula="sum over ranks i of 1/i * r(i) * product over ranks above of (1 - r), "
    "r = (2^relevance - 1) / 2^max_relevance",
    latex=r"\sum_{i=1}^{k} \frac{1}{i} \, r_i \prod_{j < i} (1 - r_j)",
    source=SOURCE,
    bounds=(0.0, 1.0),
    undefined="never; 0 for a user without relevant items",
    parameters=(MAX_RELEVANCE,),
    view="graded",
)
@kernel(allocates=False)
def err(hits, relevant, lengths, cutoffs, max_relevance, out):
    """Expected reciprocal ranks up to each cutoff."""
    fill_err(hits, cutoffs, max_relevance, out)


@metric(
    name="nERR",
    summary="ERR as a share of that of the ideal list.",
    formula="ERR at k / ERR at k of all items with a gain, the largest first",
    latex=r"\frac{\mathrm{ERR}_k}{\mathrm{ERR}^*_k}",
    source=SOURCE,
    bounds=(0.0, 1.0),
    undefined="for a user without any gain to find",
    parameters=(MAX_RELEVANCE,),
    view="graded",
)
@kernel(allocates=False)
def nerr(hits, relevant, lengths, cutoffs, max_relevance, out):
    """ERR up to each cutoff over that of the ideal list; NaN without any gain to find."""
    fill_err(hits, cutoffs, max_relevance, out)
    for user in range(out.shape[0]):
        first, stop = relevant.starts[user], relevant.starts[user + 1]
        total, goes_on, n = 0.0, 1.0, 0
        for column in range(cutoffs.size):
            while first + n < stop and n < cutoffs[column]:
                share = satisfied(relevant.gains[first + n], max_relevance)
                n += 1
                total += goes_on * share / n
                goes_on *= 1.0 - share
            out[user, column] = min(out[user, column] / total, 1.0) if total > 0.0 else math.nan
