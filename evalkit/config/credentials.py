"""Options of object stores: secrets stand in the environment, and the config names them."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from evalkit.errors import RequestError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NUMBERS: Mapping[str, type[int] | type[float]] = {
    "max_retries": int,
    "retry_timeout_ms": int,
    "retry_init_backoff_ms": int,
    "retry_max_backoff_ms": int,
    "retry_base_multiplier": float,
    "file_cache_ttl": int,
}
# Polars waits for ever for a store that falls silent in the middle of an answer. A time for the
# whole of an answer has to suit slow lines, one for the next byte has not; but with the latter
# Polars takes it that keys are given, and looks for none (in profiles, or the machine's role).
_SILENT = {"read_timeout": "15s"}
_SLOW = {"timeout": "300s"}
_TIMES = ("timeout", "read_timeout")
_options: ContextVar[Mapping[str, str] | None] = ContextVar("storage_options", default=None)


def is_reference(value: str) -> bool:
    """Whether the value is `${NAME}` and nothing else."""
    return bool(_REFERENCE.fullmatch(value))


def expand(options: Mapping[str, str]) -> dict[str, str]:
    """The options with every `${NAME}` filled in from the environment.

    Raises:
        RequestError: such a variable is not set [missing-variable].
    """

    def value_of(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            message = f"the environment has no {found[1]}"
            hint = f"export {found[1]}=... before evalkit starts"
            raise RequestError(message, code="missing-variable", at="[storage]", hint=hint)
        return value

    return {key: _REFERENCE.sub(value_of, value) for key, value in options.items()}


@contextmanager
def storing(options: Mapping[str, str]) -> Iterator[None]:
    """Logs that are opened inside are read with these options."""
    token = _options.set(expand(options) or None)
    try:
        yield
    finally:
        _options.reset(token)


def reader_options(url: str) -> dict[str, str | int | float]:
    """What Polars' scan of a remote file takes as `storage_options`: of these, some are numbers.

    Every wait for a store has an end: Polars tries again for half a minute, twice.

    Raises:
        RequestError: such an option is no number [bad-value].
    """
    given = {key: _read(key, text) for key, text in (current_options() or {}).items()}
    if url.startswith("hf://") or any(key in given for key in _TIMES):  # hf:// takes no times
        return given
    return {**(_SILENT if any(key.lower().endswith("_key") for key in given) else _SLOW), **given}


def _read(key: str, text: str) -> str | int | float:
    if key not in _NUMBERS:
        return text
    try:
        number = _NUMBERS[key](text)
    except ValueError:
        number = -1
    if 0 <= number < 2**32:
        return number
    message = f"{key} is {text!r}, not a number from 0"
    hint = f'such as {key} = "2"'
    raise RequestError(message, code="bad-value", at="[storage]", hint=hint)


def store_options(options: Mapping[str, str]) -> tuple[dict[str, str], int, int]:
    """What a store of runs takes of these, how often it is asked again, and how long, in ms.

    Other options of retries, caches and times are of logs, which another library reads.

    Raises:
        RequestError: as `expand` and `reader_options`.
    """
    given = expand(options)
    retries = int(_read("max_retries", given.get("max_retries", "3")))
    for_ms = int(_read("retry_timeout_ms", given.get("retry_timeout_ms", "30000")))
    of_logs = (*_NUMBERS, *_TIMES)
    return {key: each for key, each in given.items() if key not in of_logs}, retries, for_ms


def current_options() -> dict[str, str] | None:
    """What `scan_parquet` and the like take as `storage_options`."""
    options = _options.get()
    return None if options is None else dict(options)
