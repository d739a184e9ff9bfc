"""What goes wrong while data is read, told as one `DataError` that names the file."""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import polars as pl

from evalkit.errors import BusyError, DataError, EvalkitError, MachineError, tell_parent
from evalkit.sources.shell import quoted, writing

PanicException = pl.exceptions.PanicException  # derives from BaseException
READ_FAULTS: tuple[type[BaseException], ...] = (
    pl.exceptions.PolarsError,
    PanicException,
    OSError,
    UnicodeDecodeError,
)
_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}
_NUMBER = r"\(os error (\d+)\)"  # of an error of the system, in the words of Polars
# Patterns are texts: those of faults need not be compiled by a run that meets none.
_MEMORY = r"(?i)out of memory|cannot allocate memory|memory allocation|Unable to alloc"
_ENCODING = r"(?i)invalid utf-?8"
_TWICE = r"column.* (?:has more than one occurrence|appears more than once)"
_CONVERSION = (
    r"(?s)conversion from `?(?P<source>[^`]+?)`? to `?(?P<target>[^`]+?)`? failed in column '.*?' "
    r"for \d+ out of \d+ values?: (?P<values>\[.*?\])"
)


def first_line(error: BaseException, *, limit: int = 200) -> str:
    """The first line of what the reader said, without the query plan that follows it."""
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0].strip().rstrip(".")
    return line if len(line) <= limit else line[: limit - 3] + "..."


_OUTAGE = (
    r"(?i)object-store error: Generic \S+ error|error sending request|error decoding response body"
    r"|connection (?:refused|reset|closed|aborted)|broken pipe|timed out|dns error|retry_timeout"
)
_ASKS_THE_MACHINE = (  # for credentials, as nothing else names any
    r"169\.254\.169\.254|metadata\.google\.internal|/latest/api/token|/latest/meta-data"
)
_OF_THE_REQUEST = (
    rf"{_ASKS_THE_MACHINE}|builder error|Generic Config error|"
    r"status code: (?:3\d\d|4(?!08|29)\d\d)|Client error with status 4|redirect without LOCATION"
)
_STORE_SAYS = (  # what its words mean, with the code and the hint
    (
        _ASKS_THE_MACHINE,
        "there are no credentials for the store",
        "unreadable-file",
        "name them in the environment, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a "
        "public bucket AWS_SKIP_SIGNATURE=true",
    ),
    (
        r"InvalidUri|relative URL without a base|builder error",
        "the address of the store is none",
        "unreadable-file",
        'write it whole: aws_endpoint_url = "https://host:9000" under [storage]; http:// needs '
        'aws_allow_http = "true"',
    ),
    (
        "Generic Config error",
        "an option of the store is none",
        "unreadable-file",
        'look at [storage]: times are written read_timeout = "15s", switches "true" or "false"',
    ),
    (
        r"lacked (?:the necessary privileges|valid authentication)|status code: 40[13]",
        "the store does not let it be read",
        "unreadable-file",
        "give the credentials that the environment or the config names the right to read it",
    ),
    (
        r"redirect without LOCATION|status code: 30[17]",
        "the bucket is elsewhere",
        "unreadable-file",
        'write its region: aws_region = "eu-central-1" under [storage]',
    ),
    (
        r"Object at location .* not found|status code: 404|expanded paths were empty",
        "the store has nothing there",
        "path-not-found",
        "look for misspellings in the bucket and the path",
    ),
    (
        r"status code: 4\d\d",
        "the store does not take the request",
        "unreadable-file",
        "look at the bucket, the path and the options of the store",
    ),
)


def is_outage(error: BaseException) -> bool:
    """Whether a store does not answer, or not now: the same request may be fine later."""
    text = str(error)
    if isinstance(error, (ConnectionError, TimeoutError)):
        return not re.search(_ASKS_THE_MACHINE, text)
    # What a store says of the request itself (401, 301 to another region) stays as it is.
    return "://" in text and bool(re.search(_OUTAGE, text)) and not re.search(_OF_THE_REQUEST, text)


def describe(error: BaseException, at: str) -> EvalkitError:
    """What a fault of the reader means to a person."""
    if is_outage(error):
        message = f"the store does not answer: {first_line(error)}"
        return BusyError(message, code="store-unreachable", at=at, hint="try again later")
    said = _of_store(error, at)
    if said is not None:
        return said
    if re.search(_MEMORY, str(error)):
        message = f"the memory is used up: {first_line(error)}"
        hint = "--sample 0.1 measures a tenth of the users; --memory-limit bounds a run"
        return MachineError(message, code="out-of-memory", at=at, hint=hint)
    number = re.search(_NUMBER, str(error))
    if (int(number[1]) if number else getattr(error, "errno", None)) in _MACHINE:
        message = f"the machine gave up: {first_line(error)}"
        hint = "make room on the disk, or allow more open files (ulimit -n)"
        return MachineError(message, code="machine-limit", at=at, hint=hint)
    if isinstance(error, FileNotFoundError):
        message = "the file is gone since the run began" if at else first_line(error)
        hint = "run again when nothing writes there"
        return DataError(message, code="path-not-found", at=at, hint=hint)
    if isinstance(error, PermissionError):
        message = f"the file cannot be opened: {first_line(error)}"
        hint = "give this user the right to read it"
        return DataError(message, code="unreadable-file", at=at, hint=hint)
    conversion = re.search(_CONVERSION, str(error))
    if conversion is not None:
        return DataError(
            f"{conversion['values']} cannot be cast from {conversion['source']} to "
            f"{conversion['target']}",
            code="bad-cast",
            at=at,
            hint="leave such rows out with where, or write try_cast(...), which gives null",
        )
    if re.search(_ENCODING, str(error)):
        message = f"the text is not UTF-8: {first_line(error)}"
        utf8 = quoted(f"utf8-{at.rpartition('/')[2]}")
        hint = f"is it Latin-1? iconv -f LATIN1 -t UTF-8 {quoted(at)} > {utf8}"
        return DataError(message, code="unreadable-file", at=at, hint=hint)
    if re.search(_TWICE, str(error)):
        message = f"two columns have one name: {first_line(error)}"
        hint = "give every column a name of its own"
        return DataError(message, code="duplicate-column", at=at, hint=hint)
    message = f"the data cannot be read: {first_line(error)}"
    hint = "the file is damaged, cut short or of another format; write it again"
    if "CSV malformed" in message:
        plain = writing("tr -d '\"' < FILE", at, ".csv")
        hint += f"; where fields hold quotes that quote nothing: {plain}"
    return DataError(message, code="unreadable-file", at=at, hint=hint)


def _of_store(error: BaseException, at: str) -> DataError | None:
    """What a store that does answer says of the request, if that is what went wrong."""
    text = str(error)
    if "://" not in text + at:
        return None
    for words, message, code, hint in _STORE_SAYS:
        if re.search(words, text):
            return DataError(f"{message}: {first_line(error)}", code=code, at=at, hint=hint)
    return None


@contextmanager
def mapped(at: str, diagnose: Callable[[BaseException], EvalkitError | None]) -> Iterator[None]:
    """Faults of the reader inside become evalkit's errors; `diagnose` may know better."""
    tell_parent(at)
    try:
        yield
    except READ_FAULTS as error:
        raise (diagnose(error) or describe(error, at)) from error
