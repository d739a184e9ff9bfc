# mypy: disable-error-code="no-untyped-def"
"""Partial area under the ROC curve."""

from typing import Any

from evalkit.metrics import (
    NEGATIVES,
    POSITIVES,
    OfSums,
    Request,
    Smooth,
    choice,
    kernel,
    label_metric,
    number,
)

MCCLISH, AREA = 0, 1


def of_area(asked: Request) -> OfSums:
    """The area over all pairs, scaled."""
    share = float(dict(asked.parameters)["max_fpr"])
    kernel = asked.metric.kernel.plain

    def scale(area: Any) -> Any:
        return kernel(area, *asked.encoded)

    def value(area: Any, positives: Any, negatives: Any) -> Any:
        return scale(area / (positives * negatives))

    area = Smooth((("partial-AUC", share),), lambda area: complex(scale(area)))
    return OfSums((("area", share), POSITIVES, NEGATIVES), value, area, is_exact=False)


@label_metric(
    name="partial-AUC",
    aliases=("pAUC",),
    summary=(
        "Area under the ROC curve up to a false positive rate, scaled so that chance is 0.5 and "
        "the best 1."
    ),
    formula="(1 + (A - a) / (b - a)) / 2, with A the area up to max_fpr = b, a = b^2 / 2",
    latex=r"\frac{1}{2} \left(1 + \frac{A - b^2/2}{b - b^2/2}\right)",
    source=(
        "McClish 1989, Analyzing a portion of the ROC curve; Dodd and Pepe 2003, Partial AUC "
        "estimation"
    ),
    bounds=(0.0, 1.0),
    undefined="with labels of one kind only",
    parameters=(
        number(
            "max_fpr",
            0.1,
            doc="False positive rate up to which the area is taken.",
            above=0.0,
            below=1.0,
        ),
        choice(
            "scale",
            {"mcclish": "chance is 0.5, the best 1", "area": "the plain area, at most max_fpr"},
            doc="What the area is measured against.",
        ),
    ),
    over_rows=of_area,
)
@kernel(allocates=False)
def partial_auc(area, max_fpr, scale):
    """The area up to `max_fpr`, scaled."""
    if scale == AREA:
        return area
    chance = 0.5 * max_fpr * max_fpr
    return 0.5 * (1.0 + (area - chance) / (max_fpr - chance))
