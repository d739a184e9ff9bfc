# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Which items of a list the user's own train rows have."""

import math

from evalkit.metrics import choice, kernel, list_metric
from evalkit.metrics.lists._find import stands_in


@kernel(allocates=False)
def share_of_seen(lists, within, history, wanted, of_nothing, out):
    """Fill `out` with the share of each list that is in the history (`wanted`) or not.

    Args:
        of_nothing: the value of an empty list.
    """
    for user in range(out.shape[0]):
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                n += stands_in(history, user, lists.items[begin + place]) == wanted
                place += 1
            out[user, column] = n / place if place > 0 else of_nothing


@list_metric(
    name="unseen_share",
    summary="Share of the shown items that the user does not have in train.",
    formula="items of the list that are not in the user's train rows / items of the list",
    latex=r"\frac{|L \setminus H|}{n}",
    source="Anderson et al. 2014, The dynamics of repeat consumption, Proceedings of WWW, p. 420",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    parameters=(
        choice(
            "empty", {"nan": "has no value", "one": "is all unseen"}, doc="A list without an item."
        ),
    ),
    needs=("history",),
    tables=lambda values, context: (context.history,),
)
@kernel(allocates=False)
def unseen_share(lists, within, cutoffs, history, empty, out):
    """Share of the first items that are not in the history; 1 without one."""
    share_of_seen(lists, within, history, False, 1.0 if empty == 1 else math.nan, out)


@list_metric(
    name="re_recommended",
    aliases=("re_recommendation", "seen_share"),
    summary="Share of the shown items that the user has in train already.",
    formula="items of the list that are in the user's train rows / items of the list",
    latex=r"\frac{|L \cap H|}{n}",
    source="Anderson et al. 2014, The dynamics of repeat consumption, Proceedings of WWW, p. 420",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    higher_is_better=False,
    needs=("history",),
    tables=lambda values, context: (context.history,),
)
@kernel(allocates=False)
def re_recommended(lists, within, cutoffs, history, out):
    """Share of the first items that are in the history; 0 without one."""
    share_of_seen(lists, within, history, True, math.nan, out)
