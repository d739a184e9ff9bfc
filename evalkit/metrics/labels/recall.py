# mypy: disable-error-code="no-untyped-def"
"""Recall of rows with label 1."""

from evalkit.metrics import at_threshold, kernel, label_metric, of_counts
from evalkit.metrics.labels._over import or_zero, where_undefined


@label_metric(
    name="recall",
    aliases=(
        "R",
        "TPR",
        "sensitivity",
        "recall_score",
        "true_positive_rate",
    ),
    summary=(
        "Share of rows with label 1 that are called positive. At its best it is 1, at the lowest "
        "score."
    ),
    formula="TP / (TP + FN)",
    latex=r"\frac{TP}{TP + FN}",
    source="Sokolova and Lapalme 2009, A systematic analysis of performance measures, table 2",
    bounds=(0.0, 1.0),
    undefined="without a row with label 1",
    parameters=(where_undefined(), *at_threshold("precision", "specificity")),
    over_rows=of_counts,
)
@kernel(allocates=False)
def recall(tp, fp, tn, fn, undefined):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    return or_zero(tp / (tp + fn), undefined)
