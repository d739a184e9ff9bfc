"""Opens the tables of rankings; no row is read."""

from evalkit.config import Config
from evalkit.planning.leakage import check_splits
from evalkit.planning.tables import open_tables
from evalkit.planning.work import Work
from evalkit.rankings._job import RankingJob


def open_job(config: Config, work: Work) -> RankingJob:
    """A config's tables, opened and looked at."""
    tables = open_tables(config, work.given)
    if work.opened is not None:
        work.opened(tables.all)
    remarks = []
    if not work.given.is_share:  # whoever made shares has looked
        remarks = check_splits(tables.logs, tables.config)
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
        remarks=tuple(remarks),
    )
