"""Opens the table of judges; rows of Label Studio's JSON alone are read."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import polars as pl
import polars.selectors as cs

from evalkit.config import Config, KindTable, Record, Texts, key
from evalkit.errors import DataError, Errors, EvalkitError
from evalkit.kinds.judges.declaration import JudgesTable
from evalkit.planning.tables import Given
from evalkit.sources import Guessing, Named, Table, open_section, reading

FREE = {"rating": "level", "time": "spent"}  # ratings may be texts, and times seconds
WRITTEN = {own: written for written, own in FREE.items()}
_KEY = "|".join(("user", *WRITTEN))
_OWN_KEYS = re.compile(
    rf'(?<=columns\.)(?:{_KEY})\b|\b(?:{_KEY})(?= (?:=|is|must) )|(?<={{")(?:{_KEY})(?=":)'
)


KINDS = ("choices", "rating", "number", "selected", "text", "taxonomy")  # of Label Studio's values
OWN = ("path", "table", "format", "header", "where")


class _Columns(Record):
    user: Texts = key((), "unit")
    judge: str | None = None
    level: str | None = None
    spent: str | None = None
    gold: str | None = None
    first: str | None = None
    second: str | None = None
    preferred: str | None = None
    ratings: Texts = key((), "by judge")
    segment: Texts = key((), "by segmentation")


class _Opened(KindTable):
    columns: _Columns


@dataclass(frozen=True, slots=True)
class JudgeTables:
    """The table of a config, opened: `user_0`, ... are the unit's columns."""

    config: Config
    ratings: Table

    @property
    def section(self) -> JudgesTable:
        """What the config says of it."""
        return section_of(self.config)

    @property
    def all(self) -> list[Table]:
        """Every table with rows of its own."""
        return [self.ratings]


def section_of(config: Config) -> JudgesTable:
    """The section of judges."""
    return cast("JudgesTable", config.judges)  # type: ignore[attr-defined]


def open_judges(config: Config, given: Given) -> JudgeTables:
    """The table of a config.

    Raises:
        DataError: it is not there, or lacks a column [missing-column].
    """
    section = section_of(config)
    (held, *_) = (*given.rankings, None)
    by = tuple(rule.by for rule in config.segments.named.values())
    guessing = replace(given.guessing(config), section="judges")
    return JudgeTables(config, open_table(section, by, held, guessing, "judges"))


def open_table(
    section: JudgesTable, by: tuple[str, ...], held: object | None, guessing: Guessing, role: str
) -> Table:
    """The table that a section names, or that is held in memory.

    Args:
        by: what segments are made by.
    """
    if held is None and (rows := label_studio_rows(section.path)) is not None:
        held = Named(rows, ", ".join(section.path), section.path)
    columns: dict[str, Any] = section.columns.model_dump(exclude_none=True)
    columns["user"] = columns.pop("unit", None) or (section.columns.judge,)  # who preferred
    columns = {FREE.get(name, name): text for name, text in columns.items()}
    own = {name: getattr(section, name) for name in OWN}
    asked = _Opened(**own, columns=_Columns(**columns, segment=by))
    anything = (*FREE.values(), "gold", "ratings", "segment")
    try:
        return open_section(role, asked, held, guessing, anything=anything)
    except EvalkitError as error:
        unit = "unit" if section.columns.unit else "judge"
        written = WRITTEN | ({"user": unit} if role == "judges" else {})
        told: dict[str, EvalkitError] = {}
        for each in error.errors if isinstance(error, Errors) else (error,):
            each.message = _as_written(each.message, written)
            each.at = each.at and _as_written(each.at, written)
            each.hint = each.hint and _as_written(each.hint, written)
            told.setdefault(str(each), each)  # the judge of a preference is its unit, too
        found = [*told.values()]
        raise (Errors(found) if len(found) > 1 else found[0]) from None


def _as_written(text: str, written: Mapping[str, str]) -> str:
    """What is said of a column, by the key that a person knows it by."""
    return _OWN_KEYS.sub(lambda found: written.get(found[0], found[0]), text)


def read_rows(table: Table) -> pl.DataFrame:
    """The rows of an opened table, columns by our names."""
    names = cs.binary() - cs.starts_with("user_")
    with reading(table):
        rows = table.frame.with_columns(names.cast(pl.String)).collect()
    return rows.rename({free: name for name, free in FREE.items()}, strict=False)


def label_studio_rows(paths: tuple[str, ...]) -> pl.DataFrame | None:
    """Rows of an export of Label Studio, JSON or JSON-MIN: data, judge, rating, time.

    The name of a control is the name of its column too. None where the files are no such export.

    Raises:
        DataError: the file is no JSON, or an export of another form [bad-json], or has no
            annotation [empty-input].
    """
    if not all(path.lower().endswith(".json") and Path(path).is_file() for path in paths):
        return None
    hint, rows = "Label Studio's exports JSON and JSON-MIN are read, and tables", []
    for path in paths:
        try:
            tasks = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            message = f"the file is no JSON: {str(error)[:120]}"
            raise DataError(message, code="bad-json", at=path, hint=hint) from None
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            return None
        if not all("annotations" in task or "annotation_id" in task for task in tasks):
            return None
        try:
            rows += _rows_of(tasks)
        except (AttributeError, TypeError) as error:
            message = f"Label Studio writes no such tasks: {str(error)[:120]}"
            raise DataError(message, code="bad-json", at=path, hint=hint) from None
    if not rows:
        message = "no task has an annotation that was not cancelled"
        raise DataError(message, code="empty-input", at=", ".join(paths), hint=hint)
    try:
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)
    except UnicodeError as error:
        message = f"half a pair of surrogates is no text: {str(error)[:120]}"
        raise DataError(message, code="bad-json", at=", ".join(paths), hint=hint) from None


def _rows_of(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    controls = {
        result["from_name"]
        for task in tasks
        for annotation in task.get("annotations") or ()
        for result in annotation.get("result") or ()
        if "from_name" in result  # relations are of no control
    }
    rows: list[dict[str, Any]] = []
    for task in tasks:
        rows += _of_task(task, controls) if "annotations" in task else [_of_row(task)]
    return rows


def _of_task(task: Mapping[str, Any], controls: Set[object]) -> Iterator[dict[str, Any]]:
    """Of the long form: one row an annotation, its results side by side; `rating` of one alone."""
    data = {**_flat(task.get("data") or {}), "task": task.get("id")}
    for annotation in task["annotations"] or ():
        if annotation.get("was_cancelled"):
            continue
        several: dict[str, list[object]] = {}  # regions have results of one control each
        for result in annotation.get("result") or ():
            value = result.get("value") or {}
            if any(kind in value for kind in KINDS):
                several.setdefault(str(result.get("from_name")), []).append(value)
        found = {name: _plain(values) for name, values in several.items()}
        yield {
            **data,
            **found,
            **(dict(zip(("rating",), found.values(), strict=False)) if len(controls) == 1 else {}),
            "judge": _judge(annotation.get("completed_by")),
            "time": annotation.get("lead_time"),
        }


def _of_row(task: Mapping[str, Any]) -> dict[str, Any]:
    """Of the short form: keys of the data and of the controls side by side."""
    found = {name: _plain(value) for name, value in task.items()}
    known = {"task": task.get("id"), "judge": _judge(task.get("annotator"))}
    return {**_flat(found), **known, "time": task.get("lead_time")}


def _flat(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in found.items()
        if value is None or isinstance(value, (str, int, float, bool))
    }


def _plain(value: object) -> object:
    """The one value that a control gave; JSON where it gave several."""
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    if isinstance(value, dict):
        value = next((_plain(value[kind]) for kind in KINDS if kind in value), value)
    if isinstance(value, list):
        value = [_plain(each) for each in value]
    is_one = value is None or isinstance(value, (str, int, float))
    return value if is_one else json.dumps(value, ensure_ascii=False) if value else None


def _judge(who: object) -> str | None:
    if isinstance(who, dict):
        who = who.get("email") or who.get("username") or who.get("id")
    return None if who is None else str(who)
