# mypy: disable-error-code="no-untyped-def"
"""Scores of the rows of one label, as losses: sums that metrics are made of, and no metrics."""

import math
from functools import partial

from evalkit.metrics import kernel, label_metric

half = partial(
    label_metric,
    summary="Scores of the rows of one label.",
    formula="s y, or s (1 - y)",
    latex="s y",
    source="none",
    bounds=(-math.inf, math.inf),
    undefined="without rows",
    is_loss=True,
)


@half(name="score of 1")
@kernel(allocates=False)
def score_of_1(scores, labels, losses):
    """The score of each row with label 1, else 0."""
    for row in range(losses.size):
        losses[row] = scores[row] if labels[row] != 0 else 0.0


@half(name="score of 0")
@kernel(allocates=False)
def score_of_0(scores, labels, losses):
    """The score of each row with label 0, else 0."""
    for row in range(losses.size):
        losses[row] = 0.0 if labels[row] != 0 else scores[row]
