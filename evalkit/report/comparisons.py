"""Comparisons as a terminal shows them, and what they are corrected for."""

import math
from collections.abc import Sequence

from evalkit.errors import clean
from evalkit.report.record import Comparison, Report, StatisticsUsed
from evalkit.report.text import display_width, pad, shorten, shorten_all

GAP = "  "
TESTS = {
    "t": "paired t test",
    "wilcoxon": "Wilcoxon's signed-rank test",
    "permutation": "sign-flip test",
    "bootstrap": "bootstrap",
    "tukey": "Tukey's test",
}
CORRECTIONS = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini-Hochberg",
    "tukey": "all pairs",
    "none": "no correction",
}


def comparison_lines(report: Report, *, width: int, power: bool = False) -> list[str]:
    """Lines for every baseline: one row a candidate and metric, over all users."""
    lines: list[str] = []
    used = report.statistics
    overall = [each for each in report.comparisons if each.segment is None]
    for baseline in dict.fromkeys(each.baseline for each in overall):
        rows = [each for each in overall if each.baseline == baseline]
        title = f"compared with {clean(baseline)}"
        lines += ["", shorten(f"{title}: {_how(rows, used)}", width)]
        lines += _table(rows, width=width, power=power)
    for standing in report.standings:
        names = [f"{clean(name)} {letters}" for name, _, letters in standing.models]
        lines.append(shorten(f"{clean(standing.metric)}: {' > '.join(names)}", width))
    if report.standings:
        lines.append("models that share a letter cannot be told apart")
    return lines


def searches(report: Report) -> bool:
    """Whether the run searched segments."""
    section = (report.config or {}).get("statistics")
    return isinstance(section, dict) and bool(section.get("search"))


def finding_lines(report: Report, *, width: int) -> list[str]:
    """Segments that lose or gain, the largest first; or that there are none."""
    if not report.findings:
        return ["", "no segment surely loses or gains"]
    lines = ["", "segments that lose or gain (limits are widened for having been picked)"]
    header = ["", "metric", "segment", "delta", "low", "high", "users"]
    rows = [header]
    for each in report.findings:
        name = f"{each.segmentation} = {each.segment}"
        numbers = [f"{_plain(number):+.4f}" for number in (each.delta, each.low, each.high)]
        rows.append(
            [
                each.kind,
                shorten(clean(each.metric), 14),
                shorten(clean(name), 30),
                *numbers,
                f"{each.n_users:,}",
            ]
        )
    widths = [max(display_width(row[place]) for row in rows) for place in range(len(header))]
    for row in rows:
        cells = [pad(cell, widths[place], right=place > 2) for place, cell in enumerate(row)]
        lines.append(shorten(" ".join(cells).rstrip(), width))
    return lines


def _plain(number: float | None) -> float:
    return math.nan if number is None else number


def _how(rows: Sequence[Comparison], used: StatisticsUsed | None) -> str:
    test = TESTS.get(rows[0].test, rows[0].test)
    if used is None:
        return test
    correction = CORRECTIONS.get(used.correction, used.correction)
    family = f"{used.n_tests} test{'s' if used.n_tests != 1 else ''}"
    return f"{test}, {correction} over {family}, {used.level:.0%} intervals"


def _table(rows: Sequence[Comparison], *, width: int, power: bool) -> list[str]:
    candidates = list(dict.fromkeys(each.candidate for each in rows))
    short = dict(zip(candidates, shorten_all(candidates, 24), strict=True))
    names = [short[each.candidate] for each in rows]
    metrics = [shorten(clean(each.metric), 24) for each in rows]
    header = ["model", "metric", "delta", "low", "high", "p", "verdict"]
    cells = [
        [name, metric, *_numbers(each), show_p(each.p_adjusted), each.verdict]
        for name, metric, each in zip(names, metrics, rows, strict=True)
    ]
    if power:
        header.insert(6, "would see")
        for row, each in zip(cells, rows, strict=True):
            row.insert(6, _signed(each.smallest_difference, each).lstrip("+"))
        if any(each.users_needed is not None for each in rows):
            header.insert(7, "users needed")
            for row, each in zip(cells, rows, strict=True):
                row.insert(7, "-" if each.users_needed is None else f"{each.users_needed:,}")
    columns = list(zip(header, *cells, strict=True))
    widths = [max(display_width(cell) for cell in column) for column in columns]
    right = set(range(2, len(header) - 1))
    lines = []
    before = ""
    for row in [header, *cells]:
        shown = [("" if place == 0 and cell == before else cell) for place, cell in enumerate(row)]
        before = row[0]
        parts = [pad(cell, widths[place], right=place in right) for place, cell in enumerate(shown)]
        lines.append(shorten(GAP.join(parts).rstrip(), width))
    return lines


def _numbers(each: Comparison) -> list[str]:
    return [_signed(number, each) for number in (each.delta, each.low, each.high)]


def _signed(number: float | None, each: Comparison) -> str:
    if number is None or not math.isfinite(number):
        return "-"
    sizes = [abs(size) for size in (each.low, each.high, each.delta) if size is not None]
    largest = max((size for size in sizes if math.isfinite(size)), default=0.0)
    decimals = 6 if largest < 0.001 else 5 if largest < 0.1 else 4 if largest < 10 else 2
    return f"{number:+.{decimals}f}"


def show_p(p_value: float | None) -> str:
    """A p-value as one reads it: three decimals, or that it is below 0.001."""
    if p_value is None or math.isnan(p_value):
        return "-"
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"
