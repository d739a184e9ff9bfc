"""How the program ends: every way out is one clear message and one exit status."""

import atexit
import errno
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from evalkit import errors
from evalkit.cli import console
from evalkit.cli.native import filter_native_stderr, flush_native_stderr

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
GRACE_SECONDS = 0.5  # for the main thread to clean up by itself; two seconds are promised

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_SUCH_PATH = {
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP,
    errno.ENAMETOOLONG,
}  # fmt: skip


class Terminated(BaseException):
    """SIGTERM came; unwinds the stack so that unfinished files are removed."""


def end_with(arguments: Sequence[str]) -> NoReturn:
    """Run one command line and end the process with its exit status."""

    def command() -> int:
        from evalkit.cli.app import run_command

        _listen(_STOPS_BY_RAISING)  # from here on there may be something to clean up
        return run_command(arguments)

    _listen(dict.fromkeys(_STOPS, _stop_at_once))
    sys.unraisablehook = _end_or_show
    filter_native_stderr()
    console.configure(arguments)
    errors.show_warnings_by(console.warn)
    _watch_signals()
    _leave(exit_status_of(command))


def _leave(status: int) -> NoReturn:
    """End the process as Python does, but for its memory: the system takes that back at once."""
    _listen(dict.fromkeys(_STOPS, _stop_at_once))  # there is no stack left to unwind
    threading._shutdown()  # type: ignore[attr-defined]  # ends pools of threads, waits for others
    atexit._run_exitfuncs()
    flush_native_stderr()
    with suppress(OSError):  # what could not be written has been told
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


def exit_status_of(command: Callable[[], int]) -> int:
    """The exit status of `command()`; what it raises is told on stderr."""
    _stopped.clear()
    try:
        status = command()
        sys.stdout.flush()
        if _stopped or status == INTERRUPTED:
            return _tell_stop(_stopped[0] if _stopped else signal.SIGINT)
        return status
    except SystemExit as stop:
        if _stopped:
            return _tell_stop(_stopped[0])
        if isinstance(stop.__context__, BrokenPipeError):
            _forget_stdout()
            return errors.FINE
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or errors.FINE
        console.tell_line(str(stop.code))
        return errors.MACHINE_FAILED
    except BaseException as raised:
        if isinstance(raised, BrokenPipeError):
            _forget_stdout()
            return errors.FINE
        _show_traceback()
        if _stopped:  # libraries make other exceptions of what a signal raises
            return _tell_stop(_stopped[0])
        if type(raised).__name__ == "NoArgsIsHelpError":
            console.tell_line(str(raised))
            return errors.REQUEST_WRONG
        if isinstance(raised, KeyboardInterrupt):
            return _tell_stop(signal.SIGINT)
        error = explain(raised)
        console.tell(error)
        return error.exit_status


def explain(raised: BaseException) -> errors.EvalkitError:
    """What was raised, as an error with a code, a place and a hint."""
    if isinstance(raised, errors.EvalkitError):
        return raised
    kind = type(raised)
    library = kind.__module__.partition(".")[0]
    text = _first_line(raised)
    number = raised.errno if isinstance(raised, OSError) else None
    if number in _DISK_FULL or "No space left on device" in text:
        at = _file_of(raised)
        return errors.MachineError(
            "the disk is full", code="disk-full", at=at, hint="free some space"
        )
    if isinstance(raised, MemoryError):
        hint = "--sample 0.1 measures a tenth of the users; --memory-limit bounds a run"
        return errors.MachineError("the memory is used up", code="out-of-memory", hint=hint)
    if number in _NO_SUCH_PATH:
        reason = os.strerror(number or 0).lower()
        return errors.DataError(
            f"a path cannot be used: {reason}", code="bad-path", at=_file_of(raised)
        )
    if isinstance(raised, OSError):
        return errors.MachineError(f"the machine says: {text}", code="machine", at=_file_of(raised))
    if kind.__name__ == "PanicException":
        message = f"a file made the reader give up: {text}"
        hint = "evalkit check CONFIG names the file; is it whole?"
        return errors.DataError(message, code="unreadable-data", hint=hint)
    if library == "polars":
        message = f"the data cannot be read: {text}"
        hint = "evalkit check CONFIG lists what is wrong"
        return errors.DataError(message, code="unreadable-data", hint=hint)
    if library == "typer":
        return _usage_error(raised)
    hint = "a fault in evalkit: EVALKIT_TRACEBACK=1 shows where; please report it"
    return errors.MachineError(f"{kind.__name__}: {text}", code="internal", hint=hint)


_SETTINGS = {  # keys of a config that are looked for among options
    "--threshold": "truth.threshold=4",
    "--where": "truth.where=\"event = 'purchase'\"",
    "--baseline": "statistics.baseline=MODEL",
    "--level": "statistics.level=0.99",
    "--margin": "statistics.margin=0.002",
    "--duplicates": "policies.duplicates=best",
    "--ties": "policies.ties=item",
    "-m": "metrics.names='[\"nDCG@10\"]'",
    "--metric": "metrics.names='[\"nDCG@10\"]'",
    "--primary": "metrics.primary='[\"nDCG@10\"]'",
}


_EXAMPLES = {
    "evalkit experiment": "give --exposures PATH -m METRIC; a config is read by evalkit run CONFIG",
    "evalkit evaluate": "evalkit evaluate --truth PATH --rankings NAME=PATH -m nDCG@10",
    "evalkit init": "evalkit init --truth PATH --rankings NAME=PATH",
}


def _usage_error(raised: BaseException) -> errors.EvalkitError:
    """Typer's complaint about options and arguments in our words."""
    context = getattr(raised, "ctx", None)
    command = getattr(context, "command_path", "evalkit")
    message = str(getattr(raised, "message", "") or raised)
    kind = type(raised).__name__
    if kind == "NoSuchOption":
        name = str(getattr(raised, "option_name", ""))
        known = [
            spelling
            for option in getattr(getattr(context, "command", None), "params", ())
            for spelling in (*option.opts, *option.secondary_opts)
            if spelling.startswith("-")
        ]
        hint = errors.did_you_mean(name, [*known, "--help"], f"{command} --help lists all")
        if name in _SETTINGS and "--set" in known:
            hint = f"--set {_SETTINGS[name]}"
        return errors.RequestError(
            f"no option is called {name!r}", code="unknown-option", at=command, hint=hint
        )
    unknown = re.fullmatch(r"No such command (.*)\.", message, re.DOTALL)
    if unknown:
        from ast import literal_eval  # it stands there as repr has it

        commands = getattr(getattr(context, "command", None), "commands", {})
        name = literal_eval(unknown[1])
        hint = errors.did_you_mean(name, commands, f"{command} --help lists all")
        message = f"no command is called {name!r}"
        return errors.RequestError(message, code="unknown-command", at=command, hint=hint)
    extra = re.fullmatch(r"Got unexpected extra argument\(s\) \((.*)\)", message, re.DOTALL)
    if extra:
        message = f"{command} takes no argument {extra[1]!r}"
        hint = f"{command} --help says what it takes"
        return errors.RequestError(message, code="unknown-argument", at=command, hint=hint)
    parameter = getattr(raised, "param", None)
    hint = f"{command} --help says more"
    if parameter is not None:
        is_option = parameter.param_type_name == "option"
        name = parameter.opts[0] if is_option else parameter.metavar or parameter.name.upper()
        if kind == "MissingParameter":
            hint = _EXAMPLES.get(command, hint)
            return errors.RequestError(
                f"{name} is not given", code="missing-option", at=command, hint=hint
            )
        message = f"{name}: {_fault_of(raised.__cause__) or message.removeprefix('Value error, ')}"
    message = (message if message[:2].isupper() else message[:1].lower() + message[1:]).rstrip(".")
    return errors.RequestError(message, code="bad-option", at=command, hint=hint)


_FAULTS = {"float_parsing": "no number", "int_parsing": "no whole number"}


def _fault_of(cause: BaseException | None) -> str:
    """What pydantic found wrong with a value, in our words; nothing where there are none."""
    found = getattr(cause, "errors", None)
    each: dict[str, Any] = found()[0] if found else {"type": ""}
    if each["type"] in _FAULTS:
        return f"{each['input']!r} is {_FAULTS[each['type']]}"
    if each["type"] == "greater_than_equal":
        return f"{each['input']} is not at least {each['ctx']['ge']:g}"
    return ""


def _first_line(raised: BaseException) -> str:
    lines = [line.strip() for line in str(raised).splitlines() if line.strip()]
    text = lines[0] if lines else "no reason was given"
    return text if len(text) <= 300 else f"{text[:300]}..."


def _file_of(raised: BaseException) -> str:
    name = getattr(raised, "filename", None)
    return os.fsdecode(name) if isinstance(name, str | bytes) else ""


def _forget_stdout() -> None:
    """Nobody reads any more; keeps Python's own flush at exit from complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _show_traceback() -> None:
    if os.environ.get("EVALKIT_TRACEBACK", "0") not in ("", "0"):
        import traceback

        traceback.print_exc()


def _watch_signals() -> None:
    """End the process when its main thread does not, because it is inside native code.

    Python runs a signal's handler between two steps of the main thread. A scan or a kernel is
    one step, however long; so the signal wakes a thread that gives the main thread a moment,
    removes what is unfinished, and ends the process.
    """
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)

    def watch() -> None:
        for number in iter(lambda: os.read(wake, 1), b""):
            status, told = _STOPS.get(number[0], (0, ""))
            if not status or signal.getsignal(number[0]) is signal.SIG_IGN:
                continue
            time.sleep(GRACE_SECONDS)
            _abandon()
            console.tell_line(told)
            os._exit(status)

    threading.Thread(target=watch, name="signals", daemon=True).start()


_STOPS: dict[int, tuple[int, str]] = {
    signal.SIGTERM: (TERMINATED, "terminated"),
    signal.SIGINT: (INTERRUPTED, "interrupted"),
}


_stopped: list[int] = []  # the signals that came, in their order


def _tell_stop(signal_number: int) -> int:
    status, told = _STOPS[signal_number]
    console.tell_line(told)
    return status


def _listen(stops: Mapping[int, Callable[[int, FrameType | None], NoReturn]]) -> None:
    """Answer signals so, but for those that whoever started the process wants ignored."""
    for signal_number, stop in stops.items():
        if signal.getsignal(signal_number) is not signal.SIG_IGN:
            signal.signal(signal_number, stop)


def _stop_at_once(signal_number: int, frame: FrameType | None) -> NoReturn:
    _abandon()
    os._exit(_tell_stop(signal_number))


def _terminate(signal_number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal_number, _stop_at_once)  # a second one
    _stopped.append(signal_number)
    raise Terminated


def _interrupt(signal_number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal_number, _stop_at_once)
    _stopped.append(signal_number)
    raise KeyboardInterrupt


_STOPS_BY_RAISING: dict[int, Callable[[int, FrameType | None], NoReturn]] = {
    signal.SIGTERM: _terminate,
    signal.SIGINT: _interrupt,
}


def _end_or_show(ignored: "sys.UnraisableHookArgs") -> None:
    """End the process where Python would only print that a signal's exception was ignored."""
    if isinstance(ignored.exc_value, KeyboardInterrupt | Terminated) and _stopped:
        _stop_at_once(_stopped[0], None)
    sys.__unraisablehook__(ignored)


def _abandon() -> None:
    locks = sys.modules.get("evalkit.runs")
    if locks is not None and hasattr(locks, "abandon"):  # it may be on its way in
        locks.abandon()
