"""The section [split]: which log is cut, by which rule, and what is written."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from numbers import Real
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from evalkit.config import _tables as tables
from evalkit.config._tables import AsTheyAre, Listed, Record, Texts, Threshold, key

Rounding = Literal[
    "floor", "floor-test", "floor-test, at least 1 where train keeps 1", "floor-train",
    "ceil-train", "ceil-test", "ceil", "round-test", "round-test, none becomes all",
    "fraction3", "round-boundaries", "parts-floor, at least 1 where train keeps 1",
]  # fmt: skip


def _size(value: object) -> object:
    """Numbers as numbers, also where they come as text (`--set`); spans and moments as text."""
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, Real | str | None):
        raise ValueError('it is no size such as "7d", 0.1 or 1')
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    return float(value) if re.fullmatch(r"-?\d*\.\d+", value) else value


_BYTES = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(?:([kmgt])(i?)b?|b)?", re.IGNORECASE)


def bytes_of(text: str) -> int | None:
    """Bytes that a text such as `8GiB`, `500MB` or `1.5g` names; None where it names none."""
    found = _BYTES.fullmatch(text.strip())
    if not found:
        return None
    number, unit, binary = found.groups()
    step = 1024 if binary or not unit else 1000
    return int(float(number) * step ** (" kmgt".index(unit.lower()) if unit else 0)) or None


def _bytes(value: object) -> object:
    found = bytes_of(value) if isinstance(value, str) else value
    if not isinstance(found, int) or isinstance(found, bool) or found <= 0:
        raise ValueError('it is no size such as "8GiB" or "500MB"')
    return found


Bytes = Annotated[
    int | None, BeforeValidator(_bytes), WithJsonSchema({"type": ["integer", "string"]})
]
Size = Annotated[
    int | float | str | None,
    BeforeValidator(_size),
    WithJsonSchema({"type": ["integer", "number", "string"]}),
]
Shares = Listed[float]


class SplitColumns(Record):
    """Columns of the log: names, or SQL expressions over its columns."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    item: str = key("item", "Item column.")
    time: str | None = key(None, "Date, datetime, or whole seconds, milliseconds, ...")
    relevance: str | None = key(None, "For threshold, and dedupe by max.")


class Core(Record):
    """Users and items with fewer rows leave, until none has."""

    user: int = key(0, "Least rows of a user.", ge=0)
    item: int = key(0, "Least rows of an item.", ge=0)
    count: Literal["rows", "pairs"] = key(
        "rows", "What is counted; pairs: each user and item once."
    )
    rounds: int | None = key(None, "1: one look at each side; default: to the end.", ge=1, le=1)
    first: Literal["user", "item"] = key(
        "user", "Which side is looked at first, where that matters."
    )


def _core(value: object) -> object:
    if isinstance(value, list | tuple) and len(value) == 2:
        return {"user": value[0], "item": value[1]}
    return value


# what the records of other libraries' splits call a key, and what it is called here
_WORDS = {
    "ratio": "test",
    "size": "test",
    "count": "rounding",
    "validation_ratio": "validation",
    "keep_train": "min_train",
}


class SplitSection(Record):
    """A log, cut into train, validation and test."""

    path: Texts | None = key(None, tables.PATH)
    format: str | None = key(None, tables.FORMAT)
    header: bool | None = tables.unsaid(tables.HEADER)
    files: AsTheyAre = tables.unsaid(tables.FILES)
    columns: SplitColumns = Field(default_factory=SplitColumns, description=tables.COLUMNS)
    where: str | None = key(None, tables.WHERE)
    like: str | None = key(None, "A library whose rules fill in what is not set, as recbole.")
    by: Literal[
        "time",
        "user",
        "item",
        "users",
        "rows",
        "time-ratio",
        "time-quantile",
        "window",
        "new-users",
        "user-span",
        "percentile-user",
        "round-robin",
        "blocks",
    ] = key(
        "time",
        "time: one moment for all; user, item: the latest rows of each; users: whole "
        "users, by a hash; rows: single rows, by a hash",
    )
    test: Size = key(
        None, "What is test: a span (7d), a moment (2026-11-01), a share (0.1), or rows (1)."
    )
    validation: Size = key(None, "The same before the test; default: no validation.")
    ratios: Shares = key((), "Shares of train, validation and test together, as [0.8, 0.1, 0.1].")
    validation_of_rest: bool = key(
        False,
        "With rounding = ceil, round-test or floor-test the share of validation is one of what "
        "test leaves, as it is with others.",
    )
    folds: int | None = key(None, "So many splits, the oldest first.", ge=1, le=1000)
    train: Literal["expanding", "sliding"] = key(
        "expanding", "Train of later folds: all before, or as long as the first"
    )
    end: Literal["calendar", "last"] = key(
        "calendar", "Spans end with the unit of the last row, or just after it."
    )
    zone: str = key("UTC", "Time zone of calendar days.")
    time_unit: Literal["auto", "s", "ms", "us", "ns"] = key("auto", "Unit of whole-number times.")
    boundary: Literal["from", "after"] = key("from", "A row at the moment is test, or before it.")
    order: Literal["time", "input", "reversed", "hash"] = key(
        "time", "What the latest rows are: by time, row order, or a draw."
    )
    left_out: Literal["drop", "train"] = key(
        "drop", "Where rows go that folds of a user's last rows leave out."
    )
    ties: Literal["input", "first", "item", "together", "unstable"] | None = key(
        None,
        "Of equal times of a user: the later row is later, the first row is, or the "
        "greater item; of all rows: together, or cut by count (input).",
    )
    rounding: Rounding = key("floor", "How a share of rows becomes a number of rows.")
    min_train: int = key(1, "Rows of a user that stay in train.", ge=0)
    min_rows: int = key(0, "Users with fewer rows: see below_min.", ge=0)
    below_min: Literal["train", "drop"] = key(
        "train", "Where rows of users with fewer than min_rows go."
    )
    fold_in: float = key(0.8, "by = users: earliest share of a test user's rows.", gt=0, lt=1)
    seed: int = key(1, "Of everything that is drawn.", ge=0, le=2**63 - 1)
    dedupe: Literal["none", "first", "last", "max"] = key(
        "none", "Which of a user's rows of one item stays, before all else."
    )
    part_duplicates: Literal["keep", "first", "first by time"] = key(
        "keep", "Which of them stays within a part, after all else."
    )
    core: Annotated[Core | None, BeforeValidator(_core)] = key(
        None, "Least rows of users and items, as { user = 5, item = 5 }."
    )
    threshold: Threshold | None = key(None, "Rows of less relevance go to no part.")
    threshold_in: Literal["all", "test"] = key(
        "all", "Where the threshold holds; test: in validation and test alone."
    )
    cold_users: Literal["keep", "drop", "error"] = key(
        "keep", "Test rows of users without a train row."
    )
    cold_items: Literal["keep", "drop", "error"] = key(
        "keep", "Test rows of items without a train row."
    )
    seen: Literal["keep", "drop", "error"] = key(
        "keep", "Test rows whose user and item are in train."
    )
    mark_cold: bool = key(True, "Columns cold_user and cold_item in validation and test.")
    bad_times: Literal["error", "drop", "train"] = key("error", "Rows without a time.")
    null_ids: Literal["error", "drop"] = key("error", "Rows without user or item.")
    empty: Literal["error", "keep"] = key("error", "A part that no row is in.")
    write: Literal["parts", "assignment", "where"] = key(
        "parts", "Rows, one byte a row, or predicates."
    )
    memory_limit: Bytes = key(
        None, "Most memory, as 8GiB: more passes, or refused by name. Default: none is set."
    )
    out: str | None = key(None, "Folder to write; default: splits/NAME.")

    @model_validator(mode="before")
    @classmethod
    def _in_our_words(cls, given: object) -> object:
        """Take the words that the records of other libraries' splits are written in."""
        if not isinstance(given, Mapping):
            return given
        words = {_WORDS.get(key, key): value for key, value in given.items()}
        if "cut" in words:
            cut = words.pop("cut")
            moments = list(cut) if isinstance(cut, list | tuple) else [cut]
            words["test"] = moments[-1]
            if len(moments) == 2:
                words["validation"] = moments[0]
        if "seconds" in words:
            words["test"] = f"{words.pop('seconds')}s"
        if "train_ratio" in words:
            ratio = words.pop("train_ratio")
            words["ratios"] = [ratio, 1 - ratio] if isinstance(ratio, float) else ratio
        if isinstance(words.get("dedupe"), str):
            words["dedupe"] = re.sub(" by time$", "", str(words["dedupe"]))
        if isinstance(words.get("ratios"), list | tuple):
            words["ratios"] = [
                float(each) if type(each) is int else each for each in words["ratios"]
            ]
        return words
