"""The `evalkit` command. Nothing heavy is imported before a command's body runs.

In: the arguments of a process.
Out: text, files, an exit status.
Open first: `app.py`, then `run.py`.
"""

import gc
import os
import sys

OBJECTS_BEFORE_COLLECTING = 500_000  # imports and kernels make many and drop few


def main() -> None:
    """Run the program with the arguments of the process, and end it with an exit status."""
    _open_closed()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from evalkit.report.version import VERSION

        try:
            sys.stdout.write(f"evalkit {VERSION}\n")
            sys.stdout.flush()
            return
        except OSError:
            pass  # told below, as for any command
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start them, for nothing here
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # it would look through all packages
    gc.set_threshold(OBJECTS_BEFORE_COLLECTING, 50, 1000)
    from evalkit.cli.records import make_methods_late

    make_methods_late()
    from evalkit.cli.outcome import end_with

    end_with(arguments)


def _open_closed() -> None:
    """Give closed standard streams somewhere to go, as cron and daemons may close them.

    Otherwise the next file that is opened would get the number of one, and what is written to the
    stream would go into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))
