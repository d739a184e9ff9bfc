"""The forms of a report: name, file in a run's directory, and what makes its text. The one list."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True, slots=True)
class Format:
    """One form of a report.

    Args:
        file: in a run's directory; empty of what is only shown.
        renderer: module of `evalkit/report`, and its function that makes the text of a report;
            loaded when it is called. Empty of what is no text.
    """

    file: str
    renderer: str

    def render(self, report: object, **options: object) -> str:
        """The report as text, ending in a newline."""
        module, _, name = self.renderer.partition(":")
        return str(getattr(import_module(f"evalkit.report.{module}"), name)(report, **options))


FORMATS = {
    "screen": Format("", "screen:render_screen"),
    "table": Format("", "terminal:render_table"),
    "json": Format("report.json", "json_:render_json"),
    "parquet": Format("metrics.parquet", ""),
    "csv": Format("metrics.csv", "csv_:render_csv"),
    "markdown": Format("report.md", "markdown:render_markdown"),
    "html": Format("report.html", "html:render_html"),
    "latex": Format("report.tex", "latex:render_latex"),
}
TEXTS = tuple(name for name, each in FORMATS.items() if each.renderer)
ON_TERMINALS = ("screen", "table")
AS_FILED = ("json", "csv")  # which have the labels, and the names beside them
FILES = tuple(name for name, each in FORMATS.items() if each.file)

if TYPE_CHECKING:
    AnyForm = str
    TextForm = str
    FileForm = str
else:  # what config and command line take
    AnyForm, TextForm, FileForm = Literal[tuple(FORMATS)], Literal[TEXTS], Literal[FILES]
