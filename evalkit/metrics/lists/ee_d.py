# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected exposure disparity."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._expected_exposure import AXES, SQUARE, measure, tables


@list_metric(
    name="ee_d",
    aliases=("expected_exposure_disparity",),
    summary="How unequally attention is spread over the items of a user.",
    formula="sum over items of e^2, e = mean attention of the item over the lists of the user",
    latex=r"\sum_i e_i^2",
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
def ee_d(
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
        SQUARE,
        out,
    )
