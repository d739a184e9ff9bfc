"""Opens the tables of rankings; no row is read."""

from evalkit.config import Config
from evalkit.planning.leakage import check_splits
from evalkit.planning.tables import Tables, open_tables
from evalkit.planning.work import MeasureOptions
from evalkit.report import Warning_


def open_logs(config: Config, options: MeasureOptions) -> tuple[Tables, tuple[Warning_, ...]]:
    """A config's tables, opened and looked at, and warnings of what they are."""
    tables = open_tables(config, options.given)
    if options.opened is not None:
        options.opened(tables.all)
    if options.given.is_share:  # whoever made shares has looked
        return tables, ()
    return tables, tuple(check_splits(tables.logs, tables.config))
