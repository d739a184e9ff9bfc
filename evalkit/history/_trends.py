"""One metric over the runs of a job."""

import sqlite3
from pathlib import Path

from evalkit.errors import RequestError, nearest
from evalkit.history._index import open_index
from evalkit.report.trend import Point, Trend


def read_trends(
    folder: Path,
    metric: str,
    *,
    name: str | None = None,
    model: str | None = None,
    segment: str | None = None,
    limit: int = 60,
) -> tuple[list[Trend], int]:
    """A metric's values over the last `limit` runs of every job and model, the oldest first.

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
            SELECT runs.name, model, runs.run_id, runs.started, value, low, high, n_users, is_fine
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
    found: dict[tuple[str, str], list[Point]] = {}
    for job, of, run_id, started, value, low, high, n_users, is_fine in rows:
        point = Point(
            run_id, started, value, low, high, n_users, bool(is_fine), tuple(tags.get(run_id, ()))
        )
        found.setdefault((job, of), []).append(point)
    if not found:
        asked = {"job": name, "model": model, "segment": segment}
        said = ", ".join(f"{key} {value!r}" for key, value in asked.items() if value is not None)
        raise RequestError(
            f"no run has a value of {label}" + (f" for {said}" if said else ""),
            code="no-values",
            at=str(folder),
            hint=f"evalkit history list --out {folder} shows the runs",
        )
    trends = [
        Trend(
            job, label, of, rule, part, tuple(sorted(points, key=lambda each: each.run_id))[-limit:]
        )
        for (job, of), points in found.items()
    ]
    return trends, damaged


def _label(connection: sqlite3.Connection, metric: str, folder: Path) -> str:
    labels = [label for (label,) in connection.execute("SELECT DISTINCT metric FROM metrics")]
    same = [label for label in labels if label.lower() == metric.lower()]
    if metric in labels or same:
        return metric if metric in labels else same[0]
    close = nearest(metric, labels)
    known = f"they have {', '.join(sorted(labels)[:8])}" if labels else "there is no whole run yet"
    raise RequestError(
        f"no run has a metric {metric!r}",
        code="metric-not-in-report",
        at=str(folder),
        hint=f"did you mean {close!r}?" if close else known,
    )
