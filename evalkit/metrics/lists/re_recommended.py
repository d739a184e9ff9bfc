# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Share of a list that the user has had already."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._seen import share_of_seen, tables


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
    tables=tables,
)
@kernel(allocates=False)
def re_recommended(lists, within, cutoffs, history, out):
    """Share of the first items that are in the history; 0 without one."""
    share_of_seen(lists, within, history, True, math.nan, out)
