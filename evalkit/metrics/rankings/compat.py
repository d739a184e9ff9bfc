# mypy: disable-error-code="no-untyped-def"
"""Compatibility: rank-biased overlap of a list with the ideal one that is most like it."""

from evalkit.metrics import choice, kernel, metric, number

MAX, NONE = 0, 1


@metric(
    name="compat",
    aliases=("compatibility",),
    summary="Rank-biased overlap with the ideal list that breaks its ties as the list does.",
    formula="RBO(L, I) / RBO(I, I), I the items with a gain, the largest first, shown ones first",
    latex=r"\frac{\sum_i p^{i-1} |L_i \cap I_i| / i}{\sum_i p^{i-1} \min(i, |I|) / i}",
    source="Clarke, Vtyurina and Smucker 2021, Assessing top-k preferences, ACM Transactions on "
    "Information Systems 39(3), article 33, pp. 33:1-33:21",
    bounds=(0.0, 1.0),
    undefined="never; 0 for a user without relevant items",
    parameters=(
        number("patience", 0.95, above=0.0, below=1.0, tried=0.8, doc="The weight p of a depth."),
        choice(
            "normalize",
            {"max": "by the overlap of the ideal list with itself", "none": "not"},
            doc="How the overlap is scaled.",
        ),
    ),
    view="graded",
)
@kernel(allocates=False)
def compat(hits, relevant, lengths, cutoffs, patience, normalize, out):
    """Overlap of each list, up to each cutoff, with its ideal; 0 without one."""
    for user in range(out.shape[0]):
        first, n_ideal = relevant.starts[user], 0
        while first + n_ideal < relevant.starts[user + 1] and relevant.gains[first + n_ideal] > 0.0:
            n_ideal += 1
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            length = min(lengths[user], cutoffs[column])
            overlap = best = total = gain = 0.0
            weight = 1.0
            hit, start, n_above, n_equal = (
                begin,
                0,
                0,
                0,
            )  # hits so far with more gain, with as much
            for depth in range(1, max(length, n_ideal) + 1 if n_ideal > 0 else 1):
                n_best = min(depth, n_ideal)
                if relevant.gains[first + n_best - 1] != gain:  # the ideal list goes on with less
                    gain, start = relevant.gains[first + n_best - 1], n_best - 1
                    n_above, n_equal = n_above + n_equal, 0
                    for above in range(begin, hit):
                        n_equal += hits.gains[above] == gain
                while hit < end and hits.ranks[hit] <= min(depth, length):
                    n_above += hits.gains[hit] > gain
                    n_equal += hits.gains[hit] == gain
                    hit += 1
                n_both = n_above + min(n_equal, n_best - start)
                overlap += weight * min(n_both, n_ideal) / depth
                best += weight * n_best / depth
                total += weight
                weight *= patience
            divisor = best if normalize == MAX else total
            out[user, column] = overlap / divisor if n_ideal > 0 and divisor > 0.0 else 0.0
