"""What a run found, as frozen records; `report.json` is written from them and read into them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.errors import DataError, RequestError, nearest
from evalkit.report._index import Index, it_has

if TYPE_CHECKING:
    import polars as pl


SCHEMA_VERSION = 1
_HALF = re.compile("[\ud800-\udfff]")  # bytes of a name that is no UTF-8


@dataclass(frozen=True, slots=True)
class Input:
    """One log that was read; `model` is None for the truth, the train log and many-model logs.

    `columns` are those that were read: our name -> a column or an expression, several of a user;
    those of them are `guessed` that nobody named.
    """

    role: str
    model: str | None
    paths: tuple[str, ...]
    rows: int
    fingerprint: str | None
    columns: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    guessed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TruthCounts:
    """Where the rows of the truth went: `rows = rows_used + sum(rows_dropped.values())`."""

    rows: int
    rows_used: int
    rows_dropped: Mapping[str, int]
    users: int
    users_without_relevant: int
    pairs: int
    in_train: int | None = None  # of the pairs; None: no train log was given, or nobody counted


@dataclass(frozen=True, slots=True)
class ModelCounts:
    """Where the rows of one model's rankings went, and what was odd about them."""

    rows: int
    rows_used: int
    rows_dropped: Mapping[str, int]
    users: int
    users_without_ranking: int
    users_without_truth: int
    duplicates: int
    duplicates_searched: str  # "relevant": among relevant items only; "all"
    seen_in_train: int | None  # None: no train log was given
    bad_ranks: int  # users with gaps or repeats
    ties: int
    depth: int  # the longest list


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the truth and of every model, models in the order of the config."""

    truth: TruthCounts
    models: Mapping[str, ModelCounts]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One metric of one model, summed up over users (of one segment, or of all)."""

    model: str
    metric: str  # the label, unique within model and segment: nDCG@10
    name: str
    cutoff: int | None
    parameters: Mapping[str, str | float]
    value: float  # NaN when undefined for every user
    n_users: int
    n_undefined: int
    segmentation: str | None = None
    segment: str | None = None
    low: float | None = None
    high: float | None = None
    std_error: float | None = None
    policies: Mapping[str, str | float] = field(default_factory=dict)  # other than the defaults
    higher_is_better: bool | None = True  # not in report.json; None: nobody knows any more


@dataclass(frozen=True, slots=True)
class Warning_:
    """Something that lets the result stand but may mislead; `model` None concerns all."""

    code: str
    message: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the users whom both have a value of, paired by user.

    Args:
        delta: mean of the users' candidate less baseline; `std_error`, `low`, `high` are its.
        relative: `delta` over the baseline's mean on the same users.
        p_value: two-sided, of no difference; `p_adjusted` after the correction.
        effect_size: Cohen's d of the differences, `delta` over their standard deviation.
        wins: users whom the candidate serves better, whichever way the metric points; None where
            users have no values of their own, or where neither way is better.
        verdict: better, worse, not inferior, equivalent, no winner known: cannot tell; different,
            where neither way is better; not tested, where there is no p-value.
        smallest_difference: that so many users show with the power that was asked for.
        users_needed: to show a difference of `margin` with that power; None without one.
    """

    baseline: str
    candidate: str
    metric: str
    segmentation: str | None
    segment: str | None
    delta: float
    std_error: float | None
    low: float | None
    high: float | None
    relative: float | None
    relative_low: float | None
    relative_high: float | None
    p_value: float | None
    p_adjusted: float | None
    effect_size: float | None
    test: str  # t, wilcoxon, permutation, bootstrap, tukey
    n_users: int
    wins: int | None
    ties: int | None
    losses: int | None
    margin: float | None
    verdict: str
    smallest_difference: float | None
    users_needed: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A segment in which the candidate loses or gains, found by a search over all segments.

    Args:
        kind: loss or gain.
        low, high: limits of `delta`, widened for having been picked.
        p_value: one-sided; `p_adjusted` over the segments that were searched.
    """

    baseline: str
    candidate: str
    metric: str
    segmentation: str
    segment: str
    kind: str
    delta: float
    low: float | None
    high: float | None
    p_value: float
    p_adjusted: float
    n_users: int
    n_searched: int


@dataclass(frozen=True, slots=True)
class Macro:
    """The mean of a metric over segments, each counting alike; unknown users are none of them.

    Args:
        std_error, low, high: None for segments of items, which share users.
    """

    model: str
    metric: str
    segmentation: str
    value: float
    std_error: float | None
    low: float | None
    high: float | None
    n_segments: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Models from best to worst by one metric; those that share a letter cannot be told apart."""

    metric: str
    models: tuple[tuple[str, float, str], ...]  # name, value, letters


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric at every cutoff to the depth: the mean over users and its interval."""

    model: str
    metric: str  # the label without its cutoff
    cutoffs: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many users have a value from each edge up to the next; the last edge belongs inside."""

    model: str
    metric: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Points to be drawn as a line or as bars, such as a ROC curve.

    Args:
        kind: roc, precision-recall, calibration, gain, lift, precision-recall-by-cutoff,
            error-by-rating, residuals.
        x_name, y_name: what the axes show.
        low, high: the interval of each `y`; empty where there is none.
        x_low, x_high: the interval of each `x`, likewise.
        rows: rows, or their weight, that each point stands on; empty where that says nothing.
        thresholds: the score, or the cutoff, of each point; empty where there is none.
    """

    model: str
    kind: str
    x_name: str
    y_name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    rows: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    x_low: tuple[float | None, ...] = ()
    x_high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class StatisticsUsed:
    """How intervals and comparisons were made."""

    level: float
    method: str
    test: str
    correction: str
    family: str
    n_tests: int
    baseline: str | None
    margin: float | None
    replicates: int | None
    seed: int | None
    power: float


@dataclass(frozen=True, slots=True)
class Gate:
    """What one gate found of one model (or of the truth) in one segment (or over all users).

    Args:
        metric: a metric's label, or the name of a count: rows, users, ...
        model: None for the truth.
        kind: min, max, max_drop or max_change.
        value: what was judged; of a count that may be a share.
        delta: `value` less the baseline's; of max_change in shares of the baseline's.
        low: lower limit of what was judged: of `delta`, or of `value` where there is none.
        baseline: as the config names it; `baseline_run` is the run that it meant.
        judged_by: bound (one value), paired, independent (two values), count (no interval).
        outcome: pass, fail, cannot tell.
        fails: whether it ends the run with status 1.
    """

    metric: str
    model: str | None
    segmentation: str | None
    segment: str | None
    kind: str
    bound: float
    value: float | None
    delta: float | None
    low: float | None
    high: float | None
    baseline: str | None
    baseline_run: str | None
    judged_by: str
    n_users: int | None
    outcome: str
    fails: bool
    message: str


@dataclass(frozen=True, slots=True)
class Meta:
    """What the run cost and what it ran on; differs from run to run."""

    started: str  # ISO 8601, UTC
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    rows_per_second: float
    threads: int
    stages: Mapping[str, float] = field(default_factory=dict)  # seconds
    versions: Mapping[str, str] = field(default_factory=dict)
    resampling_bytes: int | None = None  # of what each thread drew
    passes: int = 1  # over the logs, so that a memory limit is held


@dataclass(frozen=True, slots=True)
class PerUser:
    """Values of every user: in memory, or in finished Parquet files.

    Args:
        user_columns: the user columns under the names they were given.
        metrics: the metric labels, one float64 column each, NaN where undefined.
        frames: model -> user columns and metric columns, ordered by user.
        path: instead of `frames`: a Parquet file with the user columns, `model` and the
            metric columns, ordered by user; or several such files, or a directory of them, in
            order of name.
    """

    user_columns: tuple[str, ...]
    metrics: tuple[str, ...]
    frames: Mapping[str, pl.DataFrame] | None = None
    path: Path | tuple[Path, ...] | None = None

    def __post_init__(self) -> None:
        if (self.frames is None) == (self.path is None):
            raise ValueError("PerUser takes frames or a path, one of them")

    @property
    def model_column(self) -> str:
        """`model`, or `model_` and so on where a user column has that name."""
        return free_name("model", self.user_columns)

    def scan(self, model: str) -> pl.LazyFrame:
        """User and metric columns of one model, ordered by user."""
        import polars as pl
        import polars.selectors as cs

        wanted = cs.by_name(*self.user_columns, *self.metrics)
        if self.frames is not None:
            return self.frames[model].lazy().select(wanted)
        ours = pl.col(self.model_column).cast(pl.String) == readable(model)
        return self._scan_files().filter(ours).select(wanted)

    def read(self, model: str, metrics: Sequence[str]) -> pl.DataFrame:
        """User columns, and those metrics as float64, of one model, ordered by user.

        Raises:
            DataError: the files do not hold them [run-damaged].
        """
        import polars as pl
        import polars.selectors as cs

        numbers = [cs.by_name(metric).cast(pl.Float64) for metric in metrics]
        try:
            chosen = self.scan(model).select(cs.by_name(*self.user_columns), *numbers)
            return chosen.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
            raise DataError(
                f"the values of users cannot be read: {str(error).partition(chr(10))[0]}",
                code="run-damaged",
                at=", ".join(map(str, self.files[:3])),
                hint="run it again with per_user = true under [output]",
            ) from error

    def table(self) -> pl.LazyFrame:
        """The per-user file: user columns, `model`, metric columns; ordered by user, then model."""
        import polars as pl
        import polars.selectors as cs

        if self.frames is None:
            return self._scan_files()
        place = free_name("place", [*self.user_columns, *self.metrics, self.model_column])
        users, metrics = cs.by_name(*self.user_columns), cs.by_name(*self.metrics)
        logs = [
            self.scan(model).select(
                users,
                pl.lit(readable(model)).alias(self.model_column),
                metrics,
                pl.lit(number).alias(place),
            )
            for number, model in enumerate(self.frames)
        ]
        return pl.concat(logs).sort(users, cs.by_name(place)).drop(place)

    @property
    def files(self) -> list[Path]:
        """The finished files, in order of name."""
        if self.path is None or isinstance(self.path, tuple):
            return list(self.path or ())
        return sorted(self.path.glob("*.parquet")) if self.path.is_dir() else [self.path]

    def _scan_files(self) -> pl.LazyFrame:
        import polars as pl

        return pl.scan_parquet(self.files, glob=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """Everything that a run found: numbers, the users they stand on, and what was dropped."""

    evalkit: str
    run_id: str
    run_key: str
    name: str
    profile: str
    inputs: tuple[Input, ...]
    counts: Counts
    estimates: tuple[Estimate, ...]
    meta: Meta
    comparisons: tuple[Comparison, ...] = ()
    gates: tuple[Gate, ...] = ()
    warnings: tuple[Warning_, ...] = ()
    statistics: StatisticsUsed | None = None
    standings: tuple[Standing, ...] = ()
    findings: tuple[Finding, ...] = ()
    macros: tuple[Macro, ...] = ()
    curves: tuple[Curve, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    graphs: tuple[Graph, ...] = ()
    schema_version: int = SCHEMA_VERSION
    config: Mapping[str, object] | None = None  # goes into manifest.json
    per_user_values: PerUser | None = field(default=None, compare=False)
    parts: pl.DataFrame | None = field(default=None, compare=False)  # exact sums; parts.parquet
    _made: list[Index] = field(default_factory=list, init=False, compare=False)

    @property
    def _index(self) -> Index:
        if not self._made:
            self._made.append(Index(tuple(self.counts.models), self.estimates))
        return self._made[0]

    @property
    def models(self) -> tuple[str, ...]:
        """The models in the order of the config."""
        return self._index.models

    @property
    def labels(self) -> tuple[str, ...]:
        """The metric labels in the order they were asked for."""
        return self._index.labels

    def estimate(
        self, model: str, metric: str | None, segmentation: str | None, segment: str | None
    ) -> Estimate | None:
        """One number by its label and its segment, None and None for all users."""
        return self._index.estimates.get((model, metric or "", segmentation, segment))

    @property
    def metrics(self) -> pl.DataFrame:
        """One row for each number, columns named as in `report.json`; undefined is null.

        `parameters` and `policies` are JSON text.
        """
        from evalkit.report.parquet import metrics_frame

        return metrics_frame(self)

    def value(self, metric: str, *, model: str | None = None, segment: str | None = None) -> float:
        """One number of the report; NaN when it is undefined.

        Args:
            metric: any spelling that `evalkit metrics` knows, such as `ndcg@10`.
            model: may be left out when the report has one model.
            segment: `segmentation=segment`, or the segment alone where that is unique; the
                number over all users when left out.
        Raises:
            RequestError: the report has no such metric [metric-not-in-report], model
                [unknown-model] or segment [unknown-segment], or more than one fits
                [ambiguous-metric, ambiguous-model, ambiguous-segment].
        """
        label = self._find_label(metric)
        model = self._find_model(model)
        where = self._find_segment(segment)
        found = self.estimate(model, label, *where)
        if found is not None:
            return found.value
        raise RequestError(
            f"the report has no {label} of {model!r}"
            + ("" if segment is None else f" for segment {segment!r}"),
            code="metric-not-in-report",
        )

    def per_user(self, metric: str, *, model: str | None = None) -> pl.DataFrame:
        """User columns as given and `value`, one row for each user, ordered by user.

        Raises:
            RequestError: values of users were not kept [per-user-off]; metric and model as
                in `value`.
        """
        import polars.selectors as cs

        label = self._find_label(metric)
        model = self._find_model(model)
        kept = self.per_user_values
        if kept is None or label not in kept.metrics:
            raise RequestError(
                f"the report holds no values of single users for {label}",
                code="per-user-off",
                hint="write evaluate(..., per_user=True), or per_user = true under [output]",
            )
        users, value = cs.by_name(*kept.user_columns), free_name("value", kept.user_columns)
        frame = kept.scan(model).select(users, cs.by_name(label).alias(value))
        return frame.collect(engine="streaming")

    def write(
        self,
        folder: str | Path,
        *,
        formats: Sequence[str] = ("json", "parquet", "markdown", "html"),
    ) -> Path:
        """The new directory `folder/<run_id>`: written whole, or not at all.

        Raises:
            BusyError: another process writes a run of that name [run-locked].
            MachineError: disk full, no permission [disk-full, not-writable, write-failed].
        """
        # The only call to a later stage. It is made when a person asks for it, by name, so
        # that the record depends on nothing that comes after it.
        from importlib import import_module

        published = import_module("evalkit.runs").publish(self, Path(folder), formats=formats)
        return Path(published)

    def to_json(self) -> str:
        """The text of `report.json`."""
        from evalkit.report.json_ import render_json

        return render_json(self)

    @classmethod
    def from_json(cls, text: str | bytes, *, at: str = "") -> Report:
        """The report that `to_json` wrote; values that are null come back as NaN.

        Raises:
            DataError: this is no report [report-unreadable], or one of a later schema
                [report-schema].
        """
        from evalkit.report.json_ import parse_report

        return parse_report(text, at=at)

    def __str__(self) -> str:
        from evalkit.report.terminal import render_table

        return render_table(self, width=80, color=False).rstrip("\n")

    def __repr__(self) -> str:
        models = ", ".join(map(repr, self.models))
        return f"<Report {self.name!r} of {models}: {len(self.estimates)} numbers>"

    def _repr_html_(self) -> str:
        from evalkit.report.notebook import render_notebook

        return render_notebook(self)

    @property
    def kind(self) -> str:
        """What was measured: rankings, ratings or labels."""
        roles = {each.role for each in self.inputs}
        return next((each for each in ("ratings", "labels") if each in roles), "rankings")

    def _find_label(self, metric: str) -> str:
        from evalkit.report._labels import find_label, read_asked

        if self._index.asked is None:
            self._index.asked = read_asked(self)
        return find_label(self, metric, self._index.asked)

    def _find_model(self, model: str | None) -> str:
        models = self.models
        if model is None:
            if len(models) == 1:
                return models[0]
            raise RequestError(
                f"the report has {len(models)} models, and none was named",
                code="ambiguous-model",
                hint=f"write model={models[0]!r}; {it_has(models)}" if models else "",
            )
        if model in models:
            return model
        close = nearest(model, models)
        raise RequestError(
            f"the report has no model {model!r}",
            code="unknown-model",
            hint=f"did you mean {close!r}?" if close else it_has(models),
        )

    def _find_segment(self, segment: str | None) -> tuple[str | None, str | None]:
        if segment is None:
            return None, None
        spelled = {f"{rule}={name}": (rule, name) for rule, name in self._index.segments}
        if segment in spelled:
            return spelled[segment]
        fitting = [spelling for spelling, (_, name) in spelled.items() if name == segment]
        if len(fitting) == 1:
            return spelled[fitting[0]]
        if fitting:
            raise RequestError(
                f"segment {segment!r} is in {len(fitting)} segmentations",
                code="ambiguous-segment",
                hint=f"write one of {', '.join(fitting)}",
            )
        close = nearest(segment, spelled)
        raise RequestError(
            f"the report has no segment {segment!r}",
            code="unknown-segment",
            hint=f"did you mean {close!r}?" if close else it_has(tuple(spelled)),
        )


def free_name(name: str, taken: Sequence[str]) -> str:
    """`name`, with as many `_` behind it as it takes to differ from all of `taken`."""
    while name in taken:
        name += "_"
    return name


def readable(text: str) -> str:
    """`text` as it can be encoded: a file name's bytes that are no UTF-8 become U+FFFD."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def finite(value: float | None) -> float | None:
    """`value` as it is written: NaN and infinity are null."""
    return None if value is None or not math.isfinite(value) else float(value)
