"""A partial in memory, and many of them in files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl

from evalkit.aggregate.sums import Merges
from evalkit.config import Config
from evalkit.errors import DataError, EvalkitError, RequestError, noting, raise_all
from evalkit.planning.partials._container import pieces_of_file, read_body, read_header, write_file
from evalkit.planning.partials._header import MOST_NAMED, Header, check_headers

MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


Body = TypeVar("Body", bound=Merges)  # what a kind keeps of a share: typed fields, for the codec


@dataclass(slots=True)
class Partial(Generic[Body]):
    """What shares of the users leave behind.

    Args:
        header: what they were made of.
        body: the sums of their kind.
    """

    header: Header
    body: Body

    def merge(self, other: "Partial[Body]") -> None:
        """Take over another's shares.

        Raises:
            DataError: it was made of something else [foreign-partial], or holds a share that is
                here already [repeated-share].
        """
        named = [("one partial", self.header), ("another one", other.header)]
        self.header = check_headers(named, allow_missing=True)
        self.body.merge(other.body)

    def write(self, path: Path) -> None:
        """Write a file that is whole or not there.

        Raises:
            MachineError: the disk is full, or cannot be written.
        """
        write_file(path, self.header, self.body)

    def to_bytes(self) -> bytes:
        """What a file of it holds."""
        return b"".join(pieces_of_file(self.header, self.body))


@dataclass(frozen=True, slots=True)
class PartialFiles:
    """Files whose headers fit together; their sums are read one after the other.

    Args:
        header: of all of them together.
        digests: the checksum of each file.
    """

    header: Header
    digests: dict[Path, bytes]

    def at_level(self, config: Config) -> "PartialFiles":
        """The same, to be concluded at the level of another config."""
        asked = {"statistics": config.statistics}
        own = self.header.config.model_copy(update=asked)
        return replace(self, header=replace(self.header, config=own))

    def merged(self, kind: type[Body]) -> "Partial[Body]":
        """All files as one partial, two of them in memory at a time.

        Raises:
            DataError: a file is damaged, or was changed since its header was read.
        """
        whole: Any = None
        for path, digest in self.digests.items():
            body = read_body(path, kind, digest)
            if whole is None:
                whole = body
            else:
                whole.merge(body)
        return Partial(self.header, whole)


@contextmanager
def fitting(partials: PartialFiles | Partial[Any]) -> Iterator[None]:
    """Here headers are read and sums put together, which a file may hold and nothing measured.

    Raises:
        DataError: those of files do not fit together [damaged-partial].
    """
    try:
        yield
    except (*MISFITS, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if isinstance(partials, Partial):
            raise
        raise DataError(
            f"what partials say does not fit together: {type(error).__name__}: {error}",
            code="damaged-partial",
            at=", ".join(map(str, [*partials.digests][:MOST_NAMED])),
            hint="write them again: evalkit partial CONFIG --share I/N --out FILE",
        ) from error


def open_partials(paths: Sequence[Path], *, allow_missing: bool = False) -> PartialFiles:
    """The headers of files, in an order that the order of their names does not change.

    Raises:
        RequestError: there is no file [nothing-to-merge].
        DataError: a file is no partial, damaged, or of another work; a share stands twice, or is
            missing; all of it at once.
    """
    if not paths:
        hint = "evalkit merge FILES... --out runs"
        raise RequestError("there is no partial to merge", code="nothing-to-merge", hint=hint)
    problems: list[EvalkitError] = []
    headers: list[tuple[str, Header]] = []
    found: list[tuple[Header, Path, bytes]] = []
    for path in paths:
        with noting(problems):
            header, digest = read_header(path, Header)
            headers.append((str(path), header))
            found.append((header, path, digest))
    with noting(problems):
        if headers:
            whole = check_headers(headers, allow_missing=allow_missing or bool(problems))
    raise_all(problems)
    found.sort(key=lambda each: each[0].shares)
    return PartialFiles(whole, {path: digest for _, path, digest in found})
