"""Rankings from their tables to sums, and from the sums of all shares to a report."""

from collections.abc import Sequence

from evalkit.config import Config, is_laid_out, of_share, with_paths
from evalkit.errors import RequestError
from evalkit.metrics import needs_of
from evalkit.planning.leakage import check_splits
from evalkit.planning.ledger import Clock
from evalkit.planning.passes import count_shares, room_of_rows
from evalkit.planning.tables import open_tables
from evalkit.planning.work import Left, Work, try_seeds
from evalkit.rankings._conclude import conclude, inputs_of
from evalkit.rankings._job import RankingJob, RankingTask
from evalkit.rankings._measure import measure_share
from evalkit.rankings._splits import find_edges
from evalkit.rankings._sums import Origin, RankingSums
from evalkit.report import Report, Warning_


def open_job(config: Config, work: Work) -> RankingJob:
    """A config's tables, opened and looked at."""
    tables = open_tables(config, work.given)
    if work.opened is not None:
        work.opened(tables.all)
    if not work.given.is_share:  # whoever made shares has looked
        check_splits(tables.logs, tables.config)
    return RankingJob(
        tables.config,
        work.useful_threads,
        work.clock(tables.logs),
        work.sample,
        work.keep_users,
        work.per_user_folder,
        work.keep_parts,
        tables=tables,
        known=work.known,
    )


def run_rankings(config: Config, work: Work) -> Report:
    """The report of all users at once."""
    job = open_job(config, work)
    sums = _measure(job, work.memory_limit)
    return conclude(job, sums, inputs_of(job.tables), job.writer)


def measure_rankings(config: Config, work: Work) -> Left:
    """One share of the users."""
    (number, n_shares), laid_out = work.share, is_laid_out(config)
    if laid_out:
        _refuse_train_in_parts(config)
    job = open_job(of_share(config, number) if laid_out else config, work)
    job.share, job.is_laid_out = (number - 1, n_shares), laid_out or work.given.is_share
    sums = _measure(job, work.memory_limit)
    read = with_paths(job.config, config)
    return Left(read, job.id_types, inputs_of(job.tables), sums, job.keep_parts)


def _refuse_train_in_parts(config: Config) -> None:
    """Raise where something needs the train of all users, and a share has that of its own alone.

    Raises:
        RequestError: it does [share-places].
    """
    told = [each.label for each in config.requests if "train" in needs_of(each)]
    if told:
        raise RequestError(
            f"{told[0]} is made of all of train, and its path has {{share}}",
            code="share-places",
            at=config.at("train"),
            hint="write paths without {share}: every share then reads the logs whole",
        )


def conclude_rankings(
    left: Left, work: Work, told: Sequence[Warning_], clock: Clock | None
) -> Report:
    """The report of all shares."""
    if clock is None:
        clock = work.clock()
        clock.start()
    task = RankingTask(
        left.config,
        work.useful_threads,
        clock,
        work.sample,
        work.keep_users,
        work.per_user_folder,
    )
    if not work.keep_parts:
        left.sums.parts = None
    return conclude(task, left.sums, left.inputs, told=told)


def _measure(job: RankingJob, memory_limit: int | None) -> RankingSums:
    """The sums of the users, one pass over the logs after the other."""
    job.n_passes = count_shares(job.tables, memory_limit, job.asked)
    job.check_passes()
    if job.n_passes == 1:
        job.room_of_rows = room_of_rows(job.tables, memory_limit, job.asked)
    if job.is_cut and job.has_quantiles:
        job.n_passes_over_all = count_shares(job.tables, memory_limit, job.asked_of_all)

    def measure(seed: int) -> RankingSums:
        job.begin(seed)
        edges = find_edges(job)
        sums = RankingSums(Origin.of(job.tables))
        for share in job.passes:
            sums.merge(measure_share(job, share, edges, until=sums.faults.first))
        return sums

    return try_seeds(measure)
