"""Comparisons as a terminal shows them, and what they are corrected for."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evalkit.errors import clean
from evalkit.report.entries import Comparison, StatisticsUsed
from evalkit.report.findings import HEAD, NOTE, NOTHING, TITLE, found_by_pair
from evalkit.report.record import Report, of_all_users
from evalkit.report.text import (
    display_width,
    known_limits,
    pad,
    shorten,
    shorten_all,
    show_level,
    wrap,
)

GAP = "  "
SHORTEST_NAME, LONGEST_NAME = 6, 24
FAMILY = "family"
LEFT_OUT_FIRST = (  # of narrow terminals
    *(("low", "high"), ("by margin",), ("p not inferior",), ("p equivalent",), ("p",)),
    *(("users needed",), ("would see",), ("corrected",)),
)
TESTS = {
    "t": "paired t test",
    "mcnemar": "McNemar's mid-p test",
    "hall": "Hall's paired t test",
    "wilcoxon": "Wilcoxon's signed-rank test",
    "permutation": "sign-flip test",
    "bootstrap": "bootstrap",
    "tukey": "Tukey's test",
    "welch": "Welch's t test",
    "pooled": "t test of pooled variances",
    "z": "z test",
    "always-valid": "always-valid test",
    "spending": "group-sequential test",
    "newcombe": "test of Newcombe's limits",
    "quantile": "test of quantiles' limits",
    "sign": "sign test over users",
}
OF_TAIL, OF_UNSEEN = ", tail", ", unseen"
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
    overall = of_all_users(report).comparisons
    for baseline in dict.fromkeys(each.baseline for each in overall):
        rows = [each for each in overall if each.baseline == baseline]
        title = f"compared with {clean(baseline)}"
        words = f"{title}: {_how(rows, used)}".split(" ")
        lines += ["", *wrap(words, first="", width=width, separator="")]
        primary = dict.fromkeys(each.metric for each in rows if each.family == "primary")
        if primary:
            named = ", ".join(map(clean, primary))
            is_all = all(each.family == "primary" for each in rows)
            rest = "" if is_all else "; the rest is exploratory"
            lines.append(shorten(f"primary: {named}{rest}", width))
        lines += _table(rows, width=width, power=power)
    for standing in report.standings:
        names = [f"{clean(name)} {letters}" for name, _, letters in standing.models]
        lines.append(shorten(f"{clean(standing.metric)}: {' > '.join(names)}", width))
    if report.standings:
        lines.append("models that share a letter cannot be told apart")
    return lines


def finding_lines(report: Report, *, width: int) -> list[str]:
    """Segments that lose or gain, pair by pair, the largest first; or that there are none."""
    if not report.findings:
        return ["", NOTHING]
    lines = ["", shorten(f"{TITLE} ({NOTE})", width)]
    for found in found_by_pair(report):
        rows = [[clean(cell) for cell in row] for row in (HEAD, *found.rows)]
        for row in rows:
            row[1] = shorten(row[1], 14)
        widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
        room = width - sum(widths) + widths[2] - len(widths) + 1
        widths[2] = min(widths[2], max(room, SHORTEST_NAME))
        lines += ["", shorten(clean(found.title), width)]
        for row in rows:
            row[2] = shorten(row[2], widths[2])
            cells = [pad(cell, widths[place], right=place > 2) for place, cell in enumerate(row)]
            lines.append(shorten(" ".join(cells).rstrip(), width))
    return lines


def how_corrected(used: StatisticsUsed | None, rows: Sequence[Comparison] = ()) -> str:
    """`Holm over 12 tests`, perhaps each metric's alone; nothing where nothing is corrected.

    Args:
        rows: what it stands beside, whose families are said; otherwise that of all users.
    """
    if used is None or used.correction == "none":
        return ""
    name = CORRECTIONS.get(used.correction, used.correction)
    sizes = {each.family: each.family_size for each in rows if each.family and each.family_size}
    if len(set(sizes.values())) > 1:
        said = "; ".join(f"{size} {_tests(size)} ({family})" for family, size in sizes.items())
        return f"{name} over {said}"
    if sizes:
        size = next(iter(sizes.values())) or 0
        return "" if size < 2 else f"{name} over {size} tests{' each' * (len(sizes) > 1)}"
    apart = ", metric by metric" if used.family == "metric" else ""
    return "" if used.n_tests < 2 else f"{name} over {used.n_tests} tests{apart}"


def _tests(number: int) -> str:
    return "test" if number == 1 else "tests"


@dataclass(frozen=True, slots=True)
class Further:
    """One more column of comparisons: its head, what it says, and a cell for each."""

    head: str
    about: str
    cells: list[str]


Show = Callable[[float | None, Comparison], str]


def further_columns(rows: Sequence[Comparison], show: Show) -> list[Further]:
    """What stands beside plain limits and p-values, where it is more than they say.

    Args:
        show: a difference as its neighbours are shown, with its sign.
    """
    found = []

    def limits(low: float | None, high: float | None, each: Comparison) -> str:
        known = known_limits(low, high)
        return "-" if known is None else " … ".join(show(end, each) for end in known)

    if any(each.judged_limits != (each.low, each.high) for each in rows):
        cells = [limits(*each.judged_limits, each) for each in rows]
        found.append(Further("corrected", "limits that the verdict goes with", cells))
    if any(each.low_margin is not None for each in rows):
        about = {
            "p equivalent": "of the test that they differ by the margin",
            "p not inferior": "of the test that it is worse by the margin",
            "by margin": "limits of these two tests, at 1 - 2 (1 - level)",
        }
        for head, cells in (
            ("p equivalent", [show_p(each.p_equivalent) for each in rows]),
            ("p not inferior", [show_p(each.p_not_inferior) for each in rows]),
            ("by margin", [limits(each.low_margin, each.high_margin, each) for each in rows]),
        ):
            found.append(Further(head, about[head], cells))
    if any(each.statistic is not None for each in rows):
        for head, what, numbers in (
            ("statistic", "of the test", [each.statistic for each in rows]),
            ("df", "its degrees of freedom", [each.df for each in rows]),
            ("theta", "what CUPED takes away of the covariate", [each.theta for each in rows]),
            ("cap", "above which values count as it", [each.cap for each in rows]),
        ):
            if any(number is not None for number in numbers):
                cells = ["-" if number is None else f"{number:.4g}" for number in numbers]
                found.append(Further(head, what, cells))
    families = {each.family for each in rows} - {None, "all users"}
    if families and (len(families) > 1 or families & {"primary", "exploratory", "guardrail"}):
        about_family = "what is corrected together, and how many tests that are"
        found.append(Further(FAMILY, about_family, [*map(_family, rows)]))
    return found


def _family(each: Comparison) -> str:
    if each.family is None or each.family_size is None:
        return each.family or "-"
    return f"{each.family}, {each.family_size}"


def name_tests(rows: Sequence[Comparison]) -> str:
    """The tests that comparisons were judged by, each once."""
    names = dict.fromkeys(each.test.removesuffix(OF_TAIL).removesuffix(OF_UNSEEN) for each in rows)
    test = " and ".join(TESTS.get(name, name) for name in names if name)
    if any(each.test.endswith(OF_TAIL) for each in rows):
        test += ", beyond the draws a tail"
    if any(each.test.endswith(OF_UNSEEN) for each in rows):
        test += ", users not seen counted"
    return test


def _how(rows: Sequence[Comparison], used: StatisticsUsed | None) -> str:
    test = name_tests(rows)
    if used is None:
        return test
    how = how_corrected(used, rows) or ("1 test" if used.n_tests == 1 else CORRECTIONS["none"])
    return f"{test}, {how}, {show_level(used.level)} intervals"


def _table(rows: Sequence[Comparison], *, width: int, power: bool) -> list[str]:
    """A row a comparison; names are cut and columns left out before a number would be cut."""
    columns = {
        "delta": [_signed(each.delta, each) for each in rows],
        "low": [_signed(each.low, each) for each in rows],
        "high": [_signed(each.high, each) for each in rows],
        "p": [show_p(each.p_adjusted) for each in rows],
        **{each.head: each.cells for each in further_columns(rows, _signed) if each.head != FAMILY},
    }
    if power:
        seen = [_signed(each.smallest_difference, each).lstrip("+") for each in rows]
        columns["would see"] = seen
        if any(each.users_needed is not None for each in rows):
            columns["users needed"] = [_count(each.users_needed) for each in rows]
    columns["verdict"] = [each.shown_verdict for each in rows]
    widths = {head: max(map(display_width, [head, *cells])) for head, cells in columns.items()}
    for heads in LEFT_OUT_FIRST:
        if _room(widths, width) < 2 * SHORTEST_NAME:
            widths = {head: each for head, each in widths.items() if head not in heads}
    models, metrics = _names(rows, max(_room(widths, width), 2 * SHORTEST_NAME))
    lines = []
    before = ""
    for place in range(len(rows) + 1):
        model = "" if models[place] == before else models[place]
        before = models[place]
        parts = [pad(model, display_width(models[0])), metrics[place]]
        for head, size in widths.items():
            cell = [head, *columns[head]][place]
            parts.append(pad(cell, size, right=head != "verdict"))
        lines.append(shorten(GAP.join(parts).rstrip(), width))
    return lines


def _room(widths: Mapping[str, int], width: int) -> int:
    """What is left for names beside columns of these widths."""
    return width - sum(widths.values()) - (len(widths) + 1) * len(GAP)


def _names(rows: Sequence[Comparison], room: int) -> tuple[list[str], list[str]]:
    """Heads and cells of model and metric, padded, which share `room`."""
    candidates = list(dict.fromkeys(each.candidate for each in rows))
    metrics = [clean(each.metric) for each in rows]
    wanted = [
        min(max(map(display_width, cells)), LONGEST_NAME)
        for cells in (["model", *map(clean, candidates)], ["metric", *metrics])
    ]
    of_model = max(min(wanted[0], room - wanted[1]), min(wanted[0], room // 2))
    of_metric = min(wanted[1], room - of_model)
    short = dict(zip(candidates, shorten_all(candidates, of_model), strict=True))
    models = ["model", *(short[each.candidate] for each in rows)]
    shown = ["metric", *(shorten(each, of_metric) for each in metrics)]
    return [pad(each, of_model) for each in models], [pad(each, of_metric) for each in shown]


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


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
