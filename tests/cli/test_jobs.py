"""A scheduler's life with `evalkit run`: locks, repeats, log lines, summaries, text files."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from program import environment

from evalkit import runs
from evalkit.kinds.rankings import measure


def finished(folder):
    return sorted(each.name for each in folder.glob("2*"))


def test_the_same_work_is_recognised(process, logs):
    process("run", "job.toml")
    (first,) = finished(logs / "runs")

    outcome = process("run", "job.toml", "--if-new")

    assert outcome.status == 0
    assert "warning[nothing-new]" in outcome.err
    assert first in outcome.err
    assert finished(logs / "runs") == [first]


@pytest.mark.parametrize(("n_passes", "is_told"), [(8, False), (9, True)])
def test_many_passes_are_told(evalkit, logs, monkeypatch, n_passes, is_told):
    monkeypatch.setattr(measure, "count_shares", lambda *given: n_passes)

    outcome = evalkit("run", "job.toml")

    assert outcome.status == 0, outcome.err
    assert (f"warning[many-passes]: the logs were read {n_passes} times" in outcome.err) is is_told
    document = json.loads((logs / "runs" / "latest" / "report.json").read_text())
    assert document["meta"]["passes"] == n_passes


def test_without_if_new_the_same_work_is_a_new_run_of_the_same_key(evalkit, logs):
    evalkit("run", "job.toml")
    evalkit("run", "job.toml")

    both = [json.loads((each / "report.json").read_text()) for each in (logs / "runs").glob("2*")]

    assert len({each["run_id"] for each in both}) == 2
    assert len({each["run_key"] for each in both}) == 1


@pytest.mark.parametrize("change", ["rows", "config", "sample", "damage", "name"])
def test_other_work_is_new(evalkit, logs, change):
    evalkit("run", "job.toml")
    more = []
    if change == "rows":
        pl.read_parquet(logs / "bad.parquet").head(3).write_parquet(logs / "bad.parquet")
    elif change == "config":
        more = ["--set", "policies.missing_ranking=skip"]
    elif change == "sample":
        more = ["--sample", "1.0"]
    elif change == "damage":
        (logs / "runs" / "latest" / "report.md").write_text("other")
    else:
        more = ["--set", "name=other"]

    outcome = evalkit("run", "job.toml", "--if-new", *more)

    assert outcome.status == 0, outcome.err
    assert len(finished(logs / "runs")) == 2


def test_if_new_shows_the_run_that_is_there_in_the_format_asked_for(evalkit, logs):
    evalkit("run", "job.toml")

    outcome = evalkit("run", "job.toml", "--if-new", "--json")

    assert outcome.document["run_id"] == finished(logs / "runs")[0]


def test_a_run_waits_for_the_lock_when_asked(process, logs):
    (logs / "runs").mkdir()
    with runs.hold(logs / "runs", "job"):
        refused = process("run", "job.toml", "--wait", "0.3")
    with runs.hold(logs / "runs", "job"):
        waiting = subprocess.Popen(
            [sys.executable, "-m", "evalkit", "run", "job.toml", "--wait", "60"],
            cwd=logs,
            env=environment({}),
            stdout=subprocess.DEVNULL,
        )
        time.sleep(1.0)
        assert waiting.poll() is None

    assert (refused.status, refused.codes) == (75, ["run-locked"])
    assert waiting.wait(timeout=60) == 0
    assert len(finished(logs / "runs")) == 1


def test_log_lines_carry_the_run(process, logs):
    as_json = process("run", "job.toml", "--log-format", "json", "--set", "name=a")
    as_text = process("run", "job.toml", "--log-format", "text", "--set", "name=b")

    lines = [json.loads(line) for line in as_json.err.splitlines()]
    ids = {each["run_id"] for each in lines}
    assert [each["level"] for each in lines] == ["info", "info"]
    assert len(ids) == 1
    assert ids < set(finished(logs / "runs"))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each["time"]) for each in lines)
    pattern = r"\S+Z info \d{8}-\d{6}-\d{3}-[0-9a-f]{6} b: the run (begins|ends.*)"
    assert all(re.fullmatch(pattern, line) for line in as_text.err.splitlines())


def test_summary_is_one_line(evalkit, logs):
    outcome = evalkit("run", "job.toml", "--summary")

    (line,) = outcome.out.splitlines()
    assert line.startswith(
        "job: fine, no gate configured, 1 warning | nDCG@2: good 1.000000, bad 0.1"
    )
    assert f"runs/{finished(logs / 'runs')[0]}" in line


def test_prometheus_file_holds_every_number(evalkit, logs):
    name = 'a"b\\c'
    outcome = evalkit(
        *("run", "job.toml", "--prometheus", "evalkit.prom"),
        *("--set", f"rankings[0].model={json.dumps(name)}", "--set", "name=night"),
    )

    assert outcome.status == 0, outcome.err
    text = (logs / "evalkit.prom").read_text()
    sample = re.compile(r'evalkit_[a-z_]+\{([a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\} [-+0-9.eNaInf]+')
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    assert all(sample.fullmatch(line) for line in lines)
    assert 'evalkit_fine{job_name="night"} 1.0' in lines
    assert (
        'evalkit_metric_value{job_name="night",model="a\\"b\\\\c",metric="nDCG@2",'
        'segmentation="",segment=""} 1.0'
    ) in lines
    assert sorted(each.name for each in logs.iterdir() if "prom" in each.name) == ["evalkit.prom"]


def test_prometheus_file_that_cannot_be_written_is_told_before_the_work(evalkit, logs):
    outcome = evalkit("run", "job.toml", "--prometheus", "nowhere/evalkit.prom")

    assert (outcome.status, outcome.codes) == (2, ["bad-option"])
    assert not (logs / "runs").exists()


AT_ONCE = f"""
import os, sys
sys.path.append({str(Path(__file__).parent)!r})
from zygote import main  # loads what a run does
jobs = []
for _ in range(8):
    jobs.append(os.fork())
    if not jobs[-1]:
        main()
print([os.waitpid(job, 0)[1] for job in jobs])
"""


def test_eight_jobs_at_once_on_one_output(python, logs):
    asked = ("run", "job.toml", "--wait", "120", "--summary")
    ended = python(AT_ONCE, *asked, POLARS_MAX_THREADS="1")

    assert ended.out.splitlines()[-1] == str([0] * 8), ended.err
    found = finished(logs / "runs")
    assert len(found) == 8
    assert all(runs.verify(logs / "runs" / each) == [] for each in [*found, "latest"])
    assert not list((logs / "runs").glob(".tmp*"))


@pytest.mark.parametrize(
    "asked",
    [["--set", "output.per_user=true"], ["--per-user", "values.parquet"],
     ["--set", 'output.formats=["json", "csv"]']],
)  # fmt: skip
def test_work_that_lacks_what_is_asked_for_is_done_anew(evalkit, logs, asked):
    evalkit("run", "job.toml")
    (first,) = finished(logs / "runs")

    outcome = evalkit("run", "job.toml", "--if-new", *asked)

    assert outcome.status == 0, outcome.err
    (second,) = set(finished(logs / "runs")) - {first}
    files = {each.name for each in (logs / "runs" / second).iterdir()}
    assert {"per_user.parquet", "metrics.csv"} & files or (logs / "values.parquet").exists()


def test_values_of_users_are_copied_from_a_run_that_kept_them(evalkit, logs):
    evalkit("run", "job.toml", "--set", "output.per_user=true")
    (first,) = finished(logs / "runs")

    outcome = evalkit("run", "job.toml", "--if-new", "--per-user", "values.parquet")

    assert "warning[nothing-new]" in outcome.err
    assert finished(logs / "runs") == [first]
    kept = (logs / "runs" / first / "per_user.parquet").read_bytes()
    assert (logs / "values.parquet").read_bytes() == kept
