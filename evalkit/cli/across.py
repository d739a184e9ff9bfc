"""`evalkit compare --across`: models over several data sets."""

from collections.abc import Sequence
from pathlib import Path

from evalkit.cli import console
from evalkit.errors import RequestError


def show_across(
    names: Sequence[str],
    metrics: Sequence[str],
    folder: Path,
    job: str | None,
    format: str,
    level: float | None,
    *,
    is_read: bool,
) -> None:
    """Compare finished runs of different data sets by the mean ranks of their models.

    Raises:
        RequestError: options of other comparisons are given [bad-option].
    """
    from evalkit.config import build_statistics
    from evalkit.runs.history import differences_of_measure, load_together
    from evalkit.runs.history.across import compare_across

    if is_read:
        message = "--across compares finished runs"
        hint = "evalkit compare --across runs/a runs/b runs/c"
        raise RequestError(message, code="bad-option", at="--across", hint=hint)
    if len(metrics) > 1:
        message = "data sets are compared by one metric"
        raise RequestError(message, code="bad-option", at="-m", hint=f"-m {metrics[0]}")
    loaded = list(zip(names, load_together(folder, names, name=job), strict=True))
    for name, report in loaded[1:]:
        if differs := differences_of_measure(loaded[0][1], report, of_rows=False):
            message = f"{names[0]} and {name} measure otherwise: {'; '.join(differs)}"
            console.warn("measured-otherwise", message)
    chosen = {} if level is None else {"level": level}
    build_statistics(chosen, {"level": "--level"})
    found = compare_across(loaded, metrics[0] if metrics else None, **chosen)
    if format == "json":
        from evalkit.report.across import render_across

        console.say(render_across(found))
    elif format == "html":
        from evalkit.report.html import render_across_page

        console.say(render_across_page(found))
    elif format == "latex":
        from evalkit.report.forms.latex import across_latex

        console.say(across_latex(found))
    elif format in ("table", "screen"):
        from evalkit.report.across import tell_across

        console.say(tell_across(found))
    else:
        message = f"models over data sets have no form {format}"
        hint = "--format html has the diagram; table, latex and json are there, too"
        raise RequestError(message, code="bad-option", at=f"--format {format}", hint=hint)
