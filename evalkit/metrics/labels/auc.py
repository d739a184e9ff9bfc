# mypy: disable-error-code="no-untyped-def"
"""Areas under curves of all thresholds: ROC, a part of it, and precision by recall."""

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
    over_rows_or_groups,
)
from evalkit.metrics.labels._over import INSTEAD, instead, where_undefined

HALF, LOST = 0, 1


def of_pairs(asked: Request) -> OfSums:
    """Pairs that are won over all pairs."""
    values = dict(asked.parameters)

    def value(won: Any, positives: Any, negatives: Any) -> Any:
        if positives and negatives:
            return won / (2 * positives * negatives)
        return INSTEAD[str(values["undefined"])]

    area = Smooth((("AUC", values["ties"]),), complex)
    return OfSums((("won", values["ties"]), POSITIVES, NEGATIVES), value, area)


@label_metric(
    name="AUC",
    aliases=("ROC_AUC", "roc_auc_score", "GAUC(over='users', weighting='impressions')", "AUROC"),
    summary="Chance that a row with label 1 has a higher score than one with label 0; equal scores "
    "count half.",
    formula="pairs of a 1 and a 0 in which the 1 scores higher, ties by half, over all pairs",
    latex=r"\frac{1}{PN} \sum_{i: y_i = 1} \sum_{j: y_j = 0} [s_i > s_j] + \frac{1}{2} [s_i = s_j]",
    source="Fawcett 2006, An introduction to ROC analysis, 7; GAUC: Zhou et al. 2018, Deep "
    "interest network, 5.3",
    bounds=(0.0, 1.0),
    undefined="with labels of one kind only",
    parameters=(
        *over_rows_or_groups(),
        choice(
            "ties",
            {
                "half": "a pair of equal scores counts half",
                "lost": "a pair of equal scores counts as lost",
            },
            doc="What equal scores are worth.",
        ),
        where_undefined(one=True),
    ),
    over_rows=of_pairs,
)
@kernel(allocates=False)
def auc(starts, scores, labels, weights, over, weighting, ties, undefined, out):
    """Weighted pairs in which the 1 scores higher, over all pairs of each group."""
    for group in range(out.size):
        row, end = starts[group], starts[group + 1]
        positives = negatives = won = 0.0
        while row < end:
            score = scores[row]
            here = there = 0.0
            while row < end and scores[row] == score:
                if labels[row] != 0:
                    here += weights[row]
                else:
                    there += weights[row]
                row += 1
            won += there * (2.0 * positives + (here if ties == HALF else 0.0))
            positives += here
            negatives += there
        both = positives > 0.0 and negatives > 0.0
        out[group] = won / (2.0 * positives * negatives) if both else instead(undefined)


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
    summary="Area under the ROC curve up to a false positive rate, scaled so that chance is 0.5 "
    "and the best 1.",
    formula="(1 + (A - a) / (b - a)) / 2, with A the area up to max_fpr = b, a = b^2 / 2",
    latex=r"\frac{1}{2} \left(1 + \frac{A - b^2/2}{b - b^2/2}\right)",
    source="McClish 1989, Analyzing a portion of the ROC curve; Dodd and Pepe 2003, Partial AUC "
    "estimation",
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


STEP, TRAPEZOID = 0, 1


def of_precision(asked: Request) -> OfSums:
    """The sum of recall times precision."""
    values = dict(asked.parameters)

    def value(area: Any, positives: Any) -> Any:
        return area / positives if positives else INSTEAD[str(values["undefined"])]

    how = values["integration"]
    return OfSums((("precision", how), POSITIVES), value, Smooth((("PR-AUC", how),), complex))


@label_metric(
    name="PR-AUC",
    aliases=(
        "AP",
        "average_precision",
        "average_precision_score",
        "LRAP(over='users', undefined='one')",
        "AUPRC",
        "auc_precision_recall",
    ),
    summary="Area under the precision-recall curve over all thresholds; by steps it is the average "
    "precision.",
    formula="sum of (R_i - R_(i-1)) P_i over distinct scores from the highest; trapezoid: (P_i + "
    "P_(i-1)) / 2",
    latex=r"\sum_i (R_i - R_{i-1}) P_i",
    source="Davis and Goadrich 2006, The relationship between precision-recall and ROC curves, "
    "2 and 4",
    bounds=(0.0, 1.0),
    undefined="without a row with label 1",
    parameters=(
        *over_rows_or_groups(),
        choice(
            "integration",
            {
                "step": "steps of height P_i, which is average precision",
                "trapezoid": "lines between the points, from (0, 1) on; "
                "too high where points are far apart",
            },
            doc="How the points are joined.",
        ),
        where_undefined(one=True),
    ),
    over_rows=of_precision,
)
@kernel(allocates=False)
def pr_auc(starts, scores, labels, weights, over, weighting, integration, undefined, out):
    """Sum of the recall that each distinct score adds, times precision."""
    for group in range(out.size):
        row, end = starts[group], starts[group + 1]
        positives = rows = area = 0.0
        before = 1.0
        while row < end:
            score = scores[row]
            here = 0.0
            while row < end and scores[row] == score:
                rows += weights[row]
                if labels[row] != 0:
                    here += weights[row]
                row += 1
            positives += here
            precision = positives / rows if rows > 0.0 else 1.0
            height = precision if integration == STEP else (precision + before) / 2.0
            area += here * height
            before = precision
        out[group] = area / positives if positives > 0.0 else instead(undefined)
