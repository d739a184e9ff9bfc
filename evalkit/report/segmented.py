"""Segments of one metric, the worst first: by the paired difference where models are compared."""

from dataclasses import dataclass

from evalkit.report.answer import Answer
from evalkit.report.entries import Comparison, Estimate
from evalkit.report.record import Report
from evalkit.report.turning import against


@dataclass(frozen=True, slots=True)
class Segment:
    """One model in one segment; `pair` is its comparison there, where there is one."""

    estimate: Estimate
    pair: Comparison | None = None

    @property
    def n_users(self) -> int:
        return (self.pair or self.estimate).n_users


def worst_segments(report: Report, answer: Answer) -> list[Segment]:
    """Segments by what they surely are at best, the worst first.

    Of models that are compared, by the upper limit of the difference less the difference over all
    users; otherwise by the upper limit of the best model's value.
    """
    estimates: dict[tuple[str, str | None, str | None], Estimate] = {
        (each.model, each.segmentation, each.segment): each
        for each in report.estimates
        if each.metric == answer.metric and each.segment is not None
    }
    overall = {model: pair.delta for model, pair in answer.pairs.items()}
    of_segments = [
        each
        for each in report.comparisons
        if each.metric == answer.metric and each.segment is not None
    ]
    if answer.reference is not None:
        of_segments = against(of_segments, answer.reference)
    found: list[tuple[float, Segment]] = []
    for pair in of_segments:
        estimate = estimates.get((pair.candidate, pair.segmentation, pair.segment))
        if estimate is None or pair.low is None or pair.high is None:
            continue
        is_down = estimate.higher_is_better is False
        beside = overall.get(pair.candidate, 0.0)
        order = -(pair.low - beside) if is_down else pair.high - beside
        found.append((order, Segment(estimate, pair)))
    if not of_segments:
        for estimate in estimates.values():
            if estimate.model == answer.models[0] and estimate.high is not None:
                is_down = estimate.higher_is_better is False
                order = -(estimate.low or 0.0) if is_down else estimate.high
                found.append((order, Segment(estimate)))
    return [each for _, each in sorted(found, key=lambda each: each[0])]
