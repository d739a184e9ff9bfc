# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected exposure loss."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._expected_exposure import AXES, DISTANCE, measure, tables


@list_metric(
    name="ee_l",
    aliases=("expected_exposure_loss",),
    summary="How far the attention of items is from what they should get by relevance.",
    formula="sum over items of (e - t)^2, e = mean attention of the item, t = what it should get",
    latex=r"\sum_i (e_i - t_i)^2",
    source="Diaz et al. 2020, Evaluating stochastic rankings with expected exposure, p. 277; "
    "Raj and Ekstrand 2022, Measuring fairness in ranked results, p. 729",
    bounds=(0.0, math.inf),
    undefined="for a user without relevant items",
    higher_is_better=False,
    parameters=AXES,
    needs=("relevant",),
    tables=tables,
)
@kernel
def ee_l(
    lists, within, cutoffs, samples, n_samples, relevant, n_items, attention, patience, stop, out
):
    """The sum over all items that the user's lists show or that are relevant."""
    measure(
        lists,
        cutoffs,
        samples,
        n_samples,
        relevant,
        n_items,
        attention,
        patience,
        stop,
        DISTANCE,
        out,
    )
