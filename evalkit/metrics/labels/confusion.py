# mypy: disable-error-code="no-untyped-def"
"""Precision, recall, and others of rows called positive or negative at a threshold."""

from evalkit.metrics import at_threshold, choice, number
from evalkit.metrics.labels._over import defined_or, or_zero, where_undefined
from evalkit.metrics.labels.counts import rate


@rate(
    name="precision",
    aliases=("P", "PPV", "precision_score", "positive_predictive_value"),
    summary="Share of rows called positive that have label 1.",
    formula="TP / (TP + FP)",
    latex=r"\frac{TP}{TP + FP}",
    undefined="where no row is called positive",
    parameters=(where_undefined(), *at_threshold("recall")),
)
def precision(tp, fp, tn, fn, undefined):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    return or_zero(tp / (tp + fp), undefined)


@rate(
    name="recall",
    aliases=("R", "TPR", "sensitivity", "recall_score", "true_positive_rate"),
    summary="Share of rows with label 1 that are called positive. At its best it is 1, at the "
    "lowest score.",
    formula="TP / (TP + FN)",
    latex=r"\frac{TP}{TP + FN}",
    undefined="without a row with label 1",
    parameters=(where_undefined(), *at_threshold("precision", "specificity")),
)
def recall(tp, fp, tn, fn, undefined):
    """As `precision`."""
    return or_zero(tp / (tp + fn), undefined)


@rate(
    name="specificity",
    aliases=("TNR", "selectivity", "true_negative_rate"),
    summary="Share of rows with label 0 that are called negative.",
    formula="TN / (TN + FP)",
    latex=r"\frac{TN}{TN + FP}",
    undefined="without a row with label 0",
    parameters=(where_undefined(), *at_threshold("recall")),
)
def specificity(tp, fp, tn, fn, undefined):
    """As `precision`."""
    return or_zero(tn / (tn + fp), undefined)


@rate(
    name="accuracy",
    aliases=("ACC", "accuracy_score", "binary_accuracy"),
    summary="Share of rows whose label is called right.",
    formula="(TP + TN) / (TP + FP + TN + FN)",
    latex=r"\frac{TP + TN}{TP + FP + TN + FN}",
    undefined="without rows",
    parameters=at_threshold(),
)
def accuracy(tp, fp, tn, fn):
    """As `precision`."""
    return (tp + tn) / (tp + fp + tn + fn)


OTHER = 1


@rate(
    name="balanced-accuracy",
    aliases=("balanced_accuracy_score",),
    summary="Mean of recall and specificity.",
    formula="(TP / (TP + FN) + TN / (TN + FP)) / 2",
    latex=r"\frac{1}{2}\left(\frac{TP}{TP + FN} + \frac{TN}{TN + FP}\right)",
    source="Brodersen et al. 2010, The balanced accuracy and its posterior distribution",
    undefined="with labels of one kind only",
    parameters=(
        choice(
            "one_kind",
            {"undefined": "undefined", "other": "the one that is there, alone"},
            doc="With labels of one kind, where recall or specificity is undefined.",
        ),
        *at_threshold(),
    ),
)
def balanced_accuracy(tp, fp, tn, fn, one_kind):
    """As `precision`."""
    recall, specificity = tp / (tp + fn), tn / (tn + fp)
    if one_kind == OTHER:
        recall, specificity = defined_or(recall, specificity), defined_or(specificity, recall)
    return (recall + specificity) / 2.0


@rate(
    name="F",
    aliases=("F1(beta=1)", "fbeta_score", "f1_score(beta=1)"),
    summary="Weighted harmonic mean of precision and recall.",
    formula="(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP)",
    latex=r"\frac{(1 + \beta^2) TP}{(1 + \beta^2) TP + \beta^2 FN + FP}",
    source="van Rijsbergen 1979, Information retrieval, chapter 7",
    undefined="without labels 1 and rows called positive",
    parameters=(
        number("beta", 1.0, doc="Recall counts beta times as much as precision.", above=0.0),
        where_undefined(),
        *at_threshold(),
    ),
    suffix="beta",
)
def f(tp, fp, tn, fn, beta, undefined):
    """As `precision`."""
    weight = beta * beta
    value = (1.0 + weight) * tp / ((1.0 + weight) * tp + weight * fn + fp)
    return or_zero(value, undefined)


@rate(
    name="MCC",
    aliases=("matthews_corrcoef", "phi", "matthews_correlation_coefficient"),
    summary="Correlation of label and call; 0 is chance.",
    formula="(TP TN - FP FN) / sqrt((TP + FP) (TP + FN) (TN + FP) (TN + FN))",
    latex=r"\frac{TP \cdot TN - FP \cdot FN}{\sqrt{(TP+FP)(TP+FN)(TN+FP)(TN+FN)}}",
    source="Matthews 1975, Comparison of the predicted and observed secondary structure of T4 "
    "phage lysozyme",
    bounds=(-1.0, 1.0),
    undefined="where a row or a column of the confusion matrix is empty",
)
def mcc(tp, fp, tn, fn, undefined):
    """As `precision`."""
    above = tp / (tp + fp) * (tn / (tn + fn)) - fp / (tp + fp) * (fn / (tn + fn))
    below = (tp + fn) / (tp + fp) * ((tn + fp) / (tn + fn))
    return or_zero(above / below**0.5, undefined)
