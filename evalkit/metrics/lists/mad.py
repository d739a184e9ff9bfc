# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Mean absolute difference of a metric between groups of users."""

import math

from evalkit.metrics import list_metric, text
from evalkit.metrics.lists._groups import mean_difference


@list_metric(
    name="mad",
    aliases=("mean_absolute_difference",),
    summary="How unequally groups of users are served: mean difference of a metric's means.",
    formula="mean over pairs of groups of |mean of the metric in one - in the other|",
    latex=r"\frac{2}{|S|(|S| - 1)} \sum_{s<t} |m_s - m_t|",
    source="Zhu et al. 2018, Fairness-aware tensor-based recommendation, p. 1157; Deldjoo et al. "
    "2021, A flexible framework for evaluating user and item fairness, p. 482",
    bounds=(0.0, math.inf),
    undefined="with fewer than two groups; for a group where the metric is undefined",
    higher_is_better=False,
    parameters=(
        text("by", "group", doc="The segmentation of users that has the groups."),
        text("of", "nDCG", doc="The metric of users, by its name; at the cutoff of this one."),
    ),
    family="means",
)
def mad(means, values):
    """The mean over all pairs, and its slope by each group's mean."""
    return mean_difference(means)
