"""Looks at one test part: what measured models on a truth of the same users and items."""

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import polars as pl

from evalkit.config import (
    Config,
    LabelsTable,
    LogTable,
    RatingsTable,
    TruthColumns,
    TruthTable,
    is_in_catalog,
    speaking,
)
from evalkit.config.credentials import storing
from evalkit.errors import GATE_FAILED, DataError, EvalkitError
from evalkit.report import Input, Report, Warning_
from evalkit.runs import StoreFolder, finished, load_run, machine_errors, store_errors
from evalkit.sources import Guessing, Table, open_log, open_truth, verifying
from evalkit.sources.content import Content, content_of

SPLIT, SELECTIONS, SELECTION = "split.json", "selections", "selection.json"
ROWS = ("ratings", "labels")  # sections whose tables hold truth and models side by side
NOTED = "looks.jsonl"  # in the folder of runs: looks, also of what wrote no run
MOST_NOTED_BYTES = 64 << 20


class LookedError(EvalkitError):
    """The test part is used up; as a gate that failed, with its data and its request in order."""

    exit_status = GATE_FAILED


@dataclass(frozen=True, slots=True)
class Look:
    """One run, or comparison without one, that measured models on a test part."""

    run_id: str
    job: str
    started: str
    models: tuple[str, ...]
    fingerprint: str | None = None  # of the files of a run's truth


@dataclass(frozen=True, slots=True)
class _Truth:
    """A table that says what is right, by its section; in memory, where it is no file."""

    section: str
    table: TruthTable | RatingsTable | LabelsTable | LogTable
    given: object | None = None

    def open(self, guessing: Guessing) -> Table:
        """Its rows without `where`: of a joined log those that are relevant."""
        if isinstance(self.table, TruthTable):
            return open_whole(self.table, guessing, self.given)
        if not isinstance(self.table, LogTable):
            return open_whole(_as_truth(self.table), guessing, self.given)
        log, _ = open_log(self.table.model_copy(update={"where": None}), None, guessing)
        least = self.table.threshold
        label = pl.col("relevance").cast(pl.Float64)
        relevant = label > 0 if least is None else label >= least
        return replace(log, frame=log.frame.filter(relevant))


@dataclass(frozen=True, slots=True)
class HoldoutPart:
    """Rows that nothing is to be chosen by.

    Args:
        content: the fingerprint of users and items, whatever their files are called.
        fingerprint: of the files, where these are known.
        name: how a person finds it.
        most: looks that the last selection allows that was confirmed by it.
    """

    content: str
    name: str
    fingerprint: str | None = None
    most: int | None = None

    @classmethod
    def of(cls, table: Table) -> "HoldoutPart":
        """The part that a truth without `where` is."""
        content = content_of_table(table).fingerprint
        return cls(content, ", ".join(table.paths), table.fingerprint())


@dataclass(frozen=True, slots=True)
class Ahead:
    """One look at a test part, before anything is measured.

    Args:
        content: the fingerprint of its users and items.
        number: of this look; 0 where no test part is looked at.
        most: looks that are allowed, where a selection says so.
        is_noted: whether later looks will know of it.
    """

    content: str = ""
    number: int = 0
    most: int | None = None
    is_noted: bool = True

    def corrected(self, config: Config) -> Config:
        """The config at the level that all looks hold together (Bonferroni)."""
        if self.number < 2:
            return config
        level = 1 - (1 - config.statistics.level) / self.number
        statistics = config.statistics.model_copy(update={"level": level})
        return config.model_copy(update={"statistics": statistics})

    def warned(self, report: Report, level: float) -> Report:
        """The report with a warning from the second look on."""
        told = (self.warning(level),) if self.number > 1 else ()
        return replace(report, warnings=(*told, *report.warnings))

    def warning(self, level: float) -> Warning_:
        """What the second look and later ones are told."""
        message = f"use {self.number} of this test set: intervals are of {level:.2%}, "
        return Warning_("looked-before", message + "so that those of all uses hold together")

    def __str__(self) -> str:
        if not self.is_noted:
            return "this use of the test set is recorded nowhere: there is no folder of runs here"
        uses = "first use" if self.number == 1 else f"use {self.number}"
        return f"{uses} of this test set recorded here; other folders and machines are not counted"


NO_LOOK = Ahead()


def look_ahead(
    config: Config, folder: Path, *, again: bool, given: Sequence[object | None] = ()
) -> Ahead:
    """Whether the truth is a test part that is known, and how often it was looked at.

    Args:
        folder: of runs; splits and selections beside it say what a test part is.
        again: look however often that was.
        given: tables in memory: the truth, or those of ratings or labels, in their order.
    Raises:
        LookedError: a selection that it confirmed allows no more looks [looks-used-up].
    """
    for truth in _truths(config, given):
        if is_in_catalog(truth.table.path):
            continue
        parts = known_parts(folder, truth.table.path)
        is_truth = truth.section == "truth"  # others may have no item, and are read by the run
        lacking = nullcontext() if is_truth else suppress(EvalkitError)
        part = None
        with storing(config.storage), verifying(config.verify_pages), lacking:
            part = _part_among(parts, truth, Guessing(config.entry_point))
        if part is not None:
            with speaking(config.entry_point):
                return count_look(part, folder, again=again, at=config.at(truth.section))
    return NO_LOOK


def measure_as_look(
    config: Config, folder: Path, ahead: Ahead, measure: Callable[[Config], Report]
) -> Report:
    """A report of which no run tells: noted, and corrected for earlier looks at a test part.

    Args:
        folder: of runs.
        ahead: the look that it is.
        measure: the report of a config, at the level that this one has.
    """
    config = ahead.corrected(config)
    report = measure(config)
    note_look(folder, ahead, report)
    return ahead.warned(report, config.statistics.level)


def look_by_files(inputs: Sequence[Input], folder: Path, *, again: bool, at: str) -> Ahead:
    """As `look_ahead`, of tables that are known by their fingerprints alone and are not opened.

    Args:
        inputs: of partials, which may name any file.
    Raises:
        LookedError: as `look_ahead` [looks-used-up].
    """
    prints = {each.fingerprint for each in inputs if each.role in ("truth", *ROWS)} - {None}
    for part in known_parts(folder) if prints else ():
        own = set(_prints_of_split(folder, part))
        if prints & (own | {each.fingerprint for each in find_looks(folder, part)}):
            return count_look(part, folder, again=again, at=at)
    return NO_LOOK


def _prints_of_split(folder: Path, part: HoldoutPart) -> Iterator[str | None]:
    """The fingerprints of a test part's files, in the splits beside a folder of runs."""
    for path in _splits_beside(folder):
        for part_entry in _listed(path, "parts"):
            if part_entry.get("name") == "test" and part_entry.get("pairs") == part.content:
                with suppress(EvalkitError, ValueError, LookupError, TypeError):
                    files = tuple(
                        os.path.join(path.parent, file["path"]) for file in part_entry["files"]
                    )
                    found = json.loads(path.read_bytes())["columns"]
                    named = {key: name for key, name in found.items() if key in ("user", "item")}
                    truth = TruthTable(path=files, columns=TruthColumns.model_validate(named))
                    yield open_truth(truth, None, Guessing()).fingerprint()


def _splits_beside(folder: Path) -> list[Path]:
    return sorted((folder.parent / "splits").glob(f"*/{SPLIT}"))


def _truths(config: Config, given: Sequence[object | None]) -> Iterator[_Truth]:
    """The tables that say what is right, where users and items do: those of rows, too."""
    held = iter(given)
    if config.truth is not None and config.truth.path:
        yield _Truth("truth", config.truth, next(held, None))
    if config.log is not None:
        yield _Truth("log", config.log)
    for section in ROWS:
        for table in getattr(config, section):
            yield _Truth(section, table, next(held, None))


def _as_truth(table: RatingsTable | LabelsTable) -> TruthTable:
    """The users and items of a table that holds more."""
    named = table.columns.model_dump(include={"user", "item"}, exclude_unset=True)
    given = {key: each for key, each in named.items() if each is not None}
    columns = TruthColumns.model_validate(given)
    how = {key: getattr(table, key) for key in ("path", "format", "header", "files")}
    return TruthTable(**how, columns=columns)


def _part_among(
    parts: Sequence[HoldoutPart], truth: _Truth, guessing: Guessing
) -> HoldoutPart | None:
    """The known part that a truth is, however its files are called, once for each model."""
    if not parts:
        return None
    table = truth.open(guessing)
    n_rows = table.n_rows_hint()
    sizes = [int(each.content.rpartition("-")[2]) for each in parts]
    if n_rows is None or any(_may_be(n_rows, size, truth.section) for size in sizes):
        known = _of_content(parts, table)
        if known is not None:
            return replace(known, fingerprint=table.fingerprint())
    if isinstance(truth.table, TruthTable) and truth.table.where is not None:
        return _of_content(parts, open_truth(truth.table, truth.given, guessing))
    return None


def _of_content(parts: Sequence[HoldoutPart], table: Table) -> HoldoutPart | None:
    content = content_of_table(table)
    return next((each for each in parts if content.is_repeated(each.content)), None)


def _may_be(n_rows: int, size: int, section: str) -> bool:
    """Whether a table of so many rows may hold a part of that size."""
    if section == "truth":
        return n_rows == size
    return n_rows >= size if section == "log" else size > 0 and n_rows % size == 0


def count_look(part: HoldoutPart, folder: Path, *, again: bool, at: str) -> Ahead:
    """The next look at a part.

    Raises:
        LookedError: there were as many as are allowed [looks-used-up].
    """
    number = len(find_looks(folder, part)) + 1
    if part.most is not None and number > part.most and not again:
        out = "" if str(folder) == "runs" else f" --out {quote(str(folder))}"
        raise LookedError(
            f"of looks at this test part, {number - 1:,} are known here, and looks = {part.most}",
            code="looks-used-up",
            at=at,
            hint=f"evalkit history looks{out} lists them; --again looks once more",
        )
    return Ahead(part.content, number, part.most)


def open_whole(truth: TruthTable, guessing: Guessing, given: object | None = None) -> Table:
    """A truth without its `where`: a look at some of it is a look at all."""
    return open_truth(truth.model_copy(update={"where": None}), given, guessing)


def note_look(folder: Path, ahead: Ahead, report: Report) -> Ahead:
    """Keep a look in a folder of runs that is there, whatever becomes of its run; the look."""
    if not ahead.number or not folder.is_dir():
        return replace(ahead, is_noted=not ahead.number)
    look = asdict(Look(report.run_id, report.name, report.meta.started, (*report.models,)))
    with machine_errors(folder):
        descriptor = os.open(folder / NOTED, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            told = {"content": ahead.content, "most": ahead.most, **look}
            size = os.fstat(descriptor).st_size
            is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            line = ("\n" * is_torn + json.dumps(told) + "\n").encode()
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
    return ahead


def fetch_notes(store: StoreFolder, folder: Path) -> int:
    """Put what a store knows of looks into a local folder; the bytes of it."""
    found = _notes_of(store)
    if found is not None:
        (folder / NOTED).write_bytes(found[0])
    return 0 if found is None else len(found[0])


def send_notes(store: StoreFolder, folder: Path, known: int) -> None:
    """Add what a local folder noted behind the known bytes to a store, whoever else does so."""
    noted = folder / NOTED
    new = noted.read_bytes()[known:] if noted.exists() else b""
    path, is_there = store.at(NOTED), not new
    with store_errors(store.url):
        while not is_there:
            found = _notes_of(store)
            if found is None:
                is_there = store.objects.create(path, new) is not None
            else:
                is_there = store.objects.replace(path, found[0] + new, found[1]) is not None


def _notes_of(store: StoreFolder) -> tuple[bytes, str] | None:
    """What a store knows of looks, and its version.

    Raises:
        DataError: it is larger than any such file [run-damaged].
    """
    with store_errors(store.url):
        found = store.objects.get(store.at(NOTED), MOST_NOTED_BYTES)
    if found is not None and not found[0]:
        raise DataError(
            f"what is noted of looks at test parts is empty, or larger than {MOST_NOTED_BYTES:,} "
            "bytes",
            code="run-damaged",
            at=f"{store.url}/{NOTED}",
            hint="move it elsewhere; looks that it holds are not counted any more",
        )
    return found


def content_of_table(table: Table) -> Content:
    """What a table's users and items are."""
    users = [name for name in table.frame.collect_schema() if name.startswith("user_")]
    return content_of(table.frame, [*users, "item"])


def find_looks(folder: Path, part: HoldoutPart) -> list[Look]:
    """What looked at a part, or at some of it by `where`, the first one first.

    Looks are noted; runs that came here otherwise are looks where their files are the part's, or
    are still there and hold the same. Other folders and machines are not looked at.
    """
    known: dict[tuple[str, ...], bool] = {}
    noted = _noted(folder, part)
    found = []
    for path, _ in finished(folder):
        with suppress(EvalkitError):
            report = load_run(path)
            truths = [each for each in report.inputs if each.role in ("truth", *ROWS)]
            of = next((each for each in truths if _is_of(each, part, known)), None)
            if of is not None or report.run_id in noted:
                names, started = (*report.models,), report.meta.started
                fingerprint = None if of is None else of.fingerprint
                found.append(Look(report.run_id, report.name, started, names, fingerprint))
                noted.pop(report.run_id, None)
    found += [replace(each, run_id="") for each in noted.values()]  # there is no such run now
    return sorted(found, key=lambda each: each.started)


def _noted(folder: Path, part: HoldoutPart) -> dict[str, Look]:
    """Looks that are kept, by their runs' ids; also of what wrote no run."""
    found: dict[str, Look] = {}
    for look in _lines_of_notes(folder):
        if look["content"] == part.content:
            with suppress(TypeError, LookupError):
                names = tuple(map(str, look["models"]))
                run_id = str(look["run_id"]) or f"without one {len(found)}"
                found[run_id] = Look(run_id, str(look["job"]), str(look["started"]), names)
    return found


def _lines_of_notes(folder: Path) -> Iterator[dict[str, Any]]:
    """What is noted, the first look first; what is torn or foreign tells nothing."""
    with suppress(OSError):
        for line in (folder / NOTED).read_bytes().splitlines():
            with suppress(ValueError):
                look = json.loads(line)
                if isinstance(look, dict) and re.fullmatch(
                    r"[0-9a-f]{32}-\d+", str(look.get("content"))
                ):
                    yield look


def _is_of(truth: Input, part: HoldoutPart, known: dict[tuple[str, ...], bool]) -> bool:
    if part.fingerprint is not None and truth.fingerprint == part.fingerprint:
        return True
    if not truth.paths or truth.paths not in known:
        known[truth.paths] = bool(truth.paths) and _holds(truth, part)
    return known[truth.paths]


def _holds(truth: Input, part: HoldoutPart) -> bool:
    """Whether files that are there now hold the part's users and items."""
    with suppress(EvalkitError, ValueError):
        table = still_there(truth)
        n_rows = None if table is None else table.n_rows_hint()
        if table is None or (n_rows is not None and not part.content.endswith(f"-{n_rows}")):
            return False
        return content_of_table(table).fingerprint == part.content
    return False


def still_there(read: Input) -> Table | None:
    """The truth, or train, that a run read; None where other rows stand there by now."""
    names = {key: each for key, each in read.columns.items() if key in ("user", "item")}
    with suppress(EvalkitError, ValueError):
        columns = TruthColumns.model_validate(names)
        table = open_truth(TruthTable(path=read.paths, columns=columns), None, Guessing())
        return table if table.fingerprint() == read.fingerprint else None
    return None


def known_parts(folder: Path, paths: Sequence[str] = ()) -> list[HoldoutPart]:
    """The test parts of splits and selections beside a folder of runs.

    Args:
        paths: of a table that may be a part of a split, which then is known, too.
    """
    above = [place for path in paths for place in list(Path(path).absolute().parents)[:2]]
    splits = _splits_beside(folder)
    splits += [place / SPLIT for place in above if os.path.isfile(place / SPLIT)]
    found: dict[str, HoldoutPart] = {}
    listed = (*_of_notes(folder), *_of_selections(folder), *_of_splits(splits))
    for part in listed:  # a split names its part best
        most = (
            found[part.content].most if part.content in found and part.most is None else part.most
        )
        found[part.content] = replace(part, most=most)
    return list(found.values())


def _of_splits(splits: Sequence[Path]) -> Iterator[HoldoutPart]:
    for path in splits:
        for part in _listed(path, "parts"):
            if part.get("name") == "test" and isinstance(part.get("pairs"), str):
                yield HoldoutPart(part["pairs"], f"test of {path.parent}")


def _of_notes(folder: Path) -> Iterator[HoldoutPart]:
    for look in _lines_of_notes(folder):
        most = look.get("most")
        name = f"test, noted in {folder / NOTED}"
        yield HoldoutPart(str(look["content"]), name, most=most if isinstance(most, int) else None)


def _of_selections(folder: Path) -> Iterator[HoldoutPart]:
    for path in sorted((folder.parent / SELECTIONS).glob(f"*/{SELECTION}")):
        for found in _listed(path, "confirmed"):
            most = found.get("most_looks")
            if isinstance(found.get("content"), str):
                name = f"test of {path.parent}"
                yield HoldoutPart(
                    found["content"], name, most=most if isinstance(most, int) else None
                )


def _listed(path: Path, key: str) -> Sequence[dict[str, Any]]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        value = found.get(key) if isinstance(found, dict) else None
        listed = value if isinstance(value, list) else [value]
        return [each for each in listed if isinstance(each, dict)]
    return []
