# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Age of the items of a list."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._means import mean_over_list


def tables(values, context):
    """Days since each item was published."""
    return (context.items.ages,)


@list_metric(
    name="age",
    aliases=("mean_age",),
    summary="How old the shown items are, in days, at the time that the config names.",
    formula="mean over the list of now - published, of items with a date",
    latex=r"\frac{1}{n} \sum_{i \in L} (now - published_i)",
    source="Chakraborty et al. 2017, Optimizing the recency-relevancy trade-off in online news "
    "recommendations, p. 839",
    bounds=(0.0, math.inf),
    undefined="for a list without an item that has a date",
    higher_is_better=False,
    needs=("published",),
    tables=tables,
)
@kernel(allocates=False)
def age(lists, within, cutoffs, ages, out):
    """Mean age of the first items that have a date."""
    mean_over_list(lists, within, cutoffs, ages, 0, out)
