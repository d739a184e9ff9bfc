"""From what a config calls a path to the files that it means."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from evalkit.config import is_in_catalog
from evalkit.errors import (
    DataError,
    EvalkitError,
    RequestError,
    check_text,
    did_you_mean,
    nearest,
    raise_all,
)
from evalkit.sources import versions
from evalkit.sources.failures import describe
from evalkit.sources.folders import WILD, matching, visible, walk
from evalkit.sources.guess import Guessing, some_names
from evalkit.sources.heads import MARKS, OF_PROGRAMS, PACKED, format_by_head, head_of
from evalkit.sources.shell import quoted
from evalkit.sources.trec import Kind, kind_of_lines

FORMATS: Mapping[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq", ".parq"),
    "ipc": (".arrow", ".feather", ".ipc"),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "ndjson": (".ndjson", ".jsonl"),
    "delta": (),  # these two by what lies in their folder
    "iceberg": (),
    "trec": (".trec", ".qrels", ".qrel", ".run"),
}
_SYNONYMS = {"arrow": "ipc", "feather": "ipc", "jsonl": "ndjson", "pq": "parquet"}
METADATA = ".metadata.json"  # of Iceberg
_COMPRESSED = (".gz", ".zst")
_MAY_BE_COMPRESSED = ("csv", "tsv", "ndjson", "trec")
MOST_MISSING = 3  # paths that are named one by one
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_STORES = "s3 s3a gs gcs az azure adl abfs abfss http https hf".split()
_OTHERS = ", ".join(f'"{name}"' for name in FORMATS if name != "parquet")
_EXPLICIT = f'write format = "parquet" (or {_OTHERS})'


@dataclass(frozen=True, slots=True)
class File:
    """One file or URL, its format, and the partition values that its path holds."""

    path: str
    format: str
    partitions: tuple[tuple[str, str | None], ...] = ()
    remote: bool = False
    version: versions.Version | None = None  # of a Delta or Iceberg table, whose files Polars finds
    seems: bool = False  # its lines told the format, and its name did not
    header: bool | None = None  # whether the first line names columns; None: nobody said it

    @property
    def is_plain_text(self) -> bool:
        """Whether it holds lines as they are, not compressed."""
        return self.format in _MAY_BE_COMPRESSED and not self.path.lower().endswith(_COMPRESSED)


@dataclass(slots=True)
class _Found:
    kind: Kind
    guessing: Guessing
    as_they_are: bool = False
    left_out: list[str] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    errors: list[EvalkitError] = field(default_factory=list)


def known_format(name: str, *, at: str) -> str:
    """One of `FORMATS`; other spellings of it are read.

    Raises:
        DataError: no format is called so [unknown-format].
    """
    lower = name.lower().lstrip(".")
    found = _SYNONYMS.get(lower, lower)
    if found in FORMATS:
        return found
    hint = did_you_mean(lower, FORMATS, f"one of {', '.join(FORMATS)}")
    raise DataError(f"no format is called {name!r}", code="unknown-format", at=at, hint=hint)


def format_of(path: str) -> str | None:
    """The format that a file name tells; None when it tells none."""
    name = os.path.basename(path).lower()
    compressed = name.endswith(_COMPRESSED)
    if compressed:
        name = name[: name.rindex(".")]
    for format_, suffixes in FORMATS.items():
        if name.endswith(suffixes):
            return format_ if not compressed or format_ in _MAY_BE_COMPRESSED else None
    return None


def find_files(
    paths: Sequence[str],
    format: str | None,
    *,
    role: str,
    kind: Kind,
    guessing: Guessing,
    as_they_are: bool = False,
) -> tuple[tuple[File, ...], tuple[str, ...]]:
    """All files that `paths` mean, each once, ordered by path; and what folders hold beside them.

    A path is a file, a directory (searched through; what is no table by its name or its first
    bytes is left out, and so are names that begin with `.` or `_`),
    a glob with `*`, `?`, `[...]` and `**`, or a URL, which is handed to Polars as it stands. A name
    with brackets that exists is that file. A file whose name tells no format is read as TREC where
    its lines are those of qrels or of a run.

    Args:
        kind: which of the two the table would be.
        guessing: who asks, for hints.
        as_they_are: files of Delta, Iceberg and Hudi tables are read, whatever version they are of.

    Raises:
        RequestError: a catalog of Spark names the table [table-of-spark], or a path is not UTF-8
            [not-utf-8].
        DataError: nothing stands at a path [path-not-found], a directory or glob holds no data
            [no-files], the name does not tell the format [unknown-format], or files belong to a
            table that keeps rows of older versions beside those of today [files-of-a-table].
    """
    wanted = None if format is None else known_format(format, at=f"{role}: format")
    if not paths:
        raise DataError(f"{role} has no path", code="no-files", at=role, hint="write path = ...")
    if is_in_catalog(paths):
        hint = 'kind = "spark" under [engine], and one table a path; evalkit run --engine spark'
        name = paths[0].partition("://")[2]
        if re.search(r"\.(parquet|csv|tsv|jsonl?|arrow|feather|gz)$", name):
            hint = f'write path = "{name}" for a file; table = ... names a table of a catalog'
        message = f"{role} is a table of Spark, which is read there alone"
        raise RequestError(message, code="table-of-spark", at=", ".join(paths), hint=hint)
    found = _Found(kind, guessing, as_they_are)
    for path in paths:
        _find(path, wanted, found)
    raise_all(_few_missing(found.errors, guessing))
    for file in found.files:
        check_text(file.path)
    unique = {
        file.path if file.remote else os.path.abspath(file.path): file for file in found.files
    }
    read = {os.path.abspath(file.path) for file in found.files}
    left_out = {path for path in found.left_out if os.path.abspath(path) not in read}
    return tuple(sorted(unique.values(), key=lambda file: file.path)), tuple(sorted(left_out))


def _find(given: str, wanted: str | None, found: _Found) -> None:
    path = given.removeprefix("file://")
    if _URL.match(path):
        remote = _remote(path, wanted)
        if remote.format in _VERSIONED:
            _add_table(path, remote.format, found)
        elif path.partition("://")[0].lower() not in _STORES:
            message = f"no store is reached by {path.partition(':')[0]}://"
            hint = "give a path of this machine, or a URL of s3, gs, az, https or hf"
            found.errors.append(RequestError(message, code="bad-store", at=path, hint=hint))
        else:
            found.files.append(remote)
        return
    path = os.path.expanduser(path)
    is_whole = wanted in _VERSIONED or path.endswith(METADATA)
    if not is_whole and not found.as_they_are and _refuse_part(path, found):
        return
    if is_whole:
        _add_table(path, wanted or "iceberg", found)
    elif os.path.isdir(path):
        _find_in_directory(path, given, wanted, found)
    elif os.path.exists(path):
        _add_file(path, wanted, found)
    elif WILD.search(path):
        _find_by_glob(path, given, wanted, found)
    else:
        found.errors.append(_not_found(path, given))


def _remote(url: str, wanted: str | None) -> File:
    plain = url.split("?", 1)[0] if url.startswith("http") else url
    if plain.endswith(METADATA):
        wanted = wanted or "iceberg"
    # A store's directory or suffixless prefix is nearly always Parquet.
    return File(url, wanted or format_of(plain) or "parquet", remote=True)


_VERSIONED = ("delta", "iceberg")


def _add_table(path: str, format_: str, found: _Found) -> None:
    """A table at the version that it has now: a run reads no other, whoever writes meanwhile."""
    try:
        version = (
            versions.delta_version(path) if format_ == "delta" else versions.iceberg_version(path)
        )
    except EvalkitError as error:
        found.errors.append(error)
    else:
        found.files.append(File(path, format_, remote=True, version=version))


def _add_file(path: str, wanted: str | None, found: _Found) -> None:
    format_ = wanted or format_of(path)
    if format_ is not None:
        found.files.append(File(path, format_, partitions_of(path)))
        return
    lines = kind_of_lines(path)
    if lines == found.kind:
        found.files.append(File(path, "trec", partitions_of(path), seems=True))
        return
    hint = _guess_from_content(path, found.guessing)
    if lines is not None:
        hint = f"its lines are those of {_TREC[lines]}, and here belong {_TREC[found.kind]}"
    message = "the file name does not tell the format"
    found.errors.append(DataError(message, code="unknown-format", at=path, hint=hint))


_TREC: Mapping[Kind, str] = {"qrels": "TREC qrels", "run": "TREC runs"}


def _guess_from_content(path: str, guessing: Guessing) -> str:
    head = head_of(path)
    seems = format_by_head(path)
    if seems in ("parquet", "ipc"):
        name = {"parquet": "Parquet", "ipc": "Arrow IPC"}[seems]
        return f"it begins like {name}; {_advice(seems, guessing)}"
    for endings, how in OF_PROGRAMS.items():
        if path.lower().endswith(endings):
            return how
    for signature, command in PACKED.items():
        if head.startswith(signature):
            return f"gzip and Zstandard are read; unpack it: {command} {quoted(path)}"
    if head.lstrip()[:1] == b"[":
        is_packed, name = path.lower().endswith(".gz"), re.sub(r"(?i)(\.json)?(\.gz)?$", "", path)
        read = (
            f"gzip -dc {quoted(path)} | jq -c '.[]'" if is_packed else f"jq -c '.[]' {quoted(path)}"
        )
        return f"write one object a line: {read} > {quoted(name + '.ndjson')}"
    if head.lstrip()[:1] == b"{" and seems is None:
        how = "evalkit.evaluate takes {user: {item: number}}, records and dicts of columns"
        return f"it is one JSON value, no object a line: load it in Python; {how}"
    return _advice(seems, guessing)


def _advice(format_: str | None, guessing: Guessing) -> str:
    """How a format is told at the entry point where somebody asks."""
    if guessing.entry_point == "python":
        suffix = FORMATS[format_ or "parquet"][0]
        return f"end the name in {suffix}" + ("" if format_ else ", .csv, .trec or another")
    if guessing.entry_point == "file":
        return _EXPLICIT if format_ in (None, "csv") else f'write format = "{format_}"'
    setting = f"{guessing.section}.format={format_ or 'csv'}"
    return f"write --set '{setting}'"


def _refuse_part(path: str, found: _Found) -> bool:
    """Note the error of files that belong to a table of versions; whether there was one."""
    for folder, kind in versions.tables_around(path):
        is_given = os.path.isdir(path) and os.path.abspath(path) == os.path.abspath(folder)
        if is_given and kind != "Hudi":
            return False  # the table itself, which is read at its version
        readable = f"give the folder of the table, {folder!r}, which is read at its version now"
        if kind == "Hudi":
            readable = "write its rows of today into files of their own"
        message = (
            f"these are files of the {kind} table {folder!r}, which keeps rows of older "
            "versions beside those of today"
        )
        hint = f"{readable}; to read all files: {_as_they_are(found.guessing, path)}"
        found.errors.append(DataError(message, code="files-of-a-table", at=path, hint=hint))
        return True
    return False


def _as_they_are(guessing: Guessing, path: str) -> str:
    section = guessing.section or "truth"
    if guessing.entry_point == "python":
        table = section.partition("[")[0]
        if table in ("truth", "rankings", "train"):
            return f'files={{"{table}": "as they are"}}'
        return 'files="as they are"' if table == "split" else f"pl.scan_parquet({path!r})"
    if guessing.entry_point == "file":
        return f'files = "as they are" under [{section}]'
    return f"--set '{section}.files=as they are'"


def _form_of(path: str) -> str | None:
    """The format that a name tells, or the first bytes of a file whose name tells none."""
    named = format_of(path)
    if named is not None or path.lower().endswith(_UNFINISHED):
        return named
    try:
        with open(path, "rb") as file:
            head = file.read(6)
    except OSError:
        return None
    return next((form for mark, form in MARKS.items() if head.startswith(mark)), None)


_UNFINISHED = (".tmp", ".crc", ".inprogress", ".pending")


def _has_no_ending(path: str) -> bool:
    return "." not in os.path.basename(path)


def _find_in_directory(path: str, given: str, wanted: str | None, found: _Found) -> None:
    if not found.as_they_are and (versions.is_delta(path) or versions.is_iceberg(path)):
        _add_table(path, "delta" if versions.is_delta(path) else "iceberg", found)
        return
    left_out: list[str] = []
    files = list(walk(path, left_out))
    forms = {file: _form_of(file) for file in files}
    if wanted is None:
        chosen = [file for file in files if forms[file] is not None]
    else:
        chosen = [file for file in files if forms[file] == wanted]
        unnamed = [file for file in files if forms[file] is None]
        if chosen and wanted in _MAY_BE_COMPRESSED:
            chosen = sorted([*chosen, *filter(_has_no_ending, unnamed)])
        chosen = chosen or unnamed
    formats = sorted({forms[file] or "" for file in chosen})
    inside = None if found.as_they_are else next(_tables_below(path, files), None)
    if inside is not None and _refuse_part(inside, found):
        return
    if not chosen:
        found.errors.append(_no_files(given, files, wanted, found.guessing))
    elif wanted is None and len(formats) > 1:
        message = f"the directory holds files of several formats: {', '.join(formats)}"
        hint = f'write format = "{formats[-1]}", or a glob such as {given}/*.parquet'
        found.errors.append(DataError(message, code="unknown-format", at=given, hint=hint))
    else:
        found.left_out += [*left_out, *(file for file in files if file not in set(chosen))]
        for file in chosen:
            _add_file(file, wanted or forms[file], found)


def _tables_below(path: str, files: Sequence[str]) -> Iterator[str]:
    """The first file of each table of versions that lies inside of a folder."""
    for folder in dict.fromkeys(map(os.path.dirname, files)):
        if any(len(table) >= len(path) for table, _ in versions.tables_around(folder)):
            yield next(file for file in files if os.path.dirname(file) == folder)


def _no_files(
    given: str, files: Sequence[str], wanted: str | None, guessing: Guessing
) -> DataError:
    if not files:
        message, hint = "the directory is empty", "write the path of a folder with data files"
    else:
        kind = f"{wanted} file" if wanted else "data file"
        others = ", ".join(repr(os.path.basename(file)) for file in files[:3])
        message = f"the directory holds no {kind}, only {others}"
        message += ", ..." if len(files) > 3 else ""
        hint = "leave format out, or name the files by a glob"
        if wanted is None:
            hint = _advice(format_by_head(files[0]), guessing)
    return DataError(message, code="no-files", at=given, hint=hint)


def _find_by_glob(path: str, given: str, wanted: str | None, found: _Found) -> None:
    matches = matching(path)
    hidden_wanted = not visible(os.path.basename(path))
    matches = [match for match in matches if hidden_wanted or visible(os.path.basename(match))]
    directories = [match for match in matches if os.path.isdir(match)]
    files = [match for match in matches if not os.path.isdir(match)]
    if not files and not any(True for each in directories for _ in walk(each)):
        hint = _existing_part(path)
        found.errors.append(
            DataError("no file matches the pattern", code="no-files", at=given, hint=hint)
        )
        return
    around = dict.fromkeys(map(os.path.dirname, files))
    parts = [] if found.as_they_are or wanted in _VERSIONED else [*around, *directories]
    if any([_refuse_part(each or ".", found) for each in parts]):
        return
    for file in files:
        _add_file(file, wanted, found)
    for directory in directories if "**" not in path else []:
        inside = list(walk(directory, found.left_out))
        chosen = [each for each in inside if wanted or _form_of(each)]
        found.left_out += [each for each in inside if each not in set(chosen)]
        for file in chosen:
            _add_file(file, wanted or _form_of(file), found)
    if not found.files and not found.errors:
        found.errors.append(
            _no_files(given, [e for d in directories for e in walk(d)], wanted, found.guessing)
        )


def _existing_part(path: str) -> str:
    fixed = WILD.split(path, maxsplit=1)[0]
    folder = os.path.dirname(fixed) or "."
    if not os.path.isdir(folder):
        error = _not_found(folder, folder)
        return f"the folder {folder!r} does not exist; {error.hint}"
    names = sorted(filter(visible, os.listdir(folder)))
    return f"{folder} holds {some_names(names, 5)}" if names else f"{folder} is empty"


def _not_found(path: str, given: str) -> EvalkitError:
    """The error of a path that does not exist; the hint names the nearest that does."""
    try:
        os.stat(path)
    except PermissionError as error:
        return describe(error, given)
    except OSError:
        pass
    parent, name = os.path.split(path.rstrip("/"))
    while parent and not os.path.isdir(parent) and os.path.dirname(parent) != parent:
        parent, name = os.path.split(parent)
    folder = parent or "."
    try:
        siblings = sorted(os.listdir(folder))
    except OSError:
        siblings = []
    close = nearest(name, siblings)
    if os.path.islink(path):
        hint = f"it is a link to {os.readlink(path)!r}, which is not there"
    elif close is not None:
        hint = f"did you mean {str(Path(parent) / close)!r}?"
    elif siblings:
        hint = f"{folder} holds {some_names(siblings, 5)}"
    else:
        hint = f"{folder} is empty" if os.path.isdir(folder) else f"{folder} does not exist"
    return DataError("no such file or directory", code="path-not-found", at=given, hint=hint)


def refuse_absent(path: str) -> None:
    """Look whether a local file is there.

    Raises:
        DataError: it is not [path-not-found].
    """
    if not _URL.match(path) and not os.path.exists(path):
        raise _not_found(path, path)


def _few_missing(errors: Sequence[EvalkitError], guessing: Guessing) -> Sequence[EvalkitError]:
    """One error for many paths that lead nowhere, as a list of ids that was meant as a table."""
    missing = [each for each in errors if each.code == "path-not-found"]
    if guessing.entry_point == "python" and missing and all("." not in each.at for each in missing):
        for error in missing:
            error.hint += "; text is a path: where it is an id of an item, the truth has no user "
            error.hint += "of that ranking, and {user: {item: score}} is never taken for paths"
    if len(missing) <= MOST_MISSING:
        return errors
    hint = missing[0].hint
    if guessing.entry_point == "python":
        ids = " or ".join(f'pl.DataFrame({{"{of}": [...]}})' for of in ("user", "item"))
        hint = f"a list of text is one of paths; ids are a table, {ids}"
    first = ", ".join(each.at for each in missing[:MOST_MISSING])
    message = f"{len(missing):,} paths lead to no file or directory"
    told = DataError(message, code="path-not-found", at=f"{first}, ...", hint=hint)
    return [told, *(each for each in errors if each.code != "path-not-found")]


def partitions_of(path: str) -> tuple[tuple[str, str | None], ...]:
    """The `key=value` folders of a path, as hive writes them; None is hive's null."""
    pairs: dict[str, str | None] = {}
    for part in Path(path).parts[:-1]:
        key, equals, value = part.partition("=")
        if equals and key:
            text = unquote(value)
            pairs[unquote(key)] = None if text == "__HIVE_DEFAULT_PARTITION__" else text
    return tuple(pairs.items())


def spell_parts(files: Sequence[File], used: Collection[str]) -> str:
    """That folders such as `dt=2026-11-24` are read together, where no `used` column tells them."""
    values: dict[str, dict[str, None]] = {}
    for file in files:
        for name, value in file.partitions:
            values.setdefault(name, {})[str(value)] = None
    several = [(name, [*each]) for name, each in values.items() if len(each) > 1]
    told = [f"{name} = {some_names(each, 3)}" for name, each in several if name not in used]
    return f"folders of {', '.join(told)} are read as one" if told else ""
