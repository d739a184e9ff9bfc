# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Item coverage: the share of the items that anybody is shown."""

import math

from evalkit.metrics import list_metric, number
from evalkit.metrics.lists._coverage import (
    CATALOGUE,
    SCALE,
    coverage_of,
    ends_of_coverage,
    needs_of_catalogue,
)


@list_metric(
    name="item_coverage",
    aliases=("catalog_coverage", "aggregate_diversity(scale='count')"),
    summary="Share of the items that at least one list shows; it grows with the number of users.",
    formula="items that a list shows / items of the table",
    latex=r"\frac{|\bigcup_u L_u|}{|I|}",
    source="Herlocker et al. 2004, Evaluating collaborative filtering, p. 40; Ge et al. 2010, "
    "Beyond accuracy, p. 258; Adomavicius and Kwon 2012, Improving aggregate diversity, p. 898",
    bounds=(0.0, math.inf),
    undefined="without an item; with fewer users than `at_users`",
    parameters=(
        CATALOGUE,
        SCALE,
        number(
            "at_users",
            0.0,
            above=-1.0,
            is_whole=True,
            tried=2.0,
            doc="The mean over all draws of so many users; 0 takes all users.",
        ),
        number(
            "decimals", 17.0, above=-1.0, below=18.0, is_whole=True, doc="Decimals that are kept."
        ),
    ),
    family="counts",
    needs=needs_of_catalogue,
    ends=ends_of_coverage,
)
def item_coverage(shown, items, values):
    """Items that lists show, over all there are."""
    return coverage_of(shown, items, values)
