# mypy: disable-error-code="no-untyped-def"
"""F measure of rows called positive."""

from evalkit.metrics import at_threshold, kernel, label_metric, number, of_counts
from evalkit.metrics.labels._over import or_zero, where_undefined


@label_metric(
    name="F",
    aliases=(
        "F1(beta=1)",
        "fbeta_score",
        "f1_score(beta=1)",
    ),
    summary="Weighted harmonic mean of precision and recall.",
    formula="(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP)",
    latex=r"\frac{(1 + \beta^2) TP}{(1 + \beta^2) TP + \beta^2 FN + FP}",
    source="van Rijsbergen 1979, Information retrieval, chapter 7",
    bounds=(0.0, 1.0),
    undefined="without labels 1 and rows called positive",
    parameters=(
        number("beta", 1.0, doc="Recall counts beta times as much as precision.", above=0.0),
        where_undefined(),
        *at_threshold(),
    ),
    suffix="beta",
    over_rows=of_counts,
)
@kernel(allocates=False)
def f(tp, fp, tn, fn, beta, undefined):
    """Of float64 arrays of (weighted) counts, or of numbers."""
    weight = beta * beta
    value = (1.0 + weight) * tp / ((1.0 + weight) * tp + weight * fn + fp)
    return or_zero(value, undefined)
