# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Gini index of the attention that items get."""

from evalkit.metrics import ATTENTION, PATIENCE, list_metric
from evalkit.metrics.lists._counts import GINI, ends_of_gini, gini_of, needs_of_items


@list_metric(
    name="gini_exposure",
    aliases=("exposure_gini",),
    summary="How unevenly attention is spread over the items: 0 when each gets as much.",
    formula="sum of (2 j - m - 1) e_j / (m S), attention e ascending over the m items, S its sum",
    latex=r"\frac{\sum_j (2j - m - 1) e_{(j)}}{m S}",
    source="Diaz et al. 2020, Evaluating stochastic rankings with expected exposure, p. 275",
    bounds=(0.0, 1.0),
    undefined="where no item is shown",
    higher_is_better=False,
    parameters=(*GINI, ATTENTION, PATIENCE),
    family="counts",
    weighing="attention",
    needs=needs_of_items,
    ends=ends_of_gini,
)
def gini_exposure(shown, items, values):
    """The index of the attention of the rows that show each item."""
    return gini_of(shown.exposure, shown.lists, items, values)
