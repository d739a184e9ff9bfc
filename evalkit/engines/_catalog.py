"""Tables that a catalog of Spark names: `path = "table://catalog.db.name"`."""

from dataclasses import replace
from typing import Any, NamedTuple

from evalkit.config import CATALOG, Config
from evalkit.errors import DataError
from evalkit.planning.tables import Given
from evalkit.sources import Version


class CatalogTable(NamedTuple):
    """A table that a catalog names.

    Args:
        frame: its rows as Spark reads them.
        version: the one that is read; None where its format has none.
    """

    path: str
    frame: Any
    version: Version | None


def fill_from_catalog(
    session: Any, config: Config, given: Given
) -> tuple[Given, dict[int, CatalogTable]]:
    """What is given, and DataFrames of the tables that a catalog names, each opened once.

    Returns:
        Them, and what was opened, by the identity of its DataFrame.
    Raises:
        DataError: there is no such table [path-not-found].
    """
    opened: dict[str, CatalogTable] = {}

    def held(paths: tuple[str, ...] | None, own: object | None = None) -> Any:
        (path, *others) = paths or ("",)
        if own is not None or others or not path.startswith(CATALOG):
            return own
        if path not in opened:
            opened[path] = CatalogTable(path, *_open(session, path))
        return opened[path].frame

    def of(table: Any, own: object | None) -> Any:
        return own if table is None else held(table.path, own)

    lists = [*config.rankings, *config.ratings, *config.predictions, *config.labels]
    owned = [*given.rankings, *([None] * (len(lists) - len(given.rankings)))]
    named = config.segments.named.items()
    segments = {name: of(each, given.segments.get(name)) for name, each in named}
    earlier = {
        (place, number): held((path,))
        for place, table in enumerate(config.rankings)
        for number, path in enumerate(table.earlier)
    }
    filled = replace(
        given,
        truth=of(config.log or config.truth, given.truth),
        rankings=list(map(of, lists, owned)),
        train=of(config.train, given.train),
        items=of(config.items, given.items),
        users=of(config.users, given.users),
        weight=of(config.statistics.weight, given.weight),
        segments={name: each for name, each in segments.items() if each is not None},
        earlier={place: each for place, each in earlier.items() if each is not None},
        reference=held((config.metrics.reference or "",), given.reference),
    )
    return filled, {id(each.frame): each for each in opened.values()}


def _open(session: Any, path: str) -> tuple[Any, Version | None]:
    """The rows of a table, and their version."""
    from pyspark.errors import AnalysisException, ParseException

    name = path.removeprefix(CATALOG)
    try:
        frame = session.table(name)
        _ = frame.schema  # through Spark Connect nothing is looked up before
    except (AnalysisException, ParseException) as error:
        message = f"Spark finds no such table: {str(error).strip().splitlines()[0]}"
        hint = "its name is catalog.database.table, as Spark's SQL has it"
        raise DataError(message, code="path-not-found", at=path, hint=hint) from error
    return _at_version(session, name, frame)


def _at_version(session: Any, name: str, frame: Any) -> tuple[Any, Version | None]:
    """The rows of the version that a table has now, whatever is written meanwhile.

    Args:
        name: that `session.table` understands.
        frame: the table's rows.
    Returns:
        Them, and the version; as they were, and None, where the table tells none.
    """
    from pyspark.errors import PySparkException

    # The name stands in SQL as it is written: Spark has read it as the name of a table.
    try:
        described = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
        formats = [row.data_type.lower() for row in described if row.col_name == "Provider"]
        version = VERSIONS[formats[-1]](session, name)
        pinned = session.sql(f"SELECT * FROM {name} VERSION AS OF {version.number}")  # noqa: S608
        if pinned.schema == frame.schema:  # it may have changed since the last snapshot
            return pinned, version
    except (PySparkException, LookupError, ValueError):
        pass
    return frame, None


def _delta(session: Any, name: str) -> Version:
    (detail,) = session.sql(f"DESCRIBE DETAIL {name}").select("id").collect()
    (last,) = session.sql(f"DESCRIBE HISTORY {name} LIMIT 1").select("version").collect()
    return Version(str(int(last.version)), f"delta {detail.id} {int(last.version)}")


def _iceberg(session: Any, name: str) -> Version:
    refs = session.sql(f"SELECT snapshot_id FROM {name}.refs WHERE name = 'main'")  # noqa: S608
    (main,) = refs.collect()
    return Version(str(int(main.snapshot_id)), f"iceberg {name} {int(main.snapshot_id)}")


VERSIONS = {"delta": _delta, "iceberg": _iceberg}
