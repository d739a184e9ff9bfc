# mypy: disable-error-code="no-untyped-def"
"""Losses of scores, and shares of them that are left of what the share of labels 1 loses."""

import math

from evalkit.metrics import (
    POSITIVES,
    PREDICTED,
    ROWS,
    OfSums,
    Request,
    kernel,
    label_metric,
    number,
    of_kernel,
    of_kernels,
    of_sums,
    over_rows_or_groups,
)
from evalkit.metrics.labels._halves import score_of_0, score_of_1
from evalkit.metrics.labels.normalised_entropy import normalised_entropy
from evalkit.metrics.labels.probabilities import brier

TJUR = "Tjur 2009, Coefficients of determination in logistic regression models, 2"
skill = of_kernels(label_metric, undefined="with labels of one kind only", of_probabilities=True)


@label_metric(
    name="hinge",
    aliases=("hinge_loss",),
    summary="Mean hinge loss of decision values around 0; of probabilities it says little.",
    formula="mean of max(0, 1 - y s), y = 1 or -1",
    latex=r"\frac{1}{n} \sum \max(0, 1 - y s)",
    source="Rosasco et al. 2004, Are loss functions all the same?, Neural Computation 16, 2.2",
    bounds=(0.0, math.inf),
    undefined="without rows",
    parameters=over_rows_or_groups(),
    higher_is_better=False,
    is_loss=True,
)
@kernel(allocates=False)
def hinge(scores, labels, losses):
    """What each row lacks of a margin of 1."""
    for row in range(losses.size):
        losses[row] = max(0.0, 1.0 - scores[row] if labels[row] != 0 else 1.0 + scores[row])


@skill(
    name="Brier-skill",
    aliases=("brier_skill_score", "BSS", "d2_brier_score"),
    summary="Share of the Brier score of predicting the share of labels 1 that scores take away.",
    formula="1 - Brier / (p (1 - p)), with p the share of labels 1",
    latex=r"1 - \frac{\mathrm{Brier}}{p (1 - p)}",
    source="Murphy 1973, Hedging and skill scores for probability forecasts, 2",
    bounds=(-math.inf, 1.0),
    over_rows=of_kernel(brier.request(), POSITIVES, ROWS),
)
def brier_skill(loss, positives, rows):
    """1 - `loss` over that of the share of `positives`."""
    return 1 - loss * rows / (positives * (rows - positives))


def of_rest(asked: Request) -> OfSums:
    """1 - normalised entropy."""
    found = normalised_entropy.request(clip=dict(asked.parameters)["clip"]).over_rows
    assert found.smooth is not None
    entropy, smooth, rest = found.function, found.smooth.function, asked.metric.kernel.plain
    by = of_sums(*found.terms, by=lambda *sums: rest(smooth(*sums)))
    return OfSums(found.terms, lambda *sums: rest(entropy(*sums)), by.smooth)


@skill(
    name="log-loss-skill",
    aliases=("d2_log_loss_score",),
    summary="Share of the log loss of predicting the share of labels 1 that scores take away.",
    formula="1 - normalised entropy",
    latex=r"1 - \frac{\mathrm{logloss}}{-(p \ln p + (1 - p) \ln (1 - p))}",
    source="McFadden 1974, Conditional logit analysis of qualitative choice behavior, p. 121",
    bounds=(-math.inf, 1.0),
    parameters=(
        number("clip", 0.0, doc="Scores are held this far from 0 and 1.", above=-5e-324, below=0.5),
    ),
    over_rows=of_rest,
)
def log_loss_skill(entropy):
    """1 - `entropy`."""
    return 1.0 - entropy


@skill(
    name="Tjur-R2",
    aliases=("coefficient_of_discrimination", "tjur"),
    summary="Mean score of rows with label 1, less that of rows with label 0.",
    formula="mean score of labels 1 - mean score of labels 0",
    latex=r"\bar s_1 - \bar s_0",
    source=TJUR,
    bounds=(-1.0, 1.0),
    over_rows=of_kernel(score_of_1.request(), score_of_0.request(), POSITIVES, ROWS),
)
def tjur(high, low, positives, rows):
    """`high` over `positives`, less `low` over the other rows."""
    return high / positives - low / (rows - positives)


@skill(
    name="relative-discrimination",
    aliases=("relative_coefficient_of_discrimination",),
    summary="How many times as high scores are of rows with label 1 as of rows with label 0.",
    formula="mean score of labels 1 / mean score of labels 0",
    latex=r"\bar s_1 / \bar s_0",
    source=TJUR,
    bounds=(0.0, math.inf),
    undefined="with labels of one kind only, and where all scores of labels 0 are 0",
    over_rows=of_kernel(score_of_1.request(), score_of_0.request(), POSITIVES, ROWS),
)
def relative_discrimination(high, low, positives, rows):
    """`high` over `positives`, over `low` over the other rows."""
    return high / positives / (low / (rows - positives))


@skill(
    name="mean-score",
    aliases=("mean_prediction",),
    summary="Mean of the scores, whatever the labels.",
    formula="sum of scores / number of rows",
    latex=r"\frac{\sum s}{n}",
    source="He et al. 2014, Practical lessons from predicting clicks on ads at Facebook, 3.1",
    bounds=(0.0, 1.0),
    undefined="without rows",
    higher_is_better=None,
    over_rows=of_kernel(PREDICTED, ROWS),
)
def mean_score(predicted, rows):
    """`predicted` over `rows`."""
    return predicted / rows
