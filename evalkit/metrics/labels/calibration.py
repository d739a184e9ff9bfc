# mypy: disable-error-code="no-untyped-def"
"""Predicted over observed."""

import math

from evalkit.metrics import kernel, metric


@metric(
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
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def calibration(predicted, observed):
    """`predicted` over `observed`."""
    return predicted / observed if observed > 0.0 else math.nan
