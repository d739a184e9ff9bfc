# mypy: disable-error-code="no-untyped-def"
"""What RBP could gain, were all that nobody judged relevant."""

from evalkit.metrics import choice, kernel, metric, number
from evalkit.metrics.rankings.rbp import power

LOST = 1


@metric(
    name="rbp_residual",
    aliases=("rbp_resid",),
    summary="How much larger RBP might be: the weight of ranks that nobody judged.",
    formula="(1 - patience) * sum over unjudged ranks of patience^(rank - 1), those past k too",
    latex=r"1 - (1 - p) \sum_{i=1}^{k} [i \text{ is judged}] \, p^{i - 1}",
    source="Moffat and Zobel 2008, Rank-Biased Precision for Measurement of Retrieval "
    "Effectiveness, ACM Transactions on Information Systems 27(1), article 2, pp. 2:16-2:18",
    bounds=(0.0, 1.0),
    undefined="never; 1 for an empty list",
    parameters=(
        number(
            "patience",
            0.8,
            above=0.0,
            below=1.0,
            tried=0.95,
            doc="The probability p of going on to the next rank.",
        ),
        choice(
            "tail",
            {
                "counts": "counts",
                "lost": "does not where every shown item is judged, a mistake of trec_eval",
            },
            doc="What stands past the list.",
        ),
    ),
    higher_is_better=False,
    monotone=False,
    view="pool",
)
@kernel(allocates=False)
def rbp_residual(hits, relevant, lengths, cutoffs, patience, tail, out):
    """The weight that no judged item up to each cutoff takes."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        total, n_judged = 0.0, 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                if hits.gains[hit] >= 0.0:
                    total += power(patience, hits.ranks[hit] - 1)
                    n_judged += 1
                hit += 1
            all_judged = n_judged >= min(lengths[user], cutoffs[column])
            rest = 0.0 if tail == LOST and all_judged else 1.0 - (1.0 - patience) * total
            out[user, column] = max(rest, 0.0)
