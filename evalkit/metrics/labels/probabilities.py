# mypy: disable-error-code="no-untyped-def"
"""How right scores are as probabilities: Brier score, log loss, and their level."""

import math

from evalkit.metrics import (
    POSITIVES,
    PREDICTED,
    ROWS,
    kernel,
    label_metric,
    log_loss_of,
    number,
    of_kernel,
    over_rows_or_groups,
)


@label_metric(
    name="Brier",
    aliases=("brier_score_loss", "brier_score"),
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


@label_metric(
    name="log-loss",
    aliases=("logloss", "cross_entropy", "binary_cross_entropy"),
    summary="Mean of -ln of the probability given to the label that came. A score of exactly 0 or "
    "1 that is wrong makes it infinite; such rows are counted, unless clip holds scores back.",
    formula="mean of -ln s where the label is 1, -ln(1 - s) where it is 0",
    latex=r"-\frac{1}{n} \sum y \ln s + (1 - y) \ln (1 - s)",
    source="Good 1952, Rational decisions; Bishop 2006, Pattern recognition and machine learning, "
    "4.3.2",
    bounds=(0.0, math.inf),
    undefined="without rows",
    parameters=(
        *over_rows_or_groups(),
        number("clip", 0.0, doc="Scores are held this far from 0 and 1.", above=-5e-324, below=0.5),
    ),
    higher_is_better=False,
    of_probabilities=True,
    is_loss=True,
)
@kernel(allocates=False)
def log_loss(scores, labels, clip, losses):
    """-ln of the probability of the label of each row."""
    for row in range(losses.size):
        losses[row] = log_loss_of(min(max(scores[row], clip), 1.0 - clip), labels[row])


@label_metric(
    name="base-rate",
    aliases=("prevalence", "CTR", "mean_label"),
    summary="Share of rows with label 1, whatever the scores.",
    formula="number of labels 1 / number of rows",
    latex=r"\frac{\sum y}{n}",
    source="Fawcett 2006, An introduction to ROC analysis, 2",
    bounds=(0.0, 1.0),
    undefined="without rows",
    higher_is_better=None,
    over_rows=of_kernel(POSITIVES, ROWS),
)
@kernel(allocates=False)
def base_rate(positives, rows):
    """`positives` over `rows`."""
    return positives / rows


@label_metric(
    name="calibration",
    aliases=("predicted_observed_ratio", "copc_inverse"),
    summary="Sum of scores over number of labels 1: above 1, scores are too high as a whole.",
    formula="sum of scores / sum of labels",
    latex=r"\frac{\sum s}{\sum y}",
    source="He et al. 2014, Practical lessons from predicting clicks on ads at Facebook, 3.1",
    bounds=(0.0, math.inf),
    undefined="without a row with label 1",
    higher_is_better=None,
    over_rows=of_kernel(PREDICTED, POSITIVES, is_exact=False),
    of_probabilities=True,
)
@kernel(allocates=False)
def calibration(predicted, positives):
    """`predicted` over `positives`."""
    return predicted / positives
