"""`evalkit run` and `evalkit alert` tell whom a config names; no alert changes how a run ends."""

import json
import sys

import pytest

KEEP = "import sys; open('told', 'a').write(sys.stdin.read())"
GATE = '[[gates]]\nmetric = "recall@1"\nmodel = "bad"\nmin = 2\n'


@pytest.fixture
def job(logs):
    """A config that names somebody, with a gate that cannot hold."""
    (logs / "job.toml").write_text(
        (logs / "job.toml").read_text()
        + GATE
        + f"[alerts]\ncommand = {json.dumps([sys.executable, '-c', KEEP])}\n"
    )
    return logs


def test_a_run_tells_once(evalkit, job):
    ends = [evalkit("run", "job.toml").status for _ in range(2)]

    assert ends == [1, 1]
    text = (job / "told").read_text()
    assert text.count("evalkit: job: ") == 1
    assert "recall@1 of bad" in text


def test_a_run_that_cannot_begin_is_told(evalkit, job):
    found = evalkit("run", "job.toml", "--set", "truth.path=absent.parquet")

    assert found.status == 3
    assert "path-not-found" in (job / "told").read_text()


def test_an_alert_that_fails_changes_no_status(evalkit, job):
    config = job / "job.toml"
    config.write_text(config.read_text().replace(sys.executable, "absent-program"))

    found = evalkit("run", "job.toml")

    assert found.status == 1
    assert "alert-failed" in found.err


def test_alert_tests_and_tells_of_the_last_run(evalkit, job):
    assert evalkit("run", "job.toml", "--set", "alerts.on=[]").status == 1
    test = evalkit("alert", "job.toml", "--test")
    assert (test.status, test.out.strip()) == (0, "sent")
    assert (job / "told").read_text().startswith("evalkit: job: test")
    for path in (job / "runs").glob(".alert-*"):
        path.unlink()

    assert evalkit("alert", "job.toml").status == 0
    assert evalkit("alert", "job.toml").status == 0

    assert (job / "told").read_text().count("(before: fine)") == 1


def test_a_merge_tells_whom_a_config_of_its_caller_names(evalkit, job):
    assert evalkit("partial", "job.toml", "--share", "1/1", "-o", "p").status == 0

    assert evalkit("merge", "p", "--out", "runs").status == 1
    assert not (job / "told").exists()  # what a partial says is data
    for _ in range(2):
        assert evalkit("merge", "p", "--out", "runs", "--alerts", "job.toml").status == 1

    text = (job / "told").read_text()
    assert text.count("evalkit: job: cannot tell (before: fine)") == 1
    assert "recall@1 of bad" in text
    nobody = evalkit("merge", "p", "--alerts", "absent.toml")
    assert (nobody.status, nobody.codes) == (2, ["missing-config"])


def test_alert_needs_somebody_to_tell(evalkit, logs):
    found = evalkit("alert", "job.toml", "--test")

    assert (found.status, found.codes) == (2, ["no-alerts"])
