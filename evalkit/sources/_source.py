"""What a table is read from: files, or a frame."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from evalkit.errors import DataError
from evalkit.sources.arrow import LONG_NAME, MOST_NAME
from evalkit.sources.delimited import Use
from evalkit.sources.failures import mapped
from evalkit.sources.guess import Guessing
from evalkit.sources.memory import Named, Shape, describe_given, open_given
from evalkit.sources.paths import File, find_files
from evalkit.sources.scan import FileScan, open_files
from evalkit.sources.times import times_in_utc
from evalkit.sources.trec import Kind
from evalkit.sources.versions import Version


class Located(Protocol):
    @property
    def path(self) -> tuple[str, ...]: ...
    @property
    def format(self) -> str | None: ...
    @property
    def header(self) -> bool | None: ...
    @property
    def files(self) -> str | None: ...
    @property
    def where(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Bare:
    path: tuple[str, ...]
    format: str | None
    header: bool | None = None
    files: str | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """What a table is read from: files, or a frame."""

    at: str
    names: tuple[str, ...]
    scan: FileScan | None
    given: pl.LazyFrame | None
    n_rows: int | None
    paths: tuple[str, ...]
    version: Version | None = None
    shape: Shape = (None, None)
    left_out: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[File, ...]:
        return self.scan.files if self.scan is not None else ()

    @property
    def seems(self) -> str:
        """The format of a file that only its content tells; empty where the name does."""
        return next((file.format for file in self.files if file.seems), "")

    @property
    def is_trec(self) -> bool:
        return bool(self.files) and all(file.format == "trec" for file in self.files)

    def schema(self) -> dict[str, pl.DataType]:
        """Names and types of all columns; those of CSV files are text."""
        if self.scan is not None:
            return self.scan.schema
        with mapped(self.at, lambda error: None):
            return dict(self.frame({}).collect_schema())

    def having(self, name: str) -> "Source":
        """The files that have a column."""
        return self if self.scan is None else replace(self, scan=self.scan.having(name))

    def frame(self, uses: Mapping[str, Use]) -> pl.LazyFrame:
        if self.scan is not None:
            return self.scan.frame(uses)
        assert self.given is not None
        return self.given


def open_source(
    role: str, table: Located, given: object | None, guessing: Guessing, *, kind: Kind
) -> Source:
    paths = table.path
    if isinstance(given, (str, os.PathLike)):
        given = [given]
    if isinstance(given, (list, tuple)) and all(
        isinstance(each, (str, os.PathLike)) for each in given
    ):
        paths, given = tuple(os.fspath(each) for each in given), None
    if given is None:
        files, left_out = find_files(
            paths,
            table.format,
            role=role,
            kind=kind,
            guessing=guessing if guessing.section else replace(guessing, section=role),
            as_they_are=table.files is not None,
        )
        headed = [replace(file, header=table.header) for file in files]
        scan = open_files(headed, kind, _say_header(guessing, role))
        at = _spell_paths(paths)
        _check_names(scan.names, at)
        return Source(at, scan.names, scan, None, None, paths, left_out=left_out)
    frame, n_rows = open_given(given, role)
    at = describe_given(given, role)
    with mapped(at, lambda error: None):
        frame = times_in_utc(frame)
        names = tuple(frame.collect_schema().names())
    _check_names(names, at)
    own = (given.paths, given.version, given.shape) if isinstance(given, Named) else ((), None)
    return Source(at, names, None, frame, n_rows, *own)


_ALSO = {"truth": "relevance", "log": "label", "split": "time", "ratings": "rating"}


def _say_header(guessing: Guessing, role: str) -> str:
    """How it is said at the entry point where somebody asks that a first line is a row."""
    if guessing.entry_point == "python":
        return "pass a frame, as pl.read_csv(path, has_header=False); its columns have names"
    section = guessing.section or role
    also = _ALSO.get(role, "rank or score" if role == "rankings" else "")
    also = f", and so on, {also} too where one column is it" if also else ""
    if guessing.entry_point == "file":
        return (
            f"write header = false under [{section}], and say which columns are which, as user = "
            f'"column_1", item = "column_2"{also}; header = true where it does name them'
        )
    settings = ["header=false", "columns.user=column_1", "columns.item=column_2"]
    written = (f"--set '{section}.{setting}'" for setting in settings)
    return (
        f"say which columns are which, as {' '.join(written)}{also}; header=true where it does "
        "name them"
    )


def _check_names(names: Sequence[str], at: str) -> None:
    """Refuse names that nobody gave, which would be looked for and told everywhere.

    Raises:
        DataError: a name is too long [unreadable-file].
    """
    for name in names:
        if len(name.encode(errors="surrogateescape")) > MOST_NAME:
            raise DataError(
                LONG_NAME,
                code="unreadable-file",
                at=f"{at}: {name[:40]}...",
                hint="write the table again with a shorter name",
            )


def _spell_paths(paths: Sequence[str]) -> str:
    more = f", ... ({len(paths)} paths)" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


def versioned(source: Source) -> tuple[str, ...]:
    """The paths as given; those of tables with the version that is read."""
    if source.version is not None:
        format, _, _ = source.version.identity.partition(" ")
        return tuple(f"{path} ({format} version {source.version.number})" for path in source.paths)
    if not any(file.version for file in source.files):
        return source.paths
    return tuple(
        f"{file.path} ({file.format} version {file.version.number})" if file.version else file.path
        for file in source.files
    )
