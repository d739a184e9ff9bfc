# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Novelty: how surprising the items or hits of a list are, by how many have each in train."""

import math

import numpy as np

from evalkit.errors import DataError
from evalkit.metrics import (
    ATTENTION,
    PATIENCE,
    WORTH,
    choice,
    kernel,
    list_metric,
    log2_of,
    of_items,
    worth,
)
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import place_in
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


@list_metric(
    name="novelty_of_rows",
    summary="How surprising shown items are, over all rows: users count by their lists' length.",
    formula="sum over all shown rows of -log2(users of the item / users of train) / rows",
    latex=r"\frac{\sum_u \sum_{i \in L_u} -\log_2 (pop(i) / T)}{\sum_u n_u}",
    source="Zhou et al. 2010, Solving the apparent diversity-accuracy dilemma, p. 4512",
    bounds=(0.0, math.inf),
    undefined="where nothing is shown",
    parameters=(POP_OF, COLD),
    family="sums",
    by=lambda values, context, sums: sums[0] / sums[1] if sums[1] != 0 else math.nan,
    needs=("train",),
    tables=tables,
)
@kernel(allocates=False)
def novelty_of_rows(lists, within, cutoffs, information, pop_of, cold, out):
    """Information of the first items, and how many there are."""
    for user in range(out.shape[0]):
        begin, place, total, n = lists.starts[user], 0, 0.0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                number = information[lists.items[begin + place]]
                if not math.isnan(number):
                    total += number
                    n += 1
                place += 1
            out[user, column, 0], out[user, column, 1] = total, n


def answers(values, context):
    """Right answers, and what each is worth."""
    gains = worth(str(values["gain"]), context.gains, context.threshold)
    return context.relevant, gains


@kernel(allocates=False)
def share_of_attention(lists, within, relevant, gains, worth, attention, patience, out):
    """Fill `out` with attention times gain and worth of hits, over that of all shown items."""
    for user in range(out.shape[0]):
        begin, place, total, below = lists.starts[user], 0, 0.0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                weight = attention_of(place + 1, attention, patience)
                hit = place_in(relevant, user, item)
                if hit >= 0:
                    total += weight * gains[hit] * worth[item]
                below += weight
                place += 1
            is_there = below > 0.0 and relevant.lengths[user] > 0
            out[user, column] = total / below if is_there else math.nan


@of_items
def complements(values, items):
    """float64[n_items]: share of train's users who do not have the item."""
    refuse_more_than_all(items.popularity, items.n_train_users)
    return 1.0 - items.popularity / (items.n_train_users or math.nan)


@list_metric(
    name="expected_popularity_complement",
    aliases=("EPC",),
    summary="How unpopular the hits of the first ranks are.",
    formula="sum over hits of w(r) * gain * (1 - users of the item / users of train) / sum of w(r)",
    latex=r"\frac{\sum_r w(r) [i_r \in R] (1 - pop(i_r) / T)}{\sum_r w(r)}",
    source="Vargas and Castells 2011, Rank and relevance in novelty and diversity metrics, p. 112",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(ATTENTION, PATIENCE, WORTH),
    needs=("train", "relevant"),
    tables=lambda values, context: (*answers(values, context), complements({}, context.items)),
)
@kernel(allocates=False)
def expected_popularity_complement(
    lists, within, cutoffs, relevant, gains, worth, attention, patience, gain, out
):
    """Attention of the hits, each by its worth, over that of the list."""
    share_of_attention(lists, within, relevant, gains, worth, attention, patience, out)


@of_items
def information(values, items):
    """float64[n_items]: -log2 of the share of train's interactions that the item has."""
    counts = items.popularity
    seen = counts[counts > 0]
    if not seen.size:  # a training log without rows says nothing
        return np.full(counts.size, math.nan)
    least = 1 if values["cold"] == "one_user" else seen.min()
    return -log2_of(np.maximum(counts, least) / counts.sum())


def tables_of_efd(values, context):
    """Right answers and their gains, and the worth of each item."""
    return *answers(values, context), information({"cold": values["cold"]}, context.items)


@list_metric(
    name="EFD",
    aliases=("expected_free_discovery",),
    summary="How surprising the hits of the first ranks are: information of their interactions.",
    formula="sum over hits of w(r) * gain * -log2(interactions of the item / all) / sum of w(r)",
    latex=r"\frac{\sum_r w(r) [i_r \in R] (-\log_2 p(i_r))}{\sum_r w(r)}",
    source="Vargas and Castells 2011, Rank and relevance in novelty and diversity metrics, p. 112",
    bounds=(0.0, math.inf),
    undefined="for a user without relevant items",
    parameters=(
        choice(
            "cold",
            {
                "one_user": "counts as of one interaction",
                "least": "counts as the least popular item of train",
            },
            doc="An item that train lacks.",
        ),
        ATTENTION,
        PATIENCE,
        WORTH,
    ),
    needs=("train", "relevant"),
    tables=tables_of_efd,
)
@kernel(allocates=False)
def efd(lists, within, cutoffs, relevant, gains, worth, cold, attention, patience, gain, out):
    """Attention of the hits, each by its worth, over that of the list."""
    share_of_attention(lists, within, relevant, gains, worth, attention, patience, out)
