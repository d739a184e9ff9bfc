"""Doors to Spark that need a process of their own: Connect, spark-submit, a cluster on loopback."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import ALL, make_logs

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]
MAIN = "from evalkit.cli import main\nmain()\n"
OF_ITS_OWN = ("meta", "run_id")


def run(line, folder):
    """What a program prints that runs in a folder."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
    environment = os.environ | local | {"PYSPARK_PYTHON": sys.executable}
    asked = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([*map(str, line)], **asked, timeout=400, check=False)


def same_reports(folder):
    """Whether a run that was published says what this process says."""
    asked = ["nightly.toml", "--engine", "local", "--out", "here", "--quiet"]
    here = run([sys.executable, "-m", "evalkit", "run", *asked], folder)
    assert here.returncode == 0, here.stderr
    paths = [folder / name / "latest" / "report.json" for name in ("runs", "here")]
    one, other = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    return all(one[key] == other[key] for key in one if key not in OF_ITS_OWN)


def test_spark_connect(tmp_path):
    if importlib.util.find_spec("grpc") is None:
        pytest.skip('Spark Connect is not installed: pip install "pyspark[connect]"')
    make_logs(tmp_path)
    text = ALL + '[engine]\nkind = "spark"\nremote = "local[2]"\npartitions = 3\n'
    (tmp_path / "nightly.toml").write_text(text)

    done = run([sys.executable, "-m", "evalkit", "run", "nightly.toml"], tmp_path)

    assert done.returncode == 0, done.stderr[-3000:]
    assert same_reports(tmp_path)


def test_spark_submit(tmp_path):
    import pyspark

    make_logs(tmp_path)
    (tmp_path / "nightly.toml").write_text(ALL)
    (tmp_path / "run.py").write_text(MAIN)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    job = ["run.py", "run", "nightly.toml", "--engine", "spark"]

    done = run([submit, "--master", "local[2]", "--driver-memory", "700m", *job], tmp_path)

    assert done.returncode == 0, done.stderr[-3000:]
    assert same_reports(tmp_path)


def test_a_standalone_cluster_that_loses_an_executor_and_a_worker(tmp_path):
    pytest.importorskip("psutil", reason="psutil is not installed")
    script = ROOT / "bench" / "spark_faults.py"

    asked = ["--runs", 2, "--drivers", 0, "--users", 500]
    done = run([sys.executable, "-W", "ignore", script, *asked], tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert json.loads(done.stdout)["same"]
