"""Errors of rates at a threshold that the rows themselves choose: by a target, or by equal errors.

Other users move the threshold too. Along the curve of rows called positive the rate and its target
both have a slope; what a user moves the target by, times the quotient of these, is taken back.
The threshold itself moves by that of the score and the target.
Source: Kosorok 2008, Introduction to Empirical Processes, 12.1 (quantiles, by the delta method).
"""

import math
from collections.abc import Callable
from typing import Any

from evalkit.kinds.labels._walk import LINE_POINTS, LabelTotals, ShareCut, Walked
from evalkit.metrics import POSITIVES, ROWS, Request, Smooth, of_counts, ratio, target_of
from evalkit.metrics.labels.operating import of_score

NEARBY = 5  # hundredths of the rows on both sides, over which slopes are taken
STEP = 1e-30  # of the derivative by a complex number, which rounds nothing
EQUAL = ("equal",)

Rate = Callable[..., Any]  # of true and false positives, rows with label 1 and 0

TARGETS: dict[str, Rate] = {
    "precision": lambda tp, fp, p, n: tp / (tp + fp),
    "recall": lambda tp, fp, p, n: tp / p,
    "specificity": lambda tp, fp, p, n: (n - fp) / n,
}


def is_chosen(request: Request) -> bool:
    """Whether a number over all rows stands at such a threshold."""
    has_target = is_score(request) or (
        request.metric.over_rows is of_counts and target_of(request) is not None
    )
    return has_target or EQUAL in request.over_rows.terms


def is_score(request: Request) -> bool:
    """Whether a number is such a threshold."""
    return request.metric.over_rows is of_score


def placeholder(request: Request) -> Smooth | None:
    """What takes as much memory as the error of such a number; None of another one."""
    return Smooth(_terms_at(0.0), ratio) if is_chosen(request) else None


def smooth_at(request: Request, walked: Walked, totals: LabelTotals) -> Smooth | None:
    """What the error of a number is made of once its threshold is known; None without one.

    It has none where the rate is 0 or 1, which no target holds, nor where both rise together;
    a threshold has none where many rows nearby have one score.
    """
    equal, target = EQUAL in request.over_rows.terms, target_of(request)
    tp, fp, score = walked.found[EQUAL if equal else ("best", request)].value()
    rows = totals.rows
    if not (math.isfinite(score) and totals.positives and totals.negatives and tp + fp < rows):
        return None
    rate = _rate_of(request)
    if not 0.0 < float(rate(tp, fp, totals.positives, totals.negatives)) < 1.0:
        return None
    slope = _slope_at(tp + fp, walked.shares, totals)
    goal = _apart if equal or target is None else TARGETS[target[0]]

    def rise(function: Rate) -> float:
        moved = complex(tp, STEP * slope), complex(fp, STEP * (1.0 - slope))
        return complex(function(*moved, totals.positives, totals.negatives)).imag / STEP

    if not (by_goal := rise(goal)):
        return None
    taken_back = rise(rate) / by_goal
    if taken_back > 0.0 and not equal:
        return None
    if is_score(request):
        rise_of_score = _score_slope_at(tp + fp, walked.shares, totals)
        factor = -rise_of_score / by_goal

        def moved(tp: complex, fp: complex, positives: complex, rows: complex) -> Any:
            return factor * goal(tp, fp, positives, rows - positives)

        return Smooth(_terms_at(score), moved) if rise_of_score else None

    def function(tp: complex, fp: complex, positives: complex, rows: complex) -> Any:
        given = tp, fp, positives, rows - positives
        return rate(*given) - taken_back * goal(*given)

    return Smooth(_terms_at(score), function)


def _terms_at(score: float) -> tuple[Any, ...]:
    return ("tp", score), ("fp", score), POSITIVES, ROWS


def _apart(tp: Any, fp: Any, p: Any, n: Any) -> Any:
    return _missed(tp, fp, p, n) - fp / n


def _missed(tp: Any, fp: Any, p: Any, n: Any) -> Any:
    return (p - tp) / p


def _rate_of(request: Request) -> Rate:
    if EQUAL in request.over_rows.terms:
        return _missed
    if is_score(request):
        return TARGETS[str(dict(request.parameters)["of"])]
    kernel, extra = request.metric.kernel, request.own_arguments
    return lambda tp, fp, p, n: kernel.plain(tp, fp, n - fp, p - tp, *extra)


def _slope_at(called: float, cuts: dict[int, ShareCut], totals: LabelTotals) -> float:
    """The share of labels 1 among rows around the last one that is called positive."""
    number = round(LINE_POINTS * called / totals.rows)
    first, last = cuts.get(number - NEARBY), cuts.get(number + NEARBY)
    begin = (0.0, 0.0) if first is None else (first.rows, first.positives)
    end = (totals.rows, totals.positives) if last is None else (last.rows, last.positives)
    width = end[0] - begin[0]
    return (end[1] - begin[1]) / width if width > 0.0 else totals.positives / totals.rows


def _score_slope_at(called: float, cuts: dict[int, ShareCut], totals: LabelTotals) -> float:
    """What the score falls by a row, around the last one that is called positive.

    0 where a hundredth of the rows nearby ends at the same score as the one before, or at an end.
    """
    number = round(LINE_POINTS * called / totals.rows)
    nearby = [cuts.get(each) for each in range(number - NEARBY, number + NEARBY + 1)]
    ends = [each for each in nearby if each is not None]
    if len(ends) < len(nearby) or len({each.mark[0] for each in ends}) < len(ends):
        return 0.0
    return (ends[-1].mark[0] - ends[0].mark[0]) / (ends[-1].rows - ends[0].rows)
