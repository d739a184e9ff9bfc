"""Dicts, lists and matrices as tables of user, item and relevance or score, as libraries have them.

A ranking's order is that of its list, or of its scores; a matrix has a row for each user.
"""

from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import DataError, RequestError

Ids: TypeAlias = Sequence[object] | npt.NDArray[Any] | None


def frame_of(
    given: object, role: str, *, users: Ids = None, items: Ids = None, depth: int | None = None
) -> pl.DataFrame | None:
    """The table that `given` stands for; None of what is no dict, list, matrix, Qrels or Run.

    Args:
        given: {user: {item: number}}, {user: [item, ...]}, a list of items for each user, a matrix
            of users by items (NumPy, SciPy), or ranx' Qrels and Run.
        role: truth, train or rankings.
        users, items: ids of the rows and columns of matrices; their numbers otherwise.
        depth: of matrices of scores, only items that may be among so many, ties included.
    Raises:
        DataError: a matrix that has not two dimensions, or other numbers of rows and columns than
            ids [bad-matrix]; ids or numbers of no one type [bad-type].
    """
    number = "score" if role == "rankings" else "relevance"
    package = type(given).__module__.partition(".")[0]
    if package == "ranx" and hasattr(given, "to_dict"):
        given = cast(Any, given).to_dict()
    if isinstance(given, Mapping) and {"user", "item"} <= set(given):  # columns of a table
        return pl.DataFrame(dict(given))
    if isinstance(given, Mapping):
        return _of_users(list(given), list(given.values()), number, role)
    if isinstance(given, np.ndarray) or hasattr(given, "tocoo"):
        return _of_matrix(given, number, role, users, items, depth)
    if isinstance(given, list | tuple) and given and all(map(_is_listing, given)):
        ids = list(range(len(given))) if users is None else list(users)
        if len(ids) != len(given):
            raise _other_size(role, "lists", len(given), "users", len(ids))
        return _of_users(ids, list(given), number, role)
    return None


def is_one_ranking(given: Mapping[Any, object], users: Container[object] = ()) -> bool:
    """Whether a dict is {user: {item: score}} or {user: [item]}, not tables by their models' names.

    A list might be one of paths: its key must be one of `users`, or no text, as no model's name is.
    """
    if not given or all(
        isinstance(each, Mapping) and all(isinstance(value, Real) for value in each.values())
        for each in given.values()
    ):
        return bool(given)
    return any(not isinstance(key, str) or key in users for key in given) and all(
        _is_listing(each)
        and not isinstance(each, Mapping)
        and not any(map(_is_listing, cast("list[object]", each)))
        for each in given.values()
    )


def _is_listing(value: object) -> bool:
    return isinstance(value, list | tuple | Mapping | AbstractSet) or (
        isinstance(value, np.ndarray) and value.ndim == 1
    )


def _of_users(users: list[object], rows: list[Any], number: str, role: str) -> pl.DataFrame:
    wrong = next((each for each in rows if not _is_listing(each)), None)
    if wrong is not None:
        raise DataError(
            f"a {type(wrong).__name__} stands where the items of a user belong",
            code="bad-type",
            at=role,
            hint="give {user: {item: number}}, {user: [item, ...]}, or a frame",
        )
    lengths = np.array([len(each) for each in rows], np.int64)
    listed = [list(each) for each in rows]
    try:
        columns = {
            "user": pl.Series(users, strict=True).gather(np.repeat(np.arange(len(rows)), lengths)),
            "item": pl.Series([item for each in listed for item in each], strict=True),
        }
        if any(isinstance(each, Mapping) for each in rows):
            if not all(isinstance(each, Mapping) for each in rows):
                raise TypeError("some users have numbers of items, others have lists of items")
            numbers = [value for each in rows for value in each.values()]
            columns[number] = pl.Series(numbers, dtype=pl.Float64, strict=True)
        elif columns["item"].dtype.is_nested():
            raise TypeError("an item is itself a list or a tuple")
        elif role == "rankings":
            if any(isinstance(each, AbstractSet) for each in rows):
                raise TypeError("a set has no order, which a ranking is")
            starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
            columns["rank"] = pl.Series(np.arange(len(starts)) - starts + 1)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        hint = "give all users one type, all items one type, and numbers as numbers"
        if any(
            isinstance(each, tuple) for each in (*rows, *(item for row in rows for item in row))
        ):
            hint = f"tuples hold items alone; give {{user: {{item: {number}}}}}, or rows as "
            hint += f'pl.DataFrame(rows, schema=["user", "item", "{number}"], orient="row")'
        raise DataError(
            f"ids or numbers are of no one type: {str(error).partition(chr(10))[0]}",
            code="bad-type",
            at=role,
            hint=hint,
        ) from error
    return pl.DataFrame([column.alias(name) for name, column in columns.items()])


def _of_matrix(
    given: Any, number: str, role: str, users: Ids, items: Ids, depth: int | None
) -> pl.DataFrame:
    if len(given.shape) != 2:
        raise DataError(
            f"a matrix of {len(given.shape)} dimensions is no table of users by items",
            code="bad-matrix",
            at=role,
            hint="give a row for each user and a column for each item",
        )
    for ids, size, what in ((users, given.shape[0], "rows"), (items, given.shape[1], "columns")):
        if ids is not None and len(ids) != size:
            raise _other_size(role, what, size, "users" if what == "rows" else "items", len(ids))
    if isinstance(given, np.ndarray):
        given = np.asarray(given)
        is_there = given != 0 if number == "relevance" else given != -np.inf
        if number == "score" and depth is not None and depth < given.shape[1]:
            is_there &= ~(given < _bar(given, depth))  # NaN stays, and is told
        rows, columns = np.nonzero(is_there)
        values = given[rows, columns]
    else:
        # one entry a place: what is stored twice is summed, as SciPy does
        stored = (given.tocsr() if hasattr(given, "tocsr") else given).tocoo()
        rows, columns, values = stored.row, stored.col, stored.data
        if number == "score":
            kept = values != -np.inf
            rows, columns, values = rows[kept], columns[kept], values[kept]
    return pl.DataFrame(
        {
            "user": _ids(users, given.shape[0]).gather(rows.astype(np.uint32)),
            "item": _ids(items, given.shape[1]).gather(columns.astype(np.uint32)),
            number: values.astype(np.float64),
        }
    )


def _bar(scores: npt.NDArray[Any], depth: int) -> npt.NDArray[Any]:
    """The score of each row from which on an item may be among the first `depth`."""
    place = scores.shape[1] - depth
    return cast("npt.NDArray[Any]", np.partition(scores, place, axis=1)[:, place : place + 1])


def _ids(ids: Ids, size: int) -> pl.Series:
    return pl.Series(np.arange(size) if ids is None else ids, strict=True)


def _other_size(role: str, what: str, size: int, ids: str, given: int) -> RequestError:
    return RequestError(
        f"there are {size:,} {what} and {given:,} {ids}",
        code="bad-matrix",
        at=role,
        hint=f"{ids.removesuffix('s')}_ids has one id for each of the {what}",
    )
