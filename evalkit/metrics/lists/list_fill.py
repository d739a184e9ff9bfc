# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Whether a list is as long as asked for."""

import math

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric

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
            "of",
            {"list": "1 or 0", "items": "items shown over the cutoff"},
            doc="What is counted.",
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
