"""Which model is better, in a sentence: what the primary metric says, with or without gates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalkit.report.decision import decision_sentence
from evalkit.report.entries import Comparison, Estimate
from evalkit.report.record import Report, of_all_users
from evalkit.report.text import decimals_of
from evalkit.report.turning import against

MOST_NAMED = 3
_GROUPS = {  # of verdicts, in the order of the sentence
    "better": "is better than",
    "not inferior": "is not inferior to",
    "equivalent": "is equivalent to",
    "different": "is different from",
    "worse": "is worse than",
    "identical": "is identical for every user to",
    "cannot tell": "shows no clear difference from",
    "not tested": "is not tested against",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What one metric says of the models, over all users.

    Args:
        metric: its label.
        models: from best to worst.
        reference: the model that all others are compared with: the baseline, or the best one where
            every two were compared. None where there is none.
        is_picked: the reference is the best by these very numbers, named by nobody.
        pairs: candidate -> its comparison with the reference, or else with its own baseline.
        kind: better, worse or undecided, of all that was compared; nothing without comparisons.
        sentence: all of that, in words; what to do with each variant, where it `decides`.
    """

    metric: str
    models: tuple[str, ...]
    reference: str | None
    is_picked: bool
    pairs: Mapping[str, Comparison]
    kind: str
    sentence: str
    decides: bool = False

    @property
    def said(self) -> str:
        """The sentence, which begins with a capital letter unless a variant's name comes first."""
        return self.sentence if self.decides else self.sentence[:1].upper() + self.sentence[1:]


def answer_of(report: Report, metric: str | None = None) -> Answer:
    """What a metric says; the one that decides by default, and of experiments what to do."""
    decides = metric is None and report.kind == "experiment" and bool(report.comparisons)
    metric = metric or next(iter(report.leading), "")
    found = [
        each
        for each in of_all_users(report).estimates
        if each.metric == metric and not math.isnan(each.value)
    ]
    ranked = best_first(found)
    reference, pairs = _compared(report, metric, [each.model for each in ranked])
    baseline = report.statistics.baseline if report.statistics is not None else None
    is_picked = reference is not None and reference != baseline
    verdicts = {each.verdict for each in pairs.values()}
    kind = "undecided" if pairs else ""
    if is_picked and verdicts == {"worse"}:
        kind = "better"
    elif "better" in verdicts and reference is not None:
        kind = "better"
    elif verdicts == {"worse"}:
        kind = "worse"
    return Answer(
        metric=metric,
        models=tuple(dict.fromkeys([*(each.model for each in ranked), *report.models])),
        reference=reference,
        is_picked=is_picked,
        pairs=pairs,
        kind=kind,
        sentence=decision_sentence(report)
        if decides
        else _sentence(metric, ranked, pairs, picked=reference if is_picked else None),
        decides=decides,
    )


def best_first(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Estimates of one metric from the best to the worst, those without a number last."""
    is_down = any(each.higher_is_better is False for each in estimates)
    worst = math.inf if is_down else -math.inf
    return sorted(
        estimates,
        key=lambda each: worst if math.isnan(each.value) else each.value,
        reverse=not is_down,
    )


def _compared(
    report: Report, metric: str, ranked: Sequence[str]
) -> tuple[str | None, dict[str, Comparison]]:
    pairs = [each for each in of_all_users(report).comparisons if each.metric == metric]
    baseline = report.statistics.baseline if report.statistics is not None else None
    for reference in filter(None, (baseline, *ranked[:1])):
        found = {each.candidate: each for each in against(pairs, reference)}
        if found and (len(found) == len(pairs) or len(found) == len(report.models) - 1):
            return reference, found
    return None, {each.candidate: each for each in pairs}


def _sentence(
    metric: str, ranked: Sequence[Estimate], pairs: Mapping[str, Comparison], *, picked: str | None
) -> str:
    if not ranked:
        return "there is no number to go by"
    best = ranked[0]
    said = "lowest" if best.higher_is_better is False else "highest"
    if not pairs:
        value = f"{best.value:.{_digits(best)}f}{limits(best)}"
        if len(ranked) == 1:
            return f"by {metric}, {best.model} is at {value}"
        ahead = f"{best.value - ranked[1].value:+.{_digits(best)}f}"
        return (
            f"by {metric}, {best.model} is {said}, {value}, {ahead} to {ranked[1].model}; "
            "whether it is better than the others was not tested"
        )
    parts = [f"{picked} is {said} of {len(ranked)}"] if picked is not None else []
    for verdict, words in _GROUPS.items():
        of = [pairs[each.model] for each in ranked if each.model in pairs]
        of = [each for each in of if each.shown_verdict == verdict]
        parts += [
            _group([each for each in of if each.baseline == base], words)
            for base in dict.fromkeys(each.baseline for each in of)
        ]
    return f"by {metric}, {'; '.join(parts)}"


def _group(pairs: Sequence[Comparison], words: str) -> str:
    """`ease and als are better than top, ease by +0.052 (+0.040 … +0.065)`."""
    names = [each.candidate for each in pairs]
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    first = pairs[0]
    if len(pairs) > 1:
        words = words.replace("is ", "are ", 1).replace("shows ", "show ", 1)
    if first.shown_verdict == "identical":
        return f"{listed} {words} {first.baseline}"
    whose = "" if len(pairs) == 1 else f"{first.candidate} "
    by = f"{first.delta:+.{_digits(first)}f}{limits(first)}"
    return f"{listed} {words} {first.baseline}, {whose}by {by}"


def limits(of: Estimate | Comparison) -> str:
    """` (0.113 … 0.138)`, of differences with their signs; nothing where there is no interval.

    Those of a difference are the ones that its verdict goes with.
    """
    is_pair = isinstance(of, Comparison)
    low, high = of.judged_limits if isinstance(of, Comparison) else (of.low, of.high)
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    form = f"{'+' if is_pair else ''}.{_digits(of)}f"
    return f" ({low:{form}} … {high:{form}})"


def _digits(of: Estimate | Comparison) -> int:
    return decimals_of([of])
