"""`--isolated`: the whole work in a child process, whose crash ends in an error like any other."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli import console
from evalkit.cli.native import Filter
from evalkit.errors import PARENT, DataError, EvalkitError, MachineError

LARGEST_CLAIM = 1 << 46  # bytes; no machine has so many, so a file is wrong


def _isolate(asked: bool) -> None:
    if not asked:
        return
    if PARENT in os.environ:
        _end_with_parent()
        return
    raise typer.Exit(_run_child(sys.argv[1:]))


Isolated = Annotated[
    bool,
    typer.Option(
        "--isolated",
        callback=_isolate,
        is_eager=True,
        help="Work in a child process: a file that crashes the reader ends in an error.",
    ),
]


def _run_child(arguments: Sequence[str]) -> int:
    """The exit status of the same command line in a child; its crash raises what it means."""
    source, sink = os.pipe()
    root = str(Path(__file__).parents[2])  # where this very package is found
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    child = subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", "evalkit", *arguments],
        env={**os.environ, PARENT: str(sink), "PYTHONPATH": paths},
        pass_fds=[sink],
        process_group=0,  # a terminal's signals reach it once, by way of this process
    )
    os.close(sink)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: child.send_signal(number))
    passing = Filter(lambda line: os.write(2, line))
    passing.pump(source, lambda: child.poll() is not None)
    status = child.wait()
    if status >= 0:
        return status
    if -status in (signal.SIGTERM, signal.SIGINT):
        console.tell_line("terminated" if -status == signal.SIGTERM else "interrupted")
        return 128 - status
    given = [each.rpartition("=")[2] for each in arguments]
    at = passing.reads or ", ".join(value for value in given if os.path.exists(value))
    raise _crash(signal.Signals(-status), passing.n_bytes_refused, at)


def _crash(number: signal.Signals, n_bytes_refused: int, at: str) -> EvalkitError:
    if number == signal.SIGKILL or 0 < n_bytes_refused < LARGEST_CLAIM:
        message = "the memory is used up: the process that did the work was ended"
        hint = "--sample 0.1 measures a tenth of the users; --memory-limit bounds a run"
        return MachineError(message, code="out-of-memory", at=at, hint=hint)
    message = f"a file made the reader crash ({number.name})"
    hint = "a file is damaged; where it is one of many, give them one by one, and write it again"
    return DataError(message, code="reader-crashed", at=at, hint=hint)


def _end_with_parent() -> None:
    """Let this process end when its parent does, however that ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
