"""MLflow is told of runs; names of any kind become names that it allows."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from example_runs import report

from evalkit.jobs.mlflow import name_numbers

ROOT = Path(__file__).parents[2]


def test_numbers_have_names_that_mlflow_allows():
    whole = report()
    (estimate,) = whole.estimates
    models = ("als", "../../etc", "a b", "a@b", "a#b", "<script>", "\ud800", "/", "x" * 400)
    hostile = [replace(estimate, model=model) for model in models]
    hostile += [
        replace(estimate, segmentation="age", segment="18-25"),
        replace(estimate, metric="RR", value=float("nan")),
    ]

    named = dict(name_numbers(replace(whole, estimates=tuple(hostile))))

    assert len(named) == len(models) + 1
    assert named["als/nDCG_at_10"] == named["als/nDCG_at_10/age/18-25"] == 0.5
    assert all(re.fullmatch(r"[A-Za-z0-9_\-. /]{1,250}", name) for name in named)
    assert not [name for name in named if ".." in name.split("/") or name.startswith("/")]


TRACKED = """
import sys
from pathlib import Path
from evalkit.report import Report
from evalkit.jobs.mlflow import track
report = Report.from_json(sys.argv[1])
run_id = track(report, "nightly", Path(sys.argv[2]))
from mlflow.tracking import MlflowClient
client = MlflowClient()
run = client.get_run(run_id)
assert run.data.metrics == {"als/nDCG_at_10": 0.5}, run.data.metrics
assert run.data.params["run_key"] == "k"
assert run.data.tags["evalkit.verdict"] == "fine, no gate configured"
assert run.info.status == "FINISHED"
assert [each.path for each in client.list_artifacts(run_id)] == ["report.html"]
"""


def test_run_reaches_a_real_store(tmp_path):
    pytest.importorskip("mlflow", reason='pip install "evalkit-recsys[mlflow]"')
    (tmp_path / "report.html").write_text("<!doctype html>")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "MLFLOW_TRACKING_URI": f"file://{tmp_path}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }

    done = subprocess.run(
        [sys.executable, "-c", TRACKED, report().to_json(), str(tmp_path)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr


def test_tracker_that_fails_is_a_warning(tmp_path):
    pytest.importorskip("mlflow", reason='pip install "evalkit-recsys[mlflow]"')
    config = ROOT / "configs" / "quickstart.toml"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    }
    options = ["--set", "output.mlflow=nightly", "--out", "runs", "--summary"]

    done = subprocess.run(
        [sys.executable, "-m", "evalkit", "run", str(config), *options],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "warning[tracker-failed]" in done.stderr
    assert (tmp_path / "runs" / "latest").is_symlink()
