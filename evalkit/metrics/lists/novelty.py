# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Novelty: how surprising the items of a list are, by how many users have each in train."""

import math

import numpy as np

from evalkit.errors import DataError
from evalkit.metrics import choice, kernel, list_metric, log2_of, of_items
from evalkit.metrics.lists._means import DEN, mean_over_list

COLD_USERS = 1e-10
POP_OF = choice(
    "pop_of",
    {
        "users": "its users over all users of train",
        "interactions": "its interactions over all of train",
        "scaled": "its users over all, and the information of one user is 1",
    },
    doc="The share that an item's information is taken of.",
)
COLD = choice(
    "cold",
    {
        "one_user": "counts as of one user",
        "left_out": "is left out",
        "zero": "carries no information",
        "tiny": "counts as of 1e-10 users, and so many more has every item",
    },
    doc="An item that train lacks.",
)


def refuse_more_than_all(counts, n_users):
    """No item has more than all users of train; rows that repeat an item may be more.

    Raises:
        DataError: they are [popularity-above-one].
    """
    if (most := int(counts.max(initial=0))) > n_users:
        raise DataError(
            f"an item has {most:,} rows of train, which has {int(n_users):,} users: a share of the "
            "users above 1",
            code="popularity-above-one",
            at="train",
            hint="train_rows = \"pairs\" under [policies], or pop_of='interactions'",
        )


@of_items
def self_information(values, items):
    """float64[n_items]: -log2 of the share of train that the item has; NaN where left out."""
    counts = items.popularity.astype(np.float64)
    whole = float(items.n_train_users)
    if values["pop_of"] == "interactions":
        whole = counts.sum()
    else:
        refuse_more_than_all(items.popularity, whole)
    if whole == 0.0:  # a training log without rows says nothing
        return np.full(counts.size, math.nan)
    is_cold = counts == 0.0
    if values["cold"] == "tiny":
        found = -log2_of((counts + COLD_USERS) / whole)
    else:
        found = -log2_of(np.maximum(counts, 1.0) / whole)
    if values["pop_of"] == "scaled":
        found /= math.log2(whole) if whole > 1.0 else math.nan
    if values["cold"] in ("left_out", "zero"):
        found[is_cold] = math.nan if values["cold"] == "left_out" else 0.0
    return found


def tables(values, context):
    """The information of each item."""
    return (self_information(values, context.items),)


@list_metric(
    name="novelty",
    aliases=("MIUF", "mean_self_information", "surprisal(pop_of='scaled')"),
    summary="How surprising the shown items are: information of each by its users in train.",
    formula="mean over the list of -log2(users of the item / users of train)",
    latex=r"\frac{1}{n} \sum_{i \in L} -\log_2 \frac{pop(i)}{T}",
    source="Zhou et al. 2010, Solving the apparent diversity-accuracy dilemma, p. 4512",
    bounds=(0.0, math.inf),
    undefined="for a user without a list",
    parameters=(POP_OF, COLD, DEN),
    needs=("train",),
    tables=tables,
)
@kernel(allocates=False)
def novelty(lists, within, cutoffs, information, pop_of, cold, den, out):
    """Mean self-information of the first items."""
    mean_over_list(lists, within, cutoffs, information, den, out)
