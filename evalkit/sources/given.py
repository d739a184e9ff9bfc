"""Dicts, lists and matrices as tables of user, item and relevance or score, as libraries have them.

A ranking's order is that of its list, or of its scores; a matrix has a row for each user.
"""

from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import DataError, RequestError
from evalkit.kernels.arrays import Ints
from evalkit.sources.guess import best_guess

Ids: TypeAlias = Sequence[object] | npt.NDArray[Any] | pl.Series | None


def frame_of(
    given: object, role: str, *, users: Ids = None, items: Ids = None, depth: int | None = None
) -> pl.DataFrame | None:
    """The table that `given` stands for; None of what is no dict, list, matrix, Qrels or Run.

    Args:
        given: {user: {item: number}}, {user: [item, ...]}, a list of items for each user, a matrix
            of users by items (NumPy, SciPy), or ranx' Qrels and Run.
        role: truth, train, rankings or earlier.
        users, items: ids of the rows and columns of matrices; their numbers otherwise.
        depth: of matrices of scores, only items that may be among so many, ties included.
    Raises:
        DataError: a matrix that has not two dimensions, or other numbers of rows and columns than
            ids [bad-matrix]; ids or numbers of no one type [bad-type].
    """
    number = "score" if role in ("rankings", "earlier") else "relevance"
    package = type(given).__module__.partition(".")[0]
    if package == "ranx" and hasattr(given, "to_dict"):
        given = cast(Any, given).to_dict()
    columns = columns_in(given)
    if columns is not None:
        return _of_columns(columns, role)
    if isinstance(given, Mapping):
        return _of_users(list(given), list(given.values()), number, role)
    if isinstance(given, np.ndarray) or hasattr(given, "tocoo"):
        return _of_matrix(given, number, role, users, items, depth)
    if isinstance(given, list | tuple) and given and all(map(_is_listing, given)):
        ids = list(range(len(given))) if users is None else _ids(users, 0).to_list()
        if len(ids) != len(given):
            raise _other_size(role, "lists", len(given), "users", len(ids))
        return _of_users(ids, list(given), number, role)
    return None


def columns_in(given: object) -> dict[str, list[object]] | None:
    """The columns of a table that is written as Python's own: None of what is no such table.

    It is `{column: values}`, records `[{column: value}, ...]`, or what pandas makes by `to_dict()`
    of it, by row or by column; there are columns of users and of items by their names.
    """
    if isinstance(given, Mapping):
        values = list(given.values())
        if _names_columns(given):
            if all(
                isinstance(each, Mapping) and each.keys() == values[0].keys() for each in values
            ):
                return {str(name): list(each.values()) for name, each in given.items()}
            is_column = all(map(_is_nested, values))
            if is_column and not any(isinstance(each, Mapping | AbstractSet) for each in values):
                return {str(name): list(each) for name, each in given.items()}
            return None
        are_plain = all(
            isinstance(each, Mapping) and not any(map(_is_nested, each.values())) for each in values
        )
        return _columns_of_records(values) if are_plain else None
    return _columns_of_records(list(given)) if isinstance(given, list | tuple) else None


def _is_nested(value: object) -> bool:
    """Whether it holds values, as a list, an array or a Series does."""
    return _is_listing(value) or hasattr(value, "to_list")


def _columns_of_records(records: list[Any]) -> dict[str, list[object]] | None:
    if not records or not all(isinstance(each, Mapping) for each in records):
        return None
    if not all(_names_columns(each) for each in records):
        return None
    names = dict.fromkeys(str(name) for each in records for name in each)
    return {name: [each.get(name) for each in records] for name in names}


def _names_columns(given: Mapping[Any, object]) -> bool:
    """Whether the keys are names of columns, one of users and one of items, and no ids."""
    names = [name for name in given if isinstance(name, str)]
    if len(names) < len(given) or len(names) < 2:
        return False
    found = (best_guess("user", names), best_guess("item", names))
    return all(each is not None and len(each) > 1 for each in found)


def _of_columns(columns: Mapping[str, list[object]], role: str) -> pl.DataFrame:
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(
            f"columns differ in length: {', '.join(f'{n} has {m:,}' for n, m in sizes.items())}",
            code="bad-type",
            at=role,
            hint="give every row a value in each column",
        )
    try:
        return pl.DataFrame(
            [pl.Series(name, values, strict=True) for name, values in columns.items()]
        )
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        message = f"a column is of no one type: {str(error).partition(chr(10))[0]}"
        hint = "give each column one type: users of one, items of one, numbers as numbers"
        raise DataError(message, code="bad-type", at=role, hint=hint) from error


def check_pairing(truth: object, rankings: Sequence[object], users: Ids, items: Ids) -> None:
    """Refuse truth and rankings in memory that could be two things, or that do not fit together.

    Args:
        users, items: ids of rows and columns, where they are given.
    Raises:
        DataError: tuples that are rows, or lists [two-readings]; whole numbers that are scores, or
            ids of items [two-readings]; another number of lists, or a matrix of another shape
            [bad-matrix].
    """
    for ranking in rankings:
        _check_tuples(truth, ranking)
        if users is None and are_lists(truth) and are_lists(ranking):
            _check_number(len(cast("list[object]", truth)), len(cast("list[object]", ranking)))
        shape, theirs = _shape_of(ranking), _shape_of(truth)
        if shape is None:
            continue
        is_like_truth = theirs == shape
        if isinstance(ranking, np.ndarray) and ranking.dtype.kind in "iu" and items is None:
            if not is_like_truth:
                raise DataError(
                    f"a matrix of whole numbers, {shape[0]:,} x {shape[1]:,}, may hold scores or "
                    "the ids of ranked items",
                    code="two-readings",
                    at="rankings",
                    hint="ids of items, best first: rankings.tolist(); scores of all items: "
                    "rankings.astype(float)",
                )
        if theirs is not None and not is_like_truth:
            raise DataError(
                f"the rankings are a matrix of {shape[0]:,} x {shape[1]:,}, the truth one of "
                f"{theirs[0]:,} x {theirs[1]:,}",
                code="bad-matrix",
                at="rankings",
                hint="give both a row for each user and a column for each item",
            )
        if users is None and are_lists(truth):
            _check_number(len(cast("list[object]", truth)), shape[0])


def _check_number(n_truth: int, n_rankings: int) -> None:
    if n_truth != n_rankings:
        raise DataError(
            f"there are {n_truth:,} lists of the truth and {n_rankings:,} of the rankings, which "
            "belong together by their places",
            code="bad-matrix",
            at="rankings",
            hint="give every user a list in both, be it empty, or {user: [item, ...]}",
        )


def _check_tuples(truth: object, rankings: object) -> None:
    for size in (2, 3):
        if all(
            isinstance(each, list | tuple)
            and each
            and all(isinstance(row, tuple) and len(row) == size for row in each)
            for each in (truth, rankings)
        ):
            names = '["user", "item", "score"]' if size > 2 else '["user", "item"]'
            raise DataError(
                f"tuples of {size} may be rows, or the items of a user",
                code="two-readings",
                at="truth, rankings",
                hint=f'rows: pl.DataFrame(rows, schema={names}, orient="row"); items of a user: '
                "[list(row) for row in rows]",
            )


def _shape_of(given: object) -> tuple[int, int] | None:
    """Rows and columns of a matrix."""
    shape: tuple[int, ...] = getattr(given, "shape", ())
    is_array = isinstance(given, np.ndarray) or hasattr(given, "tocoo")
    return (int(shape[0]), int(shape[1])) if is_array and len(shape) == 2 else None


def are_lists(given: object) -> bool:
    """Whether it holds the items of each user, in the order of users."""
    return (
        isinstance(given, list | tuple)
        and bool(given)
        and all(map(_is_listing, given))
        and columns_in(given) is None
    )


def is_one_ranking(given: Mapping[Any, object], users: Container[object] = ()) -> bool:
    """Whether a dict is {user: {item: score}} or {user: [item]}, not tables by their models' names.

    A list might be one of paths: its key must be one of `users`, or no text, as no model's name is;
    and so where all are {}, which may be of users or of models.
    """
    is_of_users = any(not isinstance(key, str) or key in users for key in given)
    if all(isinstance(each, Mapping) and not each for each in given.values()):
        return is_of_users
    if all(
        isinstance(each, Mapping)
        and all(value is None or isinstance(value, Real | Decimal) for value in each.values())
        for each in given.values()
    ):
        return True
    return is_of_users and all(
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
    wrong = [type(each).__name__ for each in rows if not _is_listing(each)]
    if wrong:
        message = f"a {wrong[0]} stands where the items of a user belong"
        hint = "give {user: {item: number}}, {user: [item, ...]}, or a frame"
        raise DataError(message, code="bad-type", at=role, hint=hint)
    if number == "score" and any(isinstance(each, AbstractSet) for each in rows):
        hint = "give {user: [item, ...]}, the best item first"
        raise DataError("a set has no order", code="bad-type", at=role, hint=hint)
    rows = [each.compressed() if isinstance(each, np.ma.MaskedArray) else each for each in rows]
    lengths = np.array([len(each) for each in rows], np.int64)
    listed = [list(each) for each in rows]
    ids, columns = pl.Series("user", []), dict[str, pl.Series]()
    try:
        ids = pl.Series("user", users, strict=True)
        columns["item"] = pl.Series([item for each in listed for item in each], strict=True)
        if any(isinstance(each, Mapping) for each in rows):
            if not all(isinstance(each, Mapping) for each in rows):
                raise TypeError("some users have numbers of items, others have lists of items")
            numbers = [value for each in rows for value in each.values()]
            is_wide = all(map(_is_whole, numbers)) and any(abs(n) > _EXACT for n in numbers)
            dtype = None if is_wide else pl.Float64  # as a float, neighbours would be equal
            columns[number] = pl.Series(numbers, dtype=dtype, strict=True)
        elif columns["item"].dtype.is_nested():
            raise TypeError("an item is itself a list or a tuple")
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        hint = "give all users one type, all items one type, and numbers as numbers"
        if any(
            isinstance(each, tuple) for each in (*rows, *(item for row in rows for item in row))
        ):
            hint = f"tuples hold items alone; give {{user: {{item: {number}}}}}, or rows as "
            hint += f'pl.DataFrame(rows, schema=["user", "item", "{number}"], orient="row")'
        message = f"ids or numbers are of no one type: {str(error).partition(chr(10))[0]}"
        raise DataError(message, code="bad-type", at=role, hint=hint) from error
    if number == "score" and (len(columns) == 1 or not lengths.all()):
        if lengths.any() and ids.n_unique() == len(ids):
            return _as_lists(ids, columns, lengths)
        if len(columns) == 1:  # of several lists of a user the ranks repeat
            starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
            columns["rank"] = pl.Series(np.arange(len(starts)) - starts + 1)
    owners = ids.gather(np.repeat(np.arange(len(rows)), lengths))
    return pl.DataFrame([owners, *(column.alias(name) for name, column in columns.items())])


def _as_lists(users: pl.Series, columns: Mapping[str, pl.Series], lengths: Ints) -> pl.DataFrame:
    """One row a user, with lists of items and of scores, of which some may be empty."""
    place = np.arange(lengths.size)
    rows = pl.DataFrame({"place": np.repeat(place, lengths), **columns})
    lists = rows.group_by("place", maintain_order=True).agg(pl.all())
    found = pl.DataFrame({"place": place, "user": users}).join(
        lists, on="place", how="left", maintain_order="left"
    )
    return found.drop("place").with_columns(pl.col(*columns).fill_null([]))


def with_all_users(frame: pl.DataFrame, given: object, users: Ids) -> pl.DataFrame:
    """A truth in which users who were given without any item have one that is not relevant.

    Args:
        frame: as `frame_of` makes it of `given`, which may be a table as well.
        users: ids of the rows, as of `frame_of`.
    """
    if columns_in(given) is not None or not frame.height:
        return frame
    if isinstance(given, Mapping):
        known = pl.Series(list(given), strict=True)
    elif are_lists(given) or _shape_of(given) is not None:
        n_rows = (_shape_of(given) or (len(cast("list[object]", given)), 0))[0]
        known = _ids(users, n_rows)
    else:
        return frame
    known = known.cast(frame["user"].dtype).drop_nulls()
    missing = known.filter(~known.is_in(frame["user"].implode())).unique(maintain_order=True)
    if "relevance" not in frame.columns:
        frame = frame.with_columns(relevance=pl.lit(1.0))
    item = frame["item"].gather(np.zeros(missing.len(), dtype=np.int64))
    nothing = pl.Series("relevance", np.zeros(missing.len())).cast(frame["relevance"].dtype)
    return pl.concat([frame, pl.DataFrame([missing.alias("user"), item, nothing])])


_EXACT = 1 << 53  # whole numbers up to here are floats of their own


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As float64, unless whole numbers would become equal."""
    is_wide = values.dtype.kind in "iu" and values.size and int(np.abs(values).max()) > _EXACT
    return values if is_wide else values.astype(np.float64)


def _of_matrix(
    given: Any, number: str, role: str, users: Ids, items: Ids, depth: int | None
) -> pl.DataFrame:
    if len(given.shape) != 2:
        message = f"a matrix of {len(given.shape)} dimensions is no table of users by items"
        hint = "give a row for each user and a column for each item"
        raise DataError(message, code="bad-matrix", at=role, hint=hint)
    if isinstance(given, np.ndarray) and given.dtype.kind not in "biuf":
        message = f"a matrix of {given.dtype} holds no {number}s of users by items"
        hint = "give ids as lists, one for each user, as matrix.tolist(); numbers as floats"
        raise DataError(message, code="bad-matrix", at=role, hint=hint)
    for ids, size, what in ((users, given.shape[0], "rows"), (items, given.shape[1], "columns")):
        if ids is not None and len(ids) != size:
            raise _other_size(role, what, size, "users" if what == "rows" else "items", len(ids))
    if isinstance(given, np.ndarray):
        mask = np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else None
        given = np.ma.getdata(given) if mask is not None else np.asarray(given)
        if mask is not None and number == "score":  # what is masked is not ranked
            given = np.where(mask, -np.inf, given)
        is_there = given != 0 if number == "relevance" else given != -np.inf
        if mask is not None:
            is_there &= ~mask
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
            number: _as_numbers(values),
        }
    )


def _bar(scores: npt.NDArray[Any], depth: int) -> npt.NDArray[Any]:
    """The score of each row from which on an item may be among the first `depth`."""
    place = scores.shape[1] - depth
    return cast("npt.NDArray[Any]", np.partition(scores, place, axis=1)[:, place : place + 1])


def _ids(ids: Ids, size: int) -> pl.Series:
    if ids is None:
        return pl.Series(np.arange(size))
    if isinstance(ids, pl.Series):
        return ids
    if hasattr(ids, "tolist"):  # of NumPy and pandas
        return pl.Series(cast(Any, ids).tolist(), strict=True)
    return pl.Series(list(ids), strict=True)


def _other_size(role: str, what: str, size: int, ids: str, given: int) -> RequestError:
    message = f"there are {size:,} {what} and {given:,} {ids}"
    hint = f"{ids.removesuffix('s')}_ids has one id for each of the {what}"
    return RequestError(message, code="bad-matrix", at=role, hint=hint)
