"""The whole street on one screen: config, tables, shares measured and merged, report."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.config import Config, speaking
from evalkit.credentials import storing
from evalkit.errors import MachineError, RequestError
from evalkit.ids import KeyCollisionError
from evalkit.kernels.threads import usable_cores
from evalkit.planning.leakage import check_splits
from evalkit.planning.ledger import Clock, Progress, ProgressLine
from evalkit.planning.passes import count_shares
from evalkit.planning.record import key_of_inputs
from evalkit.planning.tables import Given, open_tables
from evalkit.rankings import RankingJob, RankingSums, conclude, find_edges, measure_share
from evalkit.report import Report
from evalkit.sources import Table

if TYPE_CHECKING:
    from evalkit.rows import RowsKind

SEEDS = range(1, 17)  # of the hash of ids; a second one is needed once in 10^5 runs of 10^7 users


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
    with speaking(config.door):
        if config.kind != "rankings":
            from evalkit.rows import RowJob, run_rows

            with storing(config.storage):
                job = RowJob(
                    config,
                    config.requests,
                    given or Given(),
                    _useful(threads),
                    memory_limit,
                    sample,
                    keeps,
                    per_user_folder,
                    Clock(ProgressLine(progress, ())),
                    opened,
                )
                return run_rows(_kind_of_rows(config), job)
        tables = open_tables(config, given or Given())
        if opened is not None:
            opened(tables.all)
        check_splits(tables.logs, tables.config)
        clock = Clock(ProgressLine(progress, tables.logs))
        of_rankings = RankingJob(
            tables.config, tables, _useful(threads), sample, keeps, keep_parts, clock
        )
        of_rankings.folder = per_user_folder
        of_rankings.n_shares = count_shares(tables, memory_limit, of_rankings.asked)
        of_rankings.check_passes()
        for seed in SEEDS:
            with suppress(KeyCollisionError):
                return conclude(of_rankings, measure(of_rankings, seed))
        raise MachineError("ids share their keys under every seed", code="key-collision")


def measure(job: RankingJob, seed: int) -> RankingSums:
    """The sums of all shares of the users, one pass over the logs for each.

    Raises:
        KeyCollisionError: two ids share a key under this seed.
    """
    job.begin(seed)
    edges = find_edges(job)
    sums = RankingSums()
    for share in job.shares:
        sums.merge(measure_share(job, share, edges, until=sums.faults.first))
    return sums


def _kind_of_rows(config: Config) -> "RowsKind":
    """What runs a config of ratings or of labels; loaded by those alone that need it."""
    if config.kind == "ratings":
        from evalkit.ratings import RATINGS

        return RATINGS
    from evalkit.labels import LABELS

    return LABELS


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
