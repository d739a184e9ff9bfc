# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Intra-list similarity."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._pairs import AXES, mean_distance, needs_of, tables


@list_metric(
    name="ils",
    aliases=("intra_list_similarity",),
    summary="How alike the items of a list are: 1 less the mean distance of its pairs.",
    formula="1 - mean over pairs of items of the list of their distance",
    latex=r"1 - \frac{2}{n(n-1)} \sum_{i<j} d(i, j)",
    source="Ziegler et al. 2005, Improving recommendation lists through topic diversification, "
    "p. 25",
    bounds=(-1.0, 1.0),
    undefined="with fewer than two known items",
    higher_is_better=False,
    parameters=AXES[:-1],
    needs=needs_of,
    tables=tables,
)
@kernel
def ils(lists, within, cutoffs, some, distance, unknown, single, zero_vector, out):
    """One less the mean distance of the pairs."""
    mean_distance(lists, within, cutoffs, some, distance, unknown, single, zero_vector, 0, out)
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[user, column] = 1.0 - out[user, column]
