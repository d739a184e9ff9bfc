"""The table that a notebook shows: plain HTML, every text escaped."""

from html import escape

from evalkit.report.record import Report
from evalkit.report.text import clean, groups, show_values


def render_notebook(report: Report) -> str:
    """One table for each segment; the best value of a metric is bold."""
    parts = []
    for group in groups(report):
        title = f"{report.name} {group.title}".strip()
        head = "".join(f"<th>{_text(label)}</th>" for label in ("model", *group.labels))
        rows = {model: f"<th>{_text(model)}</th>" for model in group.models}
        for label in group.labels:
            best = group.best(label)
            shown = show_values(group.column(label))
            for model, value in zip(group.models, shown, strict=True):
                rows[model] += f"<td><b>{value}</b></td>" if model in best else f"<td>{value}</td>"
        body = "".join(f"<tr>{row}</tr>" for row in rows.values())
        parts.append(
            f"<table><caption>{_text(title)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    return "".join(parts) or f"<p>{_text(report.name)}: no numbers</p>"


def _text(text: str) -> str:
    return escape(clean(text))
