"""Finished runs are told to trackers of experiments, as `[output]` names them."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from evalkit.errors import MachineError, RequestError, install_hint
from evalkit.report import Report
from evalkit.report.record import finite

TRACKERS = {  # key under [output] and library -> what is said where it does not take a run
    "mlflow": "MLFLOW_TRACKING_URI names the server; for a folder, file:/srv/mlruns, newer "
    "MLflow wants MLFLOW_ALLOW_FILE_STORE=true",
    "wandb": "WANDB_API_KEY names the account; WANDB_MODE=offline keeps runs in WANDB_DIR",
}
FILES = ("comparisons.parquet", "metrics.parquet", "report.html", "report.json", "report.md")
MOST_LETTERS = 250  # of a name
_OTHER = re.compile(r"[^A-Za-z0-9_\-. /]")


def check_tracker(name: str) -> None:
    """Refuses, before any work, a tracker that is not installed.

    Raises:
        RequestError: the library is not there [missing-extra].
    """
    found = find_spec(name)
    if found is None or found.origin is None:  # W&B writes into a folder of that name
        message = f"output.{name} needs a library that is not installed"
        hint = install_hint(name)
        raise RequestError(message, code="missing-extra", at=f"output.{name}", hint=hint)


def tell_tracker(name: str, report: Report, where: str, path: Path | None) -> str:
    """The id that a tracker gives the run, told of it in the experiment or project `where`.

    Raises:
        MachineError: the tracker refuses or does not answer [tracker-failed]; the run stands.
    """
    try:
        return str(import_module(f"evalkit.jobs.{name}").track(report, where, path))
    except Exception as error:  # its own errors, requests', those of its store
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise MachineError(
            f"the run is complete, but {name} did not take it: {reason}",
            code="tracker-failed",
            at=f"output.{name}",
            hint=TRACKERS[name],
        ) from error


def name_numbers(report: Report, *, as_files: bool = False) -> Iterator[tuple[str, float]]:
    """Names as trackers allow them, `als/nDCG_at_10`, and values; no name twice.

    Undefined values are left out. A segment follows its metric: `als/nDCG_at_10/activity/new`.

    Args:
        as_files: each name is a path, so none may lie below another: a segment is
            `als/nDCG_at_10 by activity/new`.
    """
    taken: set[str] = set()
    for estimate in report.estimates:
        value = finite(estimate.value)
        if value is None:
            continue
        parts = [estimate.model, estimate.metric.replace("@", "_at_")]
        if estimate.segment is not None and as_files:
            parts = [parts[0], f"{parts[1]} by {estimate.segmentation or ''}", estimate.segment]
        elif estimate.segment is not None:
            parts += [estimate.segmentation or "", estimate.segment]
        # A slash parts folders there: none of a name's own, and none of dots.
        cleaned = [_OTHER.sub("_", part).replace("/", "_").strip(". ") or "_" for part in parts]
        name = wanted = "/".join(cleaned)[:MOST_LETTERS].rstrip("/. ")
        number = 1
        while name in taken:
            number += 1
            name = f"{wanted[: MOST_LETTERS - 8]}_{number}"
        taken.add(name)
        yield name, value
