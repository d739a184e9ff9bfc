# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected exposure disparity."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._expected_exposure import DECLARED, SQUARE, measure


@list_metric(
    name="ee_d",
    aliases=("expected_exposure_disparity",),
    summary="How unequally attention is spread over the items of a user.",
    formula="sum over items of e^2, e = mean attention of the item over the lists of the user",
    latex=r"\sum_i e_i^2",
    higher_is_better=False,
    **DECLARED,
)
@kernel
def ee_d(lists, within, cutoffs, aside, attention, patience, stop, samples, out):
    """The sum over all items that the user's lists show or that are relevant."""
    measure(lists, cutoffs, aside, attention, patience, stop, SQUARE, out)
