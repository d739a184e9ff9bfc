"""Segments that a search found to lose or gain, pair by pair, as every rendering lists them."""

import math
from dataclasses import dataclass

from evalkit.report.entries import Finding
from evalkit.report.record import Report, of_all_users, once

TITLE = "segments that lose or gain"
NOTE = "limits are widened for having been picked"
NOTHING = "no segment surely loses or gains"
HEAD = ("", "metric", "segment", "delta", "low", "high", "users")
MOST_ON_PAPER = 10  # of one pair of models, in pages and papers


@dataclass(frozen=True, slots=True)
class PairFindings:
    """What was found of one pair of models, the largest losses first, then the gains.

    Args:
        title: `als against popularity`.
        rows: as many cells as `HEAD`.
        left_out: how many more there are in report.json.
    """

    title: str
    rows: list[list[str]]
    left_out: int


def searches(report: Report) -> bool:
    """Whether the run searched segments."""
    section = (report.config or {}).get("statistics")
    return bool(report.findings) or (isinstance(section, dict) and bool(section.get("search")))


@once
def standing_out(report: Report) -> list[Finding]:
    """All findings: of primary metrics first, those that differ most from all users' difference."""
    deciding = report.primary or report.leading[:1]
    overall = {
        (each.baseline, each.candidate, each.metric): each.delta
        for each in of_all_users(report).comparisons
    }

    def apart(each: Finding) -> tuple[bool, float]:
        beside = overall.get((each.baseline, each.candidate, each.metric), 0.0)
        off = abs(each.delta - beside)
        # a loss that is smaller than the whole's comes last
        is_less = abs(each.delta) < abs(beside) and each.delta * beside > 0
        return each.metric not in deciding, off if is_less else -off

    return sorted(report.findings, key=apart)


def found_by_pair(report: Report, *, most: int | None = None) -> list[PairFindings]:
    """The findings of every pair of models; at most so many of each, those that stand out."""
    pairs: dict[tuple[str, str], list[Finding]] = {}
    for each in report.findings if most is None else standing_out(report):
        pairs.setdefault((each.candidate, each.baseline), []).append(each)
    listed = []
    for (candidate, baseline), found in pairs.items():
        shown = found[:most]
        listed.append(
            PairFindings(
                f"{candidate} against {baseline}", [*map(_row, shown)], len(found) - len(shown)
            )
        )
    return listed


def _row(each: Finding) -> list[str]:
    numbers = [_signed(number) for number in (each.delta, each.low, each.high)]
    segment = f"{each.segmentation} = {each.segment}"
    return [each.kind, each.metric, segment, *numbers, f"{each.n_users:,}"]


def _signed(number: float | None) -> str:
    return "-" if number is None or not math.isfinite(number) else f"{number:+.4f}"
