# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected exposure relevance."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._expected_exposure import DECLARED, PRODUCT, measure


@list_metric(
    name="ee_r",
    aliases=("expected_exposure_relevance",),
    summary="How much of the attention goes where it should, by relevance.",
    formula="sum over items of e t, e = mean attention of the item, t = what it should get",
    latex=r"\sum_i e_i t_i",
    higher_is_better=True,
    **DECLARED,
)
@kernel
def ee_r(lists, within, cutoffs, aside, attention, patience, stop, samples, out):
    """The sum over all items that the user's lists show or that are relevant."""
    measure(lists, cutoffs, aside, attention, patience, stop, PRODUCT, out)
