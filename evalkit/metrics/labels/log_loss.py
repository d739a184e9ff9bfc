# mypy: disable-error-code="no-untyped-def"
"""Log loss of predicted probabilities."""

import math

from evalkit.metrics import ROOM, kernel, log_loss_of, metric, number, room
from evalkit.metrics.labels._over import over_rows_or_groups


@kernel(allocates=False)
def find_losses(scores, labels, first, n_rows, clip, losses):
    """-ln of the probability of the label of so many rows."""
    for row in range(n_rows):
        score = min(max(scores[first + row], clip), 1.0 - clip)
        losses[row] = log_loss_of(score, labels[first + row])


@metric(
    name="log-loss",
    aliases=(
        "logloss",
        "cross_entropy",
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
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def log_loss(starts, scores, labels, weights, over, weighting, clip, out):
    """Weighted mean of -ln of the probability of the label that came."""
    losses = room()
    n_known = first = 0
    for group in range(out.size):
        loss = rows = 0.0
        for row in range(starts[group], starts[group + 1]):
            if row >= first + n_known:
                first, n_known = row, min(ROOM, scores.size - row)
                find_losses(scores, labels, row, n_known, clip, losses)
            if weights[row] > 0.0:
                loss += weights[row] * losses[row - first]
            rows += weights[row]
        out[group] = loss / rows if rows > 0.0 else math.nan
