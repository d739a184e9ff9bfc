"""The records that a config is made of: its tables, keys, defaults and descriptions."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PrivateAttr

from evalkit.config._doors import Door, spell_policy
from evalkit.config._places import Places
from evalkit.config._policies import Policies
from evalkit.config._profiles import requests_of
from evalkit.config._selection import SelectionSection
from evalkit.config._split import SplitSection
from evalkit.config._tables import (
    _FORMAT,
    _WHERE,
    ItemsTable,
    LabelsTable,
    LogTable,
    MetricsSection,
    Names,
    PredictionsTable,
    RankingsTable,
    RatingsTable,
    Record,
    Texts,
    Threshold,
    TrainTable,
    TruthTable,
    UsersTable,
    is_none,
    tuple_of_list,
)
from evalkit.errors import EvalkitError, masked
from evalkit.metrics import Request, parse_metrics
from evalkit.profiles import Profile, find_profile


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
    edges: Annotated[tuple[Threshold, ...], BeforeValidator(tuple_of_list)] | None = Field(
        default=None, description="Buckets of a number: each edge begins the next one."
    )
    pick: Literal["same", "min", "max"] = Field(
        default="same", description="Which value of a user who has several; same: an error."
    )


Pairs = Annotated[
    tuple[Annotated[tuple[str, str], BeforeValidator(tuple_of_list)], ...],
    BeforeValidator(tuple_of_list),
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
    skewness: bool = Field(
        default=True,
        description="Mend tests against a margin, and differences on clusters, for skewness.",
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
    "leakage.train_after_test",
    "leakage.train_after_test_share",
    "leakage.train_after_own_test",
    "leakage.test_rows_in_train",
    "leakage.test_pairs_in_train",
    "leakage.test_users_never_in_train",
    "leakage.test_items_never_in_train",
    "leakage.test_boundaries_in_equal_times",
    "leakage.train_after_validation",
    "leakage.train_after_validation_share",
    "leakage.train_after_own_validation",
    "leakage.validation_rows_in_train",
    "leakage.validation_pairs_in_train",
    "leakage.validation_users_never_in_train",
    "leakage.validation_items_never_in_train",
    "leakage.validation_boundaries_in_equal_times",
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
        "duplicates, of users without ranking or truth; or what a split leaks.",
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
        BeforeValidator(tuple_of_list),
    ] = Field(
        default=("json", "parquet", "markdown", "html"), description="Forms of the report to write."
    )
    per_user: bool = Field(default=False, description="Write every user's values too.")
    mlflow: str | None = Field(
        default=None, description="Experiment of MLflow that is told of the run."
    )


class SplitConfig(Record):
    """What a config asks `evalkit split` for; its other sections are for other commands."""

    name: str = Field(default="", description="The split is written to splits/NAME.")
    split: SplitSection = Field(description="How a log is cut into train, validation and test.")
    gates: Annotated[tuple[GateRule, ...], BeforeValidator(tuple_of_list)] = Field(
        default=(), description="What must hold of its leakage."
    )
    storage: dict[str, str] = Field(default_factory=dict, description="Options of object stores.")

    _places: Places = PrivateAttr(default_factory=Places)
    _door: Door = PrivateAttr(default="file")

    def at(self, *key: str | int) -> str:
        """Where a key stands, for errors."""
        return self._places.at(key)

    @property
    def door(self) -> Door:
        """Where the request came from: hints speak its words."""
        return self._door


class ConfigState(NamedTuple):
    """A config, as another process takes it over."""

    asked: dict[str, object]
    places: Places
    profile: Profile
    overridden: tuple[tuple[str, str | float, str | float], ...]
    by_hand: tuple[str, ...]


class Config(Record):
    """The whole request. [[rankings]] with [truth], or one of [log], [ratings] and [labels]."""

    name: str = Field(
        default="", description="Jobs of one name share history; default: the file's name."
    )
    truth: TruthTable | None = Field(default=None, description="Held-out interactions.")
    rankings: Annotated[tuple[RankingsTable, ...], BeforeValidator(tuple_of_list)] = Field(
        default=(), description="One table for each model, or one with columns.model."
    )
    log: LogTable | None = Field(
        default=None, description="A joined log instead of truth and rankings."
    )
    train: TrainTable | None = Field(default=None, description="What the models had seen.")
    items: ItemsTable | None = Field(
        default=None, exclude_if=is_none, description="All items, for metrics of lists."
    )
    users: UsersTable | None = Field(
        default=None, exclude_if=is_none, description="Who should have got a list."
    )
    ratings: Annotated[tuple[RatingsTable, ...], BeforeValidator(tuple_of_list)] = Field(
        default=(), description="True ratings, with predictions beside them or in [[predictions]]."
    )
    predictions: Annotated[tuple[PredictionsTable, ...], BeforeValidator(tuple_of_list)] = Field(
        default=(), description="Predicted ratings in tables of their own."
    )
    labels: Annotated[tuple[LabelsTable, ...], BeforeValidator(tuple_of_list)] = Field(
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
    gates: Annotated[tuple[GateRule, ...], BeforeValidator(tuple_of_list)] = Field(
        default=(), description="What must hold, or the run ends with status 1."
    )
    selection: SelectionSection | None = Field(
        default=None, exclude=True, description="For evalkit select: one of many trials is chosen."
    )
    output: OutputSection = Field(default_factory=OutputSection, description="Where to write.")
    storage: dict[str, str] = Field(
        default_factory=dict,
        description="Options of object stores, as aws_region; secrets as ${NAME} of the "
        "environment.",
    )
    split: SplitSection | None = Field(
        default=None,
        exclude_if=is_none,
        description="How a log is cut into train, validation and test.",
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

    @property
    def primary(self) -> tuple[str, ...]:
        """Labels of the metrics that decide, and stand first wherever numbers are shown.

        Those that were named; else the metric of the first gate, else the first asked for.
        """
        named = self.read_metrics(self.metrics.primary)
        asked = [request.label for request in named or self.requests]
        gated = [gate.metric for gate in self.gates if gate.metric in asked and not named]
        return tuple(asked if named else [*gated, *asked][:1])

    @property
    def shown(self) -> dict[str, str]:
        """Labels -> metrics as they were asked for; two that would be alike keep their labels."""
        requests = self.requests
        taken = Counter(each for one in requests for each in {one.label, one.asked})
        return {
            each.label: each.asked if each.asked and taken[each.asked] == 1 else each.label
            for each in requests
        }

    def read_metrics(self, names: Sequence[str]) -> tuple[Request, ...]:
        """Metrics by name, as this config understands them.

        Raises:
            RequestError: as `requests`.
        """
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

    @property
    def is_truthless(self) -> bool:
        """Whether rankings are looked at alone, without right answers."""
        return self.kind == "rankings" and self.truth is None and self.log is None

    @property
    def reference_is_model(self) -> bool:
        """Whether the reference is a model of the run, and no table of its own."""
        reference = self.metrics.reference
        models = [each.model for each in self.rankings]
        return reference is not None and (reference in models or not is_path_of(reference))

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


def is_path_of(reference: str) -> bool:
    """Whether a reference that is no known model's name is written as a path."""
    return re.search(r"[/\\*]|\.[A-Za-z]\w*$", reference) is not None


def _masked(value: object) -> object:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list) else value
