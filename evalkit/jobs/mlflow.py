"""A finished run in MLflow, for those who look there: numbers, what it rests on, its page."""

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evalkit.jobs.trackers import FILES, name_numbers
from evalkit.report import Report
from evalkit.report.record import readable
from evalkit.report.verdict import verdict_of

MOST_AT_ONCE = 1000  # metrics in one call


def track(report: Report, experiment: str, path: Path | None) -> str:
    """The id of the new MLflow run, in the server or folder that MLFLOW_TRACKING_URI names."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    found = client.get_experiment_by_name(experiment)
    number = found.experiment_id if found else client.create_experiment(experiment)
    run_id = str(client.create_run(number, run_name=report.run_id).info.run_id)
    try:
        _log(client, run_id, report, path)
    except BaseException:
        with suppress(Exception):  # as it may be that answers nothing
            client.set_terminated(run_id, "KILLED")
        raise
    is_fine = verdict_of(report).is_fine
    client.set_terminated(run_id, "FINISHED" if is_fine else "FAILED")
    return run_id


def _log(client: Any, run_id: str, report: Report, path: Path | None) -> None:
    from mlflow.entities import Param, RunTag

    log_numbers(client, run_id, report)
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


def log_numbers(client: Any, run_id: str, report: Report) -> dict[str, float]:
    """Tell a run of MLflow every number of a report; they, by the names that it gives them."""
    from mlflow.entities import Metric

    start = client.get_run(run_id).info.start_time
    is_folder = urlsplit(str(client.tracking_uri)).scheme in ("", "file")
    numbers = dict(name_numbers(report, as_files=is_folder))
    metrics = [Metric(name, value, start, 0) for name, value in numbers.items()]
    for first in range(0, len(metrics), MOST_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[first : first + MOST_AT_ONCE])
    return numbers
