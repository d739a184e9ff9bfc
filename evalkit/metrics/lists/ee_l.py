# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected exposure loss."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._expected_exposure import DECLARED, DISTANCE, measure


@list_metric(
    name="ee_l",
    aliases=("expected_exposure_loss",),
    summary="How far the attention of items is from what they should get by relevance.",
    formula="sum over items of (e - t)^2, e = mean attention of the item, t = what it should get",
    latex=r"\sum_i (e_i - t_i)^2",
    higher_is_better=False,
    **DECLARED,
)
@kernel
def ee_l(lists, within, cutoffs, aside, attention, patience, stop, samples, out):
    """The sum over all items that the user's lists show or that are relevant."""
    measure(lists, cutoffs, aside, attention, patience, stop, DISTANCE, out)
