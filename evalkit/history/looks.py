"""Looks at one test part: what measured models on a truth of the same users and items."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalkit.config import Config, TruthColumns, TruthTable, is_in_catalog
from evalkit.credentials import storing
from evalkit.errors import GATE_FAILED, EvalkitError
from evalkit.report import Input, Report, Warning_
from evalkit.runs import finished, load_run, machine_errors
from evalkit.sources import Guessing, Table, open_truth
from evalkit.splits.content import content_of

SPLIT, SELECTIONS, SELECTION = "split.json", "selections", "selection.json"
ROWS = ("ratings", "labels")  # sections whose tables hold truth and models side by side
NOTED = "looks.jsonl"  # in the folder of runs: looks of what wrote no run


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
class Part:
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
    def of(cls, table: Table) -> "Part":
        """The part that a truth without `where` is."""
        return cls(content_of_table(table), ", ".join(table.paths), table.fingerprint())


@dataclass(frozen=True, slots=True)
class Ahead:
    """One look at a test part, before anything is measured.

    Args:
        content: the fingerprint of its users and items.
        number: of this look; 0 where no test part is looked at.
    """

    content: str = ""
    number: int = 0

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
        message = f"look {self.number} at this test part: intervals are of {level:.2%}, "
        return Warning_("looked-before", message + "so that those of all looks hold together")

    def __str__(self) -> str:
        known = f"look {self.number} at this test part that is known here"
        return f"{known}; what other folders and machines did, nobody can know"


NO_LOOK = Ahead()


def look_ahead(config: Config, folder: Path, *, again: bool) -> Ahead:
    """Whether the truth is a test part that is known, and how often it was looked at.

    Args:
        folder: of runs; splits and selections beside it say what a test part is.
        again: look however often that was.
    Raises:
        LookedError: a selection that it confirmed allows no more looks [looks-used-up].
    """
    for at, truth in _truths(config):
        if is_in_catalog(truth.path):
            continue
        parts = known_parts(folder, truth.path)
        lacking = suppress(EvalkitError) if at in ROWS else nullcontext()  # rows may have no item
        part = None
        with storing(config.storage), lacking:
            part = _part_among(parts, truth, Guessing(config.door))
        if part is not None:
            return count_look(part, folder, again=again, at=config.at(at))
    return NO_LOOK


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


def _prints_of_split(folder: Path, part: Part) -> Iterator[str | None]:
    """The fingerprints of a test part's files, in the splits beside a folder of runs."""
    for path in _splits_beside(folder):
        for each in _listed(path, "parts"):
            if each.get("name") == "test" and each.get("pairs") == part.content:
                with suppress(EvalkitError, ValueError, LookupError, TypeError):
                    files = tuple(os.path.join(path.parent, file["path"]) for file in each["files"])
                    found = json.loads(path.read_bytes())["columns"]
                    named = {key: name for key, name in found.items() if key in ("user", "item")}
                    truth = TruthTable(path=files, columns=TruthColumns.model_validate(named))
                    yield open_truth(truth, None, Guessing()).fingerprint()


def _splits_beside(folder: Path) -> list[Path]:
    return sorted((folder.parent / "splits").glob(f"*/{SPLIT}"))


def _truths(config: Config) -> Iterator[tuple[str, TruthTable]]:
    """The tables that say what is right, where users and items do: those of rows, too."""
    if config.truth is not None and config.truth.path:
        yield "truth", config.truth
    for section in ROWS:
        for table in getattr(config, section):
            named = table.columns.model_dump(include={"user", "item"}, exclude_unset=True)
            columns = TruthColumns.model_validate(
                {key: each for key, each in named.items() if each is not None}
            )
            yield section, TruthTable(path=table.path, format=table.format, columns=columns)


def _part_among(parts: Sequence[Part], truth: TruthTable, guessing: Guessing) -> Part | None:
    """The known part that a truth is, however its files are called."""
    if not parts:
        return None
    table = open_whole(truth, guessing)
    n_rows = table.n_rows_hint()
    if n_rows is not None and not any(each.content.endswith(f"-{n_rows}") for each in parts):
        return None
    part = Part.of(table)
    known = next((each for each in parts if each.content == part.content), None)
    return None if known is None else replace(part, most=known.most)


def count_look(part: Part, folder: Path, *, again: bool, at: str) -> Ahead:
    """The next look at a part.

    Raises:
        LookedError: there were as many as are allowed [looks-used-up].
    """
    number = len(find_looks(folder, part)) + 1
    if part.most is not None and number > part.most and not again:
        raise LookedError(
            f"{number - 1:,} looks at this test part are known here, and looks = {part.most}",
            code="looks-used-up",
            at=at,
            hint="evalkit history looks lists them; --again looks once more",
        )
    return Ahead(part.content, number)


def open_whole(truth: TruthTable, guessing: Guessing) -> Table:
    """A truth without its `where`: a look at some of it is a look at all."""
    return open_truth(truth.model_copy(update={"where": None}), None, guessing)


def note_look(folder: Path, ahead: Ahead, report: Report) -> None:
    """Keep a look of which no run tells, in a folder of runs that is there."""
    if not ahead.number or not folder.is_dir():
        return
    started = datetime.now(UTC).isoformat(timespec="seconds")
    look = {"content": ahead.content, **asdict(Look("", report.name, started, (*report.models,)))}
    with machine_errors(folder):
        descriptor = os.open(folder / NOTED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(descriptor, (json.dumps(look) + "\n").encode())
        finally:
            os.close(descriptor)


def content_of_table(table: Table) -> str:
    """The content fingerprint of a table's users and items."""
    users = [name for name in table.frame.collect_schema() if name.startswith("user_")]
    return content_of(table.frame, [*users, "item"]).fingerprint


def find_looks(folder: Path, part: Part) -> list[Look]:
    """What looked at a part, or at some of it by `where`, the first one first.

    Runs whose files are the part's are looks; of others the content is compared where their files
    are still there and have as many rows. Nobody can know of other folders and machines.
    """
    known: dict[tuple[str, ...], bool] = {}
    found = _noted(folder, part)
    for path, _ in finished(folder):
        with suppress(EvalkitError):
            report = load_run(path)
            truths = [each for each in report.inputs if each.role in ("truth", *ROWS)]
            of = next((each for each in truths if _is_of(each, part, known)), None)
            if of is not None:
                names, started = (*report.models,), report.meta.started
                found.append(Look(report.run_id, report.name, started, names, of.fingerprint))
    return sorted(found, key=lambda each: each.started)


def _noted(folder: Path, part: Part) -> list[Look]:
    """Looks of what wrote no run."""
    found = []
    with suppress(OSError):
        for line in (folder / NOTED).read_bytes().splitlines():
            with suppress(ValueError, TypeError, LookupError):  # what is torn tells nothing
                look = json.loads(line)
                if look["content"] == part.content:
                    names = tuple(map(str, look["models"]))
                    found.append(Look("", str(look["job"]), str(look["started"]), names))
    return found


def _is_of(truth: Input, part: Part, known: dict[tuple[str, ...], bool]) -> bool:
    if part.fingerprint is not None and truth.fingerprint == part.fingerprint:
        return True
    if not truth.paths or truth.paths not in known:
        known[truth.paths] = bool(truth.paths) and _holds(truth, part)
    return known[truth.paths]


def _holds(truth: Input, part: Part) -> bool:
    """Whether files that are there now hold the part's users and items."""
    names = {key: each for key, each in truth.columns.items() if key in ("user", "item")}
    with suppress(EvalkitError, ValueError):
        columns = TruthColumns.model_validate(names)
        table = open_truth(TruthTable(path=truth.paths, columns=columns), None, Guessing())
        if table.fingerprint() != truth.fingerprint:
            return False  # other rows stand there by now
        n_rows = table.n_rows_hint()
        if n_rows is not None and not part.content.endswith(f"-{n_rows}"):
            return False
        return content_of_table(table) == part.content
    return False


def known_parts(folder: Path, paths: Sequence[str] = ()) -> list[Part]:
    """The test parts of splits and selections beside a folder of runs.

    Args:
        paths: of a table that may be a part of a split, which then is known, too.
    """
    above = [place for path in paths for place in list(Path(path).absolute().parents)[:2]]
    splits = _splits_beside(folder)
    splits += [place / SPLIT for place in above if (place / SPLIT).is_file()]
    found: dict[str, Part] = {}
    for part in (*_of_selections(folder), *_of_splits(splits)):  # a split names its part best
        most = (
            found[part.content].most if part.content in found and part.most is None else part.most
        )
        found[part.content] = replace(part, most=most)
    return list(found.values())


def _of_splits(splits: Sequence[Path]) -> Iterator[Part]:
    for path in splits:
        for part in _listed(path, "parts"):
            if part.get("name") == "test" and isinstance(part.get("pairs"), str):
                yield Part(part["pairs"], f"test of {path.parent}")


def _of_selections(folder: Path) -> Iterator[Part]:
    for path in sorted((folder.parent / SELECTIONS).glob(f"*/{SELECTION}")):
        for found in _listed(path, "confirmed"):
            most = found.get("most_looks")
            if isinstance(found.get("content"), str):
                name = f"test of {path.parent}"
                yield Part(found["content"], name, most=most if isinstance(most, int) else None)


def _listed(path: Path, key: str) -> Sequence[dict[str, Any]]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        value = found.get(key) if isinstance(found, dict) else None
        listed = value if isinstance(value, list) else [value]
        return [each for each in listed if isinstance(each, dict)]
    return []
