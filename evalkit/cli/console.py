"""What the program says: results on stdout; progress, notes and errors on stderr."""

import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from evalkit.errors import Errors, EvalkitError, clean, in_lines, masked

if TYPE_CHECKING:
    from evalkit.planning.counters import Progress

REDRAW_SECONDS = 0.1

_is_json = False
_is_quiet = False
_is_log = False
_run_id = ""
_progress_shown = False


def configure(arguments: Sequence[str]) -> None:
    """Take `--log-format` and `--quiet` from a command line, before it is parsed.

    Errors about the command line itself are already told in that form.
    """
    global _is_json, _is_quiet, _is_log
    given = " ".join(arguments).replace("--log-format=", "--log-format ").split(" ")
    _is_json = any(pair == ("--log-format", "json") for pair in pairwise(given))
    _is_log = "--log-format" in given
    _is_quiet = "--quiet" in arguments or "-q" in arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def say_json(value: object) -> None:
    """Write a JSON document to stdout."""
    import json

    from evalkit.report.json_ import escaped

    say(escaped(json.dumps(value, indent=2, ensure_ascii=False)))


def say(*texts: str) -> None:
    """Write results to stdout, each ended by one newline."""
    for text in texts:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def write(file: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all, and its path to stdout."""
    from evalkit.runs import machine_errors, replacing

    with machine_errors(file), replacing(file) as fresh:
        fresh.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
    say(str(file))


def tell(error: EvalkitError) -> None:
    """Write an error, or each of several, to stderr."""
    if not _is_json:
        tell_line(str(error))
        return
    for each in error.errors if isinstance(error, Errors) else (error,):
        _log("error", each.message, code=each.code, at=each.at, hint=each.hint)


def warn(code: str, message: str, *, at: str = "", hint: str = "") -> None:
    """Write a warning to stderr, unless `--quiet`."""
    if _is_quiet:
        return
    if _is_json:
        _log("warning", message, code=code, at=at, hint=hint)
        return
    tell_line(in_lines("warning", code, message, at=at, hint=hint))


def note(message: str) -> None:
    """Write something worth knowing to stderr, unless `--quiet`."""
    if _is_quiet:
        return
    if _is_json:
        _log("info", message)
    else:
        tell_line(clean(masked(message)))


def name_run(run_id: str) -> None:
    """Every log line from here on carries the id of that run."""
    global _run_id
    _run_id = run_id


def log(level: str, message: str) -> None:
    """Write a log line with time and run, where `--log-format` asks for such lines."""
    if _is_quiet or not _is_log:
        return
    if _is_json:
        _log(level, message)
    else:
        tell_line(f"{_now()} {level} {_run_id or '-'} {clean(masked(message))}")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def tell_line(text: str) -> None:
    """Write text to stderr; nothing where stderr is gone."""
    clear_progress()
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def _log(level: str, message: str, **others: str) -> None:
    from evalkit.report.json_ import dump_line

    record = {"time": _now(), "level": level, "message": message}
    record |= {"run_id": _run_id} if _run_id else {}
    record |= {name: value for name, value in others.items() if value}
    tell_line(dump_line({name: masked(value) for name, value in record.items()}))


def table_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def has_color() -> bool:
    """Whether stdout may carry colours: a terminal, and no NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def clear_progress() -> None:
    """Remove the progress line from the terminal."""
    global _progress_shown
    if _progress_shown:
        _progress_shown = False
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class DrawnProgress:
    """One line on stderr that is drawn over: stage, rows, rate and time left."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stage = ""
        self._began = self._drawn = time.monotonic()
        self._first_rows = 0

    def __call__(self, step: "Progress") -> None:
        now = time.monotonic()
        with self._lock:
            if step.stage != self._stage:
                self._stage, self._began, self._first_rows = step.stage, now, step.rows
            elif now - self._drawn < REDRAW_SECONDS:
                return
            self._drawn = now
            self._draw(describe(step, step.rows - self._first_rows, now - self._began))

    def _draw(self, text: str) -> None:
        global _progress_shown
        import shutil

        width = shutil.get_terminal_size().columns
        _progress_shown = True
        sys.stderr.write(f"\r{text[: width - 1]}\x1b[K")
        sys.stderr.flush()


def describe(step: "Progress", new_rows: int, seconds: float) -> str:
    """The progress line: `rankings als  1,200,000 of 5,000,000 rows  2.4 M rows/s  2 s left`."""
    parts = [step.stage]
    total = step.total_rows
    if step.rows or total:
        parts.append(f"{step.rows:,}{'' if total is None else f' of {total:,}'} {step.unit}")
    if new_rows > 0 and seconds > 0:
        rate = new_rows / seconds
        if step.unit == "rows":
            parts.append(f"{_short(rate)} rows/s")
        if total is not None and total >= step.rows:
            parts.append(f"{_duration((total - step.rows) / rate)} left")
    return "  ".join(parts)


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return f"{number:.0f}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def progress_line() -> DrawnProgress | None:
    """A progress line where one can be seen: stderr is a terminal, and no `--quiet`."""
    return DrawnProgress() if sys.stderr.isatty() and not (_is_quiet or _is_json) else None
