"""A driver that is killed leaves no run, and nothing that the next run does not remove."""

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import ALL, make_logs

from evalkit.cli.app import run_command
from evalkit.runs import finished, verify

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

DRIVER = """
import os, signal, sys, threading, time
from pathlib import Path
from evalkit.cli import main
from evalkit.engines import _spark
from evalkit.runs import _publish

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def wait_for_a_file():
    while not [*Path.cwd().glob("**/*-" + 64 * "[0-9a-f]" + ".parquet")]:
        time.sleep(0.01)
    die()

moment = sys.argv.pop(1)
if moment == "executors write":
    threading.Thread(target=wait_for_a_file, daemon=True).start()
elif moment == "all is written":
    _spark._merged = die
else:
    _publish._rename = die
main()
"""
MOMENTS = ["executors write", "all is written", "publishing"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_driver_leaves_nothing_that_looks_like_a_report(tmp_path, moment):
    make_logs(tmp_path)
    config = tmp_path / "nightly.toml"
    config.write_text(ALL + "\n[output]\nper_user = true\n")
    here = ["run", str(config), "--out", str(tmp_path / "runs"), "--quiet", "--engine", "local"]
    is_first = moment == "all is written"  # then there is no folder of runs
    if not is_first:
        assert run_command(here) == 0
    before = {path for path, _ in finished(tmp_path / "runs")}
    asked = ["--engine", "spark", "--set", 'engine.master="local[2]"', "--set"]
    asked += ["engine.partitions=9", "--out", "runs", "--quiet"]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path)}

    driver = [sys.executable, "-c", DRIVER, moment, "run", "nightly.toml", *asked]
    done = subprocess.run(
        driver, cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False
    )

    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert {path for path, _ in finished(tmp_path / "runs")} == before
    assert unfinished(tmp_path), "the driver died before anything was written"
    assert not [each for each in tmp_path.rglob("manifest.json") if is_seen(each, tmp_path, before)]
    assert run_command(here) == 0
    assert unfinished(tmp_path) == []
    assert len([*finished(tmp_path / "runs")]) == len(before) + 1
    assert verify(tmp_path / "runs" / "latest") == []


def unfinished(folder):
    """What no reader of runs looks at."""
    return [each for each in folder.rglob(".*") if each.name.startswith((".tmp-", ".evalkit-"))]


def is_seen(path, folder, known):
    hidden = any(each.startswith(".") for each in path.relative_to(folder).parts)
    return path.parent not in known and not hidden
