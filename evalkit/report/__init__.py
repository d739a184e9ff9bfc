"""One record of a run, and its renderings; nothing here computes a number or reads a log."""

from evalkit.errors import RequestError, nearest
from evalkit.report.entries import (
    Comparison,
    Counts,
    Curve,
    Distribution,
    Estimate,
    Finding,
    Gate,
    Graph,
    Input,
    Macro,
    Meta,
    ModelCounts,
    Standing,
    StatisticsUsed,
    TruthCounts,
    Warning_,
)
from evalkit.report.parquet import write_metrics_parquet
from evalkit.report.per_user import UserWriter
from evalkit.report.record import PerUser, Report

FORMATS = ("table", "json", "csv", "markdown", "html", "latex")

__all__ = [
    "FORMATS",
    "Comparison",
    "Counts",
    "Curve",
    "Distribution",
    "Estimate",
    "Finding",
    "Gate",
    "Graph",
    "Input",
    "Macro",
    "Meta",
    "ModelCounts",
    "PerUser",
    "Report",
    "Standing",
    "StatisticsUsed",
    "TruthCounts",
    "UserWriter",
    "Warning_",
    "render",
    "write_metrics_parquet",
]


def render(report: Report, format: str, *, width: int | None = None, color: bool = False) -> str:
    """`report` as text in one of `FORMATS`, ending in a newline.

    Args:
        report: what to show.
        format: one of `FORMATS`.
        width: columns of the terminal; 80 when None. Only the table looks at it.
        color: whether the table may use terminal escapes; the caller honours NO_COLOR.
    Raises:
        RequestError: `format` is none of `FORMATS` [unknown-format].
    """
    if format == "table":
        from evalkit.report.terminal import render_table

        return render_table(report, width=80 if width is None else width, color=color)
    if format == "json":
        return report.to_json()
    if format == "csv":
        from evalkit.report.csv_ import render_csv

        return render_csv(report)
    if format == "markdown":
        from evalkit.report.markdown import render_markdown

        return render_markdown(report)
    if format == "html":
        from evalkit.report.html import render_html

        return render_html(report)
    if format == "latex":
        from evalkit.report.latex import render_latex

        return render_latex(report)
    close = nearest(format, FORMATS)
    raise RequestError(
        f"no format is called {format!r}",
        code="unknown-format",
        hint=f"did you mean {close!r}?" if close else f"write one of {', '.join(FORMATS)}",
    )
