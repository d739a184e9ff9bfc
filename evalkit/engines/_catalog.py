"""Tables that a catalog of Spark names: `path = "table://catalog.db.name"`."""

from dataclasses import replace
from typing import Any

from evalkit.config import CATALOG, Config
from evalkit.errors import DataError
from evalkit.planning.tables import Given


def fill_from_catalog(session: Any, config: Config, given: Given) -> tuple[Given, dict[int, str]]:
    """What is given, and DataFrames of the tables that a catalog names, each opened once.

    Returns:
        Them, and the path of each DataFrame that was opened, by its identity.
    Raises:
        DataError: there is no such table [path-not-found].
    """
    frames: dict[str, Any] = {}

    def held(paths: tuple[str, ...] | None, own: object | None = None) -> Any:
        (path, *others) = paths or ("",)
        if own is not None or others or not path.startswith(CATALOG):
            return own
        if path not in frames:
            frames[path] = _open(session, path)
        return frames[path]

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
    return filled, {id(frame): path for path, frame in frames.items()}


def _open(session: Any, path: str) -> Any:
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame = session.table(path.removeprefix(CATALOG))
        _ = frame.schema  # through Spark Connect nothing is looked up before
    except (AnalysisException, ParseException) as error:
        raise DataError(
            f"Spark finds no such table: {str(error).strip().splitlines()[0]}",
            code="path-not-found",
            at=path,
            hint="its name is catalog.database.table, as Spark's SQL has it",
        ) from error
    return frame
