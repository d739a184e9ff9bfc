"""Opens the tables of rankings; no row is read."""

from evalkit.config import Config
from evalkit.kinds.rankings._job import RankingJob
from evalkit.planning.leakage import check_splits
from evalkit.planning.tables import open_tables
from evalkit.planning.work import MeasureOptions


def open_job(config: Config, measure_options: MeasureOptions) -> RankingJob:
    """A config's tables, opened and looked at."""
    tables = open_tables(config, measure_options.given)
    if measure_options.opened is not None:
        measure_options.opened(tables.all)
    remarks = []
    if not measure_options.given.is_share:  # whoever made shares has looked
        remarks = check_splits(tables.logs, tables.config)
    return RankingJob(
        tables.config,
        measure_options.useful_threads,
        measure_options.clock(tables.logs),
        measure_options.sample,
        measure_options.keep_users,
        measure_options.per_user_folder,
        measure_options.keep_parts,
        tables=tables,
        known=measure_options.known,
        remarks=tuple(remarks),
    )
