# mypy: disable-error-code="no-untyped-def"
"""Predicted over observed."""

import math

from evalkit.metrics import POSITIVES, PREDICTED, kernel, label_metric, of_kernel


@label_metric(
    name="calibration",
    aliases=(
        "predicted_observed_ratio",
        "copc_inverse",
    ),
    summary="Sum of scores over number of labels 1: above 1, scores are too high as a whole.",
    formula="sum of scores / sum of labels",
    latex=r"\frac{\sum s}{\sum y}",
    source="He et al. 2014, Practical lessons from predicting clicks on ads at Facebook, 3.1",
    bounds=(0.0, math.inf),
    undefined="without a row with label 1",
    parameters=(),
    higher_is_better=None,
    over_rows=of_kernel(PREDICTED, POSITIVES, is_exact=False),
    of_probabilities=True,
)
@kernel(allocates=False)
def calibration(predicted, positives):
    """`predicted` over `positives`."""
    return predicted / positives
