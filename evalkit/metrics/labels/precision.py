# mypy: disable-error-code="no-untyped-def"
"""Precision of rows called positive."""

from evalkit.metrics import at_threshold, kernel, label_metric, of_counts
from evalkit.metrics.labels._over import or_zero, where_undefined


@label_metric(
    name="precision",
    aliases=(
        "P",
        "PPV",
        "precision_score",
        "positive_predictive_value",
    ),
    summary="Share of rows called positive that have label 1.",
    formula="TP / (TP + FP)",
    latex=r"\frac{TP}{TP + FP}",
    source="Sokolova and Lapalme 2009, A systematic analysis of performance measures, table 2",
    bounds=(0.0, 1.0),
    undefined="where no row is called positive",
    parameters=(where_undefined(), *at_threshold("recall")),
    over_rows=of_counts,
)
@kernel(allocates=False)
def precision(tp, fp, tn, fn, undefined):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    return or_zero(tp / (tp + fp), undefined)
