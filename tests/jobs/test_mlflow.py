"""MLflow and Weights & Biases are told of runs; names of any kind become names they allow."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from example_runs import report

from evalkit.errors import MachineError
from evalkit.jobs.trackers import name_numbers, tell_tracker

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


SEGMENTED = """
report = Report.from_json(sys.argv[3])
run = client.get_run(track(report, "nightly", None))
want = {"als/nDCG_at_10": 0.5, "als/nDCG_at_10 by age/18-25": 0.25}
assert run.data.metrics == want, run.data.metrics

def refuse(*_, **__):
    raise OSError("full")

MlflowClient.log_batch = refuse
try:
    track(report, "refused", None)
except OSError:
    pass
(run,) = client.search_runs([client.get_experiment_by_name("refused").experiment_id])
assert run.info.status == "KILLED", run.info.status
"""


def test_runs_and_segments_reach_a_store_of_files_and_none_stays_open(tmp_path):
    pytest.importorskip("mlflow", reason='pip install "evalkit-recsys[mlflow]"')
    (tmp_path / "report.html").write_text("<!doctype html>")
    whole = report()
    (estimate,) = whole.estimates
    young = replace(estimate, segmentation="age", segment="18-25", value=0.25)

    segmented = replace(whole, estimates=(estimate, young))
    reports = whole.to_json(), str(tmp_path), segmented.to_json()
    run_python(TRACKED + SEGMENTED, tmp_path, *reports)


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


EVALUATED = """
import mlflow, pandas
table = pandas.DataFrame({
    "user": ["ann", "bob", "cid"],
    "relevant": [["a", "b"], ["c"], ["d"]],
    "ranked": [["a", "x", "b"], ["x", "c"], ["e", "d"]],
})
config = {"model": "als", "metrics": ["recall@2", "RR"]}
asked = dict(targets="relevant", model_type="ranker", evaluators="evalkit")
given = mlflow.models.evaluate(
    data=table, predictions="ranked", evaluator_config=config, **asked
)
with mlflow.start_run() as run:
    told = mlflow.models.evaluate(
        model=lambda rows: [table.ranked[table.user == each].iloc[0] for each in rows.user],
        data=table[["user", "relevant"]], evaluator_config=config, **asked,
    )
want = {"als/recall_at_2": (0.5 + 1 + 1) / 3, "als/RR": (1 + 0.5 + 0.5) / 3}
for found in (given.metrics, told.metrics, mlflow.get_run(run.info.run_id).data.metrics):
    assert found.keys() == want.keys(), found
    assert all(abs(found[name] - value) < 1e-12 for name, value in want.items()), found
files = mlflow.MlflowClient().list_artifacts(run.info.run_id, "evalkit")
assert [each.path for each in files] == ["evalkit/report.html", "evalkit/report.json"]
"""


def run_python(code: str, tmp_path: Path, *arguments: str, **more: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "MLFLOW_TRACKING_URI": f"file://{tmp_path}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mlflow_evaluates_rankings(tmp_path):
    for each in ("mlflow", "pandas", "matplotlib", "sklearn"):  # the whole mlflow brings them
        pytest.importorskip(each, reason="pip install mlflow")
    if not entry_points(group="mlflow.model_evaluator", name="evalkit"):
        pytest.skip("evalkit was installed before it had an evaluator: pip install -e .")

    run_python(EVALUATED, tmp_path)


TOLD = """
import sys
from pathlib import Path
from evalkit.report import Report
from evalkit.jobs.trackers import tell_tracker
tell_tracker("wandb", Report.from_json(sys.argv[1]), "nightly", Path(sys.argv[2]))
"""


def test_a_run_of_weights_and_biases_ends_also_where_it_fails(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason='pip install "evalkit-recsys[wandb]"')
    (tmp_path / "report.html").write_text("<!doctype html>")
    run = MagicMock()
    run.log_artifact.side_effect = OSError("full")
    monkeypatch.setattr("wandb.init", lambda **given: run)

    with pytest.raises(MachineError, match="wandb did not take it: full"):
        tell_tracker("wandb", report(), "nightly", tmp_path)

    run.finish.assert_called_once_with(exit_code=1)


def test_run_reaches_weights_and_biases_offline(tmp_path):
    pytest.importorskip("wandb", reason='pip install "evalkit-recsys[wandb]"')
    (tmp_path / "report.html").write_text("<!doctype html>")
    folder = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}

    out = run_python(TOLD, tmp_path, report().to_json(), str(tmp_path), **folder)

    (kept,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    stored = kept.read_bytes()
    assert out == ""
    assert all(each in stored for each in (b"als/nDCG_at_10", b"evalkit/verdict", b"run_key"))
