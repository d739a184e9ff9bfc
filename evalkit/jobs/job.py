"""A job: the lock, the work, the run's directory; what a scheduler calls, and a person."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from evalkit import pipeline, runs
from evalkit.config import Config
from evalkit.config.form_names import file_of
from evalkit.errors import EvalkitError, MachineError, RequestError, warn
from evalkit.planning.work import MeasureArguments
from evalkit.report import PerUser, Report, Warning_
from evalkit.runs import gates, history
from evalkit.runs.history import holdout_uses
from evalkit.runs.history.experiment_looks import ExperimentLook, experiment_looks
from evalkit.runs.history.nights import compare_over_nights

if TYPE_CHECKING:
    from evalkit.planning.partials import PartialFiles  # no run of one share needs them


@dataclass(frozen=True, slots=True)
class Done:
    """What a job came to; `path` is None where nothing was to be written."""

    report: Report
    path: Path | str | None  # a URL in a store
    is_new: bool = True
    ahead: holdout_uses.Ahead = holdout_uses.NO_LOOK


@dataclass(frozen=True, slots=True)
class Job:
    """One config on its way to a run's directory.

    Args:
        config: what to evaluate.
        folder: of runs; None writes no run.
        wait_seconds: how long to wait for another writer of that name.
        if_new: do nothing where a run of the same key is there.
        per_user: a Parquet file that values of users are copied to.
        options: how it is measured: arguments of `pipeline.run_config`, by name.
        tell: called with the id of the run when the work begins.
        fetch: called with the id of an earlier run before its files are read.
        partials: what the shares of the users left behind, in place of logs.
        again: look at a test part however often that was done.
        ahead: the look that this is, where the caller knows.
        concluded: called with the report before its run is published.
    """

    config: Config
    folder: Path | None
    wait_seconds: float = 0.0
    if_new: bool = False
    per_user: Path | None = None
    options: MeasureArguments = field(default_factory=MeasureArguments)
    tell: Callable[[str], None] | None = None
    fetch: Callable[[str], object] | None = None
    partials: "PartialFiles | None" = None
    again: bool = False
    ahead: holdout_uses.Ahead | None = None
    concluded: Callable[[Report], None] | None = None

    def run(self) -> Done:
        """Measure, publish, and say what came of it.

        Raises:
            RequestError, DataError, MachineError: as `pipeline.run_config` and `runs.publish` do.
            BusyError: another process writes a run of that name [run-locked].
            LookedError: the truth is a test part that is used up [looks-used-up].
        """
        run_id = runs.new_run_id(datetime.now(UTC))
        with ExitStack() as stack:
            job = stack.enter_context(self._held())
            if self.if_new and (done := self._find_done()) is not None:
                if self.per_user is not None:
                    _copy_values(done.report, self.per_user, None)
                return done
            ahead, config = self._looked()
            baselines = self.find_baselines()
            if self.tell is not None:
                self.tell(run_id)
            values = None
            if self._kept_metrics:
                values = stack.enter_context(self._values_folder(job))
            report = ahead.warned(self._measure(config, values), config.statistics.level)
            baselines = self._with_late(baselines, report)
            report = self._judged(replace(report, run_id=run_id), baselines)
            report = self._over_nights(report)
            if self.concluded is not None:
                self.concluded(report)
            path = None
            if self.folder is not None:
                job = job or stack.enter_context(self._hold(self.folder))
                kept = replace(
                    report, per_user_values=self._values_to_keep(report, baselines, values)
                )
                path = runs.publish(
                    kept,
                    self.folder,
                    formats=self.config.output.formats,
                    segments_in_json=self.config.output.segments_in_json,
                    config=report.config or self.config.dump(),
                    job=job,
                )
                with suppress(EvalkitError):  # whoever reads the index next brings it up to date
                    history.refresh(self.folder, kept)
            ahead = holdout_uses.note_look(self._runs, ahead, report)
            if self.per_user is not None:
                _copy_values(report, self.per_user, path)
        return Done(report, path, ahead=ahead)

    @property
    def _runs(self) -> Path:
        """The folder of past runs, also where none is written."""
        return self.folder or Path(self.config.output.path)

    def _looked(self) -> tuple[holdout_uses.Ahead, Config]:
        """The look that this is, and the config as it is run: `selected` by its name."""
        if self.partials is not None:  # no file is opened that a partial names
            inputs, at = self.partials.header.whole_inputs, "partials"
            ahead = holdout_uses.look_by_files(inputs, self._runs, again=self.again, at=at)
            return ahead, ahead.corrected(self.config)
        config = history.name_selected(self.config, self._runs)
        ahead = self.ahead or holdout_uses.look_ahead(config, self._runs, again=self.again)
        return ahead, ahead.corrected(config)

    def _measure(self, config: Config, values: Path | None) -> Report:
        """The report; values of users go into the folder, if there is one."""
        looks = self._earlier(config)
        if self.partials is not None:
            return pipeline.conclude_partials(
                self.partials.at_level(config),
                threads=self.options.get("threads"),
                per_user_folder=values,
                keep_parts=self.folder is not None,
                looks=looks,
            )
        kept: MeasureArguments = {
            "per_user": self._kept_metrics,
            "per_user_folder": values,
            "keep_parts": self.folder is not None,
            "looks": looks,
        }
        return pipeline.run_config(config, **self.options | kept)

    def _earlier(self, config: Config) -> tuple[ExperimentLook, ...]:
        """Earlier runs of an experiment, which may have spent the error."""
        if config.kind != "experiment":
            return ()
        plan = config.statistics.sequential
        return experiment_looks(config.name, self._runs, plan=plan, fetch=self.fetch)

    @property
    def _kept_metrics(self) -> bool | tuple[str, ...]:
        """The metrics whose values of users are asked for (True: all), or needed by gates."""
        if self.per_user is not None or (self.config.output.per_user and self.folder is not None):
            return True
        return gates.needs_values(self.config)

    def find_baselines(self, models: Sequence[str] | None = None) -> gates.Baselines:
        """The runs that gates compare with; looked for before the work where that is possible.

        Where a column names the models, a baseline that is no run may still be one of them.
        """
        config, rules = self.config, self.config.gates
        tables = [*config.rankings, *config.labels, *(config.predictions or config.ratings)]
        named = [table.model for table in tables if table.model is not None]
        is_open = len(named) < len(tables) or not named
        if models is None and is_open:
            rules = tuple(each for each in rules if history.is_by_time(each.baseline or ""))
        return gates.find_baselines(
            rules,
            models or named,
            self._runs,
            name=self.config.name,
            elsewhere=self.partials is None,
            fetch=self.fetch,
        )

    def _with_late(self, baselines: gates.Baselines, report: Report) -> gates.Baselines:
        """Also the baselines that could not be looked for before the models were known."""
        missing = [
            each.baseline
            for each in self.config.gates
            if each.baseline is not None
            and not baselines.is_run(each.baseline)
            and each.baseline not in report.models
        ]
        if not missing:
            return baselines
        late = self.find_baselines(report.models)
        return replace(late, paths={**late.paths, **baselines.paths})

    def _judged(self, report: Report, baselines: gates.Baselines) -> Report:
        level = self.config.statistics.level
        found = gates.judge(self.config.gates, report, baselines, level=level)
        return replace(report, gates=found)

    def _over_nights(self, report: Report) -> Report:
        """With comparisons over all nights, where the config asks for them."""
        users = self.config.statistics.over_nights
        if users is None:
            return report
        found = compare_over_nights(report, self._runs, users, fetch=self.fetch)
        if found:
            return replace(report, nights=found)
        said = "statistics.over_nights compares models, and this run compares none by its metrics"
        return replace(report, warnings=(*report.warnings, Warning_("nothing-over-nights", said)))

    def _values_to_keep(
        self, report: Report, baselines: gates.Baselines, scratch: Path | None
    ) -> PerUser | None:
        """The values of users that the config asks for, or that the gates of a later run need."""
        kept = report.per_user_values
        if kept is None or self.config.output.per_user:
            return kept
        wanted = gates.needs_values(self.config, baselines)
        metrics = [each for each in wanted if each in kept.metrics]
        if not metrics or scratch is None:
            return None
        if set(metrics) == set(kept.metrics):
            return kept
        path = scratch / "kept.parquet"
        chosen = kept.table().select([*kept.user_columns, kept.model_column, *metrics])
        chosen.sink_parquet(path, engine="streaming", maintain_order=True)
        return replace(kept, metrics=tuple(metrics), path=path, frames=None)

    @contextmanager
    def _held(self) -> Iterator[runs.RunLock | None]:
        """The lock, taken before the work where the folder of runs is there already.

        A run that is refused makes no folder; then the lock is taken when there is a report.
        """
        if self.folder is None or not self.folder.is_dir():
            yield None
            return
        with self._hold(self.folder) as job:
            yield job

    def _hold(self, folder: Path) -> AbstractContextManager[runs.RunLock]:
        return runs.hold(folder, self.config.name, wait_seconds=self.wait_seconds)

    @contextmanager
    def _values_folder(self, job: runs.RunLock | None) -> Iterator[Path]:
        """A folder for values of users, on the disk where they shall go."""
        with (
            job.scratch("values")
            if job is not None
            else runs.private_folder(self.folder or self.per_user or Path("runs"))
        ) as folder:
            yield folder

    @property
    def key(self) -> str | None:
        """What runs of the same work share; None, with a warning, where nobody can tell."""
        if self.partials is not None:
            key = self.partials.header.key
        else:
            key = pipeline.key_of_run(self.config, sample=self.options.get("sample"))
        if key is None:
            warn(
                "work-not-known",
                "an input has no fingerprint, so nobody can tell whether this work is done "
                "already: it is done now",
                hint="the record of inputs in report.json shows which; files on a disk, Delta "
                "and Iceberg tables have one",
            )
        return key

    def _find_done(self) -> Done | None:
        """The run that this one would repeat."""
        if self.folder is None:
            return None
        key = self.key
        path = None if key is None else runs.find_done(self.folder, self.config.name, key)
        if path is None or not self._is_whole(report := runs.load_run(path), path):
            return None
        return Done(report, path, is_new=False)

    def _is_whole(self, report: Report, path: Path) -> bool:
        """Whether a run of the same work holds all files and values that are asked for."""
        if not all((path / file_of(each)).exists() for each in self.config.output.formats):
            return False
        if self._kept_metrics is not True:
            return True
        kept = report.per_user_values
        return kept is not None and gates.with_values(self.config) <= set(kept.metrics)


def run_in_store(job: Job, store: runs.StoreFolder) -> Done:
    """As `Job.run`, into a store: written and verified here, then put there, the manifest last.

    Raises:
        BusyError: another process writes a run of that name [run-locked], or the store does not
            answer [store-unreachable].
        MachineError: the store refuses or fails [store-refused, store-failed].
    """
    config = job.config
    with (
        store.hold(config.name, wait_seconds=job.wait_seconds),
        runs.private_folder(Path(gettempdir(), "runs")) as folder,
    ):
        local = replace(
            job,
            folder=folder,
            if_new=False,
            wait_seconds=0.0,
            fetch=lambda run_id: store.fetch(run_id, folder),
        )
        key = job.key if job.if_new else None
        for manifest in store.manifests() if key is not None else ():
            if (manifest.name, manifest.run_key) == (config.name, key):
                path = store.fetch(manifest.run_id, folder)
                if not runs.verify(path) and local._is_whole(report := runs.load_run(path), path):
                    if job.per_user is not None:
                        _copy_values(report, job.per_user, None)
                    return Done(report, f"{store.url}/{manifest.run_id}", is_new=False)
        looks_back = any(gate.baseline is not None for gate in config.gates)
        looks_back |= config.statistics.over_nights is not None or config.kind == "experiment"
        if looks_back:
            store.mirror(folder, name=config.name)
        store.sweep()
        known = holdout_uses.fetch_notes(store, folder)
        done = local.run()
        assert done.path is not None  # a job with a folder writes a run
        holdout_uses.send_notes(store, folder, known)
        return replace(done, path=store.publish(Path(done.path)))


def _copy_values(report: Report, path: Path, run: Path | None) -> None:
    """Copy the values of users to `path`; whole or not at all.

    Raises:
        MachineError: it cannot be written, but the run can [write-failed].
        RequestError: there are none [per-user-off].
    """
    stands = f"the run is complete in {run}, but " if run is not None else ""
    if (kept := report.per_user_values) is None:
        message, hint = f"{stands}such a run has no values of users", "leave out --per-user"
        raise RequestError(message, code="per-user-off", at=f"--per-user {path}", hint=hint)
    try:
        with runs.replacing(path) as file:
            if len(kept.files) == 1:
                with open(kept.files[0], "rb") as values:
                    shutil.copyfileobj(values, file, 1 << 20)
            else:
                kept.table().sink_parquet(file, maintain_order=True)
    except OSError as error:
        message = f"{stands}its values of users are not written: {error.strerror or error}"
        hint = "make room there, or name another file: --per-user FILE"
        raise MachineError(message, code="write-failed", at=str(path), hint=hint) from error
