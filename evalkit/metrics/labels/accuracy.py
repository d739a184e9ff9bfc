# mypy: disable-error-code="no-untyped-def"
"""Accuracy."""

from evalkit.metrics import at_threshold, kernel, label_metric, of_counts


@label_metric(
    name="accuracy",
    aliases=(
        "ACC",
        "accuracy_score",
        "binary_accuracy",
    ),
    summary="Share of rows whose label is called right.",
    formula="(TP + TN) / (TP + FP + TN + FN)",
    latex=r"\frac{TP + TN}{TP + FP + TN + FN}",
    source="Sokolova and Lapalme 2009, A systematic analysis of performance measures, table 2",
    bounds=(0.0, 1.0),
    undefined="without rows",
    parameters=at_threshold(),
    over_rows=of_counts,
)
@kernel(allocates=False)
def accuracy(tp, fp, tn, fn):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    return (tp + tn) / (tp + fp + tn + fn)
