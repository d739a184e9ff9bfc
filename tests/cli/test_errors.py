"""Every way out is one clear message and one exit status."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from program import environment

from evalkit.cli.outcome import exit_status_of
from evalkit.errors import BusyError, DataError, Errors, RequestError


class PanicException(BaseException):
    """As Polars' own: no Exception."""


PanicException.__module__ = "pyo3_runtime"


def raising(error):
    def command():
        raise error

    return command


MANY = Errors([DataError("a", code="b"), RequestError("c", code="d")])
RAISED = [
    # raised                                              status  stderr begins with
    (RequestError("x", code="y"),                         2,      "error[y]: x"),
    (DataError("x", code="y", at="z"),                    3,      "error[y]: x\n  at:   z"),
    (BusyError("x", code="y"),                            75,     "error[y]: x"),
    (MANY,                                                2,      "error[b]: a\nerror[d]: c"),
    (PanicException("range end index 9"),                 3,      "error[unreadable-data]"),
    (MemoryError(),                                       4,      "error[out-of-memory]"),
    (OSError(28, "No space left on device", "/a"),        4,      "error[disk-full]: the disk"),
    (OSError(5, "Input/output error"),                    4,      "error[machine]"),
    (PermissionError(13, "Permission denied", "/a"),      3,      "error[bad-path]: a path"),
    (DataError("a\nb\x1b[31m", code="y"),                  3,      "error[y]: a b\ufffd[31m\n"),
    (KeyboardInterrupt(),                                 130,    "interrupted"),
    (ZeroDivisionError("division by zero"),               4,      "error[internal]: ZeroDiv"),
    (SystemExit(7),                                       7,      ""),
    (SystemExit(None),                                    0,      ""),
]  # fmt: skip


@pytest.mark.parametrize(("error", "status", "told"), RAISED)
def test_what_is_raised_has_its_message_and_status(error, status, told, capsys, monkeypatch):
    monkeypatch.delenv("EVALKIT_TRACEBACK", raising=False)

    found = exit_status_of(raising(error))

    assert found == status
    assert capsys.readouterr().err.startswith(told)


def test_an_internal_error_is_one_line_and_a_hint(capsys):
    exit_status_of(raising(ValueError("first\nsecond")))

    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_traceback_is_shown_when_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("EVALKIT_TRACEBACK", "1")

    exit_status_of(raising(ValueError("x")))

    assert "Traceback" in capsys.readouterr().err


def test_polars_errors_are_about_the_data(capsys):
    import polars as pl

    status = exit_status_of(raising(pl.exceptions.ComputeError("cannot parse")))

    assert (status, "error[unreadable-data]" in capsys.readouterr().err) == (3, True)


EXPERIMENT = ["experiment", "--exposures", "a", "-m", "mean(x)"]


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["rnu"], "unknown-command", "did you mean 'run'?"),
        (["zzzzzz"], "unknown-command", "evalkit --help lists all"),
        (['it\'s "x"'], "unknown-command", """no command is called 'it\\'s "x"'"""),
        (["run", "--thread", "2", "x"], "unknown-option", "did you mean '--threads'?"),
        (["run", "--threads", "0", "x"], "bad-option", "evalkit run --help says more"),
        (["run", "--threads", "two", "x"], "bad-option", "evalkit run --help says more"),
        (["run", "--threads", "two", "x"], "bad-option", "--threads: 'two' is no whole number"),
        (["run", "--wait", "-1", "x"], "bad-option", "--wait: -1 is not at least 0"),
        (["run", "--threads"], "bad-option", "evalkit --help says more"),
        (["run"], "missing-option", "evalkit run --help says more"),
        (["run", "a", "b"], "unknown-argument", "evalkit run --help says what it takes"),
        (["run", "x", "--format", "parquet"], "bad-option", "evalkit run --help says more"),
        (["run", "x", "--format", "csv", "--json"], "bad-option", ""),
        (["run", "x", "--sample", "0"], "bad-option", "--sample 0.01"),
        (["run", "x", "--sample", "nan"], "bad-option", "--sample 0.01"),
        (["run", "x", "--memory-limit", "much"], "bad-option", "--memory-limit 8GiB"),
        (["run", "x", "--per-user", "a/b/c.parquet"], "bad-option", "a folder that exists"),
        (["run", "x", "--var", "day"], "bad-var", "--var day=2026-01-31"),
        (["run", "x.toml"], "missing-config", "evalkit init"),
        (["evaluate", "--truth", "a"], "missing-option", "--rankings NAME=PATH"),
        (
            ["evaluate", "--rankings", "a", "-m", "RR", "--user", ""],
            "bad-option",
            "--user names no column",
        ),
        ([*EXPERIMENT, "--relative", "0.1"], "bad-option", "--power --relative 0.01"),
        ([*EXPERIMENT, "--power", "--relative", "nan"], "bad-option", "nan is no effect"),
        (
            [*EXPERIMENT, "--power", "--relative", "0.1", "--delta", "1"],
            "bad-option",
            "--relative and --delta exclude each other",
        ),
        (["split", "a", "--item", ""], "bad-option", "--item names no column"),
        (["split", "a", "--test", "1", "--train", "b"], "bad-option", "at:   --train"),
        (["split", "--check", "--train", "a", "--by", "user"], "bad-option", "at:   --by"),
        (
            ["split", "a", "--check", "--train", "a", "--test", "b"],
            "bad-option",
            "hint: evalkit split --check --train PATH --test PATH",
        ),
        (["split", "a", "--by", "nope"], "unknown-choice", "at:   --by"),
        (["split", "a"], "bad-split", "hint: --test 7d"),
        (
            ["split", "a", "--by", "user", "--test", "1", "--set", "split.ties=together"],
            "bad-split",
            "hint: --set split.ties=input",
        ),
        (["explain", "few-users", "--latex"], "bad-option", "--latex changes nothing"),
        (["explain", "few-users", "--profile", "ranx"], "bad-option", "leave it out"),
        (["explain", "split", "--json"], "bad-option", "--json changes nothing"),
        (["audit", "x.toml", "-m", "RR", "-m", "AP"], "bad-option", "--metric is given 2 times"),
        (["figures", "last", "-m", "RR", "-m", "AP"], "bad-option", "--metric is given 2 times"),
        (["run", "x.toml", "--out", "a", "-o", "b"], "bad-option", "--out is given 2 times"),
        (["history", "list", "--out", "a", "--out=a"], "bad-option", "--out is given 2 times"),
        (["explain", "ndgc"], "unknown-metric", "did you mean 'nDCG'?"),
        (["explain", "nDCG@0"], "bad-cutoff", ""),
        (["synth", "--users", "many", "--out", "x"], "bad-option", ""),
        (["verify", "nowhere"], "missing-run", ""),
        (["init"], "missing-option", "--truth PATH"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_a_wrong_command_line_is_one_error_with_a_hint(evalkit, tmp_path, arguments, code, hint):
    outcome = evalkit(*arguments)

    assert (outcome.status, outcome.out, outcome.codes) == (2, "", [code])
    assert hint in outcome.err
    assert not list(tmp_path.iterdir())


def test_errors_are_json_lines_when_asked_for(evalkit):
    outcome = evalkit("run", "x.toml", "--log-format", "json")

    (line,) = outcome.err.splitlines()
    assert json.loads(line)["level"] == "error"
    assert json.loads(line)["code"] == "missing-config"


def test_errors_about_the_command_line_are_json_lines_too(process):
    outcome = process("run", "--log-format=json", "--nope")

    assert json.loads(outcome.err)["code"] == "unknown-option"


def test_a_reader_that_went_away_is_no_error(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "evalkit", "schema"],
        cwd=tmp_path,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        program.stdout.close()

        assert program.wait(60) == 0
        assert program.stderr.read() == b""


def test_text_that_stdout_cannot_encode_is_no_error(process):
    outcome = process("explain", "nDCG", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert outcome.status == 0
    assert "J?rvelin" in outcome.out


LEAVE = """
import atexit, threading, time
from evalkit.cli import app, outcome
def work(arguments):
    atexit.register(lambda: print("at exit"))
    threading.Thread(target=lambda: (time.sleep(0.2), print("of a thread"))).start()
    print("result", end=" ")
    return 3
app.run_command = work
outcome.end_with([])
"""


def test_the_end_waits_for_what_is_still_to_be_done(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LEAVE], cwd=tmp_path, env=environment({}), capture_output=True
    )
    assert (done.returncode, done.stdout) == (3, b"result of a thread\nat exit\n")
    assert done.stderr == b""


LINGER = """
import threading, time
from evalkit.cli import app, outcome
def work(arguments):
    def linger():
        time.sleep(0.3)
        print("ready", flush=True)
        time.sleep(60)
    threading.Thread(target=linger).start()
    return 0
app.run_command = work
outcome.end_with([])
"""


@pytest.mark.parametrize(
    ("number", "status", "told"),
    [(signal.SIGTERM, 143, b"terminated\n"), (signal.SIGINT, 130, b"interrupted\n")],
)
def test_a_signal_ends_the_program_while_it_ends(tmp_path, number, status, told):
    with subprocess.Popen(
        [sys.executable, "-c", LINGER],
        cwd=tmp_path,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as program:
        assert program.stdout.readline() == b"ready\n"
        os.kill(program.pid, number)
        out, err = program.communicate(timeout=30)

    assert (program.returncode, out, err) == (status, b"", told)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("argument", ["metrics", "--version"])
def test_results_that_cannot_be_printed_are_told_once(tmp_path, argument):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "evalkit", argument],
            cwd=tmp_path,
            env=environment({}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 4
    assert done.stderr == "error[disk-full]: the disk is full\n  hint: free some space\n"


WAIT = """
import sys, time
from evalkit.cli import app, outcome
def wait(arguments):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)
app.run_command = wait
outcome.end_with([])
"""


@pytest.mark.parametrize(
    ("number", "status", "told"),
    [(signal.SIGTERM, 143, b"terminated\n"), (signal.SIGINT, 130, b"interrupted\n")],
)
def test_a_signal_ends_the_program_with_its_status(tmp_path, number, status, told):
    with subprocess.Popen(
        [sys.executable, "-c", WAIT],
        cwd=tmp_path,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as program:
        assert program.stdout.readline() == b"ready\n"
        time.sleep(0.05)
        os.kill(program.pid, number)
        out, err = program.communicate(timeout=30)

    assert (program.returncode, out, err) == (status, b"cleaned up\n", told)


STUCK = """
import hashlib, sys
from pathlib import Path
from evalkit import runs
from evalkit.cli import app, outcome
def work(arguments):
    with runs.hold("runs", "nightly") as job, job.scratch("x") as folder:
        (folder / "part").write_text("unfinished")
        print("ready", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # native code, for minutes
app.run_command = work
outcome.end_with([])
"""


@pytest.mark.parametrize(
    ("number", "status", "told"),
    [(signal.SIGTERM, 143, b"terminated\n"), (signal.SIGINT, 130, b"interrupted\n")],
)
def test_a_signal_ends_the_program_inside_native_code(tmp_path, number, status, told):
    with subprocess.Popen(
        [sys.executable, "-c", STUCK],
        cwd=tmp_path,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as program:
        assert program.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        os.kill(program.pid, number)
        _, err = program.communicate(timeout=30)

    assert (program.returncode, err) == (status, told)
    assert [each.name[:5] for each in (tmp_path / "runs").iterdir()] == [".lock"]


def test_an_option_that_is_a_key_of_a_config_is_named(evalkit):
    arguments = ("evaluate", "--truth", "a", "--rankings", "b", "-m", "RR", "--threshold", "4")

    assert "--set truth.threshold=4" in evalkit(*arguments).err
    assert "--threads" not in evalkit(*arguments).err


@pytest.mark.parametrize("command", ["synth --users 9 --out", "init --out", "evaluate --rankings"])
def test_an_argument_of_other_bytes_than_utf8_is_told(process, command):
    outcome = process(*command.split(), os.fsdecode(b"a=\xff"))

    assert outcome.status == 2
    assert outcome.err.startswith("error[not-utf-8]: the argument is not UTF-8\n  at:   a=")
