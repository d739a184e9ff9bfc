"""Pictures of what is finished, by name: of runs, splits, selections, and runs over time."""

import json
import os
from pathlib import Path

from evalkit.config import hinted
from evalkit.errors import DataError, RequestError
from evalkit.report.figures import Figures


@hinted
def figures(
    *names: str | os.PathLike[str],
    metric: str | None = None,
    folder: str | os.PathLike[str] = "runs",
    name: str | None = None,
) -> Figures:
    """Every picture of a finished thing by its title.

    Args:
        names: a run (last, a tag, a path), the folder of a split or of a selection, or a folder of
            runs, whose metric is drawn over time. Several runs of different data sets give the
            critical-difference diagram.
        metric: of several runs, and over time; the leading one by default.
        folder: of runs that are no paths.
        name: of the job.
    Raises:
        RequestError: there is no such thing [unknown-run, missing-runs]; a metric is named of one
            thing [bad-option]; as the comparison.
        DataError: what is there cannot be read [run-damaged, selection-unreadable, ...].
    Example:
        >>> import tempfile
        >>> from evalkit import evaluate
        >>> lists = {"als": {1: ["b", "a"]}, "top": {1: ["a", "b"]}}
        >>> report = evaluate({1: ["a"]}, lists, metrics=["RR"])
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     sorted(figures(report.write(runs)))
        ['RR of every model']
    """
    from evalkit.runs.history import load_named, load_together, read_trends

    given = [os.fspath(each) for each in names]
    if not given:
        raise RequestError(
            "nothing is named", code="missing-option", hint="last, or the folder of a split"
        )
    if len(given) > 1:
        from evalkit.runs.history.across import compare_across

        runs = load_together(Path(folder), given, name=name)
        return compare_across(list(zip(given, runs, strict=True)), metric).figures
    path = Path(given[0])
    for file, draw in ((path / "leakage.json", _of_split), (path / "selection.json", _of_choice)):
        if file.is_file():
            _refuse_metric(metric, path)
            return draw(file)
    if path.is_dir() and not (path / "manifest.json").exists():
        from evalkit.report.html import trend_figures

        leading = metric or load_named(path, "last", name=name).leading[0]
        return trend_figures(read_trends(path, leading, name=name)[0])
    found = load_named(Path(folder), given[0], name=name)
    _refuse_metric(metric, path)
    return Figures(found.figures)


def _refuse_metric(metric: str | None, path: Path) -> None:
    if metric is not None:
        message = f"a metric is of several runs, and over time; {str(path)!r} has figures by title"
        hint = "leave it out, and choose by title"
        raise RequestError(message, code="bad-option", at="metric", hint=hint)


def _of_split(file: Path) -> Figures:
    from evalkit.report.html import leakage_figures

    try:
        return leakage_figures(json.loads(file.read_bytes()))
    except (ValueError, KeyError, TypeError) as error:
        message = "this is no leakage.json of this version"
        hint = "evalkit split writes one into a new folder"
        raise DataError(message, code="split-unreadable", at=str(file), hint=hint) from error


def _of_choice(file: Path) -> Figures:
    from evalkit.report.selection import parse_selection

    return parse_selection(file.read_bytes(), at=str(file)).figures
