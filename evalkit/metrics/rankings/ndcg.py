# mypy: disable-error-code="no-untyped-def"
"""nDCG: DCG over that of the ideal list."""

import math

from evalkit.metrics import NO_CUTOFF, Unbiased, choice, kernel, metric
from evalkit.metrics.rankings._gain import (
    BELOW_THRESHOLD,
    BINARY,
    DISCOUNT,
    DISCOUNT_SUMS,
    GAIN,
    LOG,
    LOG_BASE,
    N_TABLED,
    discount_of,
    gain_of,
    mean_discount,
    view_of_gain,
)
from evalkit.metrics.rankings._steady import repeat_to_next_hit

ALL, SHOWN, FULL_K = 0, 1, 2
AT_K, NONE = 0, 1
LEFT_OUT, LAST, DIVIDE, DIVIDE_UNLESS_SUM, DIVIDE_OR_UNDEFINED = 0, 1, 2, 3, 4


@kernel(allocates=False)
def share_of(total, ideal, has_gain, is_empty, idcg_negative):
    """A gain as a share of the ideal one, which only some divide by where it is below 0."""
    if not has_gain:
        return math.nan
    if is_empty:
        return 0.0
    if ideal > 0.0:
        return total / ideal
    if idcg_negative <= LAST:
        return 0.0
    if ideal < 0.0:
        return total / ideal + 0.0  # never -0
    return math.nan if idcg_negative == DIVIDE_OR_UNDEFINED else 0.0


@kernel(allocates=False)
def adds_up_to_nothing(gains, first, stop, gain):
    """Whether the gains of some items add up to 0."""
    total = 0.0
    for place in range(first, stop):
        total += gain_of(gains[place], gain)
    return total == 0.0


@kernel(allocates=False)
def ndcg_tied(
    hits,
    relevant,
    lengths,
    cutoffs,
    gain,
    below_threshold,
    discount,
    log_base,
    idcg,
    idcg_cut,
    idcg_negative,
    out,
):
    """DCG at each cutoff with gains that are the mean of their tie, over the ideal list's."""
    # Wide: what a metric of its kind is given, and its own parameters.
    firsts, lasts = hits.firsts, hits.lasts
    for user in range(out.shape[0]):
        begin, end = hits.starts[user], hits.starts[user + 1]
        gains, first, stop = relevant.gains, relevant.starts[user], relevant.starts[user + 1]
        has_gain = first < stop
        if idcg_negative <= LAST:
            has_gain = has_gain and gain_of(gains[first], gain) > 0.0
        if idcg == SHOWN:
            gains, first, stop = hits.ideal, begin, end
        is_empty = idcg_negative == DIVIDE_UNLESS_SUM
        is_empty = is_empty and adds_up_to_nothing(gains, first, stop, gain)
        for column in range(cutoffs.size):
            cutoff = cutoffs[column]
            total = ideal = factor = 0.0
            for hit in range(begin, end):
                if firsts[hit] > cutoff:
                    break
                if hit == begin or firsts[hit] != firsts[hit - 1]:
                    factor = mean_discount(firsts[hit], lasts[hit], cutoff, discount, log_base)
                total += gain_of(hits.gains[hit], gain) * factor
            n_wanted = stop - first
            if idcg == FULL_K:
                n_wanted = lengths[user] if cutoff == NO_CUTOFF else cutoff
            elif idcg_cut == AT_K:
                n_wanted = min(n_wanted, cutoff)
            for place in range(n_wanted):
                worth = 1.0 if idcg == FULL_K else gain_of(gains[first + place], gain)
                if worth > 0.0 or idcg_negative != LEFT_OUT:
                    ideal += worth * discount_of(place + 1, discount, log_base)
            out[user, column] = share_of(total, ideal, has_gain, is_empty, idcg_negative)


@metric(
    name="nDCG",
    aliases=(
        "normalized_discounted_cumulated_gain",
        "normalized_discounted_cumulative_gain",
        "ndcg_cut",
        "ndcg_burges(gain='exp2')",
        "ndcg_exp(gain='exp2')",
        "ndcg_binary(gain='binary')",
    ),
    summary="Discounted gain of the ranking as a share of that of the ideal list.",
    formula="DCG at k / DCG at k of the ideal list, which has the largest gains first",
    latex=r"\frac{\sum_{i=1}^{k} g_i / \log_b(1 + i)}{\sum_{i=1}^{k} g^*_i / \log_b(1 + i)}",
    source="Järvelin and Kekäläinen 2002, Cumulated Gain-Based Evaluation of IR Techniques, "
    "ACM Transactions on Information Systems 20(4), pp. 427-428; "
    "Burges et al. 2005, Learning to Rank using Gradient Descent, Proceedings of ICML, "
    "pp. 89-96 (discount 'log', gain 'exp2')",
    bounds=(0.0, 1.0),
    undefined="for a user without any gain to find",
    parameters=(
        GAIN,
        BELOW_THRESHOLD,
        DISCOUNT,
        LOG_BASE,
        choice(
            "idcg",
            {
                "all": "all items with a gain, shown or not",
                "shown": "the rows with a gain that the whole list shows: of copies those that hit",
                "full_k": "k items of gain 1, whatever the user has",
            },
            doc="What the ideal list is made of.",
        ),
        choice(
            "idcg_cut",
            {
                "k": "cut at k, as the ranking is",
                "none": "not cut, so that a small k cannot reach 1; 'full_k' stays at k",
            },
            doc="Where the ideal list ends.",
        ),
        choice(
            "idcg_negative",
            {
                "left_out": "stand in no ideal list",
                "last": "stand last in it, behind everything without gain",
                "divide": "as 'last', and an ideal below 0 divides too; 0 where it is 0",
                "divide_unless_sum": "as 'divide', but 0 where all gains add up to 0",
                "divide_or_undefined": "as 'divide', but undefined where the ideal is 0",
            },
            doc="Gains below 0, which are subtracted where the policies allow them.",
        ),
    ),
    view=view_of_gain,
    tied=ndcg_tied,
    over_hits="DCG",
    unbiased=Unbiased(is_share=True, only={"idcg": ("all", "shown")}),
)
@kernel(allocates=False)
def ndcg(
    hits,
    relevant,
    lengths,
    cutoffs,
    gain,
    below_threshold,
    discount,
    log_base,
    idcg,
    idcg_cut,
    idcg_negative,
    out,
):
    """DCG at each cutoff over that of the ideal list; NaN without any gain to find."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        gains, first, stop = relevant.gains, relevant.starts[user], relevant.starts[user + 1]
        has_gain = first < stop
        if idcg_negative <= LAST:
            has_gain = has_gain and gain_of(gains[first], gain) > 0.0
        if idcg == SHOWN:
            gains, first, stop = hits.ideal, hit, end
        is_one = idcg == FULL_K or gain == BINARY  # every gain of the ideal list is 1
        if first < stop and not is_one:
            is_one = gains[first] == 1.0 and gains[stop - 1] == 1.0
        is_tabled = is_one and discount == LOG and log_base == 2.0
        is_empty = idcg_negative == DIVIDE_UNLESS_SUM
        is_empty = is_empty and adds_up_to_nothing(gains, first, stop, gain)
        total = 0.0
        ideal = 0.0
        n_ideal = 0
        column = 0
        while column < cutoffs.size:
            cutoff = cutoffs[column]
            while hit < end and hits.ranks[hit] <= cutoff:
                factor = discount_of(hits.ranks[hit], discount, log_base)
                total += gain_of(hits.gains[hit], gain) * factor
                hit += 1
            n_wanted = stop - first
            if idcg == FULL_K:
                n_wanted = lengths[user] if cutoff == NO_CUTOFF else cutoff
            elif idcg_cut == AT_K:
                n_wanted = min(n_wanted, cutoff)
            if is_tabled and n_wanted <= N_TABLED:
                ideal, n_ideal = DISCOUNT_SUMS[n_wanted], n_wanted
            elif n_wanted < n_ideal:
                ideal, n_ideal = 0.0, 0
            while n_ideal < n_wanted:
                worth = 1.0 if is_one else gain_of(gains[first + n_ideal], gain)
                n_ideal += 1
                if worth > 0.0 or idcg_negative != LEFT_OUT:
                    ideal += worth * discount_of(n_ideal, discount, log_base)
            share = share_of(total, ideal, has_gain, is_empty, idcg_negative)
            out[user, column] = share
            column += 1
            if idcg != FULL_K and n_wanted == stop - first:  # the ideal list is whole
                given = hits.ranks, hit, end, cutoffs, out
                column = repeat_to_next_hit(share, user, column, *given)
