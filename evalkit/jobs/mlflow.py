"""A finished run in MLflow, for those who look there: numbers, what it rests on, its page."""

from pathlib import Path
from typing import Any

from evalkit.jobs.trackers import FILES, name_numbers
from evalkit.report import Report
from evalkit.report.record import readable
from evalkit.report.verdict import verdict_of

MOST_AT_ONCE = 1000  # metrics in one call


def track(report: Report, experiment: str, path: Path | None) -> str:
    """The id of the new MLflow run, in the server or folder that MLFLOW_TRACKING_URI names."""
    from mlflow.entities import Param, RunTag
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    found = client.get_experiment_by_name(experiment)
    number = found.experiment_id if found else client.create_experiment(experiment)
    run_id = str(client.create_run(number, run_name=report.run_id).info.run_id)
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
    client.set_terminated(run_id, "FINISHED" if verdict.is_fine else "FAILED")
    return run_id


def log_numbers(client: Any, run_id: str, report: Report) -> None:
    """Tell a run of MLflow every number of a report."""
    from mlflow.entities import Metric

    start = client.get_run(run_id).info.start_time
    metrics = [Metric(name, value, start, 0) for name, value in name_numbers(report)]
    for first in range(0, len(metrics), MOST_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[first : first + MOST_AT_ONCE])
