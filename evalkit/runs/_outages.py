"""What it means when a store refuses, fails or does not answer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from evalkit.errors import BusyError, EvalkitError, MachineError


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    try:
        yield
    except EvalkitError:
        raise
    except (ConnectionError, TimeoutError) as error:
        raise _unreachable(url, error) from error
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in (
            "obstore",
            "builtins",
        ):
            raise
        kind = type(error).__name__
        if kind in ("PermissionDeniedError", "UnauthenticatedError", "PermissionError"):
            message = f"the store refuses: {first_line(error)}"
            hint = "the credentials may not write there"
            raise MachineError(message, code="store-refused", at=url, hint=hint) from error
        if kind == "GenericError":
            raise _unreachable(url, error) from error
        raise MachineError(
            f"the store failed: {first_line(error)}", code="store-failed", at=url, hint="try again"
        ) from error


def _unreachable(url: str, error: BaseException) -> BusyError:
    message = f"the store does not answer: {first_line(error)}"
    return BusyError(message, code="store-unreachable", at=url, hint="try again later")


def first_line(error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    # What follows may repeat the request, signature and all.
    return re.split(r"[?&]X-Amz|, response|\{", text)[0][:200]
