# mypy: disable-error-code="no-untyped-def"
"""Share of labels 1."""

from evalkit.metrics import POSITIVES, ROWS, kernel, label_metric, of_kernel


@label_metric(
    name="base-rate",
    aliases=(
        "prevalence",
        "CTR",
        "mean_label",
    ),
    summary="Share of rows with label 1, whatever the scores.",
    formula="number of labels 1 / number of rows",
    latex=r"\frac{\sum y}{n}",
    source="Fawcett 2006, An introduction to ROC analysis, 2",
    bounds=(0.0, 1.0),
    undefined="without rows",
    parameters=(),
    higher_is_better=None,
    over_rows=of_kernel(POSITIVES, ROWS),
)
@kernel(allocates=False)
def base_rate(positives, rows):
    """`positives` over `rows`."""
    return positives / rows
