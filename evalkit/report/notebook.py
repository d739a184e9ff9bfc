"""The table that a notebook shows: plain HTML, every text escaped."""

from collections.abc import Iterable
from html import escape

from evalkit.errors import clean
from evalkit.report.answer import answer_of, limits
from evalkit.report.comparisons import show_p
from evalkit.report.entries import Estimate
from evalkit.report.findings import HEAD, MOST_ON_PAPER, NOTE, TITLE, found_by_pair
from evalkit.report.record import Report, leading_comparisons
from evalkit.report.shown import definitions
from evalkit.report.text import groups, known_limits, show_values
from evalkit.report.verdict import verdict_of

MOST_COMPARISONS = 40


def render_notebook(report: Report) -> str:
    """One table for each segment; the best value is bold, intervals stand below their values."""
    parts = []
    if report.estimates:
        parts.append(f"<p><b>{_text(answer_of(report).said)}.</b></p>")
    if report.gates:
        parts.append(f"<p>{_text(str(verdict_of(report)))}</p>")
    parts += _comparison_table(report)
    parts += [f"<p><small>{_text(each)}</small></p>" for each in definitions(report)]
    for group in groups(report):
        title = f"{report.name} {group.title}".strip()
        head = _cells("th", ("model", *group.labels))
        rows = {model: f"<th>{_text(model)}</th>" for model in group.models}
        for label in group.labels:
            for estimate in group.shown(label):
                limits = _limits(group.cells.get((estimate.model, label)))
                shown = f"<b>{estimate.text}</b>" if estimate.is_best else estimate.text
                rows[estimate.model] += f"<td>{shown}{limits}</td>"
        body = "".join(f"<tr>{row}</tr>" for row in rows.values())
        parts.append(_table(title, head, body))
    for found in found_by_pair(report, most=MOST_ON_PAPER):
        more = f"; {found.left_out} more are in report.json" if found.left_out else ""
        parts.append(_text_table(f"{found.title}: {TITLE} ({NOTE}{more})", HEAD, found.rows))
    return "".join(parts) or f"<p>{_text(report.name)}: no numbers</p>"


def _comparison_table(report: Report) -> list[str]:
    found = leading_comparisons(report)
    if not found:
        return []
    head = ("candidate", "baseline", "metric", "difference", "p", "verdict")
    rows = []
    for pair in found[:MOST_COMPARISONS]:
        delta = f"{pair.delta:+.4f}{limits(pair)}"
        names = (pair.candidate, pair.baseline, pair.metric)
        rows.append((*names, delta, show_p(pair.p_adjusted), pair.shown_verdict))
    more = len(found) - len(rows)
    title = "compared user by user" + (f"; {more} more in .comparisons" if more else "")
    return [_text_table(title, head, rows)]


def _text_table(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return _table(caption, _cells("th", head), body)


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_text(text)}</{tag}>" for text in texts)


def _table(caption: str, head: str, body: str) -> str:
    return (
        f"<table><caption>{_text(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _limits(estimate: Estimate | None) -> str:
    limits = None if estimate is None else known_limits(estimate.low, estimate.high)
    if limits is None:
        return ""
    low, high = show_values(limits)
    return f"<br><small>{low} … {high}</small>"


def _text(text: str) -> str:
    return escape(clean(text))
