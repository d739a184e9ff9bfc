# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Length of a list."""

import math

from evalkit.metrics import kernel, list_metric


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
