"""A finished run in MLflow, for those who look there: numbers, what it rests on, its page."""

import re
from collections.abc import Iterator
from pathlib import Path

from evalkit.errors import MachineError, RequestError, install_hint
from evalkit.report import Report
from evalkit.report.record import finite, readable
from evalkit.report.verdict import verdict_of

_OTHER = re.compile(r"[^A-Za-z0-9_\-. /]")
MOST_LETTERS = 250  # of a name
MOST_AT_ONCE = 1000  # metrics in one call
FILES = ("report.html", "report.json", "report.md")


def check_tracker() -> None:
    """Refuses, before any work, a tracker that is not installed.

    Raises:
        RequestError: mlflow is not there [missing-extra].
    """
    from importlib.util import find_spec

    if find_spec("mlflow") is None:
        raise RequestError(
            "output.mlflow needs a library that is not installed",
            code="missing-extra",
            at="output.mlflow",
            hint=install_hint("mlflow"),
        )


def track(report: Report, experiment: str, path: Path | None) -> str:
    """The id of the new MLflow run, in the server or folder that MLFLOW_TRACKING_URI names.

    Raises:
        MachineError: MLflow refuses or does not answer [tracker-failed]; the run stands.
    """
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient

    try:
        client = MlflowClient()
        found = client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else client.create_experiment(experiment)
        run = client.create_run(number, run_name=report.run_id)
        run_id = str(run.info.run_id)
        metrics = [
            Metric(name, value, run.info.start_time, 0) for name, value in name_numbers(report)
        ]
        for first in range(0, len(metrics), MOST_AT_ONCE):
            client.log_batch(run_id, metrics=metrics[first : first + MOST_AT_ONCE])
        params = [Param("profile", report.profile), Param("run_key", report.run_key)]
        verdict = verdict_of(report)
        tags = [
            RunTag("evalkit.run_id", report.run_id),
            RunTag("evalkit.name", readable(report.name)),
            RunTag("evalkit.verdict", str(verdict)),
        ]
        client.log_batch(run_id, params=params, tags=tags)
        for name in FILES if path is not None else ():
            if path is not None and (path / name).is_file():
                client.log_artifact(run_id, str(path / name))
        client.set_terminated(run_id, "FINISHED" if verdict.is_fine else "FAILED")
    except Exception as error:  # its own errors, requests', those of its store
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise MachineError(
            f"the run is complete, but MLflow did not take it: {reason}",
            code="tracker-failed",
            at="output.mlflow",
            hint="MLFLOW_TRACKING_URI names the server; for a folder, file:/srv/mlruns, newer "
            "MLflow wants MLFLOW_ALLOW_FILE_STORE=true",
        ) from error
    return run_id


def name_numbers(report: Report) -> Iterator[tuple[str, float]]:
    """Names as MLflow allows them, `als/nDCG_at_10`, and values; no name twice.

    Undefined values are left out. A segment follows its metric: `als/nDCG_at_10/activity/new`.
    """
    taken: set[str] = set()
    for each in report.estimates:
        value = finite(each.value)
        if value is None:
            continue
        parts = [each.model, each.metric.replace("@", "_at_")]
        if each.segment is not None:
            parts += [each.segmentation or "", each.segment]
        # A slash parts folders there: none of a name's own, and none of dots.
        cleaned = [_OTHER.sub("_", part).replace("/", "_").strip(". ") or "_" for part in parts]
        name = wanted = "/".join(cleaned)[:MOST_LETTERS].rstrip("/. ")
        number = 1
        while name in taken:
            number += 1
            name = f"{wanted[: MOST_LETTERS - 8]}_{number}"
        taken.add(name)
        yield name, value
