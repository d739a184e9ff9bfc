# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Share of a list that the user has not had."""

import math

from evalkit.metrics import choice, kernel, list_metric
from evalkit.metrics.lists._seen import share_of_seen, tables


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
            "empty",
            {"nan": "has no value", "one": "is all unseen"},
            doc="A list without an item.",
        ),
    ),
    needs=("history",),
    tables=tables,
)
@kernel(allocates=False)
def unseen_share(lists, within, cutoffs, history, empty, out):
    """Share of the first items that are not in the history; 1 without one."""
    share_of_seen(lists, within, history, False, 1.0 if empty == 1 else math.nan, out)
