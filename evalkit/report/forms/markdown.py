"""report.md: verdict, intervals and comparisons for a pull request or a wiki; then the rest."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from evalkit.config.form_names import Form
from evalkit.errors import clean
from evalkit.report import findings, text
from evalkit.report.answer import answer_of
from evalkit.report.comparisons import further_columns, how_corrected, show_p
from evalkit.report.nights import tell_nights
from evalkit.report.record import Report, leading_comparisons
from evalkit.report.shown import definitions
from evalkit.report.verdict import PASS, verdict_of
from evalkit.report.weights import weight_rows

# An underscore or an @ inside a word is plain text: first_hit_rank@5 stays readable.
_SPECIAL = re.compile(r"[\\`*\[\]#|~$]|(?<!\w)_|_(?!\w)")
_MENTION = re.compile(r"(?<!\w)@")
_LINK = re.compile(r"(https?|ftp)://", re.IGNORECASE)


def render_markdown(report: Report) -> str:
    """The report as GitHub's Markdown: what was found first, where it comes from last."""
    lines = [f"# {escape(report.name)}", "", *_verdict_lines(report)]
    overall = [each for each in text.groups(report) if each.segment is None]
    lines += _overall_lines(report, overall[0]) if overall else ["No numbers.", ""]
    defined = [f"- {escape(each)}" for each in definitions(report)]
    lines += [*defined, ""] if defined else []
    lines += _weight_lines(report)
    lines += _comparison_lines(report)
    told = [f"- {escape(each)}" for each in tell_nights(report.nights)]
    lines += [*told, ""] if told else []
    lines += _finding_lines(report) if findings.searches(report) else []
    lines += _warning_lines(report)
    for group in text.groups(report):
        lines += (
            _group_lines(group, text.count_words(report).unit) if group.segment is not None else []
        )
    lines += ["## Counts", "", "| log | counts |", "| :-- | :-- |"]
    words = text.count_words(report)
    truth = "; ".join(text.truth_notes(report.counts.truth, words))
    lines.append(f"| {words.truth} | {escape(truth)} |")
    for name, counts in report.counts.models.items():
        lines.append(f"| {escape(name)} | {escape('; '.join(text.model_notes(counts, words)))} |")
    lines.append("")
    meta = report.meta
    origin = f"evalkit {report.evalkit}, profile {report.profile}, run {report.run_id}"
    lines.append(escape(f"{origin}, started {meta.started}, {meta.seconds:.2f} s"))
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1024)  # heads of tables come again and again
def escape(plain: str) -> str:
    """`text` as Markdown shows it letter by letter, in a table cell too; no HTML, one line."""
    plain = clean(plain).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = _SPECIAL.sub(lambda found: f"\\{found[0]}", plain)
    return _LINK.sub(r"\1&#58;//", _MENTION.sub("&#64;", plain))


def _verdict_lines(report: Report) -> list[str]:
    """Which model is better, and how the gates went."""
    said = escape(f"{answer_of(report).said}.")
    if not report.gates:
        return [f"**{said}**", ""]
    lines = [f"**{escape(str(verdict_of(report)))}**", "", said, ""]
    lines += ["| gate | found |", "| :-- | :-- |"]
    for gate in sorted(report.gates, key=lambda each: (not each.fails, each.outcome == PASS)):
        outcome = gate.outcome if gate.outcome == PASS else f"**{gate.outcome}**"
        lines.append(_row([outcome, escape(gate.message)]))
    return [*lines, ""]


def _weight_lines(report: Report) -> list[str]:
    head, rows = weight_rows(report)
    if not rows:
        return []
    return ["## Weights", "", *_table(head, [[*map(escape, row)] for row in rows]), ""]


def _comparison_lines(report: Report) -> list[str]:
    overall = leading_comparisons(report)
    if not overall:
        return []
    further = further_columns(overall, lambda number, _: f"{number:+.4f}")
    heads = ["difference", "interval", "p", *(column.head for column in further), "verdict"]
    how = how_corrected(report.statistics, overall) or "not corrected"
    said = [f"Limits stand by themselves; p, verdicts and corrected limits: {escape(how)}.", ""]
    rows = []
    for place, estimate in enumerate(overall):
        p_value = estimate.p_value if estimate.p_adjusted is None else estimate.p_adjusted
        known = text.known_limits(estimate.low, estimate.high)
        limits = text.UNDEFINED if known is None else f"{known[0]:+.4f} … {known[1]:+.4f}"
        delta = f"{estimate.delta:+.4f}" if math.isfinite(estimate.delta) else text.UNDEFINED
        shown = [show_p(p_value), *(column.cells[place] for column in further)]
        shown.append(estimate.shown_verdict)
        names = (estimate.candidate, estimate.baseline, estimate.metric)
        rows.append([*map(escape, names), delta, limits, *map(escape, shown)])
    table = _table(["candidate", "baseline", "metric", *heads], rows, texts=3, ends_in_text=True)
    return ["## Comparisons", "", *said, *table, ""]


def _finding_lines(report: Report) -> list[str]:
    lines = [f"## {findings.TITLE.capitalize()}", ""]
    lines += [
        f"{findings.NOTE.capitalize()}."
        if report.findings
        else f"{findings.NOTHING.capitalize()}.",
        "",
    ]
    for found in findings.found_by_pair(report, most=findings.MOST_ON_PAPER):
        rows = [[*map(escape, row)] for row in found.rows]
        lines += [f"### {escape(found.title)}", "", *_table(findings.HEAD, rows, texts=3)]
        lines += ["", f"{found.left_out} more are in report.json.", ""] if found.left_out else [""]
    return lines


def _warning_lines(report: Report) -> list[str]:
    lines = ["## Warnings", ""] if report.warnings else []
    for warning in report.warnings:
        about = f" ({escape(warning.model)})" if warning.model is not None else ""
        lines.append(f"- **{escape(warning.code)}**: {escape(warning.message)}{about}")
    return [*lines, ""] if lines else []


def _overall_lines(report: Report, group: text.SegmentNumbers) -> list[str]:
    """All users: the metric that decides first, the best model first, limits beside values."""
    labels = tuple(each for each in report.leading if each in group.labels)
    models = tuple(each for each in answer_of(report).models if each in group.models)
    shown = replace(group, models=models, labels=labels)
    lines = _group_lines(shown, text.count_words(report).unit, with_limits=True)
    used = report.statistics
    limited = (text.known_limits(each.low, each.high) for each in group.cells.values())
    if used is not None and any(each is not None for each in limited):
        lines[-1:] = ["", f"In brackets: {text.show_level(used.level)} intervals.", ""]
    return lines


def _cells(group: text.SegmentNumbers, label: str, *, with_limits: bool) -> list[str]:
    """One column; with limits, in digits that the narrowest of them deserves."""
    shown, found = group.shown(label), group.of_label(label)
    if not with_limits:
        return [f"**{each.text}**" if each.is_best else each.text for each in shown]
    digits = text.decimals_of([each for each in found if each is not None])
    cells = []
    for (_, _, plain, is_best), each in zip(shown, found, strict=True):
        beside = ""
        limits = None if each is None else text.known_limits(each.low, each.high)
        if each is not None and limits is not None:
            plain = f"{each.value:.{digits}f}"
            beside = f" ({limits[0]:.{digits}f} … {limits[1]:.{digits}f})"
        cells.append((f"**{plain}**" if is_best else plain) + beside)
    return cells


def _group_lines(group: text.SegmentNumbers, unit: str, *, with_limits: bool = False) -> list[str]:
    common = group.common_n_users
    lines = [f"## {escape(group.title)}", ""] if group.title else []
    if common is not None:
        lines += [f"{text.count_noun(common, unit)}.", ""]
    header = ["model", *(escape(label) for label in group.labels)]
    rows = [[escape(model)] for model in group.models]
    for label in group.labels:
        for row, cell in zip(rows, _cells(group, label, with_limits=with_limits), strict=True):
            row.append(cell)
    if rounds := group.effective_rounds():
        header.append("effective rounds")
        for row, shown in zip(rows, rounds, strict=True):
            row.append(shown)
    if common is None:
        header.append(f"{unit}s")
        for row, model in zip(rows, group.models, strict=True):
            row.append(f"{group.n_users(model):,}")
    lines += [*_table(header, rows), "", *(f"- {escape(note)}" for note in group.user_notes())]
    return [*lines, ""] if lines[-1] else lines


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: int = 1,
    ends_in_text: bool = False,
) -> list[str]:
    """A table whose first columns are texts, and perhaps the last one; the others are numbers."""
    sides = [*[":--"] * texts, *["--:"] * (len(head) - texts)]
    if ends_in_text:
        sides[-1] = ":--"
    return [_row(head), _row(sides), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


FORM = Form("report.md", render_markdown)
