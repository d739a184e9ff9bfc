# mypy: disable-error-code="no-untyped-def"
"""Brier score of predicted probabilities."""

from evalkit.metrics import kernel, label_metric, over_rows_or_groups


@label_metric(
    name="Brier",
    aliases=(
        "brier_score_loss",
        "brier_score",
    ),
    summary="Mean squared difference of score and label.",
    formula="mean of (s - y)^2",
    latex=r"\frac{1}{n} \sum (s - y)^2",
    source="Brier 1950, Verification of forecasts expressed in terms of probability",
    bounds=(0.0, 1.0),
    undefined="without rows",
    parameters=over_rows_or_groups(),
    higher_is_better=False,
    is_loss=True,
    of_probabilities=True,
)
@kernel(allocates=False)
def brier(scores, labels, losses):
    """(score - label)^2 of each row."""
    for row in range(losses.size):
        error = scores[row] - (1.0 if labels[row] != 0 else 0.0)
        losses[row] = error * error
