"""What evalkit says when it cannot go on: one clear error with a code, a place and a hint."""

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

DISTRIBUTION = "evalkit-recsys"  # on package indexes, where evalkit is somebody else's
FINE = 0
GATE_FAILED = 1
REQUEST_WRONG = 2
DATA_WRONG = 3
MACHINE_FAILED = 4
TRY_AGAIN = 75

NAMED_USERS = 3
PARENT = "EVALKIT_NATIVE_STDERR"  # set where a parent reads what native code writes to stderr

Step: TypeAlias = tuple[int, ...]
_Where: TypeAlias = tuple[Step, int, str, str, str]  # step, order, place, code, message

_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_PARAMETER = re.compile(r"(?<=[?&;#])(?P<name>[^=&;#\s]+)=[^&;#\s]+(?:;[^=&;#\s]*(?![^&;#\s]))*")
_SECRET = re.compile(
    r"secret|passw|passphrase|pwd|token|signature|credential|jwt|bearer|session_?id"
    r"|(?:api|account|access|auth|private|shared|subscription|functions?)_?key(?!_?id)"
    r"|(?:^|_)(?:key|sig|sas|pass|auth|authorization|authentication|oauth2?)(?:$|_(?!id$))"
    r"|^(?:auth(?:orization)?_|access_|functions?_)?code$",  # of Azure's functions, and OAuth's
)
# of a fragment without names, which a browser would not even send
_URL_WITH_FRAGMENT = re.compile(r"(https?://[^\s#]*#)[^\s=&;#'\",)]+(?![^\s'\",)])")
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def install_hint(extra: str) -> str:
    """How one of our extras is installed."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def names_secret(name: str) -> bool:
    """Whether an option or a URL's parameter of that name holds what nobody may read."""
    if "%" in name:
        from urllib.parse import unquote

        name = unquote(name)
    return bool(_SECRET.search(_WORD_ENDS.sub("_", name).lower()))


def masked(text: str) -> str:
    """`text` without the passwords and signatures that URLs in it carry."""
    if "://" not in text:
        return text
    text = _URL_WITH_FRAGMENT.sub(r"\1***", text)
    return _PARAMETER.sub(
        lambda found: f"{found['name']}=***" if names_secret(found["name"]) else found[0],
        _USER_INFO.sub("***@", text),
    )


def check_file(path: Path, at: str) -> None:
    """Refuse a file that cannot be written, before any work.

    Raises:
        RequestError: it is a folder, or in none [bad-option].
        MachineError: its folder is of a read-only file system, or of others [not-writable].
    """
    if path.is_dir() or not path.parent.is_dir():
        hint = "name a file in a folder that exists"
        raise RequestError("no file can be written there", code="bad-option", at=at, hint=hint)
    if not os.access(path.parent, os.W_OK):
        hint = "name a file in another folder, or mount this one for writing"
        raise MachineError("the folder cannot be written", code="not-writable", at=at, hint=hint)


def check_text(text: str, what: str = "the path") -> None:
    """Refuse what readers and writers cannot be given.

    Raises:
        RequestError: its bytes are no UTF-8 [not-utf-8].
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"{what} is not UTF-8"
        hint = "rename the file or folder, or make a link to it that is named in UTF-8"
        raise RequestError(message, code="not-utf-8", at=clean(text), hint=hint) from None


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that is none of this machine.

    Raises:
        RequestError: as `check_text`; it is empty, has a null byte or is a URL, of which a path
            makes a folder of that name [bad-path].
    """
    text = os.fspath(folder)
    check_text(text)
    if not text or "\0" in text or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/+[^/]", text):
        message = "this is no folder of this machine"
        hint = "name a folder; runs are written to s3://, gs:// and az://, too"
        raise RequestError(message, code="bad-path", at=clean(text), hint=hint)


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
    return clean(" ".join(masked(text).splitlines()))


class EvalkitError(Exception):
    """An error that a person can fix; printed as three lines, never as a traceback.

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
        place = {"code": self.code, "at": self.at, "hint": self.hint}
        return partial(type(self), self.message, **place), ()

    def __str__(self) -> str:
        return in_lines("error", self.code, self.message, at=self.at, hint=self.hint)


def in_lines(kind: str, code: str, message: str, *, at: str, hint: str) -> str:
    """An error or a warning in up to three lines, whatever names of the data it holds."""
    parts = [(f"{kind}[{code}]: ", message), ("  at:   ", at), ("  hint: ", hint)]
    return "\n".join(label + _on_one_line(text) for label, text in parts if text)


class ShowsWarnings(Protocol):
    """How a program shows a warning."""

    def __call__(self, code: str, message: str, *, at: str = "", hint: str = "") -> None: ...


_shows: ShowsWarnings | None = None


def show_warnings_by(shows: ShowsWarnings) -> None:
    """From here on `warn` tells this; by default it is the logger `evalkit` of Python's logging."""
    global _shows
    _shows = shows


def warn(code: str, message: str, *, at: str = "", hint: str = "") -> None:
    """Tell of something that the work goes on without."""
    if _shows is not None:
        _shows(code, message, at=at, hint=hint)
        return
    from logging import getLogger

    getLogger("evalkit").warning("%s", in_lines("warning", code, message, at=at, hint=hint))


def tell_parent(reads: str) -> None:
    """Tell the parent of an isolated job what is read from here on: it may end this process."""
    if PARENT in os.environ:
        with suppress(OSError):
            os.write(2, f"evalkit reads {reads!a}\n".encode())


class RequestError(EvalkitError):
    """The request is wrong, seen without looking at data: option, key, metric, cutoff."""

    exit_status = REQUEST_WRONG


class DataError(EvalkitError):
    """A path, column, type or the content of the data is wrong."""

    exit_status = DATA_WRONG


class CountedError(DataError):
    """So many cases of one problem; what shares of the users find of it adds up.

    Args:
        message: `{n}` in it is the number of cases.
        n: how many there are.
        at: the place; users are named behind it.
        users: ids of users with a case; the smallest three are named.
        unless: not told beside an error of this code at the same place, which says more.
    """

    def __init__(
        self,
        message: str,
        n: int,
        *,
        code: str,
        at: str,
        hint: str = "",
        users: Iterable[tuple[Any, ...]] = (),
        unless: str = "",
    ) -> None:
        self.template, self.n, self.place, self.unless = message, n, at, unless
        self.users = tuple(sorted(users)[:NAMED_USERS])
        names = ", ".join("user " + " / ".join(map(str, user)) for user in self.users)
        told = message.replace("{n}", f"{n:,}", 1)
        super().__init__(told, code=code, at=f"{at}: {names}" if names else at, hint=hint)

    @property
    def _alike(self) -> "partial[CountedError]":
        """Makes an error of another number of cases of the same problem."""
        place: dict[str, Any] = {"code": self.code, "at": self.place, "hint": self.hint}
        return partial(type(self), self.template, unless=self.unless, **place)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(self._alike, users=self.users), (self.n,)

    def joined(self, other: "CountedError") -> "CountedError":
        """The cases of both."""
        return self._alike(self.n + other.n, users=(*self.users, *other.users))


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


def note(error: EvalkitError, problems: list[EvalkitError]) -> None:
    """Keep an error to be told together with others.

    Raises:
        BusyError: the error itself; where a store does not answer, asking it for more is waiting.
    """
    if isinstance(error, BusyError):
        raise error
    problems.append(error)


@contextmanager
def noting(errors: list[EvalkitError]) -> Iterator[None]:
    """Goes on behind what fails inside, which is noted as `note` does."""
    try:
        yield
    except EvalkitError as error:
        note(error, errors)


def raise_all(errors: Sequence[EvalkitError]) -> None:
    """Raise nothing, the one error, or all of them together."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise Errors(errors)


class FaultyShareError(Exception):
    """A share of the users has a fault, or nothing behind the fault of another one counts."""


class Faults:
    """What is wrong over all shares of the users, told as if there were one share.

    One share ends at the first step that fails. So of several shares the earliest step counts:
    each goes as far as that, and what they find there adds up.

    Args:
        stop_step: the earliest step that failed for shares before; steps behind it need no look.
    """

    def __init__(self, stop_step: Step | None = None) -> None:
        self._stop_step = stop_step
        self._found: dict[_Where, EvalkitError] = {}
        self._alike: set[_Where] = set()  # found by every share, so that they do not add up

    @classmethod
    def of(cls, error: EvalkitError) -> "Faults":
        """What ended a share."""
        faults = cls()
        faults.note(error, ())
        return faults

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def first(self) -> Step | None:
        """The earliest step that failed, of this share or of one before; None of none."""
        steps = [step for step, *_ in self._found]
        return min(steps if self._stop_step is None else [*steps, self._stop_step], default=None)

    @contextmanager
    def step(self, *step: int, codes: Sequence[str] = (), adds_up: bool = True) -> Iterator[None]:
        """A step of a share, which ends where it fails.

        Args:
            codes: of errors in the order in which the step looks for them; it tells the first.
            adds_up: shares find cases of their own; otherwise all find the same.
        Raises:
            FaultyShareError: it failed, or another share did before this step.
        """
        if self.first is not None and step > self.first:
            raise FaultyShareError
        try:
            yield
        except EvalkitError as error:
            place = codes.index(error.code) if error.code in codes else -1
            self.note(error, (*step, place), adds_up=adds_up)
            raise FaultyShareError from error

    def note(
        self, error: EvalkitError, step: Step, order: int = 0, *, adds_up: bool = True
    ) -> None:
        """Remember what a step found; it may find several things, in an order.

        Of anything not counted, what is noted last is told.
        """
        for problem in error.errors if isinstance(error, Errors) else (error,):
            message = problem.template if isinstance(problem, CountedError) else ""
            where = (step, order, _place_of(problem), problem.code, message)
            self._found[where] = _joined(self._found.get(where), problem) if adds_up else problem
            self._alike |= set() if adds_up else {where}

    def state(self) -> "list[_Kept]":
        """What was found, as a file keeps it."""
        return [_Kept.of(where, error, where in self._alike) for where, error in self._all()]

    @classmethod
    def of_state(cls, state: "list[_Kept]") -> "Faults":
        """What was found, read back from a file."""
        faults = cls()
        for fault in state:
            faults._found[fault.where] = fault.error()
            faults._alike |= {fault.where} if fault.is_alike else set()
        return faults

    def _all(self) -> "list[tuple[_Where, EvalkitError]]":
        return sorted(self._found.items(), key=lambda item: item[0])

    def merge(self, other: "Faults") -> None:
        """Take over what other shares found, whose cases add up."""
        self._alike |= other._alike
        for where, error in other._found.items():
            known = self._found.get(where)
            if where not in self._alike and isinstance(error, CountedError):
                error = _joined(known, error)
            elif known is not None:
                error = max(known, error, key=str)  # the same whatever the order
            self._found[where] = error

    def tell(self) -> None:
        """Raise what the earliest step that failed found, if any did.

        Raises:
            EvalkitError: all of it at once, in an order that no order of shares changes.
        """
        if not self._found:
            return
        told = [(where, error) for where, error in self._all() if where[0] == self.first]
        places = {where[1:4] for where, _ in told}
        raise_all(
            [
                each
                for (_, order, place, *_), each in told
                if not isinstance(each, CountedError) or (order, place, each.unless) not in places
            ]
        )


class _Kept(NamedTuple):
    """An error as a file keeps it."""

    where: _Where
    is_alike: bool
    exit_status: int
    message: str
    at: str
    hint: str
    n: int | None  # of a counted error
    users: tuple[tuple[int | str | bytes | date | datetime, ...], ...]
    unless: str

    @classmethod
    def of(cls, where: _Where, error: EvalkitError, is_alike: bool) -> "_Kept":
        status, hint = error.exit_status, error.hint
        if isinstance(error, CountedError):
            place, n, users = error.place, error.n, error.users
            return cls(where, is_alike, status, error.template, place, hint, n, users, error.unless)
        return cls(where, is_alike, status, error.message, error.at, hint, None, (), "")

    def error(self) -> EvalkitError:
        place: dict[str, Any] = {"code": self.where[3], "at": self.at, "hint": self.hint}
        if self.n is not None:
            return CountedError(self.message, self.n, **place, users=self.users, unless=self.unless)
        kinds = {each.exit_status: each for each in (RequestError, MachineError, BusyError)}
        return kinds.get(self.exit_status, DataError)(self.message, **place)


def _joined(known: EvalkitError | None, error: EvalkitError) -> EvalkitError:
    """What is told of both: cases add up, and of anything else the last is told."""
    if isinstance(known, CountedError) and isinstance(error, CountedError):
        return known.joined(error)
    return error


def _place_of(error: EvalkitError) -> str:
    return error.place if isinstance(error, CountedError) else error.at


def edits(one: str, other: str) -> int:
    """How many letters to add, drop, change or exchange with the next one lead to the other.

    Source: Damerau 1964, A Technique for Computer Detection and Correction of Spelling Errors,
    Communications of the ACM 7(3), pp. 171-176.
    """
    before, last = list(range(len(other) + 1)), list[int]()
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, other_letter in enumerate(other, 1):
            least = min(
                before[column] + 1, here[-1] + 1, before[column - 1] + (letter != other_letter)
            )
            swapped = (
                row > 1
                and column > 1
                and letter == other[column - 2]
                and other_letter == one[row - 2]
            )
            here.append(min(least, last[column - 2] + 1) if swapped else least)
        before, last = here, before
    return before[-1]


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known spelling closest to `name`, without regard to case; None when none is close."""
    spellings = {each.lower(): each for each in sorted(known)}
    close = get_close_matches(str(name).lower(), list(spellings), n=1)
    return spellings[close[0]] if close else None


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """The hint that names the known spelling closest to `name`, or else `otherwise`."""
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else otherwise
