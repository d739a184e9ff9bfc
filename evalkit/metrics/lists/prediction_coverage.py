# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Prediction coverage: the share of the items that whole lists show."""

import math

from evalkit.metrics import list_metric
from evalkit.metrics.lists._coverage import (
    CATALOGUE,
    SCALE,
    coverage_of,
    ends_of_coverage,
    needs_of_catalogue,
)


@list_metric(
    name="prediction_coverage",
    summary="Share of the items that the model can show at all: by whole lists, without a cutoff.",
    formula="items that a whole list shows / items of the table",
    latex=r"\frac{|\bigcup_u L_u|}{|I|}",
    source="Herlocker et al. 2004, Evaluating collaborative filtering recommender systems, p. 40",
    bounds=(0.0, math.inf),
    undefined="without an item",
    cutoff="never",
    parameters=(CATALOGUE, SCALE),
    family="counts",
    needs=needs_of_catalogue,
    ends=ends_of_coverage,
)
def prediction_coverage(shown, items, values):
    """Items that whole lists show, over all there are."""
    return coverage_of(shown, items, values)
