"""The table that a notebook shows: plain HTML, every text escaped."""

from html import escape

from evalkit.errors import clean
from evalkit.report.entries import Estimate
from evalkit.report.findings import HEAD, MOST_ON_PAPER, NOTE, TITLE, found_by_pair
from evalkit.report.record import Report
from evalkit.report.text import groups, show_values
from evalkit.report.verdict import verdict_of


def render_notebook(report: Report) -> str:
    """One table for each segment; the best value is bold, intervals stand below their values."""
    parts = []
    if report.gates:
        parts.append(f"<p>{_text(str(verdict_of(report)))}</p>")
    for group in groups(report):
        title = f"{report.name} {group.title}".strip()
        head = "".join(f"<th>{_text(label)}</th>" for label in ("model", *group.labels))
        rows = {model: f"<th>{_text(model)}</th>" for model in group.models}
        for label in group.labels:
            best = group.best(label)
            shown = show_values(group.column(label))
            for model, value in zip(group.models, shown, strict=True):
                limits = _limits(group.cells.get((model, label)))
                shown_value = f"<b>{value}</b>" if model in best else value
                rows[model] += f"<td>{shown_value}{limits}</td>"
        body = "".join(f"<tr>{row}</tr>" for row in rows.values())
        parts.append(
            f"<table><caption>{_text(title)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    for found in found_by_pair(report, most=MOST_ON_PAPER):
        head = "".join(f"<th>{_text(cell)}</th>" for cell in HEAD)
        body = "".join(
            f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in found.rows
        )
        more = f"; {found.left_out} more are in report.json" if found.left_out else ""
        parts.append(
            f"<table><caption>{_text(f'{found.title}: {TITLE} ({NOTE}{more})')}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    return "".join(parts) or f"<p>{_text(report.name)}: no numbers</p>"


def _limits(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    low, high = show_values([estimate.low, estimate.high])
    return f"<br><small>{low} … {high}</small>"


def _text(text: str) -> str:
    return escape(clean(text))
