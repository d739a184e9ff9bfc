"""A report in one of its forms, as text or as a file."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from evalkit.config.form_names import FILES, ON_TERMINALS, TEXTS, file_of, form_of
from evalkit.errors import RequestError, did_you_mean
from evalkit.report.figures import PICTURES
from evalkit.report.parquet import write_metrics_parquet
from evalkit.report.record import Report
from evalkit.report.shown import as_shown
from evalkit.report.written import write_whole


def render(report: Report, format: str, *, width: int | None = None, color: bool = False) -> str:
    """`report` as text in one of `TEXTS`, ending in a newline.

    Args:
        report: what to show.
        format: one of `TEXTS`.
        width: columns of the terminal; 80 when None. Only what is `ON_TERMINALS` looks at it.
        color: whether those may use terminal escapes; the caller honours NO_COLOR.
    Raises:
        RequestError: `format` is none of `TEXTS` [unknown-format].
    """
    check_format(format, TEXTS)
    if format in ON_TERMINALS:
        columns = 80 if width is None else width
        return _on_terminal(format)(as_shown(report), width=columns, color=color)
    form = form_of(format)
    return form.render(report if form.is_filed else as_shown(report))


def _on_terminal(format: str) -> Callable[..., str]:
    from evalkit.report.screen import render_screen
    from evalkit.report.terminal import render_table

    return render_screen if format == "screen" else render_table


def save(report: Report, file: Path) -> Path:
    """Write the form that a file's ending names.

    Raises:
        RequestError: no form has such an ending [unknown-format].
        RequestError, MachineError: as `write_whole`.
    """
    endings = {Path(file_of(name)).suffix: name for name in FILES}
    form = endings.get(file.suffix.lower())
    if file.suffix.lower() in PICTURES:
        message = f"a report has many pictures, and {file.name!r} holds one"
        hint = f"report.plot().save({str(file)!r}), or report.figures[NAME].save({str(file)!r})"
        raise RequestError(message, code="unknown-format", at=str(file), hint=hint)
    if form is None:
        message = f"no form of a report ends in {file.suffix!r}"
        hint = f"write one of {', '.join(endings)}"
        raise RequestError(message, code="unknown-format", at=str(file), hint=hint)
    if form == "parquet":
        content = BytesIO()
        write_metrics_parquet(report, content)
        write_whole(file, content.getvalue())
    else:
        write_whole(file, render(report, form).encode("utf-8", "replace"))
    return file


def written_forms(report: Report) -> tuple[str, ...]:
    """The forms that the config of a run asks to be written."""
    section = (report.config or {}).get("output")
    forms = section.get("formats") if isinstance(section, dict) else None
    return tuple(forms) if isinstance(forms, list) else ()


def check_format(format: str, known: tuple[str, ...]) -> None:
    """Refuse what is no format.

    Raises:
        RequestError: it is none of these [unknown-format].
    """
    if format in known:
        return
    hint = did_you_mean(format, known, f"write one of {', '.join(known)}")
    raise RequestError(f"no format is called {format!r}", code="unknown-format", hint=hint)
