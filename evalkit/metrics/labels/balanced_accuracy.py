# mypy: disable-error-code="no-untyped-def"
"""Balanced accuracy."""

from evalkit.metrics import at_threshold, choice, kernel, label_metric, of_counts
from evalkit.metrics.labels._over import defined_or

OTHER = 1


@label_metric(
    name="balanced-accuracy",
    aliases=("balanced_accuracy_score",),
    summary="Mean of recall and specificity.",
    formula="(TP / (TP + FN) + TN / (TN + FP)) / 2",
    latex=r"\frac{1}{2}\left(\frac{TP}{TP + FN} + \frac{TN}{TN + FP}\right)",
    source="Brodersen et al. 2010, The balanced accuracy and its posterior distribution",
    bounds=(0.0, 1.0),
    undefined="with labels of one kind only",
    parameters=(
        choice(
            "one_kind",
            {"undefined": "undefined", "other": "the one that is there, alone"},
            doc="With labels of one kind, where recall or specificity is undefined.",
        ),
        *at_threshold(),
    ),
    over_rows=of_counts,
)
@kernel(allocates=False)
def balanced_accuracy(tp, fp, tn, fn, one_kind):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    recall, specificity = tp / (tp + fn), tn / (tn + fp)
    if one_kind == OTHER:
        recall, specificity = (
            defined_or(recall, specificity),
            defined_or(specificity, recall),
        )
    return (recall + specificity) / 2.0
