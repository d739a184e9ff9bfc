# mypy: disable-error-code="no-untyped-def"
"""Points of the ROC curve: thresholds that reach a target, equal error rates, the first alarms."""

import math

from evalkit.metrics import (
    NEGATIVES,
    POSITIVES,
    OfSums,
    Request,
    choice,
    kernel,
    label_metric,
    number,
    over_rows_or_groups,
)

RECALL, PRECISION = 0, 1
SHARES = {
    "recall": "of the rows with label 1, those called positive",
    "precision": "of the rows called positive, those with label 1",
    "specificity": "of the rows with label 0, those called negative",
}


def of_score(asked: Request) -> OfSums:
    """The lowest score that is called positive; calling nothing reaches a specificity alone."""
    values = dict(asked.parameters)
    is_reached_by_none = values["reaches"] == "specificity"

    def value(point: tuple[float, ...], positives: float, negatives: float) -> float:
        is_there = negatives and (positives or values["of"] != "recall")
        is_reached = is_there if is_reached_by_none else point[0] + point[1]
        return point[2] if is_reached else math.nan

    return OfSums((("best", asked), POSITIVES, NEGATIVES), value, None, is_exact=False)


@label_metric(
    name="threshold",
    aliases=("threshold_at", "threshold_at_recall(of='precision', reaches='recall')"),
    summary="The score from which on one rate is best among those that reach a target of another.",
    formula="highest t with the best rate(t) where target(t) >= least",
    latex=r"\arg\max_{t : g(t) \ge x} f(t)",
    source="Fawcett 2006, An introduction to ROC analysis, 5 (no point of a target: undefined)",
    bounds=(-math.inf, math.inf),
    undefined="where no threshold reaches the target, and where a rate has no value at all; "
    "infinite where none but calling nothing does",
    parameters=(
        choice("of", SHARES, doc="The rate that is best there."),
        choice(
            "reaches",
            {name: SHARES[name] for name in ("precision", "recall", "specificity")},
            doc="The rate that has a target.",
        ),
        number("least", 0.9, doc="The target.", above=0.0, below=1.0 + 2.0**-52),
    ),
    higher_is_better=None,
    over_rows=of_score,
)
@kernel(allocates=False)
def threshold(tp, fp, tn, fn, of):
    """The rate that is best, of float64 arrays of (weighted) counts, or of numbers."""
    if of == RECALL:
        return tp / (tp + fn)
    return tp / (tp + fp) if of == PRECISION else tn / (tn + fp)


def of_equal(asked: Request) -> OfSums:
    """The mean of both errors where they are closest."""

    def value(point: tuple[float, ...], positives: float, negatives: float) -> float:
        return ((positives - point[0]) / positives + point[1] / negatives) / 2.0

    return OfSums((("equal",), POSITIVES, NEGATIVES), value, None, is_exact=False)


@label_metric(
    name="EER",
    aliases=("equal_error_rate",),
    summary="Error rate at the threshold where as many labels 1 as labels 0 are called wrong.",
    formula="(FNR + FPR) / 2 at the score where |FNR - FPR| is least, the highest of several",
    latex=r"\frac{FNR(t) + FPR(t)}{2}, \; t = \arg\min |FNR(t) - FPR(t)|",
    source="Martin et al. 1997, The DET curve in assessment of detection task performance, 2",
    bounds=(0.0, 1.0),
    undefined="with labels of one kind only",
    parameters=over_rows_or_groups(),
    higher_is_better=False,
    over_rows=of_equal,
)
@kernel(allocates=False)
def eer(starts, scores, labels, weights, over, weighting, out):
    """The mean of both errors of each group where they are closest; no line between points."""
    for group in range(out.size):
        row, end = starts[group], starts[group + 1]
        positives = negatives = 0.0
        for at in range(row, end):
            if labels[at] != 0:
                positives += weights[at]
            else:
                negatives += weights[at]
        tp = fp = 0.0
        closest, found = math.inf, math.nan
        while row < end and positives > 0.0 and negatives > 0.0:
            score = scores[row]
            while row < end and scores[row] == score:
                if labels[row] != 0:
                    tp += weights[row]
                else:
                    fp += weights[row]
                row += 1
            apart = abs((positives - tp) / positives - fp / negatives)
            if apart < closest:
                closest = apart
                found = ((positives - tp) / positives + fp / negatives) / 2.0
        out[group] = found


def of_log_area(asked: Request) -> OfSums:
    """The area over the logarithm of the false positive rate, as a share of its width."""
    low, high = (float(value) for _, value in asked.parameters)
    kernel = asked.metric.kernel.plain
    terms = (("log area", low, high), POSITIVES, NEGATIVES)
    return OfSums(
        terms, lambda area, p, n: kernel(area, p * n / n, low, high), None, is_exact=False
    )


@label_metric(
    name="log-AUC",
    aliases=("logauc",),
    summary="Area under recall by the logarithm of the false positive rate: the first alarms.",
    formula="area of recall over log10 FPR from low to high / (log10 high - log10 low)",
    latex=r"\frac{1}{\log_{10} (b / a)} \int_{\log_{10} a}^{\log_{10} b} TPR \; d \log_{10} FPR",
    source="Mysinger and Shoichet 2010, Rapid context-dependent ligand desolvation, 2.4",
    bounds=(0.0, 1.0),
    undefined="with labels of one kind only",
    parameters=(
        number(
            "low", 0.001, doc="The lowest false positive rate.", above=0.0, below=0.1, tried=0.01
        ),
        number("high", 0.1, doc="The highest.", above=0.0999, below=1.0 + 2.0**-52, tried=0.5),
    ),
    over_rows=of_log_area,
)
@kernel(allocates=False)
def log_auc(area, positives, low, high):
    """`area` of rows with label 1 over bits, as a share of the whole."""
    return min(1.0, area / positives / (math.log2(high) - math.log2(low)))
