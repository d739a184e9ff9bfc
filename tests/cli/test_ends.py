"""The program says truly how it ended: interrupted from its first line on, or after the run."""

import os
import signal
import subprocess
import sys

import pytest
from program import environment

# Sends SIGINT to itself at the n-th import after evalkit's first line.
INTERRUPT = """
import os, signal, sys
left = int(os.environ.get("STOP_AT", "0"))
began = False
def watch(event, arguments):
    global began, left
    if event != "import":
        return
    if began:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)
    elif arguments[0] == "evalkit":
        began = True
if left:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.addaudithook(watch)
"""
MOMENTS = (1, 2, 3, 5, 9, 17, 40, 90, 200, 400, 700)
SCRIPT = """
import sys
sys.argv[0] = "evalkit"
from evalkit.cli import main
sys.exit(main())
"""


def interrupted(tmp_path, moment, command):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    env = environment({"STOP_AT": str(moment)})
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env["PYTHONPATH"]])
    return subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, timeout=300
    )


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("way", ["module", "script"])
def test_interrupt_from_the_first_line_on(tmp_path, way, moment):
    command = ["-m", "evalkit"] if way == "module" else ["-c", SCRIPT]
    done = interrupted(tmp_path, moment, [*command, "demo", "--quiet"])

    assert done.stderr == b"interrupted\n"
    assert done.returncode == 130
    assert not list(tmp_path.glob(".evalkit-*"))


def test_whoever_imports_evalkit_keeps_his_own_handler(python):
    code = "import signal, evalkit; print(signal.getsignal(2) is signal.default_int_handler)"

    assert python(code).out == "True\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
def test_full_stdout_after_a_run_says_that_the_run_is_complete(logs):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "evalkit", "run", "job.toml"],
            cwd=logs,
            env=environment({}),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    (run,) = logs.glob("runs/2*")
    assert done.returncode == 4
    assert b"the run is complete, but it cannot be shown" in done.stderr
    assert f"at:   runs/{run.name}".encode() in done.stderr


def test_signal_numbers_are_those_of_the_shell():
    assert 128 + signal.SIGINT == 130


def test_pools_of_threads_do_not_keep_a_command_from_ending():
    script = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from evalkit.cli.outcome import _leave
pool = ThreadPoolExecutor()
pool.submit(int).result()
threading.Thread(target=lambda: (time.sleep(0.2), print("waited for"))).start()
_leave(3)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (3, "waited for\n")


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("command", "status"),
    [("run job.toml", 0), ("run no-such.toml", 2), ("--version", 0)],
)
def test_a_closed_stream_changes_no_exit_status(logs, closed, command, status):
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -m evalkit {command} {closed}'],
        cwd=logs,
        env=environment({}),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )

    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    if command.startswith("run job"):
        assert (logs / "runs" / "latest" / "report.json").exists()
