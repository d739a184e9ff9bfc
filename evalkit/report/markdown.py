"""report.md: the table for a pull request or a wiki."""

import re

from evalkit.report.record import Report
from evalkit.report.text import (
    Group,
    clean,
    count_noun,
    groups,
    model_notes,
    show_values,
    truth_notes,
)

# An underscore or an @ inside a word is plain text: first_hit_rank@5 stays readable.
_SPECIAL = re.compile(r"[\\`*\[\]#|~$]|(?<!\w)_|_(?!\w)")
_MENTION = re.compile(r"(?<!\w)@")
_LINK = re.compile(r"(https?|ftp)://", re.IGNORECASE)


def render_markdown(report: Report) -> str:
    """The report as GitHub's Markdown: numbers, counts, warnings, where it comes from."""
    lines = [f"# {escape(report.name)}", ""]
    for group in groups(report):
        lines += _group_lines(group)
    if not report.estimates:
        lines += ["No numbers.", ""]
    lines += ["## Counts", "", "| log | counts |", "| :-- | :-- |"]
    lines.append(f"| truth | {escape('; '.join(truth_notes(report.counts.truth)))} |")
    for name, counts in report.counts.models.items():
        lines.append(f"| {escape(name)} | {escape('; '.join(model_notes(counts)))} |")
    lines.append("")
    if report.warnings:
        lines += ["## Warnings", ""]
        for warning in report.warnings:
            about = f" ({escape(warning.model)})" if warning.model is not None else ""
            lines.append(f"- **{escape(warning.code)}**: {escape(warning.message)}{about}")
        lines.append("")
    meta = report.meta
    origin = f"evalkit {report.evalkit}, profile {report.profile}, run {report.run_id}"
    lines.append(escape(f"{origin}, started {meta.started}, {meta.seconds:.2f} s"))
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """`text` as Markdown shows it letter by letter, in a table cell too; no HTML, one line."""
    text = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(lambda found: f"\\{found[0]}", text)
    return _LINK.sub(r"\1&#58;//", _MENTION.sub("&#64;", text))


def _group_lines(group: Group) -> list[str]:
    common = group.common_n_users
    lines = [f"## {escape(group.title)}", ""] if group.title else []
    if common is not None:
        lines += [f"{count_noun(common, 'user')}.", ""]
    header = ["model", *(escape(label) for label in group.labels)]
    rows = [[escape(model)] for model in group.models]
    for label in group.labels:
        best = group.best(label)
        for row, model, text in zip(
            rows, group.models, show_values(group.column(label)), strict=True
        ):
            row.append(f"**{text}**" if model in best else text)
    if common is None:
        header.append("users")
        for row, model in zip(rows, group.models, strict=True):
            row.append(f"{group.n_users(model):,}")
    lines.append(_row(header))
    lines.append(_row([":--", *["--:"] * (len(header) - 1)]))
    lines += [_row(row) for row in rows]
    lines += ["", *(f"- {escape(note)}" for note in group.user_notes())]
    return [*lines, ""] if lines[-1] else lines


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
