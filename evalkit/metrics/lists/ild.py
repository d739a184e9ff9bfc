# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Intra-list diversity."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._pairs import AXES, mean_distance, needs_of, tables


@list_metric(
    name="ild",
    aliases=("intra_list_diversity", "intra_list_distance"),
    summary="How different the items of a list are: the mean distance of its pairs.",
    formula="mean over pairs of items of the list of their distance",
    latex=r"\frac{2}{n(n-1)} \sum_{i<j} d(i, j)",
    source="Smyth and McClave 2001, Similarity vs. diversity, p. 351; Ziegler et al. 2005, "
    "Improving recommendation lists through topic diversification, p. 25",
    bounds=(0.0, 2.0),
    undefined="with fewer than two known items",
    parameters=AXES,
    needs=needs_of,
    tables=tables,
)
@kernel
def ild(lists, within, cutoffs, some, distance, unknown, single, zero_vector, pairs_den, out):
    """Mean distance of the pairs; of cosines by a sum of unit vectors, no pair is looked at."""
    mean_distance(
        lists, within, cutoffs, some, distance, unknown, single, zero_vector, pairs_den, out
    )
