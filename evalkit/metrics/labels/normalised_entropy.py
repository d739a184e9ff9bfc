# mypy: disable-error-code="no-untyped-def"
"""Normalised entropy of predicted probabilities."""

import cmath
import math
from typing import Any

from evalkit.metrics import (
    POSITIVES,
    ROWS,
    OfSums,
    Request,
    Smooth,
    as_float,
    kernel,
    label_metric,
    minus_ln,
    minus_ln_of_rest,
    number,
)
from evalkit.metrics.labels.probabilities import log_loss


def of_entropy(asked: Request) -> OfSums:
    """The mean loss over the entropy of the share of labels 1."""
    kernel, clip = asked.metric.kernel.plain, dict(asked.parameters)["clip"]

    def value(loss: Any, positives: Any, rows: Any) -> Any:
        return kernel(as_float(loss / rows), as_float(positives / rows), clip)

    def smooth(loss: complex, positives: complex, rows: complex) -> complex:
        share = positives / rows
        entropy = -(share * cmath.log(share) + (1.0 - share) * cmath.log(1.0 - share))
        return loss / rows / entropy

    terms = (log_loss.request(clip=clip), POSITIVES, ROWS)
    return OfSums(terms, value, Smooth(terms, smooth))


@label_metric(
    name="normalised-entropy",
    aliases=("NE", "normalized_entropy", "normalized_cross_entropy"),
    summary="Log loss over that of predicting the share of labels 1 for every row: below 1 is "
    "better than knowing only that share.",
    formula="log loss / -(p ln p + (1 - p) ln(1 - p)), with p the share of labels 1",
    latex=r"\frac{\mathrm{logloss}}{-(p \ln p + (1 - p) \ln (1 - p))}",
    source="He et al. 2014, Practical lessons from predicting clicks on ads at Facebook, 3.1",
    bounds=(0.0, math.inf),
    undefined="with labels of one kind only",
    parameters=(
        number("clip", 0.0, doc="Scores are held this far from 0 and 1.", above=-5e-324, below=0.5),
    ),
    higher_is_better=False,
    over_rows=of_entropy,
    of_probabilities=True,
)
@kernel(allocates=False)
def normalised_entropy(loss, share, clip):
    """`loss` over the entropy of `share`."""
    if not 0.0 < share < 1.0:  # NaN where no row weighs anything
        return math.nan
    entropy = share * minus_ln(share) + (1.0 - share) * minus_ln_of_rest(share)
    return loss / entropy
