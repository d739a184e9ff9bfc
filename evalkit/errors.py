"""What evalkit says when it cannot go on: one clear error with a code, a place and a hint."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

FINE = 0
GATE_FAILED = 1
REQUEST_WRONG = 2
DATA_WRONG = 3
MACHINE_FAILED = 4
TRY_AGAIN = 75


_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY = re.compile(
    r"(?i)([?&](?:[^=&\s]*(?:signature|credential|token|secret|password)[^=&\s]*|sig|key)=)[^&\s]+"
)


def masked(text: str) -> str:
    """`text` without the passwords and signatures that URLs in it carry."""
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1***", _USER_INFO.sub("***@", text))


def clean(text: str) -> str:
    """`text` on one line without control, format or unassigned characters; these become U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if _is_control(each) else each for each in text)


def _is_control(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "C" or category in ("Zl", "Zp")


def _on_one_line(text: str) -> str:
    """`text` as a terminal or a log may show it: names of the data stand in it as they are."""
    return clean(" ".join(text.splitlines()))


class EvalkitError(Exception):
    """A problem that a person can mend; printed as three lines, never as a traceback.

    Args:
        message: what is wrong with which value; lower case, no full stop.
        code: kebab-case, never changes; tests and scripts match it.
        at: where it stands, such as `config.toml:14: metrics.names[2]`.
        hint: what to do next; can be pasted where that makes sense.
    """

    exit_status = DATA_WRONG

    def __init__(self, message: str, *, code: str, at: str = "", hint: str = "") -> None:
        super().__init__(masked(message))
        self.message = masked(message)
        self.code = code
        self.at = masked(at)
        self.hint = masked(hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.code, self.at, self.hint)

    def __str__(self) -> str:
        return in_lines("error", self.code, self.message, at=self.at, hint=self.hint)


def in_lines(kind: str, code: str, message: str, *, at: str, hint: str) -> str:
    """An error or a warning in up to three lines, whatever names of the data it holds."""
    parts = [(f"{kind}[{code}]: ", message), ("  at:   ", at), ("  hint: ", hint)]
    return "\n".join(label + _on_one_line(text) for label, text in parts if text)


def _rebuild(kind: type[EvalkitError], message: str, code: str, at: str, hint: str) -> EvalkitError:
    return kind(message, code=code, at=at, hint=hint)


class RequestError(EvalkitError):
    """The request is wrong, seen without looking at data: option, key, metric, cutoff."""

    exit_status = REQUEST_WRONG


class DataError(EvalkitError):
    """A path, column, type or the content of the data is wrong."""

    exit_status = DATA_WRONG


class MachineError(EvalkitError):
    """Disk, memory or a crash: the same request may work elsewhere."""

    exit_status = MACHINE_FAILED


class BusyError(EvalkitError):
    """Somebody else holds what this needs; the same request works later."""

    exit_status = TRY_AGAIN


class Errors(EvalkitError):
    """Several problems reported at once, in the order they were found."""

    def __init__(self, errors: Sequence[EvalkitError]) -> None:
        first = errors[0]
        super().__init__(first.message, code=first.code, at=first.at, hint=first.hint)
        self.errors: tuple[EvalkitError, ...] = tuple(
            each
            for error in errors
            for each in (error.errors if isinstance(error, Errors) else (error,))
        )
        self.exit_status = min(error.exit_status for error in errors)

    def __reduce__(self) -> tuple[object, ...]:
        return Errors, (self.errors,)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def raise_all(errors: Sequence[EvalkitError]) -> None:
    """Raise nothing, the one error, or all of them together."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise Errors(errors)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known spelling closest to `name`, without regard to case; None when none is close."""
    spellings = {each.lower(): each for each in sorted(known)}
    close = get_close_matches(name.lower(), list(spellings), n=1)
    return spellings[close[0]] if close else None
