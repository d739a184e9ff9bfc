"""What a run found, as frozen records; `report.json` is written from them and read into them."""

# Long: one record, and all that is asked of it.

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from evalkit.errors import DataError, RequestError, did_you_mean
from evalkit.metrics import other_kinds
from evalkit.report import entries
from evalkit.report._index import ReportIndex, it_has
from evalkit.report.frames import Records
from evalkit.report.written import path_of

if TYPE_CHECKING:
    import polars as pl

    from evalkit.report.figures import Plot


Made = TypeVar("Made")

SCHEMA_VERSION = 1
MOST_DECIMALS = 20  # of a table for a paper
WITHOUT_SEGMENTS = 2  # the schema of a report.json whose segments stand in Parquet beside it
_HALF = re.compile("[\ud800-\udfff]")  # bytes of a name that is no UTF-8


@dataclass(frozen=True, slots=True)
class PerUser:
    """Values of every user: in memory, or in finished Parquet files.

    Args:
        user_columns: the user columns under the names they were given.
        metrics: the metric labels, one float64 column each, NaN where undefined.
        frames: model -> user columns and metric columns, ordered by user.
        path: instead of `frames`: a Parquet file with the user columns, `model` and the
            metric columns, ordered by user; or several such files, or a directory of them, each
            with all rows of its users.
    """

    user_columns: tuple[str, ...]
    metrics: tuple[str, ...]
    frames: Mapping[str, pl.DataFrame] | None = None
    path: Path | tuple[Path, ...] | None = None

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
        """Rows ordered by user; those of one user as they stand, which is by model."""
        import polars as pl
        import polars.selectors as cs

        rows = pl.scan_parquet(self.files, glob=False)
        if len(self.files) == 1:
            return rows
        return rows.sort(cs.by_name(*self.user_columns), maintain_order=True)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """Everything that a run found: numbers, the users they stand on, and what was dropped."""

    evalkit: str
    run_id: str
    run_key: str
    name: str
    profile: str
    inputs: tuple[entries.Input, ...]
    counts: entries.Counts
    estimates: tuple[entries.Estimate, ...]
    meta: entries.Meta
    comparisons: tuple[entries.Comparison, ...] = ()
    gates: tuple[entries.Gate, ...] = ()
    nights: tuple[entries.OverNights, ...] = ()
    warnings: tuple[entries.Warning_, ...] = ()
    statistics: entries.StatisticsUsed | None = None
    standings: tuple[entries.Standing, ...] = ()
    findings: tuple[entries.Finding, ...] = ()
    macros: tuple[entries.Macro, ...] = ()
    gaps: tuple[entries.Gap, ...] = ()
    curves: tuple[entries.Curve, ...] = ()
    distributions: tuple[entries.Distribution, ...] = ()
    graphs: tuple[entries.Graph, ...] = ()
    checks: tuple[entries.Check, ...] = ()
    row_counts: Mapping[str, int] = field(default_factory=dict)  # of what is no ranking
    primary: tuple[str, ...] = ()  # labels of the metrics that decide
    shown: Mapping[str, str] = field(default_factory=dict)  # label -> as it was asked for
    schema_version: int = SCHEMA_VERSION
    config: Mapping[str, object] | None = None  # goes into manifest.json
    per_user_values: PerUser | None = field(default=None, compare=False)
    parts: pl.DataFrame | None = field(default=None, compare=False)  # exact sums; parts.parquet
    truth: pl.DataFrame | None = field(default=None, compare=False)  # what judges say together
    judge_errors: pl.DataFrame | None = field(default=None, compare=False)  # of Dawid and Skene
    _made: dict[Any, Any] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        for name, kind in (
            ("comparisons", entries.Comparison),
            ("findings", entries.Finding),
            ("checks", entries.Check),
        ):
            object.__setattr__(self, name, Records.of(kind, getattr(self, name)))

    @property
    def _index(self) -> ReportIndex:
        return _index_of(self)

    @property
    def models(self) -> tuple[str, ...]:
        """The models in the order of the config."""
        return self._index.models

    @property
    def labels(self) -> tuple[str, ...]:
        """The metric labels in the order they were asked for."""
        return self._index.labels

    @property
    def leading(self) -> tuple[str, ...]:
        """The labels, those that decide first: the primary ones, then those of gates."""
        gated = [each.metric for each in self.gates]
        known = set(self.labels)
        first = [each for each in (*self.primary, *gated) if each in known]
        return tuple(dict.fromkeys([*first, *self.labels]))

    def estimate(
        self, model: str, metric: str | None, segmentation: str | None, segment: str | None
    ) -> entries.Estimate | None:
        """One number by its label and its segment, None and None for all users."""
        return self._index.estimates.get((model, metric or "", segmentation, segment))

    @property
    def metrics(self) -> pl.DataFrame:
        """One row for each number, columns as in `report.json`, values first; undefined is null.

        `parameters` and `policies` are JSON text.
        """
        frame: pl.DataFrame = later("report.parquet:metrics_frame", self)
        return frame

    @property
    def frame(self) -> pl.DataFrame:
        """One tidy table: `metrics`, and each number's difference to the reference beside it.

        The reference is the baseline, or the best model where every two were compared.
        """
        frame: pl.DataFrame = later("report.parquet:tidy_frame", self)
        return frame

    @property
    def counts_frame(self) -> pl.DataFrame:
        """What was counted of rows and units: columns `count` and `n`."""
        import polars as pl

        columns = {"count": [*self.row_counts], "n": [*self.row_counts.values()]}
        return pl.DataFrame(columns, schema={"count": pl.String, "n": pl.Int64})

    @property
    def segments(self) -> pl.DataFrame:
        """The rows of `metrics` that are of segments."""
        import polars as pl

        return self.metrics.filter(pl.col("segment").is_not_null())

    @property
    def verdict(self) -> str:
        """What is better, worse or undecided by the metric that decides, in a sentence."""
        shown = later("report.shown:as_shown", self)
        return str(later("report.answer:answer_of", shown).sentence)

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
        label = self.label_of(metric)
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

        label = self.label_of(metric)
        model = self._find_model(model)
        kept = self.per_user_values
        if kept is None or label not in kept.metrics:
            message = f"the report holds no values of single users for {label}"
            hint = "write evaluate(..., per_user=True), or per_user = true under [output]"
            raise RequestError(message, code="per-user-off", hint=hint)
        users, value = cs.by_name(*kept.user_columns), free_name("value", kept.user_columns)
        frame = kept.scan(model).select(users, cs.by_name(label).alias(value))
        return frame.collect(engine="streaming")

    def write(
        self,
        folder: str | Path,
        *,
        formats: Sequence[str] = ("json", "parquet", "markdown", "html"),
        segments_in_json: bool = False,
    ) -> Path:
        """The new directory `folder/<run_id>`: written whole, or not at all.

        Args:
            segments_in_json: keep segments in `report.json`, also where Parquet holds them.
        Raises:
            BusyError: another process writes a run of that name [run-locked].
            MachineError: disk full, no permission [disk-full, not-writable, write-failed].
        """
        how = {"formats": formats, "segments_in_json": segments_in_json}
        return Path(later("runs:publish", self, path_of(folder, "folder", "runs"), **how))

    def to_markdown(self) -> str:
        """The text of `report.md`."""
        return self._as("markdown")

    def to_latex(
        self,
        *,
        metrics: Sequence[str] = (),
        order: Sequence[str] = (),
        digits: int | None = None,
        caption: str | None = None,
        label: str | None = None,
    ) -> str:
        """Tables for a paper; a dagger marks what a comparison calls better or worse.

        With any argument it is the table over all users alone.

        Args:
            metrics, order: the columns and the models (rows) of it, in that order; default all.
            digits: decimals of all values; by default what each column needs.
            caption, label: put it into a `table`; both are LaTeX, written as they are.
        Raises:
            RequestError: as `value`; so many decimals are none [out-of-range].
        """
        if digits is not None and (type(digits) is not int or not 0 <= digits <= MOST_DECIMALS):
            message = f"{digits!r} is no number of decimals from 0 to {MOST_DECIMALS}"
            raise RequestError(message, code="out-of-range", at="digits", hint="digits=4")
        metrics, order = ((e,) if isinstance(e, str) else e for e in (metrics, order))
        if not (metrics or order) and (digits, caption, label) == (None, None, None):
            return self._as("latex")
        labels = [self.label_of(each) for each in metrics]
        columns = [self.shown.get(each, each) for each in labels]
        models = [self._find_model(each) for each in order]
        given = {"metrics": columns, "order": models, "digits": digits}
        shown = later("report.shown:as_shown", self)
        made = later("report.forms.latex:latex_table", shown, **given, caption=caption, label=label)
        return str(made)

    def to_html(self) -> str:
        """The page, which needs nothing else."""
        return self._as("html")

    def _as(self, form: str) -> str:
        return str(later("report.formats:render", self, form))

    def save(self, file: str | Path) -> Path:
        """Write one form of the report, by the file's ending: .html .md .tex .json .csv .parquet.

        Raises:
            RequestError: it is no path [wrong-type], no form has such an ending [unknown-format],
                the file is in no folder [bad-option].
            MachineError: it cannot be written [not-writable, write-failed].
        """
        path = path_of(file, "file", "report.html")
        return Path(later("report.formats:save", self, path))

    def plot(self, metric: str | None = None) -> Plot:
        """Models from best to worst by one metric, with their intervals, as SVG.

        Args:
            metric: any spelling; the one that decides by default.
        Raises:
            RequestError: as `value`.
        """
        label = next(iter(self.leading), "") if metric is None else self.label_of(metric)
        plot: Plot = later("report.html:plot_of", self, label)
        return plot

    @property
    def figures(self) -> Mapping[str, Plot]:
        """Every picture of the page by its title, as `nDCG@10: difference to als`."""
        found: Mapping[str, Plot] = later("report.html:figures_of", self)
        return found

    def to_json(self) -> str:
        """The text of `report.json`, all segments in it."""
        return str(later("report.json_:render_json", self))

    def without_segments(self) -> Report:
        """What `report.json` holds where Parquet beside it holds the segments.

        The report itself, if nothing would be left out, or a name is no UTF-8, as Parquet's are.
        """
        estimates = tuple(each for each in self.estimates if each.segmentation is None)
        comparisons = tuple(each for each in self.comparisons if each.segmentation is None)
        names = [*self.models, *self.labels, *self.shown.values(), *chain(*self._index.segments)]
        n_left = len(estimates) + len(comparisons)
        has_all = n_left == len(self.estimates) + len(self.comparisons)
        if has_all or any(_HALF.search(each or "") for each in names):
            return self
        return replace(
            self, estimates=estimates, comparisons=comparisons, schema_version=WITHOUT_SEGMENTS
        )

    @classmethod
    def from_json(cls, text: str | bytes, *, at: str = "") -> Report:
        """The report that `to_json` wrote; values that are null come back as NaN.

        Raises:
            DataError: this is no report [report-unreadable], or one of a later schema
                [report-schema].
        """
        read: Report = later("report.json_:parse_report", text, at=at)
        return read

    def __str__(self) -> str:
        return self._as("screen").rstrip("\n")

    def __repr__(self) -> str:
        models = ", ".join(map(repr, self.models))
        return f"<Report {self.name!r} of {models}: {len(self.estimates)} numbers>"

    def _repr_html_(self) -> str:
        shown = later("report.shown:as_shown", self)
        return str(later("report.notebook:render_notebook", shown))

    @property
    def kind(self) -> str:
        """What was measured: rankings, ratings or labels."""
        roles = {each.role for each in self.inputs}
        return next((kind for kind in other_kinds() if kind in roles), "rankings")

    def label_of(self, metric: str) -> str:
        """The label of a metric in any spelling, such as `ndcg@10`.

        Raises:
            RequestError: there is none [metric-not-in-report], or several fit [ambiguous-metric].
        """
        if self._index.asked is None:
            self._index.asked = later("report._labels:read_asked", self)
        return str(later("report._labels:find_label", self, str(metric), self._index.asked))

    def _find_model(self, model: str | None) -> str:
        models = self.models
        if model is None:
            if len(models) == 1:
                return models[0]
            message = f"the report has {len(models)} models, and none was named"
            hint = f"write model={models[0]!r}; {it_has(models)}" if models else ""
            raise RequestError(message, code="ambiguous-model", hint=hint)
        if model in models:
            return model
        hint = did_you_mean(model, models, it_has(models))
        raise RequestError(f"the report has no model {model!r}", code="unknown-model", hint=hint)

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
            message = f"segment {segment!r} is in {len(fitting)} segmentations"
            hint = f"write one of {', '.join(fitting)}"
            raise RequestError(message, code="ambiguous-segment", hint=hint)
        message = f"the report has no segment {segment!r}"
        hint = did_you_mean(segment, spelled, it_has(tuple(spelled)))
        raise RequestError(message, code="unknown-segment", hint=hint)


def once(make: Callable[[Report], Made]) -> Callable[[Report], Made]:
    """What a function makes of a report, made when it is first asked for."""

    @wraps(make)
    def made(report: Report) -> Made:
        if made not in report._made:  # by the name of what is called, which can be pickled
            report._made[made] = make(report)
        known: Made = report._made[made]
        return known

    return made


class AllUsers(NamedTuple):
    """What a report says of all users, and of no segment."""

    estimates: tuple[entries.Estimate, ...]
    comparisons: tuple[entries.Comparison, ...]


@once
def of_all_users(report: Report) -> AllUsers:
    """What a report says of all users; looked for once, among very many segments."""
    return AllUsers(
        tuple(each for each in report.estimates if each.segment is None),
        tuple(each for each in report.comparisons if each.segment is None),
    )


def leading_comparisons(report: Report) -> list[entries.Comparison]:
    """What a report compares over all users, the metrics that decide first."""
    places = {label: place for place, label in enumerate(report.leading)}
    found = of_all_users(report).comparisons
    return sorted(found, key=lambda each: places.get(each.metric, len(places)))


@once
def _index_of(report: Report) -> ReportIndex:
    return ReportIndex(tuple(report.counts.models), report.estimates)


def later(place: str, *given: object, **options: object) -> Any:
    """What a function of a later module gives, as `report.json_:render_json`: found by name when
    somebody asks for it, so that the record depends on nothing that comes after it."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"evalkit.{module}"), name)(*given, **options)


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
