# mypy: disable-error-code="no-untyped-def"
"""Matthews correlation coefficient."""

from evalkit.metrics import at_threshold, kernel, label_metric, of_counts
from evalkit.metrics.labels._over import or_zero, where_undefined


@label_metric(
    name="MCC",
    aliases=(
        "matthews_corrcoef",
        "phi",
        "matthews_correlation_coefficient",
    ),
    summary="Correlation of label and call; 0 is chance.",
    formula="(TP TN - FP FN) / sqrt((TP + FP) (TP + FN) (TN + FP) (TN + FN))",
    latex=r"\frac{TP \cdot TN - FP \cdot FN}{\sqrt{(TP+FP)(TP+FN)(TN+FP)(TN+FN)}}",
    source=(
        "Matthews 1975, Comparison of the predicted and observed secondary structure of T4 phage "
        "lysozyme"
    ),
    bounds=(-1.0, 1.0),
    undefined="where a row or a column of the confusion matrix is empty",
    parameters=(where_undefined(), *at_threshold()),
    over_rows=of_counts,
)
@kernel(allocates=False)
def mcc(tp, fp, tn, fn, undefined):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    above = tp / (tp + fp) * (tn / (tn + fn)) - fp / (tp + fp) * (fn / (tn + fn))
    below = (tp + fn) / (tp + fp) * ((tn + fp) / (tn + fn))
    return or_zero(above / below**0.5, undefined)
