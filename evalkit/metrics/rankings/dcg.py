# mypy: disable-error-code="no-untyped-def"
"""DCG: the gain of what the ranking shows, discounted by rank."""

import math
from dataclasses import replace

from evalkit.metrics import Unbiased, choice, kernel, metric
from evalkit.metrics.rankings._gain import (
    BELOW_THRESHOLD,
    DISCOUNT,
    GAIN,
    LOG_BASE,
    discount_of,
    gain_of,
    mean_discount,
    view_of_gain,
)

USER, RELEVANT = 0, 1
PER = replace(
    choice(
        "per",
        {
            "user": "the user: the sum as it is",
            "relevant": "the user's items with a gain: the sum over their number",
        },
        doc="Whose mean it is.",
    ),
    is_late=True,
)


@kernel(allocates=False)
def mean_of(total, relevant, user, per):
    """The sum, or its mean over the user's relevant items; NaN without any."""
    if per == USER:
        return total
    n_relevant = relevant.starts[user + 1] - relevant.starts[user]
    return total / n_relevant if n_relevant > 0 else math.nan


@kernel(allocates=False)
def dcg_tied(hits, relevant, lengths, cutoffs, gain, below_threshold, discount, log_base, per, out):
    """Discounted gains up to each cutoff, each gain the mean of its tie."""
    # Wide: what a metric of its kind is given, and its own parameters.
    firsts, lasts = hits.firsts, hits.lasts
    for user in range(out.shape[0]):
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            total = factor = 0.0
            for hit in range(begin, end):
                if firsts[hit] > cutoffs[column]:
                    break
                if hit == begin or firsts[hit] != firsts[hit - 1]:
                    factor = mean_discount(
                        firsts[hit], lasts[hit], cutoffs[column], discount, log_base
                    )
                total += gain_of(hits.gains[hit], gain) * factor
            out[user, column] = mean_of(total, relevant, user, per)


@metric(
    name="DCG",
    aliases=("discounted_cumulated_gain", "discounted_cumulative_gain", "DCG_burges(gain='exp2')"),
    summary="Sum of the gains that the ranking shows, each discounted by its rank.",
    formula="sum over hits at ranks 1 to k of gain * discount(rank)",
    latex=r"\sum_{i=1}^{k} \frac{g_i}{\log_b(1 + i)}",
    source="Järvelin and Kekäläinen 2002, Cumulated Gain-Based Evaluation of IR Techniques, "
    "ACM Transactions on Information Systems 20(4), p. 426 (discount 'jarvelin'); "
    "Burges et al. 2005, Learning to Rank using Gradient Descent, Proceedings of ICML, "
    "pp. 89-96 (discount 'log', gain 'exp2')",
    bounds=(0.0, math.inf),
    undefined="never; 0 for a user without relevant items, but for per='relevant'",
    parameters=(GAIN, BELOW_THRESHOLD, DISCOUNT, LOG_BASE, PER),
    view=view_of_gain,
    tied=dcg_tied,
    over_hits="DCG",
    unbiased=Unbiased(per={"per": ("relevant",)}),
)
@kernel(allocates=False)
def dcg(hits, relevant, lengths, cutoffs, gain, below_threshold, discount, log_base, per, out):
    """Discounted gains up to each cutoff."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        total = 0.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                factor = discount_of(hits.ranks[hit], discount, log_base)
                total += gain_of(hits.gains[hit], gain) * factor
                hit += 1
            out[user, column] = mean_of(total, relevant, user, per)


@metric(
    name="ideal_DCG",
    aliases=("IDCG",),
    summary="DCG of the ideal list, which a list of that length can reach.",
    formula="DCG at k of all items with a gain, the largest first",
    latex=r"\sum_{i=1}^{k} \frac{g^*_i}{\log_b(1 + i)}",
    source="Järvelin and Kekäläinen 2002, Cumulated Gain-Based Evaluation of IR Techniques, "
    "ACM Transactions on Information Systems 20(4), p. 427",
    bounds=(0.0, math.inf),
    undefined="never; 0 for a user without any gain to find",
    parameters=(GAIN, BELOW_THRESHOLD, DISCOUNT, LOG_BASE),
    higher_is_better=None,
    view=view_of_gain,
)
@kernel(allocates=False)
def ideal_dcg(hits, relevant, lengths, cutoffs, gain, below_threshold, discount, log_base, out):
    """Discounted gains of the ideal list up to each cutoff."""
    for user in range(out.shape[0]):
        first, n = relevant.starts[user], 0
        total = 0.0
        for column in range(cutoffs.size):
            while n < cutoffs[column] and first + n < relevant.starts[user + 1]:
                factor = discount_of(n + 1, discount, log_base)
                total += max(gain_of(relevant.gains[first + n], gain), 0.0) * factor
                n += 1
            out[user, column] = total
