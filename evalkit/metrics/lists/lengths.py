# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How many items a list shows, and how many different ones."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric


@list_metric(
    name="list_length",
    aliases=("num_retrieved",),
    summary="How many items are shown.",
    formula="items of the list within the cutoff",
    latex=r"n",
    source="Anelli et al. 2021, Elliot: a comprehensive and rigorous framework, p. 2408",
    bounds=(0.0, math.inf),
    undefined="for a user without a list",
    higher_is_better=None,
    most=lambda values, cutoff: cutoff,
)
@kernel(allocates=False)
def list_length(lists, within, cutoffs, out):
    """How many items each cutoff lets in."""
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            n = within[user, column]
            out[user, column] = n if n > 0 else math.nan


SHARE = 1


@list_metric(
    name="list_fill",
    aliases=("sufficient_reco",),
    summary="Whether the list shows as many items as the cutoff asks for.",
    formula="1 where the list has k items or more, else 0",
    latex=r"[n = k]",
    source="Herlocker et al. 2004, Evaluating collaborative filtering recommender systems, p. 40",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    parameters=(
        choice(
            "of", {"list": "1 or 0", "items": "items shown over the cutoff"}, doc="What is counted."
        ),
    ),
)
@kernel(allocates=False)
def list_fill(lists, within, cutoffs, of, out):
    """Whether, or how far, the list reaches each cutoff."""
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            n = within[user, column]
            wanted = n if cutoffs[column] == NO_CUTOFF else cutoffs[column]
            fill = 1.0 if n >= wanted else 0.0
            if of == SHARE and wanted > 0:
                fill = n / wanted
            out[user, column] = fill if n > 0 else math.nan


@list_metric(
    name="unrepeated",
    aliases=("unrepeated_reco",),
    summary="Different items of the list, over its items.",
    formula="different items of the list / items of the list",
    latex=r"\frac{|\{i \in L\}|}{n}",
    source="Herlocker et al. 2004, Evaluating collaborative filtering recommender systems, p. 40",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    tables=lambda values, context: (context.items.popularity.size,),
)
@kernel
def unrepeated(lists, within, cutoffs, n_items, out):
    """Different items up to each cutoff, over the items."""
    is_shown = np.zeros(n_items, dtype=np.bool_)
    for user in range(out.shape[0]):
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                n += not is_shown[item]
                is_shown[item] = True
                place += 1
            out[user, column] = n / place if place > 0 else math.nan
        for each in range(begin, begin + place):
            is_shown[lists.items[each]] = False
