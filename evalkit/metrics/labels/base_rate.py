# mypy: disable-error-code="no-untyped-def"
"""Share of labels 1."""

import math

from evalkit.metrics import kernel, metric


@metric(
    name="base-rate",
    aliases=(
        "prevalence",
        "CTR",
    ),
    summary="Share of rows with label 1, whatever the scores.",
    formula="number of labels 1 / number of rows",
    latex=r"\frac{\sum y}{n}",
    source="Fawcett 2006, An introduction to ROC analysis, 2",
    bounds=(0.0, 1.0),
    undefined="without rows",
    parameters=(),
    higher_is_better=None,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def base_rate(observed, rows):
    """`observed` over `rows`."""
    return observed / rows if rows > 0.0 else math.nan
