# mypy: disable-error-code="no-untyped-def"
"""Specificity."""

from evalkit.metrics import at_threshold, kernel, label_metric, of_counts
from evalkit.metrics.labels._over import or_zero, where_undefined


@label_metric(
    name="specificity",
    aliases=(
        "TNR",
        "selectivity",
        "true_negative_rate",
    ),
    summary="Share of rows with label 0 that are called negative.",
    formula="TN / (TN + FP)",
    latex=r"\frac{TN}{TN + FP}",
    source="Sokolova and Lapalme 2009, A systematic analysis of performance measures, table 2",
    bounds=(0.0, 1.0),
    undefined="without a row with label 0",
    parameters=(where_undefined(), *at_threshold("recall")),
    over_rows=of_counts,
)
@kernel(allocates=False)
def specificity(tp, fp, tn, fn, undefined):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    return or_zero(tn / (tn + fp), undefined)
