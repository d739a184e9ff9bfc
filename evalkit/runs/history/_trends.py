"""One metric over the runs of a job."""

import json
import math
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

from evalkit.errors import RequestError, did_you_mean
from evalkit.metrics import KINDS, load_metric_files
from evalkit.report.trend import Point, Trend, order_of
from evalkit.runs.history._index import open_index
from evalkit.statistics.control import Expected, expect_nights


def read_trends(
    folder: Path,
    metric: str,
    *,
    name: str | None = None,
    model: str | None = None,
    segment: str | None = None,
    limit: int = 60,
    by: str | None = None,
    beside: Path | None = None,
) -> tuple[list[Trend], int]:
    """A metric's values over the last `limit` runs of every job and model, the oldest first.

    Args:
        by: a variable of the config, as `day` of `--var day=2026-11-20`, that orders the runs;
            those without it are left out, and of several runs at one value the latest counts.
        beside: the folder from which links lead to the runs' pages; none without it.
    Returns:
        The trends, and how many runs cannot be read.
    Raises:
        RequestError: no run has that metric [metric-not-in-report], or there are no values of
            that job, model and segment [no-values].
    """
    rule, _, part = segment.partition("=") if segment is not None else (None, None, None)
    with open_index(folder) as (connection, damaged):
        label = _label(connection, metric, folder)
        rows = connection.execute(
            """
            SELECT runs.name, model, runs.run_id, runs.started, value, low, high, n_users, is_fine,
                   variables, std_error, metrics.name
            FROM metrics JOIN runs USING (run_id)
            WHERE metric = ? AND segmentation IS ? AND segment IS ? AND value IS NOT NULL
              AND (? IS NULL OR runs.name = ?) AND (? IS NULL OR model = ?)
            ORDER BY runs.name, metrics.rowid, run_id
            """,
            (label, rule, part, name, name, model, model),
        ).fetchall()
        tags: dict[str, list[str]] = {}
        for tag, run_id in connection.execute("SELECT tag, run_id FROM tags ORDER BY tag"):
            tags.setdefault(run_id, []).append(tag)
        asked_of = (label, rule, part)
        found: dict[tuple[str, str], dict[str, Point]] = {}
        metric_name = ""
        for job, of, run_id, started, value, low, high, n_users, is_fine, *others in rows:
            variables, std_error, metric_name = others
            at = started if by is None else json.loads(variables).get(by)
            if at is None:
                continue
            known = tuple(tags.get(run_id, ()))
            page = folder / run_id / "report.html" if beside is not None else None
            point = Point(
                *(run_id, started, value, low, high, n_users, bool(is_fine), known, at),
                page=os.path.relpath(page, beside) if page and page.is_file() else None,
                std_error=std_error,
            )
            points = found.setdefault((job, of), {})
            place = run_id if by is None else at
            older, newer = sorted([point, points.get(place, point)], key=lambda each: each.run_id)
            if older is not newer:
                newer = replace(newer, replaced=(*older.replaced, older.value, *newer.replaced))
            points[place] = newer
        trends = []
        for (job, of), points in found.items():
            listed = sorted(points.values(), key=lambda each: (order_of(each.at), each.run_id))
            latest = max(each.run_id for each in listed)
            gated = _bounds(connection, latest, of, asked_of)
            taken = tuple(_judged(listed, bounds_of(metric_name))[-limit:])
            trends.append(Trend(job, label, of, rule, part, taken, by or "started", gated))
        if not found:
            asked = {"job": name, "model": model, "segment": segment, "variable": by}
            raise _no_values(connection, label, folder, asked)
    return trends, damaged


def _no_values(
    connection: sqlite3.Connection, label: str, folder: Path, asked: Mapping[str, str | None]
) -> RequestError:
    """That a metric has no values of what is asked for, and what of it there is."""
    said = ", ".join(f"{key} {value!r}" for key, value in asked.items() if value is not None)
    message = f"no run has a value of {label}" + (f" for {said}" if said else "")
    hint = f"evalkit history list --out {quote(str(folder))} shows the runs"
    for key, column in (
        ("job", "runs.name"),
        ("model", "model"),
        ("segment", "segmentation || '=' || segment"),
        ("variable", "json_each.key"),
    ):
        rows = connection.execute(
            f"SELECT DISTINCT {column} FROM metrics JOIN runs USING (run_id) "  # noqa: S608
            "LEFT JOIN json_each(variables) WHERE metric = ? ORDER BY 1",
            (label,),
        )
        known = [each for (each,) in rows if each is not None]
        wanted = asked[key]
        if wanted is not None and wanted not in known and known:
            hint = did_you_mean(wanted, known, f"there are the {key}s {', '.join(known[:8])}")
            break
    return RequestError(message, code="no-values", at=str(folder), hint=hint)


def _judged(points: Sequence[Point], bounds: tuple[float, float]) -> list[Point]:
    """The same with what the points before each one say of it."""
    expected = expect_nights([each.value for each in points], [each.std_error for each in points])
    return [
        replace(
            point,
            level=each.level,
            expected_low=low,
            expected_high=high,
            signals=each.signals,
            shifted=None if each.shifted is None else points[each.shifted].run_id,
        )
        for point, each in zip(points, expected, strict=True)
        for low, high in (_within(each, bounds),)
    ]


def _within(expected: Expected, bounds: tuple[float, float]) -> tuple[float | None, float | None]:
    """Limits inside of what the metric can be; none where they leave everything possible."""
    low, high = expected.low, expected.high
    if low is None or high is None or (low <= bounds[0] and high >= bounds[1]):
        return None, None
    return max(low, bounds[0]), min(high, bounds[1])


def bounds_of(metric: str) -> tuple[float, float]:
    """What a metric of any kind can be, by its name; infinite where nobody knows."""
    known = (load_metric_files((), kind).get(metric) for kind in KINDS)
    return next((each.bounds for each in known if each is not None), (-math.inf, math.inf))


def _bounds(
    connection: sqlite3.Connection, run_id: str, model: str, of: tuple[str, str | None, str | None]
) -> tuple[tuple[str, float], ...]:
    """What the gates of a run ask of a model's metric: `min` and `max`, each once."""
    found = connection.execute(
        """
        SELECT DISTINCT kind, bound FROM gates
        WHERE run_id = ? AND model = ? AND metric = ? AND segmentation IS ? AND segment IS ?
          AND kind IN ('min', 'max') ORDER BY kind, bound
        """,
        (run_id, model, *of),
    )
    return tuple((kind, bound) for kind, bound in found if bound is not None)


def _label(connection: sqlite3.Connection, metric: str, folder: Path) -> str:
    labels = [label for (label,) in connection.execute("SELECT DISTINCT metric FROM metrics")]
    same = [label for label in labels if label.lower() == metric.lower()]
    if metric in labels or same:
        return metric if metric in labels else same[0]
    known = f"they have {', '.join(sorted(labels)[:8])}" if labels else "there is no whole run yet"
    message = f"no run has a metric {metric!r}"
    hint = did_you_mean(metric, labels, known)
    raise RequestError(message, code="metric-not-in-report", at=str(folder), hint=hint)
