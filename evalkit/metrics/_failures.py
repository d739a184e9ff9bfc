"""What goes wrong inside of a user's own metric, by its file and line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import EvalkitError, RequestError

_PACKAGE = f"{Path(__file__).parents[1]}/"


def is_ours(function: Callable[..., Any]) -> bool:
    """Whether evalkit brings what a declaration stands above."""
    return function.__code__.co_filename.startswith(_PACKAGE)


@contextmanager
def naming_place(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Here a metric is measured; what a user's own one raises names its file and line.

    Raises:
        RequestError: it does not compile, or raises something itself [own-metric-fails].
    """
    try:
        yield
    except EvalkitError:
        raise
    except Exception as error:
        if is_ours(function):
            raise
        raise RequestError(
            f"the metric {name!r} fails: {type(error).__name__}: {_told(error)}",
            code="own-metric-fails",
            at=_place_of(error, function),
            hint="docs/adding-a-metric.md says what a metric is given",
        ) from error


def _told(error: Exception) -> str:
    """The sentence of an error; numba says first in which of its steps."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), "")[:200]


def _place_of(error: Exception, function: Callable[..., Any]) -> str:
    import traceback

    code = function.__code__
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == code.co_filename]
    compiled = getattr(getattr(error, "loc", None), "line", None)
    return f"{code.co_filename}:{compiled or (lines or [code.co_firstlineno])[-1]}"
