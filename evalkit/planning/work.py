"""How a config is to be measured, and what each kind of evaluation does with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

import polars as pl

from evalkit.config import Config
from evalkit.errors import RequestError
from evalkit.kernels.memory import run_within as _run_within
from evalkit.kernels.threads import usable_cores
from evalkit.metrics import Request
from evalkit.planning.counters import Clock, Progress, ProgressLine
from evalkit.planning.tables import Given
from evalkit.report import Input, Report, Warning_
from evalkit.runs.history.experiment_looks import ExperimentLook
from evalkit.sources import Table

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class GlobalStats:
    """What no share of the users knows by itself, found over all of them beforehand.

    Args:
        edges: of quantiles, by segmentation.
        train: `item`, and how many `users` and `rows` of the training log have it.
        n_train_users: with a row there.
        models: of tables of rankings whose rows name them, by the table's number.
        n_users: that numbers are kept of, where some are.
        latest: of the times of the training log, where a baseline asks for it.
        counts: as `Given` takes them.
    """

    edges: Mapping[str, Sequence[float]]
    train: pl.DataFrame
    n_train_users: int
    models: Mapping[int, Sequence[str]]
    n_users: int = 0
    latest: int | None = None
    counts: Mapping[int, pl.DataFrame] = field(default_factory=dict)


class MeasureArguments(TypedDict, total=False):
    """Fields of `MeasureOptions`, for functions that hand them on by name."""

    given: Given
    threads: int | None
    memory_limit: int | None
    sample: float | None
    per_user: bool | Sequence[str]
    per_user_folder: Path | None
    keep_parts: bool
    progress: Callable[[Progress], None] | None
    opened: Callable[[Sequence[Table]], None] | None
    looks: Sequence[ExperimentLook]


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How a config is to be measured.

    Args:
        given: tables in memory, in place of the config's paths.
        threads: kernels that run side by side; as many as there are usable cores by default and
            at most.
        memory_limit: bytes; above what one pass needs, users are split into several passes.
        sample: share of the users, drawn by a hash of their ids.
        per_user: keep the values of every user, in memory; of the named metrics, or of all.
        per_user_folder: stream them to a Parquet file in this folder instead, which the report
            names; it exists and nobody else uses it.
        keep_parts: keep the sums that `evalkit why` explains a change by.
        progress: called now and then with the rows that were read.
        opened: called with every table, before a row is read.
        share: which one of several shares is measured here, from 1, and how many there are.
        known: what this share cannot know by itself, where its tables hold no other users.
        surveyed: the same, of a kind with a `survey`.
        looks: earlier runs of an experiment that is looked at more than once.
    """

    given: Given = field(default_factory=Given)
    threads: int | None = None
    memory_limit: int | None = None
    sample: float | None = None
    per_user: bool | Sequence[str] = False
    per_user_folder: Path | None = None
    keep_parts: bool = False
    progress: Callable[[Progress], None] | None = None
    opened: Callable[[Sequence[Table]], None] | None = None
    share: tuple[int, int] = (1, 1)
    known: GlobalStats | None = None
    surveyed: pl.DataFrame | None = None
    looks: Sequence[ExperimentLook] = ()

    def __post_init__(self) -> None:
        """Raises RequestError where the limit of memory is no number of bytes [wrong-type]."""
        limit = self.memory_limit
        if limit is not None and (type(limit) is bool or not isinstance(limit, int) or limit < 0):
            message = f"memory_limit is {self.memory_limit!r}, not a number of bytes"
            raise RequestError(message, code="wrong-type", hint="4 GiB are memory_limit=4 * 2**30")

    @classmethod
    def of_run(cls, **options: Unpack[MeasureArguments]) -> "MeasureOptions":
        """Of a run, whose folder for values of users takes all where none are named."""
        if options.get("per_user_folder") is not None:
            options["per_user"] = options.get("per_user") or True
        return cls(**options)

    def started(self, clock: Clock | None) -> Clock:
        """The clock that runs, or one that starts now."""
        if clock is None:
            clock = self.clock()
            clock.start()
        return clock

    @property
    def useful_threads(self) -> int:
        """The threads asked for, but never more than cores: they would only wait for one another.

        Raises:
            RequestError: they are none [bad-threads].
        """
        cores = usable_cores()
        if self.threads is None:
            return cores
        if not hasattr(self.threads, "__index__") or self.threads < 1:
            message = f"threads is {self.threads!r}, not 1 or more"
            raise RequestError(message, code="bad-threads", hint="leave it out to use every core")
        return min(self.threads, cores)

    def clock(self, tables: Sequence[Table] = ()) -> Clock:
        """A clock that tells the progress of reading tables."""
        return Clock(ProgressLine(self.progress, tables))


def run_within(
    run: Callable[[Config, MeasureOptions], Done], config: Config, options: MeasureOptions
) -> Done:
    """What `run` gives, with room for compiling where that is found to be needed."""
    once_told = replace(options, opened=None)
    return _run_within(lambda: run(config, options), lambda: run(config, once_told))


def places_kept(requests: Sequence[Request], kept: bool | Sequence[str]) -> list[int]:
    """Which of the requests keep values of users: all, none, or those of the labels."""
    if isinstance(kept, bool):
        return list(range(len(requests))) if kept else []
    return [place for place, each in enumerate(requests) if each.label in kept]


@dataclass(frozen=True, slots=True)
class ShareResult:
    """What a share of the users leaves behind.

    Args:
        config: with the columns that were read.
        ids: the types of users and of items as keys were made of them.
        inputs: what was read.
        sums: of the kind.
    """

    config: Config
    ids: dict[str, tuple[str, ...]]
    inputs: Sequence[Input]
    sums: Any
    keeps_parts: bool = False


class Opened(Protocol):
    """All tables of a config, opened but not read."""

    @property
    def config(self) -> Config:
        """With the columns that are read, where some of them were guessed."""

    @property
    def all(self) -> Sequence[Table]:
        """Every table with rows of its own."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is done with a config of one kind; `KIND` in the `kind.py` of its folder.

    Args:
        sums: what a share leaves behind; of many they merge.
        open: every table; no row is read.
        run: the report of all users at once.
        measure: one share of the users.
        conclude: the report of all shares, from what they left; warnings that come first, and a
            clock that runs since their measuring began.
        on_spark: executors can measure shares of it.
        leaves_rows: whether a share leaves its rows, which whoever merges must hold, and not sums;
            by what is asked for, and by whether values of users are kept.
        survey: what shares have to know of all rows, found of some of them; frames of one schema,
            which lie one below the other.
    """

    sums: type
    open: Callable[[Config, Given], Opened]
    run: Callable[[Config, MeasureOptions], Report]
    measure: Callable[[Config, MeasureOptions], ShareResult]
    conclude: Callable[[ShareResult, MeasureOptions, Sequence[Warning_], Clock | None], Report]
    on_spark: bool = False
    leaves_rows: Callable[[Config, bool], bool] = lambda config, keeps_users: False
    survey: Callable[[Config, MeasureOptions], pl.DataFrame] | None = None


def in_one_share(
    measure: Callable[[Config, MeasureOptions], ShareResult],
    conclude: Callable[[ShareResult, MeasureOptions, Sequence[Warning_], Clock | None], Report],
) -> Callable[[Config, MeasureOptions], Report]:
    """`run` of a kind that measures all users as it measures a share of them."""

    def run(config: Config, measure_options: MeasureOptions) -> Report:
        clock = measure_options.started(None)
        return conclude(measure(config, measure_options), measure_options, (), clock)

    return run


def with_warnings(report: Report, earlier_warnings: Sequence[Warning_]) -> Report:
    """A report with warnings that come first."""
    return replace(report, warnings=(*earlier_warnings, *report.warnings))
