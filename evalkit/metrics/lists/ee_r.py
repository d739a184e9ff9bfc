# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected exposure relevance."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._expected_exposure import AXES, PRODUCT, measure, tables


@list_metric(
    name="ee_r",
    aliases=("expected_exposure_relevance",),
    summary="How much of the attention goes where it should, by relevance.",
    formula="sum over items of e t, e = mean attention of the item, t = what it should get",
    latex=r"\sum_i e_i t_i",
    source="Diaz et al. 2020, Evaluating stochastic rankings with expected exposure, p. 277; "
    "Raj and Ekstrand 2022, Measuring fairness in ranked results, p. 729",
    bounds=(0.0, math.inf),
    undefined="for a user without relevant items",
    higher_is_better=True,
    parameters=AXES,
    needs=("relevant",),
    tables=tables,
)
@kernel
def ee_r(
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
        PRODUCT,
        out,
    )
