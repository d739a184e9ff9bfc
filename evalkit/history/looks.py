"""Looks at one test part: past runs whose truth holds the same users and items."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evalkit.config import TruthColumns, TruthTable
from evalkit.errors import EvalkitError
from evalkit.report import Input
from evalkit.runs import finished, load_run
from evalkit.sources import Guessing, Table, open_truth
from evalkit.splits.content import content_of

SPLIT, SELECTIONS, SELECTION = "split.json", "selections", "selection.json"


@dataclass(frozen=True, slots=True)
class Look:
    """One run that measured models on a test part."""

    run_id: str
    job: str
    started: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that nothing is to be chosen by.

    Args:
        content: the fingerprint of users and items, whatever their files are called.
        fingerprint: of the files, where these are known.
        name: how a person finds it.
    """

    content: str
    name: str
    fingerprint: str | None = None

    @classmethod
    def of(cls, table: Table) -> "Part":
        """The part that a truth without `where` is."""
        return cls(content_of_table(table), ", ".join(table.paths), table.fingerprint())


def content_of_table(table: Table) -> str:
    """The content fingerprint of a table's users and items."""
    users = [name for name in table.frame.collect_schema() if name.startswith("user_")]
    return content_of(table.frame, [*users, "item"]).fingerprint


def find_looks(folder: Path, part: Part) -> list[Look]:
    """The runs of a folder that looked at a part, or at some of it by `where`, the first one first.

    Runs whose files are the part's are looks; of others the content is compared where their files
    are still there and have as many rows. Nobody can know of other folders and machines.
    """
    known: dict[tuple[str, ...], bool] = {}
    found = []
    for path, _ in finished(folder):
        with suppress(EvalkitError):
            report = load_run(path)
            truth = next((each for each in report.inputs if each.role == "truth"), None)
            if truth is not None and _is_of(truth, part, known):
                started = report.meta.started
                found.append(Look(report.run_id, report.name, started, tuple(report.models)))
    return found[::-1]


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
    splits = [*sorted((folder.parent / "splits").glob(f"*/{SPLIT}"))]
    splits += [place / SPLIT for place in above if (place / SPLIT).is_file()]
    found = [*_of_selections(folder), *_of_splits(splits)]  # a split names its part best
    return list({part.content: part for part in found}.values())


def _of_splits(splits: Sequence[Path]) -> Iterator[Part]:
    for path in splits:
        for part in _listed(path, "parts"):
            if part.get("name") == "test" and isinstance(part.get("pairs"), str):
                yield Part(part["pairs"], f"test of {path.parent}")


def _of_selections(folder: Path) -> Iterator[Part]:
    for path in sorted((folder.parent / SELECTIONS).glob(f"*/{SELECTION}")):
        for found in _listed(path, "confirmed"):
            if isinstance(found.get("content"), str):
                yield Part(found["content"], f"test of {path.parent}")


def _listed(path: Path, key: str) -> Sequence[dict[str, str]]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        value = found.get(key) if isinstance(found, dict) else None
        listed = value if isinstance(value, list) else [value]
        return [each for each in listed if isinstance(each, dict)]
    return []
