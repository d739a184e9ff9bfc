"""The records that a config is made of: its tables, keys, defaults and descriptions."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    WithJsonSchema,
)

from evalkit.config._doors import Door, spell_policy
from evalkit.config._places import Places
from evalkit.errors import EvalkitError, masked
from evalkit.metrics import Request, parse_metrics
from evalkit.profiles import Profile, find_profile


def _tuple_of_texts(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _tuple_of_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


_TEXT_OR_TEXTS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
Texts = Annotated[tuple[str, ...], BeforeValidator(_tuple_of_texts), WithJsonSchema(_TEXT_OR_TEXTS)]
Names = Annotated[tuple[str, ...], BeforeValidator(_tuple_of_list)]
Threshold = Annotated[float, Field(allow_inf_nan=False)]


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


_PATH = "File, glob, directory, URL, or a list of them; relative to the config file."
_COLUMNS = "What is read, and nothing else; without any, columns are guessed from their names."
_FORMAT = "Format where the name does not tell: parquet, ipc, csv, ndjson, trec."
_WHERE = "SQL predicate; rows in are the rows after it."


class TruthTable(Record):
    """Held-out interactions: the right answers."""

    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: TruthColumns = Field(default_factory=TruthColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    threshold: Threshold | None = Field(
        default=None, description="Relevant from here on; default: relevance above 0."
    )


class RankingsTable(Record):
    """Rankings that one model made, or many with `columns.model`."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: RankingsColumns = Field(default_factory=RankingsColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)


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
    format: str | None = Field(default=None, description=_FORMAT)
    columns: TrainColumns = Field(default_factory=TrainColumns, description=_COLUMNS)
    where: str | None = Field(default=None, description=_WHERE)
    drop_seen: bool = Field(default=False, description="Drop seen items from the rankings.")


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
    files: Names = Field(default=(), description="Python files with metrics of your own.")


class Policies(Record):
    """What to do at each edge of the data."""

    missing_ranking: Literal["zero", "skip", "nan"] = Field(
        default="zero", description="A truth user without a ranking; nan: the mean is undefined."
    )
    empty_ranking: Literal["zero", "skip", "nan"] = Field(
        default="zero", description="A truth user whose ranking has no row."
    )
    no_relevant: Literal["skip", "zero", "one", "nan"] = Field(
        default="skip", description="A truth user without relevant items."
    )
    zeros: Literal["count", "skip", "survivors", "nan"] = Field(
        default="count", description="A user whose value is 0."
    )
    unknown_users: Literal["skip", "count", "error"] = Field(
        default="skip",
        description="A ranked user that the truth lacks; always counted in the report. count: as "
        "a user without relevant items.",
    )
    seen: Literal["all", "shown"] = Field(
        default="all",
        description="Relevant items that the whole list lacks; all: missed, shown: not there.",
    )
    duplicates: Literal["error", "best", "first", "last", "once", "count", "multiply"] = Field(
        default="error", description="An item twice in a ranking."
    )
    rel_size: Literal["items", "rows"] = Field(
        default="items",
        description="How often a relevant item counts among the relevant ones; rows: as often as "
        "the list shows it.",
    )
    truth_duplicates: Literal["max", "error", "sum", "last"] = Field(
        default="max", description="An item twice in a user's truth."
    )
    ties: Literal[
        "item",
        "item-desc",
        "item-text",
        "item-text-desc",
        "input",
        "numba",
        "numba-reversed",
        "expected",
        "mean-rank",
        "last-rank",
        "best",
        "worst",
    ] = Field(
        default="item",
        description="Order of equal scores; item: smaller item id first, expected: the mean over "
        "all orders.",
    )
    tie_share: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.01,
        description="Ties that can move a number by more than this share of it are warned of, "
        "where ties is expected, best or worst.",
    )
    score_type: Literal["float64", "float32"] = Field(
        default="float64", description="The type in which scores are compared."
    )
    nonpositive_scores: Literal["hit", "miss"] = Field(
        default="hit", description="A relevant item whose score is 0 or below."
    )
    bad_scores: Literal["error", "last", "drop"] = Field(
        default="error", description="NaN or null scores; infinities order as numbers."
    )
    unpredicted: Literal["skip", "error"] = Field(
        default="skip", description="A true rating without a prediction; always counted."
    )
    unrated: Literal["skip", "error"] = Field(
        default="skip", description="A prediction without a true rating; always counted."
    )
    bad_labels: Literal["error", "drop"] = Field(
        default="error", description="Labels other than 0 and 1, and nulls."
    )
    null_ids: Literal["error", "drop"] = Field(default="error", description="Null users or items.")
    bad_ranks: Literal["error", "keep", "compress"] = Field(
        default="error", description="Ranks below first_rank, gaps and repeats."
    )
    first_rank: int = Field(
        default=1,
        ge=-(2**31),
        le=2**31 - 1,
        description="The number that the best rank has in the logs.",
    )
    negative_relevance: Literal["ignore", "error", "subtract"] = Field(
        default="ignore", description="Relevance below 0; ignore: not relevant, no gain."
    )
    fractional_relevance: Literal["keep", "binary"] = Field(
        default="keep",
        description="Relevance that is no whole number; binary: all of the truth is 1 from the "
        "threshold on, else 0.",
    )
    threshold_rule: Literal["as-given", "floor"] = Field(
        default="as-given", description="The threshold; floor: rounded down to a whole number."
    )
    round_users: int = Field(
        default=17, ge=0, le=17, description="Decimals of a user's value; 17 rounds nothing."
    )
    round_mean: int = Field(
        default=17, ge=0, le=17, description="Decimals of a mean; 17 rounds nothing."
    )
    beyond_depth: Literal["warn", "error"] = Field(
        default="warn", description="A cutoff deeper than any ranking."
    )
    no_common_user: Literal["error", "warn"] = Field(
        default="error", description="Truth and rankings share no user."
    )
    empty_input: Literal["error", "warn"] = Field(
        default="error", description="A table without rows."
    )
    truth_in_train: Literal["warn", "error", "count"] = Field(
        default="warn",
        description="Pairs of the truth that stand in train; warn: told from 1 %, refused from "
        "95 %, error: refused from 1 %, count: only counted.",
    )
    mixed_splits: Literal["error", "keep"] = Field(
        default="error",
        description="A table with rows of train, valid and test, told by a column such as split.",
    )


class Segmentation(Record):
    """One way to split users, or relevant items, into segments."""

    path: Texts | None = Field(
        default=None, description="Table of users or items; without one, the truth's own columns."
    )
    format: str | None = Field(default=None, description=_FORMAT)
    where: str | None = Field(default=None, description=_WHERE)
    user: Texts | None = Field(
        default=None,
        description="User column of the table, or columns; default: as in the truth, or guessed.",
    )
    item: str | None = Field(
        default=None, description="Item column of the table: segments of items instead of users."
    )
    by: str = Field(
        description="Column or SQL expression; n_relevant is a user's number of relevant items."
    )
    quantiles: int | None = Field(
        default=None, ge=2, le=100, description="Buckets of a number with as many users each."
    )
    edges: Annotated[tuple[Threshold, ...], BeforeValidator(_tuple_of_list)] | None = Field(
        default=None, description="Buckets of a number: each edge begins the next one."
    )
    pick: Literal["same", "min", "max"] = Field(
        default="same", description="Which value of a user who has several; same: an error."
    )


Pairs = Annotated[
    tuple[Annotated[tuple[str, str], BeforeValidator(_tuple_of_list)], ...],
    BeforeValidator(_tuple_of_list),
]


class SegmentsSection(Record):
    """Segmentations by name, and what holds for all of them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, Segmentation]

    cross: Pairs = Field(default=(), description="Pairs of segmentations to cross.")
    min_users: int = Field(
        default=1, ge=1, description="Smaller segments are put together as (small)."
    )

    @property
    def named(self) -> dict[str, Segmentation]:
        """The segmentations in the order of the config."""
        return dict(self.__pydantic_extra__ or {})


class StatisticsSection(Record):
    """Intervals, and comparisons of models on the same users."""

    level: float = Field(
        default=0.95, gt=0.5, lt=1, description="Share of intervals that hold the true value."
    )
    method: Literal["normal", "bootstrap"] = Field(
        default="normal", description="Intervals by Student's t, or by the bootstrap over users."
    )
    limits: Literal["percentile", "bca", "studentised"] = Field(
        default="percentile", description="Which limits the bootstrap gives."
    )
    metrics: Names = Field(
        default=(), description="Metrics to bootstrap or to test by ranks; default: all."
    )
    replicates: int = Field(
        default=1000, ge=100, le=100_000, description="Resamples of bootstrap and permutation."
    )
    seed: int = Field(default=1, ge=0, le=2**63 - 1, description="Of everything that is drawn.")
    baseline: str | None = Field(
        default=None, description="Every other model is compared with this one."
    )
    pairs: Literal["baseline", "all"] = Field(
        default="baseline", description="Compare with the baseline, or every two models."
    )
    test: Literal["t", "wilcoxon", "permutation", "bootstrap"] = Field(
        default="t", description="Test of no difference, paired by user."
    )
    correction: Literal["holm", "bonferroni", "bh", "tukey", "none"] = Field(
        default="holm", description="For many comparisons; bh: Benjamini-Hochberg."
    )
    family: Literal["report", "metric"] = Field(
        default="report", description="Tests corrected together: all, or those of one metric."
    )
    margin: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="A difference that does not matter."
    )
    power: float = Field(
        default=0.8, gt=0.5, lt=1, description="Of the smallest difference that would be seen."
    )
    search: bool = Field(default=False, description="Look for the segments that lose or gain most.")
    cluster: str | None = Field(
        default=None,
        description="Column of the truth, of ratings or labels, or SQL over it: users of one value "
        "vary together.",
    )
    weight: Segmentation | None = Field(
        default=None, description="A number of each user, whose values count so much."
    )
    curves: bool = Field(
        default=False,
        description="Every metric at each cutoff up to the deepest that is asked for; precision by "
        "recall where both are.",
    )
    distributions: bool = Field(
        default=False, description="How many users have which value, of metrics within 0 and 1."
    )


Count = Literal[
    "rows",
    "users",
    "pairs",
    "rows_dropped",
    "users_without_ranking",
    "users_without_truth",
    "duplicates",
]
Bound = Annotated[float, Field(allow_inf_nan=False)]
Allowance = Annotated[float, Field(allow_inf_nan=False, ge=0)]


def _as_printed(metric: str) -> str:
    try:
        labels = [each.label for each in parse_metrics([metric])]
    except EvalkitError:
        return metric  # a metric of the user's own, or told elsewhere
    return labels[0] if len(labels) == 1 else metric


class GateRule(Record):
    """One thing that must hold of a run, or the run ends with status 1."""

    metric: Annotated[str, AfterValidator(_as_printed)] | None = Field(
        default=None, description="A metric of metrics.names; or give data."
    )
    data: Count | None = Field(
        default=None,
        description="A count: rows, users, pairs; or a share: of rows that were dropped or are "
        "duplicates, of users without ranking or truth.",
    )
    model: str | None = Field(default=None, description="That model; default: every model.")
    segment: str | None = Field(
        default=None, description="Users of that segment, as activity=new; default: all."
    )
    min: Bound | None = Field(default=None, description="The value is at least that.")
    max: Bound | None = Field(default=None, description="The value is at most that.")
    max_drop: Allowance | None = Field(
        default=None, description="The metric gets worse than the baseline's by that at most."
    )
    max_change: Allowance | None = Field(
        default=None, description="The count differs from the baseline's by that share at most."
    )
    baseline: str | None = Field(
        default=None,
        description="last, last~1, last-passed, a tag, a run's id or path; or a model of this run.",
    )
    min_users: int = Field(
        default=10, ge=2, description="Fewer users cannot tell, whatever the interval says."
    )
    unclear: Literal["fail", "pass"] = Field(
        default="fail", description="What a gate does that cannot tell."
    )


class OutputSection(Record):
    """Where the report goes and in which forms."""

    path: str = Field(default="runs", description="Folder of runs; relative to the config file.")
    formats: Annotated[
        tuple[Literal["json", "parquet", "csv", "markdown", "html", "latex"], ...],
        BeforeValidator(_tuple_of_list),
    ] = Field(
        default=("json", "parquet", "markdown", "html"), description="Forms of the report to write."
    )
    per_user: bool = Field(default=False, description="Write every user's values too.")
    mlflow: str | None = Field(
        default=None, description="Experiment of MLflow that is told of the run."
    )


class ConfigState(NamedTuple):
    """A config, as another process takes it over."""

    asked: dict[str, object]
    places: Places
    profile: Profile
    overridden: tuple[tuple[str, str | float, str | float], ...]
    by_hand: tuple[str, ...]


class Config(Record):
    """The whole request. [truth] with [[rankings]], or one of [log], [ratings] and [labels]."""

    name: str = Field(
        default="", description="Jobs of one name share history; default: the file's name."
    )
    truth: TruthTable | None = Field(default=None, description="Held-out interactions.")
    rankings: Annotated[tuple[RankingsTable, ...], BeforeValidator(_tuple_of_list)] = Field(
        default=(), description="One table for each model, or one with columns.model."
    )
    log: LogTable | None = Field(
        default=None, description="A joined log instead of truth and rankings."
    )
    train: TrainTable | None = Field(default=None, description="What the models had seen.")
    ratings: Annotated[tuple[RatingsTable, ...], BeforeValidator(_tuple_of_list)] = Field(
        default=(), description="True ratings, with predictions beside them or in [[predictions]]."
    )
    predictions: Annotated[tuple[PredictionsTable, ...], BeforeValidator(_tuple_of_list)] = Field(
        default=(), description="Predicted ratings in tables of their own."
    )
    labels: Annotated[tuple[LabelsTable, ...], BeforeValidator(_tuple_of_list)] = Field(
        default=(), description="Scored rows with labels, one an impression."
    )
    metrics: MetricsSection = Field(description="Metrics, profile, and files with your own.")
    policies: Policies = Field(default_factory=Policies, description="Choices at edges.")
    segments: SegmentsSection = Field(
        default_factory=lambda: SegmentsSection.model_validate({}),
        description="Users, or relevant items, in groups.",
    )
    statistics: StatisticsSection = Field(
        default_factory=StatisticsSection, description="Intervals and comparisons."
    )
    gates: Annotated[tuple[GateRule, ...], BeforeValidator(_tuple_of_list)] = Field(
        default=(), description="What must hold, or the run ends with status 1."
    )
    output: OutputSection = Field(default_factory=OutputSection, description="Where to write.")
    storage: dict[str, str] = Field(
        default_factory=dict,
        description="Options of object stores, as aws_region; secrets as ${NAME} of the "
        "environment.",
    )

    _places: Places = PrivateAttr(default_factory=Places)
    _door: Door = PrivateAttr(default="file")
    _followed: Profile | None = PrivateAttr(default=None)
    _overridden: tuple[tuple[str, str | float, str | float], ...] = PrivateAttr(default=())
    _by_hand: Policies | None = PrivateAttr(default=None)  # before the profile came in

    @property
    def requests(self) -> tuple[Request, ...]:
        """The metrics, with the parameters and policies that the profile gives them.

        Raises:
            RequestError: metrics that are wrong, as `parse_metrics`; metrics whose value over all
                orders of equal scores is not known [no-tie-bounds].
        """
        return self.read_metrics(self.metrics.names)

    def read_metrics(self, names: Sequence[str]) -> tuple[Request, ...]:
        """Metrics by name, as this config understands them.

        Raises:
            RequestError: as `requests`.
        """
        from evalkit.config._profiles import requests_of

        return tuple(requests_of(self, names))

    @property
    def profile(self) -> Profile:
        """The profile that the metrics follow."""
        return self._followed or find_profile(self.metrics.profile).of(self.kind)

    @property
    def set_by_hand(self) -> frozenset[str]:
        """The policies that were set by hand."""
        by_hand = self.policies if self._by_hand is None else self._by_hand
        return frozenset(by_hand.model_fields_set)

    @property
    def overridden(self) -> tuple[tuple[str, str | float, str | float], ...]:
        """Policies set by hand against the profile: name, value, the profile's value."""
        return self._overridden

    @property
    def kind(self) -> Literal["rankings", "ratings", "labels"]:
        """What is evaluated, which says what metric names mean."""
        return "labels" if self.labels else "ratings" if self.ratings else "rankings"

    def at(self, *key: str | int) -> str:
        """Where a key stands, for errors: `configs/nightly.toml:14: metrics.names[2]`."""
        return self._places.at(key)

    @property
    def door(self) -> Door:
        """Where the request came from: hints speak its words, and a config's columns are law."""
        return self._door

    def spell_policy(self, name: str, value: str) -> str:
        """A policy as whoever asked would write it, for hints."""
        return spell_policy(self.door, name, value)

    def state(self) -> ConfigState:
        """What makes the same config elsewhere, without a file; passwords in URLs are masked."""
        by_hand = tuple(sorted(self.set_by_hand))
        return ConfigState(self.dump(), self._places, self.profile, self._overridden, by_hand)

    @classmethod
    def of_state(cls, state: ConfigState) -> "Config":
        """The config that `state` was taken of.

        Raises:
            ValueError: there is no such config.
        """
        config = cls.model_validate(state.asked)
        config._places, config._followed = state.places, state.profile
        config._overridden = state.overridden
        by_hand = {name: getattr(config.policies, name) for name in state.by_hand}
        config._by_hand = Policies.model_validate(by_hand)
        return config

    def dump(self) -> dict[str, object]:
        """What a run keeps of the config, as JSON has it; passwords in URLs are masked."""
        kept = _masked(self.model_dump(mode="json"))
        assert isinstance(kept, dict)
        return kept


def _masked(value: object) -> object:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list) else value
