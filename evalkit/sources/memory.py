"""Tables that are already in memory, or that another library would stream, as lazy frames."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import polars as pl

from evalkit.errors import DataError, RequestError
from evalkit.sources.failures import READ_FAULTS, describe, first_line
from evalkit.sources.versions import Version

_NAMES = "a path, Polars, pandas or Arrow data, or a DuckDB relation"


Shape: TypeAlias = tuple[int | None, int | None]  # rows and columns, where numbers are their ids


@dataclass(frozen=True, slots=True)
class Named:
    """Rows of a table that lies elsewhere, how errors name it, its paths, and its version.

    Args:
        shape: of a matrix that the rows were made of.
    """

    frame: pl.DataFrame
    at: str
    paths: tuple[str, ...] = ()
    version: Version | None = None
    shape: Shape = (None, None)


def refuse_of_files(said: Mapping[str, object], table: str) -> None:
    """Refuse what says how files are read, of a table in memory.

    Raises:
        RequestError: one of these says so [conflicting-keys].
    """
    for key in ("format", "header", "files"):
        if said.get(key) is not None:
            message = f"{key} is for files, and {table} is in memory"
            hint = f"leave {key} out"
            raise RequestError(message, code="conflicting-keys", at=f"{table}: {key}", hint=hint)


def describe_given(given: object, role: str) -> str:
    """How errors name data that has no path: `truth (polars DataFrame)`."""
    if isinstance(given, Named):
        return given.at
    kind = type(given)
    package = kind.__module__.split(".")[0].lstrip("_")
    index = getattr(given, "index", None) if package == "pandas" else None
    names = ", ".join(str(name) for name in getattr(index, "names", ()) if name is not None)
    left_out = f" without its index {names}, which reset_index() keeps" if names else ""
    named = kind.__name__ if package == "builtins" else f"{package} {kind.__name__}"
    return f"{role} ({named}{left_out})"


def is_spark(given: object) -> bool:
    """Whether it is a DataFrame of Spark, whose rows are elsewhere."""
    kind = type(given)
    return kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"


def open_given(given: object, role: str) -> tuple[pl.LazyFrame, int | None]:
    """A lazy frame over `given`, and its number of rows where that is known.

    Lazy frames and Arrow datasets stay lazy. Everything else that speaks Arrow's stream
    interface is taken over at once, so that a stream that can be read once is read once, and
    a relation that has no order keeps the one it had. A pandas index is left out.

    Raises:
        DataError: `given` is nothing of the kind [unknown-format], or holds a column that
            Arrow has no type for [bad-type].
    """
    if isinstance(given, pl.LazyFrame):
        return given, None
    if isinstance(given, Named):
        given = given.frame
    if isinstance(given, pl.DataFrame):
        return given.lazy(), given.height
    at = describe_given(given, role)
    if is_spark(given):
        message = "the rows of a DataFrame of Spark are not in this process"
        hint = "evalkit.spark.evaluate measures them where they are"
        raise DataError(message, code="unknown-format", at=at, hint=hint)
    if type(given).__name__ == "Series":
        is_pandas = type(given).__module__.startswith("pandas")
        raise DataError(
            "a Series is one column, not a table",
            code="unknown-format",
            at=at,
            hint="give series.reset_index(), where users and items are its index"
            if is_pandas
            else "give a frame with a column of users and one of items",
        )
    try:
        frame = _convert(cast(Any, given))
    except READ_FAULTS as error:
        raise describe(error, at) from error
    except (TypeError, ValueError, RuntimeError) as error:
        names = [*map(str, getattr(given, "columns", ()))]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            message = f"several columns are called {', '.join(twice)}"
            hint = "give every column a name of its own"
            raise DataError(message, code="duplicate-column", at=at, hint=hint) from error
        message = f"a column is of no one type: {first_line(error)}"
        hint = 'give each column one type, such as frame["user"].astype(str) in pandas'
        raise DataError(message, code="bad-type", at=at, hint=hint) from error
    if frame is None:
        key = "item" if role == "items" else "user"
        ids = f'give {key}s as a table, pl.DataFrame({{"{key}": ids}})'
        message = f"a {type(given).__name__} is no table"
        hint = ids if role in ("users", "items") else f"give {_NAMES}"
        raise DataError(message, code="unknown-format", at=at, hint=hint)
    return (frame, None) if isinstance(frame, pl.LazyFrame) else (frame.lazy(), frame.height)


def _convert(given: Any) -> pl.LazyFrame | pl.DataFrame | None:
    package = type(given).__module__.split(".")[0]
    if package == "pyarrow" and hasattr(given, "scanner"):
        return pl.scan_pyarrow_dataset(given)
    if package == "pandas" and hasattr(given, "columns"):
        frame = pl.from_pandas(given)
        if frame.is_empty():  # pandas types an empty column as it likes
            frame = frame.select(pl.all().cast(pl.Null))
        return frame
    if package == "datasets" and hasattr(given, "with_format"):  # of Hugging Face
        given = given.with_format("arrow")[:]
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return pl.DataFrame(given)
    return None
