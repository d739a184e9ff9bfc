# mypy: disable-error-code="no-untyped-def"
"""Area under the ROC curve."""

from typing import Any

from evalkit.metrics import (
    NEGATIVES,
    POSITIVES,
    OfSums,
    Request,
    Smooth,
    choice,
    kernel,
    label_metric,
    over_rows_or_groups,
)
from evalkit.metrics.labels._over import INSTEAD, instead, where_undefined

HALF, LOST = 0, 1


def of_pairs(asked: Request) -> OfSums:
    """Pairs that are won over all pairs."""
    values = dict(asked.parameters)

    def value(won: Any, positives: Any, negatives: Any) -> Any:
        if positives and negatives:
            return won / (2 * positives * negatives)
        return INSTEAD[str(values["undefined"])]

    area = Smooth((("AUC", values["ties"]),), complex)
    return OfSums((("won", values["ties"]), POSITIVES, NEGATIVES), value, area)


@label_metric(
    name="AUC",
    aliases=(
        "ROC_AUC",
        "roc_auc_score",
        "GAUC(over='users', weighting='impressions')",
        "AUROC",
    ),
    summary=(
        "Chance that a row with label 1 has a higher score than one with label 0; equal scores "
        "count half."
    ),
    formula="pairs of a 1 and a 0 in which the 1 scores higher, ties by half, over all pairs",
    latex=r"\frac{1}{PN} \sum_{i: y_i = 1} \sum_{j: y_j = 0} [s_i > s_j] + \frac{1}{2} [s_i = s_j]",
    source=(
        "Fawcett 2006, An introduction to ROC analysis, 7; GAUC: Zhou et al. 2018, Deep interest "
        "network, 5.3"
    ),
    bounds=(0.0, 1.0),
    undefined="with labels of one kind only",
    parameters=(
        *over_rows_or_groups(),
        choice(
            "ties",
            {
                "half": "a pair of equal scores counts half",
                "lost": "a pair of equal scores counts as lost",
            },
            doc="What equal scores are worth.",
        ),
        where_undefined(one=True),
    ),
    over_rows=of_pairs,
)
@kernel(allocates=False)
def auc(starts, scores, labels, weights, over, weighting, ties, undefined, out):
    """Weighted pairs in which the 1 scores higher, over all pairs of each group."""
    for group in range(out.size):
        row, end = starts[group], starts[group + 1]
        positives = negatives = won = 0.0
        while row < end:
            score = scores[row]
            here = there = 0.0
            while row < end and scores[row] == score:
                if labels[row] != 0:
                    here += weights[row]
                else:
                    there += weights[row]
                row += 1
            won += there * (2.0 * positives + (here if ties == HALF else 0.0))
            positives += here
            negatives += there
        both = positives > 0.0 and negatives > 0.0
        out[group] = won / (2.0 * positives * negatives) if both else instead(undefined)
