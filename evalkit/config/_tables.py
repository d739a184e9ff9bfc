"""Tables of a config: where they lie, and which of their columns is which."""

import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema


def _tuple_of_texts(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


_TEXT_OR_TEXTS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
Texts = Annotated[tuple[str, ...], BeforeValidator(_tuple_of_texts), WithJsonSchema(_TEXT_OR_TEXTS)]
Threshold = Annotated[float, Field(allow_inf_nan=False)]
PATH = "File, glob, directory, URL, or a list of them; relative to the config file."
SPAN = re.compile(r"[1-9][0-9]{0,5}[mhd]")  # of time: 30m, 1h, 1d
CATALOG = "table://"  # begins the path of a table that a catalog of Spark names
TABLE = 'Instead of path: a table of Spark, catalog.db.name; the same as path = "table://...".'
COLUMNS = "What is read, and nothing else; without any, columns are guessed from their names."
FORMAT = "Format where the name does not tell: parquet, ipc, csv, ndjson, trec."
AsTheyAre = Literal["as they are"] | None
FILES = "as they are: files of Delta, Iceberg and Hudi tables, whatever version they are of."
HEADER = "false: the first line of CSV is a row, and columns are column_1, column_2, ..."
VERIFY = "false: checksums of pages of local Parquet files are not verified."
WHERE = "SQL predicate; rows in are the rows after it."
_RANKED_BY = "rows: their order ranks, whatever columns look like ranks or scores."
_AGE = "Date, datetime or whole seconds; for gates of its age."
_ORDER = "What the rows are put in order by, where their order matters; default: as they stand."


def is_none(value: object) -> bool:
    """Whether a key is left out of what a run keeps of its config, as one that nobody wrote."""
    return value in (None, (), {})


def is_in_catalog(paths: Sequence[str] | None) -> bool:
    """Whether a catalog of Spark names the table."""
    return any(path.startswith(CATALOG) for path in paths or ())


def tuple_of_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


_SPLIT = "Folder that evalkit split wrote, in place of path; columns come from there."
_PART = "Part of that split: train, validation, test, ..."
_FOLD = "Fold of that split, from 1."
Entry = TypeVar("Entry")
Listed = Annotated[tuple[Entry, ...], BeforeValidator(tuple_of_list)]
Names = Listed[str]


def _text_of_date(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


_TIME = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
Moment = Annotated[str | int, BeforeValidator(_text_of_date), WithJsonSchema(_TIME)]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def key(default: Any, description: str, **limits: Any) -> Any:
    """A key of the config: its default, `...` where it must be given, and what it is for."""
    return Field(default, description=description, **limits)


def unsaid(description: str, default: Any = None, **limits: Any) -> Any:
    """A key that a run leaves out of what it keeps of its config where nobody wrote it."""
    return key(default, description, exclude_if=is_none, **limits)


def of_experiments(default: str, description: str) -> Any:
    """A key of experiments, which other runs leave out of what they keep of their config."""
    return key(default, description, exclude_if=lambda value: value == default)


# Keys that tables share; those of the class that is named last come first.


class ModelKey(Record):
    model: str | None = key(None, "Name of the model; or name columns.model.")


class PathKeys(Record):
    path: Texts = key(..., PATH)
    table: str | None = unsaid(TABLE)


class PartKeys(Record):
    split: str | None = unsaid(_SPLIT)
    part: str | None = unsaid(_PART)
    fold: int | None = unsaid(_FOLD, ge=1)


class FormKeys(Record):
    if TYPE_CHECKING:
        columns: Any  # of each table in its own place

    format: str | None = key(None, FORMAT)
    header: bool | None = unsaid(HEADER)
    files: AsTheyAre = unsaid(FILES)


class KindTable(FormKeys, PathKeys):
    """A table of a kind's own section; which of its columns is which, the kind adds."""

    where: str | None = key(None, WHERE)
    columns: Any


class TruthColumns(Record):
    """Columns of the truth: names, or SQL expressions over its columns."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    item: str = key("item", "Item column.")
    relevance: str | None = key(None, "Relevance column; without one every row is relevant.")
    time: str | None = unsaid(_AGE)
    order: str | None = unsaid(_ORDER)
    propensity: str | None = unsaid("How likely the interaction was to be seen at all, in (0, 1].")
    judge: str | None = unsaid("Of judgements: who judged.")


class RankingsColumns(Record):
    """Columns of the rankings: names, or SQL expressions over its columns."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    item: str = key("item", "Item column; may be a list column.")
    rank: str | None = key(None, "Rank column; without rank and score, row order is the order.")
    score: str | None = key(None, "Score column, higher is better; a rank column orders before it.")
    order: str | None = unsaid(_ORDER)
    model: str | None = key(None, "Model column, for one table with many models.")


class LogColumns(RankingsColumns):
    """Columns of a joined log: names, or SQL expressions over its columns."""

    label: str = key("label", "Relevance of the row's item.")
    time: str | None = unsaid(_AGE)


class TrainColumns(Record):
    """Columns of the training log: names, or SQL expressions over its columns."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    item: str = key("item", "Item column.")
    time: str | None = unsaid("Date, datetime or whole seconds; for the builtins recent and last.")
    order: str | None = unsaid(_ORDER)


class ItemsColumns(Record):
    """Columns of the table of items: names, or SQL expressions over its columns."""

    item: str = key("item", "Item column.")
    genres: str | None = key(None, "Genres: a list column, or text with separator.")
    vector: Texts | None = key(None, "Vector: a list column, or a list of columns of numbers.")
    published: str | None = key(
        None, "Date, datetime or a whole number of days: for ages, with now."
    )


class UsersColumns(Record):
    """Columns of the table of users: names, or SQL expressions over its columns."""

    user: Texts = key(("user",), "User column, or a list of columns together.")


class TruthTable(FormKeys, PartKeys, PathKeys):
    """Held-out interactions: the right answers."""

    columns: TruthColumns = Field(default_factory=TruthColumns, description=COLUMNS)
    where: str | None = key(None, WHERE)
    threshold: Threshold | None = key(None, "Relevant from here on; default: relevance above 0.")
    min_propensity: float | None = unsaid(
        "Smaller propensities count as this; counted and told.", gt=0, le=1
    )
    judgements: Texts | None = unsaid(
        "In place of path: ratings of several judges; limits hold users and judges."
    )
    vote: Literal["majority", "mean", "median", "dawid-skene"] | None = unsaid(
        "Of judgements: how several ratings become one."
    )


Builtin = Literal["random", "popular", "recent", "last"]


class BuiltinKeys(Record):
    """What says how a baseline is made of train."""

    builtin: Builtin | None = unsaid("Instead of path: a baseline that is made of train.")
    k: int | None = unsaid("Of a builtin: items of a list; default: 50.", ge=1, le=100_000)
    seen: Literal["drop", "keep"] | None = unsaid(
        "Of a builtin: items that train has of the user; default: drop."
    )
    seed: int | None = unsaid("Of random; default: 1.", ge=0, le=2**63 - 1)
    half_life: str | None = unsaid(
        "Of recent: the age at which a row counts half, as 30d, the default."
    )
    window: str | None = unsaid(
        "Of recent: only rows of that last span count, as 7d, each of them 1."
    )
    by: Literal["time", "count"] | None = unsaid(
        "Of last: a user's latest items, the default, or those of most rows."
    )


class RankingsTable(FormKeys, BuiltinKeys, PathKeys, ModelKey):
    """Rankings that one model made, or many with `columns.model`; or a baseline made of train."""

    path: Texts = key((), PATH)
    columns: RankingsColumns = Field(default_factory=RankingsColumns, description=COLUMNS)
    ranked_by: Literal["rows"] | None = unsaid(_RANKED_BY)
    where: str | None = key(None, WHERE)
    earlier: Texts = unsaid(
        "The model's lists before, a path each, oldest first; read as these are.", default=()
    )


class LogTable(FormKeys, PathKeys, ModelKey):
    """A joined log: rankings whose rows carry the label."""

    columns: LogColumns = Field(default_factory=LogColumns, description=COLUMNS)
    ranked_by: Literal["rows"] | None = unsaid(_RANKED_BY)
    where: str | None = key(None, WHERE)
    threshold: Threshold | None = key(None, "Relevant from here on; default: label above 0.")


class TrainTable(FormKeys, PartKeys, PathKeys):
    """What the models had seen: ranked items found here are counted."""

    columns: TrainColumns = Field(default_factory=TrainColumns, description=COLUMNS)
    where: str | None = key(None, WHERE)
    drop_seen: bool = key(False, "Drop seen items from the rankings.")


class ItemsTable(FormKeys, PathKeys):
    """All items that there are, and what is known of them; metrics name further columns."""

    columns: ItemsColumns = Field(default_factory=ItemsColumns, description=COLUMNS)
    where: str | None = key(None, WHERE)
    separator: str | None = key(
        None, "Between an item's genres, where they are text.", min_length=1
    )
    now: Moment | None = key(None, "When the lists were made, for ages: as published is written.")


class UsersTable(FormKeys, PathKeys):
    """Who should have got a list."""

    columns: UsersColumns = Field(default_factory=UsersColumns, description=COLUMNS)
    where: str | None = key(None, WHERE)


class RatingsColumns(Record):
    """Columns of true ratings, with predictions beside them or not."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    item: str | None = key(
        None,
        "Item column; default with [[predictions]]: item. Without them it is only "
        "read to find pairs that are there twice.",
    )
    rating: str = key("rating", "True rating.")
    prediction: str | None = key(
        None, "Predicted rating; default without [[predictions]]: prediction."
    )
    model: str | None = key(None, "Model column, for one table with many models.")


class PredictionsColumns(Record):
    """Columns of predicted ratings that lie in a table of their own."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    item: str = key("item", "Item column.")
    prediction: str = key("prediction", "Predicted rating.")
    model: str | None = key(None, "Model column, for one table with many models.")


class LabelsColumns(Record):
    """Columns of scored rows with labels, one an impression."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    session: Texts = key((), "Session column, or a list of columns, for over='sessions'.")
    item: str | None = key(None, "Item; with time, copies of user, item and time are looked for.")
    time: str | None = key(None, "Date, datetime or whole seconds; for session_every and copies.")
    score: str = key("score", "Score, higher is likelier to have label 1.")
    label: str = key("label", "0 or 1, true or false; see threshold.")
    weight: str | None = key(None, "Weight of the row, 0 or more.")
    model: str | None = key(None, "Model column, for one table with many models.")


class RatingsTable(FormKeys, PathKeys, ModelKey):
    """True ratings: of one model's rows together with its predictions, or for [[predictions]]."""

    columns: RatingsColumns = Field(default_factory=RatingsColumns, description=COLUMNS)
    where: str | None = key(None, WHERE)


class PredictionsTable(FormKeys, PathKeys, ModelKey):
    """Predicted ratings of one model, or of many with `columns.model`."""

    columns: PredictionsColumns = Field(default_factory=PredictionsColumns, description=COLUMNS)
    where: str | None = key(None, WHERE)


class LabelsTable(FormKeys, PathKeys, ModelKey):
    """Scored rows with labels of one model, or of many with `columns.model`."""

    columns: LabelsColumns = Field(default_factory=LabelsColumns, description=COLUMNS)
    where: str | None = key(None, WHERE)
    threshold: Threshold | None = key(
        None, "Label 1 from here on; default: labels are 0 and 1 already."
    )
    session_every: str | None = key(
        None, "A session is a user's rows of one such span of time: 30m, 1h, 1d, in UTC."
    )


class MetricsSection(Record):
    """What to measure."""

    names: Names = key(
        ..., "Metrics as name(parameter=value)@cutoff, such as nDCG@{5,10,20}.", min_length=1
    )
    profile: str = key(
        "evalkit",
        "Conventions of a library, such as ranx, or a file of your own, relative to "
        "the config file.",
    )
    primary: Texts = key(
        (), "Those of the names that decide; default: the first gate's metric, else the first name."
    )
    guardrails: Texts = unsaid(
        "Of experiments: those of the names that must not get worse.", default=()
    )
    lower_is_better: Texts = unsaid(
        "Of experiments: those of the names whose fall is good.", default=()
    )
    files: Names = key((), "Python files with metrics of your own.")
    reference: str | None = unsaid(
        "Lists that others are held against: a model's name, or a path (a folder ends in /)."
    )
    combined: dict[str, str] = Field(
        default_factory=dict,
        exclude_if=is_none,
        description="Numbers made of several of the names: min, mean or hmean(nDCG@10, "
        "novelty@10), or 0.7 * nDCG@10 + 0.3 * novelty@10.",
    )
