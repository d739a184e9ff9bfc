"""The shares of one config put together."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

from evalkit import runs
from evalkit.config import Config, OutputSection, hinted, speaking
from evalkit.errors import DataError, RequestError
from evalkit.jobs.job import Job, run_in_store
from evalkit.pipeline import conclude_partials
from evalkit.planning.partials import PartialFiles, definitions_of, fitting, open_partials
from evalkit.report import Report
from evalkit.runs.history.holdout_uses import look_by_files, measure_as_look


def open_for_merge(
    paths: Sequence[Path], *, allow_missing: bool = False, metric_files: Sequence[str] = ()
) -> tuple[Config, PartialFiles]:
    """Partials that fit together, and their config as far as a job may follow it.

    What a partial says is data: no Python file that it names is run, and no folder that it names
    is looked at or written to.

    Args:
        allow_missing: shares may be missing.
        metric_files: Python files of a user's own metrics.
    Raises:
        RequestError: the metrics are of a file that is not given [metric-file-needed].
        DataError: as `open_partials`; metrics are other ones here [foreign-partial].
    """
    partials = open_partials(paths, allow_missing=allow_missing)
    config = partials.header.config
    if config.metrics.files and not metric_files:
        files = " ".join(f"--metric-file {quote(each)}" for each in config.metrics.files)
        message = "metrics are of a file of Python, which a partial cannot name: name it here"
        hint = f"evalkit merge FILES... {files}"
        raise RequestError(message, code="metric-file-needed", at=str(paths[0]), hint=hint)
    if metric_files:
        metrics = config.metrics.model_copy(update={"files": tuple(metric_files)})
        config = config.model_copy(update={"metrics": metrics})
        partials = replace(partials, header=replace(partials.header, config=config))
    with fitting(partials):
        here = definitions_of(config.requests)
    if here != partials.header.definitions:
        others = [each.label for each in partials.header.definitions if each not in here]
        raise DataError(
            f"{', '.join(others) or 'metrics'}: the partials were measured by another definition",
            code="foreign-partial",
            at=str(paths[0]),
            hint="merge with the version of evalkit, and the metric files, of the partials",
        )
    own = config.output.model_copy(update={"path": OutputSection().path})
    return config.model_copy(update={"output": own}), partials


@hinted
def merge(
    files: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str] | None = None,
    allow_missing: bool = False,
    metric_files: Sequence[str] = (),
    threads: int | None = None,
    again: bool = False,
) -> Report:
    """The report of all shares of one config, as `evalkit merge` makes it.

    Args:
        files: what `partial` wrote, in any order.
        out: folder of runs, or `s3://...`: publish a run there, and judge its gates, as
            `evalkit merge` does; by default the report is returned alone.
        allow_missing: merge what is there; the report warns of what is not.
        metric_files: Python files of your own metrics, where the config has any.
        threads: usable cores by default.
        again: look at a test part however often that was done, as the folder of runs knows.
    Raises:
        RequestError: there is nothing to merge [nothing-to-merge].
        DataError: a file is no partial, is damaged, was made of something else, or stands twice;
            shares are missing; or what `evaluate` says of the data of all shares together.
    Example:
        >>> import polars as pl
        >>> from evalkit import partial
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> rated = pl.DataFrame({"user": [1, 2, 3], "item": [10, 11, 12]})
        >>> rated.write_parquet(folder / "truth.parquet")
        >>> rated.with_columns(rank=pl.col("user")).write_parquet(folder / "als.parquet")
        >>> _ = (folder / "a.toml").write_text(
        ...     'truth.path = "truth.parquet"\\nmetrics.names = ["hit@1", "hit@2"]\\n'
        ...     '[policies]\\nbad_ranks = "keep"\\n'
        ...     '[[rankings]]\\nmodel = "als"\\npath = "als.parquet"'
        ... )
        >>> for i in (1, 2, 3):
        ...     _ = partial(folder / "a.toml", share=(i, 3), out=folder / f"{i}.partial")
        >>> merge(sorted(folder.glob("*.partial"))).value("hit@2")
        0.6666666666666666
    """
    config, partials = open_for_merge(
        [Path(each) for each in files], allow_missing=allow_missing, metric_files=metric_files
    )
    if out is None:
        return _as_look(config, partials, threads, again=again)
    job = Job(config, None, options={"threads": threads}, partials=partials, again=again)
    if runs.is_store(os.fspath(out)):
        return run_in_store(job, runs.open_store(os.fspath(out), config.storage)).report
    done = replace(job, folder=Path(out)).run()
    assert done.path is not None  # a job with a folder writes a run
    return runs.load_run(done.path)


def _as_look(config: Config, partials: PartialFiles, threads: int | None, *, again: bool) -> Report:
    """The report alone, which is a look as a run is."""

    def measure(config: Config) -> Report:
        keeps = partials.header.keeps_users
        return conclude_partials(
            partials.at_level(config), threads=threads, per_user=keeps, keep_parts=False
        )

    folder = Path(config.output.path)
    with speaking("python"):
        ahead = look_by_files(partials.header.whole_inputs, folder, again=again, at="partials")
    return measure_as_look(config, folder, ahead, measure)
