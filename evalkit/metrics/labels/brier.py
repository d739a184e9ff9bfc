# mypy: disable-error-code="no-untyped-def"
"""Brier score of predicted probabilities."""

import math

from evalkit.metrics import kernel, metric
from evalkit.metrics.labels._over import over_rows_or_groups


@metric(
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
    parameters=(*over_rows_or_groups(),),
    higher_is_better=False,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def brier(starts, scores, labels, weights, over, weighting, out):
    """Weighted mean of (score - label)^2."""
    for group in range(out.size):
        loss = rows = 0.0
        for row in range(starts[group], starts[group + 1]):
            error = scores[row] - (1.0 if labels[row] != 0 else 0.0)
            loss += weights[row] * (error * error)
            rows += weights[row]
        out[group] = loss / rows if rows > 0.0 else math.nan
