# mypy: disable-error-code="no-untyped-def"
"""Area under the precision-recall curve."""

from typing import Any

from evalkit.metrics import (
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

STEP, TRAPEZOID = 0, 1


def of_precision(asked: Request) -> OfSums:
    """The sum of recall times precision."""
    values = dict(asked.parameters)

    def value(area: Any, positives: Any) -> Any:
        return area / positives if positives else INSTEAD[str(values["undefined"])]

    how = values["integration"]
    return OfSums((("precision", how), POSITIVES), value, Smooth((("PR-AUC", how),), complex))


@label_metric(
    name="PR-AUC",
    aliases=(
        "AP",
        "average_precision",
        "average_precision_score",
        "LRAP(over='users', undefined='one')",
        "AUPRC",
        "auc_precision_recall",
    ),
    summary=(
        "Area under the precision-recall curve over all thresholds; by steps it is the average "
        "precision."
    ),
    formula=(
        "sum of (R_i - R_(i-1)) P_i over distinct scores from the highest; trapezoid: (P_i + "
        "P_(i-1)) / 2"
    ),
    latex=r"\sum_i (R_i - R_{i-1}) P_i",
    source=(
        "Davis and Goadrich 2006, The relationship between precision-recall and ROC curves, 2 and 4"
    ),
    bounds=(0.0, 1.0),
    undefined="without a row with label 1",
    parameters=(
        *over_rows_or_groups(),
        choice(
            "integration",
            {
                "step": "steps of height P_i, which is average precision",
                "trapezoid": "lines between the points, from (0, 1) on; "
                "too high where points are far apart",
            },
            doc="How the points are joined.",
        ),
        where_undefined(one=True),
    ),
    over_rows=of_precision,
)
@kernel(allocates=False)
def pr_auc(starts, scores, labels, weights, over, weighting, integration, undefined, out):
    """Sum of the recall that each distinct score adds, times precision."""
    for group in range(out.size):
        row, end = starts[group], starts[group + 1]
        positives = rows = area = 0.0
        before = 1.0
        while row < end:
            score = scores[row]
            here = 0.0
            while row < end and scores[row] == score:
                rows += weights[row]
                if labels[row] != 0:
                    here += weights[row]
                row += 1
            positives += here
            precision = positives / rows if rows > 0.0 else 1.0
            height = precision if integration == STEP else (precision + before) / 2.0
            area += here * height
            before = precision
        out[group] = area / positives if positives > 0.0 else instead(undefined)
