"""What to do with each candidate of an experiment, in one sentence that stands first."""

from evalkit.report.entries import Comparison
from evalkit.report.record import Report

CANNOT, NO, NOT_YET, SHIP = "cannot be read", "do not ship", "not yet", "ship"


def decisions_of(report: Report) -> dict[str, tuple[str, str]]:
    """Candidate -> ship, do not ship, not yet or cannot be read, and why.

    A sample-ratio alarm stands above everything. Then what got worse, primary or guardrail; a
    guardrail that cannot tell by its margin, and what is worse by p alone, hold back what is
    better; what is surely no worse may ship.
    """
    if any(each.is_alarm for each in report.checks):
        why = "units did not come in the shares that were declared"
        return {name: (CANNOT, why) for name in report.models[1:] or report.models}
    by_candidate: dict[str, list[Comparison]] = {}
    for comparison in report.comparisons:
        if comparison.segment is None and comparison.verdict:
            by_candidate.setdefault(comparison.candidate, []).append(comparison)
    return {name: _decision(rows, report) for name, rows in by_candidate.items()}


def _decision(rows: list[Comparison], report: Report) -> tuple[str, str]:
    guarded = [each for each in rows if each.family == "guardrail"]
    asked = [each for each in rows if each.p_adjusted is not None and each not in guarded]
    deciding = [each for each in rows if each.metric in report.primary] or asked[:1]
    worse = [each.metric for each in (*deciding, *guarded) if each.verdict == "worse"]
    if worse:
        return NO, f"{', '.join(worse)} got worse"
    better = [each.metric for each in deciding if each.verdict == "better"]
    unclear = [
        each
        for each in (*deciding, *guarded)
        if each.verdict == "cannot tell"
        and (_is_worse_by_p(each, report) or (each in guarded and each.p_not_inferior is not None))
    ]
    if unclear:
        than = " than the margin allows" if unclear[0].p_not_inferior is not None else ""
        return NOT_YET, f"{', '.join(each.metric for each in unclear)} may have got worse{than}"
    if better:
        return SHIP, f"{', '.join(better)} got better"
    if deciding and all(each.verdict in ("equivalent", "not inferior") for each in deciding):
        return SHIP, f"{deciding[0].metric} is {deciding[0].verdict}"
    if not deciding:
        return NOT_YET, "nothing was tested"
    return NOT_YET, f"{', '.join(each.metric for each in deciding)} cannot be told apart"


def _is_worse_by_p(each: Comparison, report: Report) -> bool:
    """Whether a verdict was withheld that its p would have made a loss."""
    level = 0.95 if report.statistics is None else report.statistics.level
    value = report.estimate(each.candidate, each.metric, None, None)
    is_lower = value is not None and value.higher_is_better is False
    is_told = each.p_adjusted is not None and each.p_adjusted <= 1.0 - level
    return is_told and (each.delta > 0.0) == is_lower


def decision_kind(report: Report) -> str:
    """What all of it is, as an outcome of gates: pass where anything may ship and nothing fails."""
    found = {what for what, _ in decisions_of(report).values()}
    if found & {CANNOT, NO}:
        return "fail"
    return "pass" if SHIP in found else "unclear"


def decision_sentence(report: Report) -> str:
    """`b: ship, ratio(clicks, shown) got better`, for each candidate, or several that are alike."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, decision in decisions_of(report).items():
        alike.setdefault(decision, []).append(name)
    return "; ".join(f"{', '.join(of)}: {what}, {why}" for (what, why), of in alike.items())
