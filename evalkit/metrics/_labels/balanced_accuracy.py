# mypy: disable-error-code="no-untyped-def"
"""Balanced accuracy."""

from evalkit.metrics import kernel, metric
from evalkit.metrics._labels._over import at_threshold


@metric(
    name="balanced-accuracy",
    aliases=("balanced_accuracy_score",),
    summary="Mean of recall and specificity.",
    formula="(TP / (TP + FN) + TN / (TN + FP)) / 2",
    latex=r"\frac{1}{2}\left(\frac{TP}{TP + FN} + \frac{TN}{TN + FP}\right)",
    source="Brodersen et al. 2010, The balanced accuracy and its posterior distribution",
    bounds=(0.0, 1.0),
    undefined="with labels of one kind only",
    parameters=(*at_threshold(),),
    higher_is_better=True,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def balanced_accuracy(tp, fp, tn, fn):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    return (tp / (tp + fn) + tn / (tn + fp)) / 2.0
