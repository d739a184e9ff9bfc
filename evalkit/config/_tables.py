"""Tables of a config: where they lie, and which of their columns is which."""

from datetime import date
from typing import Annotated, Literal

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
_PATH = "File, glob, directory, URL, or a list of them; relative to the config file."
_COLUMNS = "What is read, and nothing else; without any, columns are guessed from their names."
_FORMAT = "Format where the name does not tell: parquet, ipc, csv, ndjson, trec."
_WHERE = "SQL predicate; rows in are the rows after it."


def is_none(value: object) -> bool:
    """Whether a key is left out of what a run keeps of its config, as one that nobody wrote."""
    return value in (None, ())


def tuple_of_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


_SPLIT = "Folder that evalkit split wrote, in place of path; columns come from there."
_PART = "Part of that split: train, validation, test, ..."
_FOLD = "Fold of that split, from 1."
Names = Annotated[tuple[str, ...], BeforeValidator(tuple_of_list)]


def _text_of_date(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


_TIME = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
Moment = Annotated[str | int, BeforeValidator(_text_of_date), WithJsonSchema(_TIME)]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TruthColumns(Record):
    """Columns of the truth: names, or SQL expressions over its columns."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str = Field(default="item", description="Item column.")
    relevance: str | None = Field(
        default=None, description="Relevance column; without one every row is relevant."
    )


class RankingsColumns(Record):
    """Columns of the rankings: names, or SQL expressions over its columns."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str = Field(default="item", description="Item column; may be a list column.")
    rank: str | None = Field(
        default=None, description="Rank column; without rank and score, row order is the order."
    )
    score: str | None = Field(
        default=None, description="Score column, higher is better; a rank column orders before it."
    )
    model: str | None = Field(
        default=None, description="Model column, for one table with many models."
    )


class LogColumns(RankingsColumns):
    """Columns of a joined log: names, or SQL expressions over its columns."""

    label: str = Field(default="label", description="Relevance of the row's item.")


class TrainColumns(Record):
    """Columns of the training log: names, or SQL expressions over its columns."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str = Field(default="item", description="Item column.")
    time: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="Date, datetime or whole seconds; for the builtins recent and last.",
    )


class ItemsColumns(Record):
    """Columns of the table of items: names, or SQL expressions over its columns."""

    item: str = Field(default="item", description="Item column.")
    genres: str | None = Field(
        default=None, description="Genres: a list column, or text with separator."
    )
    vector: Texts | None = Field(
        default=None, description="Vector: a list column, or a list of columns of numbers."
    )
    published: str | None = Field(
        default=None, description="Date, datetime or a whole number of days: for ages, with now."
    )


class UsersColumns(Record):
    """Columns of the table of users: names, or SQL expressions over its columns."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )


class TruthTable(Record):
    """Held-out interactions: the right answers."""

    path: Texts = Field(description=_PATH)
    split: str | None = Field(default=None, exclude_if=is_none, description=_SPLIT)
    part: str | None = Field(default=None, exclude_if=is_none, description=_PART)
    fold: int | None = Field(default=None, ge=1, exclude_if=is_none, description=_FOLD)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: TruthColumns = Field(default_factory=TruthColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    threshold: Threshold | None = Field(
        default=None, description="Relevant from here on; default: relevance above 0."
    )


Builtin = Literal["random", "popular", "recent", "last"]


class RankingsTable(Record):
    """Rankings that one model made, or many with `columns.model`; or a baseline made of train."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(default=(), description=_PATH)
    builtin: Builtin | None = Field(
        default=None,
        exclude_if=is_none,
        description="Instead of path: a baseline that is made of train.",
    )
    k: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        exclude_if=is_none,
        description="Of a builtin: items of a list; default: 50.",
    )
    seen: Literal["drop", "keep"] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of a builtin: items that train has of the user; default: drop.",
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=2**63 - 1,
        exclude_if=is_none,
        description="Of random; default: 1.",
    )
    half_life: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of recent: the age at which a row counts half, as 30d, the default.",
    )
    window: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of recent: only rows of that last span count, as 7d, each of them 1.",
    )
    by: Literal["time", "count"] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of last: a user's latest items, the default, or those of most rows.",
    )
    format: str | None = Field(default=None, description=_FORMAT)
    columns: RankingsColumns = Field(default_factory=RankingsColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    earlier: Texts = Field(
        default=(),
        exclude_if=is_none,
        description="The model's lists before, a path each, oldest first; read as these are.",
    )


class LogTable(Record):
    """A joined log: rankings whose rows carry the label."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: LogColumns = Field(default_factory=LogColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    threshold: Threshold | None = Field(
        default=None, description="Relevant from here on; default: label above 0."
    )


class TrainTable(Record):
    """What the models had seen: ranked items found here are counted."""

    path: Texts = Field(description=_PATH)
    split: str | None = Field(default=None, exclude_if=is_none, description=_SPLIT)
    part: str | None = Field(default=None, exclude_if=is_none, description=_PART)
    fold: int | None = Field(default=None, ge=1, exclude_if=is_none, description=_FOLD)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: TrainColumns = Field(default_factory=TrainColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    drop_seen: bool = Field(default=False, description="Drop seen items from the rankings.")


class ItemsTable(Record):
    """All items that there are, and what is known of them; metrics name further columns."""

    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: ItemsColumns = Field(default_factory=ItemsColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    separator: str | None = Field(
        default=None,
        min_length=1,
        description="Between an item's genres, where they are text.",
    )
    now: Moment | None = Field(
        default=None, description="When the lists were made, for ages: as published is written."
    )


class UsersTable(Record):
    """Who should have got a list."""

    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: UsersColumns = Field(default_factory=UsersColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)


class RatingsColumns(Record):
    """Columns of true ratings, with predictions beside them or not."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str | None = Field(
        default=None,
        description="Item column; default with [[predictions]]: item. Without them it is only "
        "read to find pairs that are there twice.",
    )
    rating: str = Field(default="rating", description="True rating.")
    prediction: str | None = Field(
        default=None, description="Predicted rating; default without [[predictions]]: prediction."
    )
    model: str | None = Field(
        default=None, description="Model column, for one table with many models."
    )


class PredictionsColumns(Record):
    """Columns of predicted ratings that lie in a table of their own."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str = Field(default="item", description="Item column.")
    prediction: str = Field(default="prediction", description="Predicted rating.")
    model: str | None = Field(
        default=None, description="Model column, for one table with many models."
    )


class LabelsColumns(Record):
    """Columns of scored rows with labels, one an impression."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    session: Texts = Field(
        default=(), description="Session column, or a list of columns, for over='sessions'."
    )
    item: str | None = Field(
        default=None, description="Item; with time, copies of user, item and time are looked for."
    )
    time: str | None = Field(
        default=None, description="Date, datetime or whole seconds; for session_every and copies."
    )
    score: str = Field(default="score", description="Score, higher is likelier to have label 1.")
    label: str = Field(default="label", description="0 or 1, true or false; see threshold.")
    weight: str | None = Field(default=None, description="Weight of the row, 0 or more.")
    model: str | None = Field(
        default=None, description="Model column, for one table with many models."
    )


class RatingsTable(Record):
    """True ratings: of one model's rows together with its predictions, or for [[predictions]]."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: RatingsColumns = Field(default_factory=RatingsColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)


class PredictionsTable(Record):
    """Predicted ratings of one model, or of many with `columns.model`."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: PredictionsColumns = Field(default_factory=PredictionsColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)


class LabelsTable(Record):
    """Scored rows with labels of one model, or of many with `columns.model`."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: LabelsColumns = Field(default_factory=LabelsColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    threshold: Threshold | None = Field(
        default=None, description="Label 1 from here on; default: labels are 0 and 1 already."
    )
    session_every: str | None = Field(
        default=None,
        description="A session is a user's rows of one such span of time: 30m, 1h, 1d, in UTC.",
    )


class MetricsSection(Record):
    """What to measure."""

    names: Names = Field(
        min_length=1,
        description="Metrics as name(parameter=value)@cutoff, such as nDCG@{5,10,20}.",
    )
    profile: str = Field(
        default="evalkit",
        description="Conventions of a library, such as ranx, or a file of your own, relative to "
        "the config file.",
    )
    primary: Texts = Field(
        default=(),
        description="Those of the names that decide; default: the first gate's metric, else the "
        "first name.",
    )
    files: Names = Field(default=(), description="Python files with metrics of your own.")
    reference: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="Lists that others are held against: a model's name, or a path (a folder ends "
        "in /).",
    )
