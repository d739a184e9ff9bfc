"""The whole street on one screen: config, tables, shares measured and merged, report."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.config import Config, is_laid_out, of_share, refuse_layout, speaking, with_paths
from evalkit.credentials import storing
from evalkit.errors import MachineError, RequestError
from evalkit.ids import KeyCollisionError
from evalkit.kernels.threads import usable_cores
from evalkit.partials import Header, Partial, PartialFiles, definitions_of, missing_warning
from evalkit.planning.leakage import check_splits
from evalkit.planning.ledger import Clock, Progress, ProgressLine, versions
from evalkit.planning.passes import count_shares
from evalkit.planning.record import key_of_inputs
from evalkit.planning.tables import Given, open_tables
from evalkit.rankings import (
    Origin,
    RankingJob,
    RankingSums,
    RankingTask,
    conclude,
    find_edges,
    inputs_of,
    measure_share,
)
from evalkit.report import Report
from evalkit.sources import Table

if TYPE_CHECKING:
    from evalkit.rows import RowJob, RowsKind

SEEDS = range(1, 17)  # of the hash of ids; a second one is needed once in 10^5 runs of 10^7 users


@dataclass(frozen=True, slots=True)
class Work:
    """How a config is to be measured; `run_config` says what each of it means."""

    given: Given | None = None
    threads: int | None = None
    memory_limit: int | None = None
    sample: float | None = None
    per_user: bool = False
    per_user_folder: Path | None = None
    keep_parts: bool = False
    progress: Callable[[Progress], None] | None = None
    opened: Callable[[Sequence[Table]], None] | None = None


def run_config(
    config: Config,
    *,
    given: Given | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    sample: float | None = None,
    per_user: bool = False,
    per_user_folder: Path | None = None,
    keep_parts: bool = False,
    progress: Callable[[Progress], None] | None = None,
    opened: Callable[[Sequence[Table]], None] | None = None,
) -> Report:
    """The report of a config.

    Args:
        given: tables in memory, in place of the config's paths.
        threads: kernels that run side by side; as many as there are usable cores by default and
            at most.
        memory_limit: bytes; above what one pass needs, users are split into several passes.
        sample: share of the users, drawn by a hash of their ids.
        per_user: keep the values of every user, in memory.
        per_user_folder: stream them to a Parquet file in this folder instead, which the report
            names; it exists and nobody else uses it.
        keep_parts: keep the sums that `evalkit why` explains a change by.
        progress: called now and then with the rows that were read.
        opened: called with every table, before a row is read.
    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: no split holds the memory limit [memory-limit].
    """
    keeps = per_user or per_user_folder is not None
    work = Work(
        given, threads, memory_limit, sample, keeps, per_user_folder, keep_parts, progress, opened
    )
    with speaking(config.door), storing(config.storage):
        refuse_layout(config)
        if config.kind != "rankings":
            from evalkit.rows import run_rows

            return run_rows(_kind_of_rows(config), _row_job(config, work))
        job = _open(config, work)
        sums = _measure(job, memory_limit)
        return conclude(job, sums, inputs_of(job.tables), job.writer)


def measure_partial(
    config: Config,
    share: tuple[int, int],
    *,
    given: Given | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    sample: float | None = None,
    per_user: bool = False,
    keep_parts: bool = True,
    progress: Callable[[Progress], None] | None = None,
    opened: Callable[[Sequence[Table]], None] | None = None,
) -> Partial[Any]:
    """What one share of the users leaves behind, to be merged with the others.

    Args:
        share: which one, from 1, and how many there are.
        per_user: keep the values of every user.
        keep_parts: keep the sums that `evalkit why` explains a change by.
        given, threads, memory_limit, sample, progress, opened: as `run_config` takes them.
    Raises:
        RequestError, DataError, MachineError: as `run_config`, of what one share can tell.
    """
    (number, n_shares), laid_out = share, is_laid_out(config)
    work = Work(given, threads, memory_limit, sample, per_user, None, keep_parts, progress, opened)
    with speaking(config.door), storing(config.storage):
        if config.kind != "rankings":
            from evalkit.rows import measure_rows

            return measure_rows(_kind_of_rows(config), _row_job(config, work), share)
        job = _open(of_share(config, number) if laid_out else config, work)
        job.share, job.is_laid_out = (number - 1, n_shares), laid_out
        sums = _measure(job, memory_limit)
        header = Header(
            config=with_paths(job.config, config),
            definitions=definitions_of(job.requests),
            versions=dict(versions()),
            ids=job.id_types,
            sample=sample,
            n_shares=n_shares,
            inputs={number: tuple(inputs_of(job.tables))},
            keeps_users=per_user,
            keeps_parts=job.keep_parts,
        )
        return Partial(header, sums)


def conclude_partials(
    partials: PartialFiles | Partial[Any],
    *,
    threads: int | None = None,
    per_user: bool = False,
    per_user_folder: Path | None = None,
    keep_parts: bool = True,
) -> Report:
    """The report of all shares, as `run_config` gives it of all users at once.

    Args:
        per_user, per_user_folder, keep_parts: as `run_config` takes them, of what was kept.
    Raises:
        DataError: the data of any share, or of the whole, is wrong.
    """
    header, keeps = partials.header, per_user or per_user_folder is not None
    config, warning = header.config, missing_warning(header)
    told = () if warning is None else (warning,)
    with speaking(config.door):
        if config.kind != "rankings":
            from evalkit.rows import RowSums, conclude_rows

            rows = partials.merged(RowSums) if isinstance(partials, PartialFiles) else partials
            work = Work(threads=threads, per_user=keeps, per_user_folder=per_user_folder)
            report = conclude_rows(_kind_of_rows(config), _row_job(config, work), rows)
            return replace(report, warnings=(*told, *report.warnings))
        clock = Clock(ProgressLine(None, ()))
        clock.start()
        whole = partials.merged(RankingSums) if isinstance(partials, PartialFiles) else partials
        task = RankingTask(config, _useful(threads), clock, header.sample, keeps, per_user_folder)
        if not keep_parts:
            whole.body.parts = None
        return conclude(task, whole.body, header.whole_inputs, told=told)


def _open(config: Config, work: Work) -> RankingJob:
    """A config's tables, opened and looked at."""
    tables = open_tables(config, work.given or Given())
    if work.opened is not None:
        work.opened(tables.all)
    check_splits(tables.logs, tables.config)
    return RankingJob(
        tables.config,
        _useful(work.threads),
        Clock(ProgressLine(work.progress, tables.logs)),
        work.sample,
        work.per_user,
        work.per_user_folder,
        work.keep_parts,
        tables=tables,
    )


def _measure(job: RankingJob, memory_limit: int | None) -> RankingSums:
    """The sums of the users, one pass over the logs after the other.

    Raises:
        MachineError: ids share their keys under every seed [key-collision].
    """
    job.n_passes = count_shares(job.tables, memory_limit, job.asked)
    job.check_passes()
    if job.is_cut and job.has_quantiles:
        job.n_passes_over_all = count_shares(job.tables, memory_limit, job.asked_of_all)
    for seed in SEEDS:
        with suppress(KeyCollisionError):
            job.begin(seed)
            edges = find_edges(job)
            sums = RankingSums(Origin.of(job.tables))
            for share in job.passes:
                sums.merge(measure_share(job, share, edges, until=sums.faults.first))
            return sums
    raise MachineError("ids share their keys under every seed", code="key-collision")


def _kind_of_rows(config: Config) -> "RowsKind":
    """What runs a config of ratings or of labels; loaded by those alone that need it."""
    if config.kind == "ratings":
        from evalkit.ratings import RATINGS

        return RATINGS
    from evalkit.labels import LABELS

    return LABELS


def _row_job(config: Config, work: Work) -> "RowJob":
    from evalkit.rows import RowJob

    return RowJob(
        config,
        config.requests,
        work.given or Given(),
        _useful(work.threads),
        work.memory_limit,
        work.sample,
        work.per_user,
        work.per_user_folder,
        Clock(ProgressLine(work.progress, ())),
        work.opened,
    )


def key_of_run(config: Config, *, sample: float | None = None) -> str | None:
    """The run key that the report of a config would have now; None where an input has no
    fingerprint. Of Parquet files the footers alone are read.

    Raises:
        RequestError, DataError: as `run_config` does for what can be seen without reading rows.
    """
    if config.kind != "rankings":
        from evalkit.rows import open_rows

        with storing(config.storage):
            opened = open_rows(_kind_of_rows(config), config, Given())
            config, tables = opened.config, opened.all
    else:
        known = open_tables(config, Given())
        config, tables = known.config, known.all
    fingerprints = [table.fingerprint() for table in tables]
    return None if None in fingerprints else key_of_inputs(config, fingerprints, sample)


def _useful(threads: int | None) -> int:
    """The threads asked for, but never more than cores: they would only wait for one another."""
    cores = usable_cores()
    if threads is None:
        return cores
    if threads < 1:
        raise RequestError(
            f"threads is {threads}, not 1 or more",
            code="bad-threads",
            hint="leave it out to use every core",
        )
    return min(threads, cores)
