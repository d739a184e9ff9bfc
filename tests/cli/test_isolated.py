"""What native code does ends in one error: crashes in a child, and panics that are never shown."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from program import Outcome, environment, run_program

CONFIG = """
[truth]
path = "truth.parquet"
[[rankings]]
model = "m"
path = "rankings.parquet"
[metrics]
names = ["nDCG@10"]
files = ["own.py"]
"""
PANIC = (
    "thread 'async-executor-1' (12) panicked at a.rs:1:2:\nindex out of bounds\nnote: run with\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = pl.DataFrame({"user": [1, 1], "item": [1, 2], "rank": [1, 2]})
    rows.drop("rank").write_parquet(tmp_path / "truth.parquet")
    rows.write_parquet(tmp_path / "rankings.parquet")
    (tmp_path / "job.toml").write_text(CONFIG)
    return tmp_path


def write_own(folder: Path, own: str) -> None:
    """A metric file that stands for native code: it does what such code may do."""
    (folder / "own.py").write_text(f"import os, signal, time\n{own}\n")


def start(folder: Path, own: str, *options: str) -> "subprocess.Popen[str]":
    """A run of a process that tests may kill."""
    write_own(folder, own)
    return subprocess.Popen(
        [sys.executable, "-m", "evalkit", "run", "job.toml", *options],
        cwd=folder,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, own: str, *options: str) -> Outcome:
    write_own(folder, own)
    return run_program(["run", "job.toml", *options], folder)


def words(text: str) -> str:
    return f"os.write(2, {text.encode()!r})"


@pytest.mark.parametrize(
    ("own", "status", "code"),
    [
        ("os.abort()", 3, "reader-crashed"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 3, "reader-crashed"),
        pytest.param(
            *("os.kill(os.getpid(), signal.SIGBUS)", 3, "reader-crashed"),
            marks=pytest.mark.campaign,
        ),
        ("os.kill(os.getpid(), signal.SIGKILL)", 4, "out-of-memory"),
        (
            words(f"memory allocation of {1 << 61} bytes failed\n") + "; os.abort()",
            3,
            "reader-crashed",
        ),
        (
            words(f"memory allocation of {1 << 33} bytes failed\n") + "; os.abort()",
            4,
            "out-of-memory",
        ),
        (words(PANIC) + "; os.abort()", 3, "reader-crashed"),
    ],
)
def test_a_crash_of_an_isolated_job_is_one_error(folder, own, status, code):
    outcome = run(folder, own, "--isolated")

    assert (outcome.status, outcome.codes, outcome.out) == (status, [code], "")
    assert "job.toml" in outcome.err
    assert "panicked" not in outcome.err
    assert "Traceback" not in outcome.err
    assert not (folder / "runs").exists() or not any((folder / "runs").glob("2*"))


@pytest.mark.parametrize("name", ["truth.parquet", "gr\u00f6\udce4'in\ng \"s.csv"])
def test_a_crash_names_the_file_that_is_read(folder, name):
    reads = f"from evalkit.sources.failures import mapped\nwith mapped({name!a}, None):"
    outcome = run(folder, f"{reads}\n    os.abort()", "--isolated")

    assert outcome.codes == ["reader-crashed"]
    (place,) = [line for line in outcome.err.splitlines() if line.startswith("  at:")]
    assert place == f"  at:   {name}".replace("\n", " ").replace("\udce4", "\ufffd")


def test_an_isolated_job_is_the_same_job(folder):
    no_files = ("--quiet", "--set", "metrics.files=[]")
    plain, isolated = run(folder, "", *no_files), run(folder, "", "--isolated", *no_files)

    assert (plain.status, isolated.status) == (0, 0)
    assert plain.out.splitlines()[:4] == isolated.out.splitlines()[:4]


@pytest.mark.parametrize("options", [(), ("--isolated",)])
def test_panics_are_not_shown_and_other_words_of_native_code_are(folder, options):
    outcome = run(folder, words(PANIC) + "; time.sleep(0.5); " + words("LLVM says no\n"), *options)

    assert outcome.codes == ["no-metric-in-file"]
    assert "panicked" not in outcome.err
    assert "out of bounds" not in outcome.err
    assert "LLVM says no\n" in outcome.err


@pytest.mark.parametrize("options", [(), ("--isolated",)])
def test_no_end_of_a_panic_is_shown_however_late_it_comes(folder, options, monkeypatch):
    monkeypatch.setenv("RUST_BACKTRACE", "full")
    late = "note: Some details are omitted, run with `RUST_BACKTRACE=full` for more.\n"
    own = f"{words(PANIC)}; time.sleep(0.5); {words(late)}; print(os.environ['RUST_BACKTRACE'])"
    outcome = run(folder, own, *options)

    assert outcome.codes == ["no-metric-in-file"]
    assert "RUST_BACKTRACE" not in outcome.err
    assert outcome.out.splitlines()[0] == "0"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_an_isolated_job_and_its_child(folder, number, status):
    own = "open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    process = start(folder, own, "--isolated")
    until = time.monotonic() + 60
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)

    assert process.returncode == status
    assert err.splitlines()[-1] == {143: "terminated", 130: "interrupted"}[status]
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)
