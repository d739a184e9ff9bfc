# mypy: disable-error-code="no-untyped-def"
"""Expected calibration error."""

import math
from typing import Any

from evalkit.metrics import OfSums, Request, as_float, choice, kernel, label_metric, number, of_sums


def of_bins(asked: Request) -> OfSums:
    """Of sums of bins."""
    values, kernel = dict(asked.parameters), asked.metric.kernel.plain

    def value(bins: Any) -> Any:
        scores = [as_float(each) for each in bins.scores]
        return kernel(scores, bins.positives, bins.rows, *asked.encoded)

    bins = ("bins", int(values["bins"]), values["binning"])
    return of_sums(bins, by=value, is_smooth=False)


@label_metric(
    name="ECE",
    aliases=("expected_calibration_error", "calibration_error"),
    summary="Mean distance of mean score and share of labels 1 within bins of the score. Trap: it "
    "depends on the bins, and few rows a bin make it larger than it is.",
    formula="sum over bins of |sum of scores - sum of labels| / number of rows",
    latex=r"\sum_b \frac{n_b}{n} |\bar s_b - \bar y_b|",
    source="Naeini, Cooper and Hauskrecht 2015, Obtaining well calibrated probabilities using "
    "Bayesian binning, 3",
    bounds=(0.0, 1.0),
    undefined="without rows",
    parameters=(
        number("bins", 10, doc="Number of bins, rounded down.", above=0.0, below=1001.0),
        choice(
            "binning",
            {
                "width": (
                    "bins of equal width from 0 to 1; a score on an edge is in the upper bin, "
                    "a score of 1 in the last"
                ),
                "width_and_one": "as 'width', but scores of exactly 1 have a bin of their own",
                "mass": "bins of equally many rows; rows of one score stay together",
            },
            doc="How scores are cut into bins.",
        ),
    ),
    higher_is_better=False,
    over_rows=of_bins,
    of_probabilities=True,
)
@kernel(allocates=False)
def ece(scores, labels, weights, bins, binning):
    """Distances of the bins' sums of scores and of labels, over all weights."""
    wrong = rows = 0.0
    for place in range(len(weights)):
        wrong += abs(scores[place] - labels[place])
        rows += weights[place]
    return wrong / rows if rows > 0.0 else math.nan
