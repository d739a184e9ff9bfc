# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Age of the items of a list."""

import math

import numpy as np

from evalkit.metrics import kernel, list_metric, number, of_items
from evalkit.metrics.lists._means import mean_over_list


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
    tables=lambda values, context: (context.items.ages,),
)
@kernel(allocates=False)
def age(lists, within, cutoffs, ages, out):
    """Mean age of the first items that have a date."""
    mean_over_list(lists, within, cutoffs, ages, 0, out)


@of_items
def is_fresh(values, items):
    """float64[n_items]: 1 for items published lately, NaN for those without a date."""
    return np.where(np.isnan(items.ages), np.nan, items.ages <= float(values["days"]))


@list_metric(
    name="fresh_share",
    aliases=("recency",),
    summary="Share of the shown items that were published in the last days.",
    formula="items published in the last d days / items of the list with a date",
    latex=r"\frac{1}{n} \sum_{i \in L} [now - published_i \le d]",
    source="Chakraborty et al. 2017, Optimizing the recency-relevancy trade-off in online news "
    "recommendations, p. 839",
    bounds=(0.0, 1.0),
    undefined="for a list without an item that has a date",
    parameters=(number("days", 30.0, above=0.0, doc="Days that an item is fresh."),),
    needs=("published",),
    tables=lambda values, context: (is_fresh(values, context.items),),
)
@kernel(allocates=False)
def fresh_share(lists, within, cutoffs, fresh, days, out):
    """Share of the first items with a date that are fresh."""
    mean_over_list(lists, within, cutoffs, fresh, 0, out)
