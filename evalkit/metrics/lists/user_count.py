# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How many users are shown anything."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists.user_coverage import FULL, is_covered


def total(values, context, sums):
    """The sum itself."""
    return sums[0]


@list_metric(
    name="user_count",
    summary="How many users are shown anything.",
    formula="users with a shown item",
    latex=r"|\{u : n_u > 0\}|",
    source="Ge et al. 2010, Beyond accuracy: evaluating recommender systems by coverage and "
    "serendipity, p. 258",
    bounds=(0.0, math.inf),
    undefined="never",
    parameters=(FULL,),
    family="sums",
    n_sums=1,
    by=total,
)
@kernel(allocates=False)
def user_count(lists, within, cutoffs, full, out):
    """1 for a user who is shown enough."""
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[user, column, 0] = is_covered(within[user, column], cutoffs[column], full)
