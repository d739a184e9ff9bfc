# mypy: disable-error-code="no-untyped-def"
"""Log loss of predicted probabilities."""

import math

from evalkit.metrics import kernel, label_metric, log_loss_of, number, over_rows_or_groups


@label_metric(
    name="log-loss",
    aliases=(
        "logloss",
        "cross_entropy",
        "binary_cross_entropy",
    ),
    summary=(
        "Mean of -ln of the probability given to the label that came. A score of exactly 0 or 1 "
        "that is wrong makes it infinite; such rows are counted, unless clip holds scores back."
    ),
    formula="mean of -ln s where the label is 1, -ln(1 - s) where it is 0",
    latex=r"-\frac{1}{n} \sum y \ln s + (1 - y) \ln (1 - s)",
    source=(
        "Good 1952, Rational decisions; Bishop 2006, Pattern recognition and machine learning, "
        "4.3.2"
    ),
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
