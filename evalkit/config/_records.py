"""The records that a config is made of: its tables, keys, defaults and descriptions."""

# Long: every record of a config in one place, as the schema has them.

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_not
from typing import Annotated, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    WithJsonSchema,
    field_serializer,
)
from pydantic_core import PydanticCustomError

from evalkit.config import _tables as tables
from evalkit.config._alerts import AlertsSection
from evalkit.config._engine import EngineSection
from evalkit.config._entry_points import EntryPoint, spell_policy
from evalkit.config._joined import joined, kinds_in
from evalkit.config._places import Places
from evalkit.config._policies import Policies
from evalkit.config._profiles import combined_of, requests_of
from evalkit.config._selection import SelectionSection
from evalkit.config._split import SplitSection
from evalkit.config._tables import key, of_experiments
from evalkit.config.form_names import FileForm
from evalkit.errors import EvalkitError, masked
from evalkit.metrics import Request, declared, is_of_kind, other_kinds, parse_metrics
from evalkit.metrics.profiles import DEFAULT, Profile, find_profile

AGE = "age"
SELECTED = "selected"  # a baseline: the winner of the last selection


class Segmentation(tables.Record):
    """One way to split users, or relevant items, into segments."""

    path: tables.Texts | None = key(
        None, "Table of users or items; without one, the truth's own columns."
    )
    table: str | None = tables.unsaid(tables.TABLE)
    format: str | None = key(None, tables.FORMAT)
    header: bool | None = tables.unsaid(tables.HEADER)
    files: tables.AsTheyAre = tables.unsaid(tables.FILES)
    where: str | None = key(None, tables.WHERE)
    user: tables.Texts | None = key(
        None, "User column of the table, or columns; default: as in the truth, or guessed."
    )
    item: str | None = key(None, "Item column of the table: segments of items instead of users.")
    by: str = key(..., "Column or SQL expression; n_relevant is a user's number of relevant items.")
    quantiles: int | None = key(None, "Buckets of a number with as many users each.", ge=2, le=100)
    edges: tables.Listed[tables.Threshold] | None = key(
        None, "Buckets of a number: each edge begins the next one."
    )
    pick: Literal["same", "min", "max"] = key(
        "same", "Which value of a user who has several; same: an error."
    )


Pairs = tables.Listed[Annotated[tuple[str, str], BeforeValidator(tables.tuple_of_list)]]


class SegmentsSection(tables.Record):
    """Segmentations by name, and what holds for all of them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, Segmentation]

    cross: Pairs = key((), "Pairs of segmentations to cross.")
    min_users: int = key(1, "Smaller segments are put together as (small).", ge=1)

    @property
    def named(self) -> dict[str, Segmentation]:
        """The segmentations in the order of the config."""
        return dict(self.__pydantic_extra__ or {})


class StatisticsSection(tables.Record):
    """Intervals, and comparisons of models on the same users."""

    level: float = key(0.95, "Share of intervals that hold the true value.", gt=0.5, lt=1)
    method: Literal["normal", "bootstrap"] = key(
        "normal", "Intervals by Student's t, or by the bootstrap over users."
    )
    limits: Literal["percentile", "bca", "studentised", "auto", "newcombe", "wald"] = key(
        "percentile",
        "Which limits the bootstrap gives. Of fractions in experiments: newcombe, wald, or by "
        "their number.",
    )
    metrics: tables.Names = key((), "Metrics to bootstrap or to test by ranks; default: all.")
    skewness: bool = key(
        True, 'Mend tests for skewness, those of test = "t" against a margin and on clusters.'
    )
    replicates: int = key(1000, "Resamples of bootstrap and permutation.", ge=100, le=100_000)
    seed: int = key(1, "Of everything that is drawn.", ge=0, le=2**63 - 1)
    baseline: str | None = key(
        None, "Every other model is compared with this one; selected: the winner of evalkit select."
    )
    pairs: Literal["baseline", "all"] = key(
        "baseline", "Compare with the baseline, or every two models."
    )
    test: Literal["auto", "t", "sign", "wilcoxon", "permutation", "bootstrap"] = key(
        "auto",
        "Test of no difference, paired by user. auto: McNemar's mid-p of 0 and 1, otherwise Hall's "
        "t, no surer than users not seen allow; t: Student's; sign: of the median of differences.",
    )
    correction: Literal["holm", "bonferroni", "bh", "tukey", "none"] = key(
        "holm", "For many comparisons; bh: Benjamini-Hochberg."
    )
    family: Literal["report", "metric"] = key(
        "report", "Tests corrected together: all, or those of one metric."
    )
    margin: float | None = key(
        None, "A difference that does not matter.", gt=0, allow_inf_nan=False
    )
    margin_relative: float | None = tables.unsaid(
        "The same as a share of the baseline's value, in experiments.", gt=0, allow_inf_nan=False
    )
    distribution: Literal["t", "normal"] = of_experiments("t", "Whose quantiles limits take.")
    variance: Literal["welch", "pooled"] = of_experiments("welch", "Of each variant, or of both.")
    relative: Literal["fieller", "delta", "log", "fixed"] = of_experiments(
        "fieller", "How limits of relative effects are made."
    )
    alternative: Literal["two-sided", "greater", "less"] = of_experiments(
        "two-sided", "Which differences are tested."
    )
    sample_ratio: Literal["auto", "exact", "chi-squared"] = of_experiments(
        "auto", "Test of the units' shares; exact of two variants below 1,000 units."
    )
    clusters: Literal["cr2", "delta"] = of_experiments("cr2", "How errors over clusters are made.")
    strata: tables.Names = tables.unsaid(
        "Columns of exposures whose groups are weighed by their units.", default=()
    )
    sequential: str | dict[str, str | float | list[float]] = of_experiments(
        "no",
        'Looks: { method = "always-valid", tightest_at = 100000 }, or { spending = '
        '"obrien-fleming", final = 400000 }.',
    )
    power: float = key(0.8, "Of the smallest difference that would be seen.", gt=0.5, lt=1)
    over_nights: Literal["overlapping", "disjoint"] | None = key(
        None,
        "Compare over all nights of the job, however often somebody looks; whether nights may "
        "share users.",
    )
    search: bool = key(False, "Look for the segments that lose or gain most.")
    cluster: str | None = key(
        None,
        "Column of the truth, of ratings or labels, or SQL over it: users of one value "
        "vary together.",
    )
    two_way: Literal["item"] | None = key(
        None, "Errors for other users and other items, of metrics that add up over hits."
    )
    weight: Segmentation | None = key(None, "A number of each user, whose values count so much.")
    curves: bool = key(
        False,
        "Every metric at each cutoff up to the deepest that is asked for; precision by "
        "recall where both are.",
    )
    distributions: bool = key(False, "How many users have which value, of metrics within 0 and 1.")

    @property
    def has_clusters(self) -> bool:
        """Whether users vary together: by a cluster, or by the items that they have."""
        return self.cluster is not None or self.two_way is not None


Count = Literal[
    "leakage.train_after_test", "leakage.train_after_test_share",
    "leakage.train_after_own_test", "leakage.test_rows_in_train", "leakage.test_pairs_in_train",
    "leakage.test_users_never_in_train", "leakage.test_items_never_in_train",
    "leakage.test_boundaries_in_equal_times", "leakage.train_after_validation",
    "leakage.train_after_validation_share", "leakage.train_after_own_validation",
    "leakage.validation_rows_in_train", "leakage.validation_pairs_in_train",
    "leakage.validation_users_never_in_train", "leakage.validation_items_never_in_train",
    "leakage.validation_boundaries_in_equal_times", "rows", "users", "pairs", "rows_dropped",
    "users_without_ranking", "users_without_truth", "duplicates", "age",
    "effective-sample-size", "weight-mean",
]  # fmt: skip


def _as_bound(value: object) -> float | str:
    """A finite number, or a span of time, as 2d."""
    if isinstance(value, str) and tables.SPAN.fullmatch(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("float_type", "a number is wanted")
    if not math.isfinite(value):
        raise PydanticCustomError("finite_number", "a finite number is wanted")
    return float(value)


_BOUND = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": f"^{tables.SPAN.pattern}$"}]}
Bound = Annotated[float | str, PlainValidator(_as_bound), WithJsonSchema(_BOUND)]
Allowance = Annotated[float, Field(allow_inf_nan=False, ge=0)]


def _as_printed(metric: str) -> str:
    try:
        labels = [each.label for each in parse_metrics([metric])]
    except EvalkitError:
        return metric  # a metric of the user's own, or told elsewhere
    return labels[0] if len(labels) == 1 else metric


class GateRule(tables.Record):
    """One thing that must hold of a run, or the run ends with status 1."""

    metric: Annotated[str, AfterValidator(_as_printed)] | None = key(
        None, "A metric of metrics.names; or give data."
    )
    data: Count | None = key(
        None,
        "A count: rows, users, pairs; or a share: of rows that were dropped or are "
        "duplicates, of users without ranking or truth; or what a split leaks; or age: how far "
        "the newest row of the truth is from {day}, or from the run's start.",
    )
    model: str | None = key(None, "That model; default: every model.")
    segment: str | None = key(None, "Users of that segment, as activity=new; default: all.")
    min: Bound | None = key(None, "The value is at least that; of age a span of time, as 1h.")
    max: Bound | None = key(None, "The value is at most that; of age a span of time, as 2d.")
    max_drop: Allowance | None = key(
        None, "The metric gets worse than the baseline's by that at most."
    )
    max_drop_relative: Allowance | None = tables.unsaid(
        "Of experiments: it gets worse by that share of the baseline's value at most."
    )
    max_change: Allowance | None = key(
        None, "The count differs from the baseline's by that share at most."
    )
    baseline: str | None = key(
        None, "last, last~1, last-passed, a tag, a run's id or path; or a model of this run."
    )
    min_users: int = key(10, "Fewer cannot tell; of metrics without bounds 200, of a min 30.", ge=2)
    unclear: Literal["fail", "pass"] = key("fail", "What a gate does that cannot tell.")


class OutputSection(tables.Record):
    """Where the report goes and in which forms."""

    path: str = key("runs", "Folder of runs; relative to the config file.")
    formats: tables.Listed[FileForm] = key(
        ("json", "parquet", "markdown", "html"), "Forms of the report to write."
    )
    segments_in_json: bool = key(
        False, "Keep segments in report.json, also where Parquet holds them."
    )
    per_user: bool = key(False, "Write every user's values too.")
    mlflow: str | None = key(None, "Experiment of MLflow that is told of the run.")
    wandb: str | None = tables.unsaid("Project of Weights & Biases that is told of the run.")


class Placed(tables.Record):
    """A record that knows where its keys stand, and where the request came from."""

    _places: Places = PrivateAttr(default_factory=Places)
    _entry_point: EntryPoint = PrivateAttr(default="file")

    def at(self, *key: str | int) -> str:
        """Where a key stands, for errors: `configs/nightly.toml:14: metrics.names[2]`."""
        return self._places.at(key)

    @property
    def entry_point(self) -> EntryPoint:
        """Where the request came from: hints speak its words, and a config's columns are law."""
        return self._entry_point


class SplitConfig(Placed):
    """What a config asks `evalkit split` for; its other sections are for other commands."""

    name: str = key("", "The split is written to splits/NAME.")
    split: SplitSection = key(..., "How a log is cut into train, validation and test.")
    gates: tables.Listed[GateRule] = key((), "What must hold of its leakage.")
    storage: dict[str, str] = Field(default_factory=dict, description="Options of object stores.")
    verify_pages: bool | None = tables.unsaid(tables.VERIFY)


class ConfigState(NamedTuple):
    """A config, as another process takes it over."""

    asked: dict[str, object]
    places: Places
    profile: Profile
    overridden: tuple[tuple[str, str | float, str | float], ...]
    by_hand: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """The requests of a config, for which everybody asks, and what they were read of.

    No part of what a config is: a copy with other parts reads its own, and so does another process.
    """

    of: tuple[object, ...] = ()
    requests: tuple[Request, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Read)

    def __hash__(self) -> int:
        return 0

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Read, ()


class Config(Placed):
    """The whole request. [[rankings]] with [truth], or one of [log], [ratings] and [labels]."""

    name: str = key("", "Jobs of one name share history; default: the file's name.")
    truth: tables.TruthTable | None = key(None, "Held-out interactions.")
    rankings: tables.Listed[tables.RankingsTable] = key(
        (), "One table for each model, or one with columns.model."
    )
    log: tables.LogTable | None = key(None, "A joined log instead of truth and rankings.")
    train: tables.TrainTable | None = key(None, "What the models had seen.")
    items: tables.ItemsTable | None = tables.unsaid("All items, for metrics of lists.")
    users: tables.UsersTable | None = tables.unsaid("Who should have got a list.")
    ratings: tables.Listed[tables.RatingsTable] = key(
        (), "True ratings, with predictions beside them or in [[predictions]]."
    )
    predictions: tables.Listed[tables.PredictionsTable] = key(
        (), "Predicted ratings in tables of their own."
    )
    labels: tables.Listed[tables.LabelsTable] = key(
        (), "Scored rows with labels, one an impression."
    )
    metrics: tables.MetricsSection = key(..., "Metrics, profile, and files with your own.")
    policies: Policies = Field(default_factory=Policies, description="Choices at edges.")
    segments: SegmentsSection = Field(
        default_factory=lambda: SegmentsSection.model_validate({}),
        description="Users, or relevant items, in groups.",
    )
    statistics: StatisticsSection = Field(
        default_factory=StatisticsSection, description="Intervals and comparisons."
    )
    gates: tables.Listed[GateRule] = key((), "What must hold, or the run ends with status 1.")
    selection: SelectionSection | None = key(
        None, "For evalkit select: one of many trials is chosen.", exclude=True
    )
    output: OutputSection = Field(default_factory=OutputSection, description="Where to write.")
    alerts: AlertsSection | None = key(
        None, "Who is told when the state of the job changes.", exclude=True
    )
    engine: EngineSection = Field(
        default_factory=EngineSection, description="Where it is measured.", exclude=True
    )
    storage: dict[str, str] = Field(
        default_factory=dict,
        description="Options of object stores, as aws_region; secrets as ${NAME} of the "
        "environment.",
    )
    verify_pages: bool | None = tables.unsaid(tables.VERIFY)
    split: SplitSection | None = tables.unsaid("How a log is cut into train, validation and test.")

    _followed: Profile | None = PrivateAttr(default=None)
    _overridden: tuple[tuple[str, str | float, str | float], ...] = PrivateAttr(default=())
    _variables: dict[str, str] = PrivateAttr(default_factory=dict)  # that filled its places
    _by_hand: Policies | None = PrivateAttr(default=None)  # before the profile came in
    _read: _Read = PrivateAttr(default_factory=lambda: _Read())

    @property
    def requests(self) -> tuple[Request, ...]:
        """The metrics, with the parameters and policies that the profile gives them.

        Those of the names come first, then those that are combined of them.

        Raises:
            RequestError: metrics that are wrong, as `parse_metrics`; metrics whose value over all
                orders of equal scores is not known [no-tie-bounds].
        """
        made_of = (self.metrics, self.policies, self._by_hand, self._followed, self.kind)
        if len(self._read.of) != len(made_of) or any(map(is_not, self._read.of, made_of)):
            names = [*self.metrics.names, *self.metrics.combined]
            self._read = _Read(made_of, self.read_metrics(names))
        return self._read.requests

    @property
    def primary(self) -> tuple[str, ...]:
        """Labels of the metrics that decide, and stand first wherever numbers are shown.

        Those that were named; else the metric of the first gate, else the first asked for. A gate
        on what lists hold, as their coverage, guards and does not decide.
        """
        named = self.read_metrics(self.metrics.primary)
        asked = [request.label for request in named or self.requests]
        decide = [each.label for each in self.requests if each.metric.lists is None and not named]
        gated = [gate.metric for gate in self.gates if gate.metric in decide]
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
        if self.has_parts and not all(is_of_kind(each, self.kind) for each in names):
            return tuple(
                request
                for of_rankings in (False, True)
                for request in self.part(of_rankings=of_rankings).read_metrics(
                    [each for each in names if is_of_kind(each, self.kind) != of_rankings]
                )
            )
        if not (combined := self.metrics.combined):
            return tuple(requests_of(self, names))
        found = [
            each
            for name in names
            for each in (
                [combined_of(self, name)] if name in combined else requests_of(self, [name])
            )
        ]
        return tuple(dict.fromkeys(found))

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

    @field_serializer("statistics", mode="wrap")
    def _as_written(
        self, statistics: StatisticsSection, dump: SerializerFunctionWrapHandler
    ) -> dict[str, object]:
        """All keys; of experiments what was written, since a profile says the rest."""
        if self.kind != "experiment":
            return dict(dump(statistics))
        return {n: getattr(statistics, n) for n in type(statistics).model_fields
                if n in statistics.model_fields_set}  # fmt: skip

    @property
    def kind(self) -> str:
        """What is evaluated, which says what metric names mean."""
        named = (kind for kind in reversed(other_kinds()) if self.__dict__.get(kind))
        return next(named, "rankings")

    @property
    def has_parts(self) -> bool:
        """Whether rankings stand beside another kind."""
        return self.kind != "rankings" and bool(self.rankings) and bool(declared(self.kind).beside)

    def part(self, *, of_rankings: bool) -> "Config":
        """What the config asks of one of its two kinds."""
        kind = self.kind
        empty = {name: type(self).model_fields[name].default for name in declared(kind).sections}
        if not of_rankings:
            empty = {name: Config.model_fields[name].default for name in declared(kind).beside}
            empty.pop("rankings")  # which are targets too

        def named(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(each for each in names if is_of_kind(each, kind) != of_rankings)

        section = self.metrics
        asked: dict[str, object] = {
            "names": named(section.names),
            "primary": named(section.primary),
        }
        if of_rankings:
            asked["profile"] = DEFAULT
        found = self.model_copy(update={**empty, "metrics": section.model_copy(update=asked)})
        found._followed = None
        found._read = _Read()
        baseline = self.statistics.baseline
        if of_rankings and baseline not in {each.model for each in self.rankings}:
            found = found.model_copy(
                update={"statistics": self.statistics.model_copy(update={"baseline": None})}
            )
        return found

    @property
    def has_propensity(self) -> bool:
        """Whether the truth says how likely its interactions were to be seen."""
        return self.truth is not None and self.truth.columns.propensity is not None

    @property
    def is_truthless(self) -> bool:
        """Whether rankings are looked at alone, without right answers."""
        return self.kind == "rankings" and self.truth is None and self.log is None

    @property
    def judges_age(self) -> bool:
        """Whether a gate asks how old the truth is."""
        return any(gate.data == AGE for gate in self.gates)

    @property
    def reference_is_model(self) -> bool:
        """Whether the reference is a model of the run, and no table of its own."""
        reference = self.metrics.reference
        models = [each.model for each in self.rankings]
        return reference is not None and (reference in models or not is_path_of(reference))

    def spell_policy(self, name: str, value: str) -> str:
        """A policy as whoever asked would write it, for hints."""
        return spell_policy(self.entry_point, name, value)

    def state(self) -> ConfigState:
        """What makes the same config elsewhere, without a file; passwords in URLs are masked."""
        by_hand = tuple(sorted(self.set_by_hand))
        return ConfigState(self.dump(), self._places, self.profile, self._overridden, by_hand)

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle: the class of other kinds has no name to be found by, it is made again."""
        return _blank, (kinds_in(Config, self.model_fields_set),), self.__getstate__()

    @classmethod
    def of_state(cls, state: ConfigState) -> "Config":
        """The config that `state` was taken of.

        Raises:
            ValueError: there is no such config.
        """
        asked = dict(state.asked)
        variables = asked.pop("variables", {})  # they have filled their places
        written = [name for name, each in asked.items() if each]
        config = joined(Config, kinds_in(Config, written)).model_validate(asked)
        config._variables.update(TypeAdapter(dict[str, str]).validate_python(variables))
        config._places, config._followed = state.places, state.profile
        config._overridden = state.overridden
        by_hand = {name: getattr(config.policies, name) for name in state.by_hand}
        config._by_hand = Policies.model_validate(by_hand)
        return config

    def dump(self) -> dict[str, object]:
        """What a run keeps of the config, as JSON has it; passwords in URLs are masked."""
        kept = _masked(self.model_dump(mode="json"))
        assert isinstance(kept, dict)
        return kept | ({"variables": _masked(self._variables)} if self._variables else {})


def is_path_of(reference: str) -> bool:
    """Whether a reference that is no known model's name is written as a path."""
    return re.search(r"[/\\*]|\.[A-Za-z]\w*$", reference) is not None


def _blank(kinds: tuple[str, ...]) -> Config:
    """A config of some kinds before its state is put back."""
    whole = joined(Config, kinds)
    return whole.__new__(whole)


def _masked(value: object) -> object:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list) else value
