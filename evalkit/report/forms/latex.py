"""A LaTeX table for a paper: booktabs, best values bold, differences that hold marked."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from evalkit.config.form_names import Form
from evalkit.errors import clean
from evalkit.report.across import Across
from evalkit.report.comparisons import how_corrected, name_tests
from evalkit.report.entries import Comparison
from evalkit.report.findings import HEAD, MOST_ON_PAPER, NOTE, TITLE, PairFindings, found_by_pair
from evalkit.report.record import Report
from evalkit.report.shown import definitions
from evalkit.report.text import SegmentNumbers, groups, show_values
from evalkit.report.turning import against

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}
_OPTION = re.compile(r"^\s*[*\[]")  # \\* and \\[ are other commands than \\
_PATTERN = re.compile("|".join(map(re.escape, _SPECIAL)))


def render_latex(report: Report) -> str:
    """One `tabular` for all users and one for each segment; needs `\\usepackage{booktabs}`.

    A dagger marks a difference to the baseline that the comparison calls better or worse; letters
    mark models that cannot be told apart. What a search of segments found follows, a table for
    each pair of models.
    """
    judged = _by_segment(report)
    tables = [
        _table(report, group, judged.get((group.segmentation, group.segment), ()))
        for group in groups(report)
    ]
    tables += [_finding_table(found) for found in found_by_pair(report, most=MOST_ON_PAPER)]
    defined = "".join(f"% {clean(each)}\n" for each in definitions(report))
    return defined + "\n".join(tables) if tables else "% no numbers\n"


def latex_table(
    report: Report,
    *,
    metrics: Sequence[str] = (),
    order: Sequence[str] = (),
    digits: int | None = None,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    """The table over all users alone, with those metrics and models, in their order.

    Args:
        digits: decimals of all values; by default what each column needs.
        caption, label: put it into a `table`; both are written as they are.
    """
    group = next((each for each in groups(report) if each.segment is None), None)
    if group is None:
        return "% no numbers\n"
    chosen = replace(
        group, labels=tuple(metrics) or group.labels, models=tuple(order) or group.models
    )
    defined = "".join(f"% {clean(each)}\n" for each in definitions(report))
    text = defined + _table(report, chosen, _by_segment(report).get((None, None), ()), digits)
    if caption is None and label is None:
        return text
    head = ["\\begin{table}", "\\centering"]
    head += [f"\\caption{{{caption}}}"] if caption is not None else []
    head += [f"\\label{{{label}}}"] if label is not None else []
    return "\n".join([*head, text + "\\end{table}"]) + "\n"


def across_latex(across: Across) -> str:
    """Models over data sets: a row each, the best mean rank first, the best values bold.

    Models that share a letter cannot be told apart.
    """
    names = [*across.sets, "mean rank"]
    columns = [show_values(row) for row in across.values]
    best = min if across.lower_is_better else max
    rows = []
    for place, model in enumerate(across.models):
        cells = [
            rf"\textbf{{{texts[place]}}}" if row[place] == best(row) else texts[place]
            for texts, row in zip(columns, across.values, strict=True)
        ]
        letters = across.letters[place]
        mark = rf"$^{{\mathrm{{{letters}}}}}$" if letters else ""
        rows.append([escape(model), *cells, f"{across.mean_ranks[place]:.3f}{mark}"])
    lines = [f"% {clean(across.metric)} over {len(across.sets)} data sets"]
    lines += _tabular(["model", *names], rows)
    if any(across.letters):
        lines.append("% letters: models that share one cannot be told apart")
    if across.critical is not None and across.p_value is not None:
        lines.append(
            f"% Friedman p {across.p_value:.3g}; Nemenyi critical difference "
            f"{across.critical:.3f}, level {across.level:g}"
        )
    lines += [f"% {clean(across.note)}"] if across.note else []
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1024)  # heads of tables come again and again
def escape(text: str) -> str:
    """`text` as LaTeX prints it letter by letter, also behind the end of a row."""
    plain = _PATTERN.sub(lambda found: _SPECIAL[found[0]], clean(text))
    return _OPTION.sub(r"{\g<0>}", plain)


def _by_segment(report: Report) -> dict[tuple[str | None, str | None], list[Comparison]]:
    found: dict[tuple[str | None, str | None], list[Comparison]] = {}
    for pair in report.comparisons:
        found.setdefault((pair.segmentation, pair.segment), []).append(pair)
    return found


def _marked(report: Report, pairs: Sequence[Comparison]) -> set[tuple[str, str]]:
    """The models and metrics that a comparison calls better or worse."""
    used = report.statistics
    seen = pairs if used is None else against(pairs, used.baseline)
    return {(each.candidate, each.metric) for each in seen if each.verdict in ("better", "worse")}


def _table(
    report: Report, group: SegmentNumbers, pairs: Sequence[Comparison], digits: int | None = None
) -> str:
    marked = _marked(report, pairs)
    letters = {
        (model, standing.metric): letter
        for standing in (report.standings if group.segment is None else ())
        for model, _, letter in standing.models
        if standing.metric in group.labels
    }
    columns = [_column(group, label, marked, letters, digits) for label in group.labels]
    title = f"{clean(report.name)} {clean(group.title)}".strip()
    lines = [f"% {title}, run {clean(report.run_id)}"]
    rows = zip(map(escape, group.models), *columns, strict=True)
    lines += _tabular(["model", *group.labels], rows)
    if letters:
        lines.append("% letters: models that share one cannot be told apart")
    used = report.statistics
    judged = [each for each in pairs if each.metric in group.labels]
    if marked and used is not None and used.baseline is not None:
        lines.append(
            rf"% dagger: differs from {clean(used.baseline)}, {name_tests(judged)}, "
            rf"{how_corrected(used, judged) or 'no correction'}, level {used.level:g}"
        )
        primary = [label for label in report.primary if label in group.labels]
        if any(each.family == "primary" for each in judged):
            rest = "; else exploratory" if len(primary) < len(group.labels) else ""
            lines.append(f"% primary: {', '.join(map(clean, primary))}{rest}")
    return "\n".join(lines) + "\n"


def _tabular(head: Sequence[str], rows: Iterable[Iterable[str]], *, texts: int = 1) -> list[str]:
    """Escaped rows below a plain head; the first columns are texts, the others numbers."""
    first, *others = (" & ".join(row) + r" \\" for row in (map(escape, head), *rows))
    begin = rf"\begin{{tabular}}{{{'l' * texts}{'r' * (len(head) - texts)}}}"
    return [begin, r"\toprule", first, r"\midrule", *others, r"\bottomrule", r"\end{tabular}"]


def _finding_table(found: PairFindings) -> str:
    lines = [f"% {clean(found.title)}: {TITLE} ({NOTE})"]
    lines += _tabular(HEAD, [map(escape, row) for row in found.rows], texts=3)
    lines += [f"% {found.left_out} more are in report.json"] if found.left_out else []
    return "\n".join(lines) + "\n"


def _column(
    group: SegmentNumbers,
    label: str,
    marked: set[tuple[str, str]],
    letters: Mapping[tuple[str, str], str],
    digits: int | None,
) -> list[str]:
    cells = []
    for model, value, text, is_best in group.shown(label):
        if not math.isfinite(value):
            text = "--"
        elif digits is not None:
            text = f"{value + 0.0:.{digits}f}"
        text = rf"\textbf{{{text}}}" if is_best else text
        text += r"$^{\dagger}$" if (model, label) in marked else ""
        letter = letters.get((model, label))
        cells.append(text + (rf"$^{{\mathrm{{{letter}}}}}$" if letter else ""))
    return cells


FORM = Form("report.tex", render_latex)
