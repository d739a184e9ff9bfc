"""The table of items: which there are, their genres, vectors, ages and groups."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import ItemsTable
from evalkit.errors import DataError
from evalkit.item_lists._codes import ItemCodes
from evalkit.kernels.arrays import Flags, Floats, Int32s
from evalkit.metrics import Genres, Groups, Vectors
from evalkit.sources import Table, reading
from evalkit.sources.hints import keep_rows
from evalkit.sources.ids import ITEM, ITEM_KEY

NAMED = 3  # items that an error names
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class ItemTable:
    """What the table of items says, row by row.

    Args:
        codes: int32[n_rows], of the items, each once.
        genres: of each row a list of texts, where somebody asks.
        vectors: float32 or float64[n_rows, dimensions], and bool[n_rows], which rows have one.
        ages: float64[n_rows], NaN without a date.
        groups: of each column int32[n_rows], -1 for none, and the names, in order.
    """

    codes: Int32s
    genres: pl.Series | None
    vectors: tuple[npt.NDArray[np.floating], Flags] | None
    ages: Floats
    groups: dict[str, Groups]

    def listed(self, n: int) -> Flags:
        """bool[n_items]: which items stand in the table."""
        found = np.zeros(n, dtype=np.bool_)
        found[self.codes] = True
        return found

    def ages_of(self, n: int) -> Floats:
        """float64[n_items], NaN without a date."""
        found = np.full(n, np.nan)
        found[self.codes] = self.ages
        return found

    def groups_of(self, n: int) -> dict[str, Groups]:
        """The group of each item, by column."""
        found = {}
        for name, (codes, names) in self.groups.items():
            whole = np.full(n, -1, dtype=np.int32)
            whole[self.codes] = codes
            found[name] = Groups(whole, names)
        return found

    def genres_of(self, n: int) -> Genres | None:
        """The genres of each item."""
        if self.genres is None:
            return None
        rows = pl.DataFrame({"item": self.codes, "genre": self.genres}).explode("genre")
        rows = rows.drop_nulls().unique()
        names = rows["genre"].unique().sort()
        codes = pl.DataFrame({"genre": names, "code": np.arange(len(names), dtype=np.int32)})
        rows = rows.join(codes, on="genre").sort("item", "code")
        owners, own = rows["item"].to_numpy(), rows["code"].to_numpy().astype(np.int32)
        starts = np.searchsorted(owners, np.arange(n + 1)).astype(np.int64)
        bits = np.zeros((n, max(1, -(-len(names) // 64))), dtype=np.uint64)
        np.bitwise_or.at(bits, (owners, own // 64), np.uint64(1) << (own % 64).astype(np.uint64))
        return Genres(starts, own, tuple(names.to_list()), bits)

    def vectors_of(self, n: int) -> Vectors | None:
        """The vector of each item."""
        if self.vectors is None:
            return None
        own, has = self.vectors
        rows = np.zeros((n, own.shape[1]), dtype=own.dtype)
        rows[self.codes] = own
        norms = np.full(n, -1.0)
        wide = own[has].astype(np.float64)
        norms[self.codes[has]] = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        return Vectors(rows, norms)


def read_items(
    table: Table,
    config: ItemsTable,
    codes: ItemCodes,
    groups: Sequence[str],
    needs: Collection[str],
) -> ItemTable:
    """Read the table of items.

    Args:
        groups: what its columns `group_0`, ... are called.
        needs: of the metrics; genres and vectors are read where they are among them.
    Raises:
        DataError: what its rows are not fit for [null-id, conflicting-items, ragged-vectors,
            bad-vector, future-items, one-group].
    """
    others = [name for name in table.frame.collect_schema() if name != ITEM]
    asked = [name for name in others if _is_asked(name, needs)]
    frame = _collect(table, codes, asked)
    if frame[ITEM_KEY].null_count():
        message = f"{frame[ITEM_KEY].null_count():,} rows of the items have no item"
        raise DataError(message, code="null-id", at=table.at, hint=keep_rows(table, "item"))
    if (n_items := frame[ITEM_KEY].n_unique()) < frame.height:
        frame = _collect(table, codes, others).unique(maintain_order=True)
        if n_items < frame.height:
            _refuse_copies(frame, table, codes)
    if not frame.height:
        hint = "it holds all items that there are: look at path and where under [items]"
        raise DataError("the items have no rows", code="empty-input", at=table.at, hint=hint)
    own = codes.codes_of_rows(frame)
    genres = _genres(frame["genres"], config.separator) if "genres" in asked else None
    return ItemTable(
        own,
        genres,
        _vectors(frame, table) if "vector_0" in asked else None,
        _ages(frame["published"], config.now, table)
        if "published" in asked and config.now is not None
        else np.full(own.size, np.nan),
        {name: _groups(frame[f"group_{n}"], name, table) for n, name in enumerate(groups)},
    )


def _is_asked(name: str, needs: Collection[str]) -> bool:
    column = name.split("_")[0]
    return column not in ("genres", "vector") or column in needs


def _collect(table: Table, codes: ItemCodes, others: Sequence[str]) -> pl.DataFrame:
    with reading(table):
        columns = [*codes.plan.select(ITEM_KEY), *others]
        return table.frame.select(columns).collect(engine="streaming")


def _refuse_copies(frame: pl.DataFrame, table: Table, codes: ItemCodes) -> None:
    copied = frame.filter(pl.col(ITEM_KEY).is_duplicated())
    own = codes.codes_of_rows(copied)
    named: list[object] = codes.ids().gather(own).unique().sort().head(NAMED).to_list()
    some = ", ".join(map(repr, named))
    message = f"items stand twice in the table of items, with other values: {some}"
    hint = "keep one row of each: where, or a query that groups by item"
    raise DataError(message, code="conflicting-items", at=table.at, hint=hint)


def _genres(column: pl.Series, separator: str | None) -> pl.Series:
    if isinstance(column.dtype, (pl.List, pl.Array)):
        return column.cast(pl.List(pl.String)).list.eval(
            pl.element().filter(pl.element().is_not_null() & (pl.element() != ""))
        )
    texts = column.cast(pl.String)
    if separator is None:
        parts = texts.to_frame("genre").select(pl.concat_list("genre")).to_series()
    else:
        parts = texts.str.split(separator)
    parts = parts.list.eval(pl.element().str.strip_chars())
    return parts.list.eval(pl.element().filter(pl.element().is_not_null() & (pl.element() != "")))


def _vectors(frame: pl.DataFrame, table: Table) -> tuple[npt.NDArray[np.floating], Flags]:
    names = [name for name in frame.columns if name.startswith("vector_")]
    first = frame[names[0]]
    if isinstance(first.dtype, (pl.List, pl.Array)):
        column = (
            first.cast(pl.List(first.dtype.inner)) if isinstance(first.dtype, pl.Array) else first
        )
        lengths = column.list.len()
        if lengths.drop_nulls().n_unique() > 1 or lengths.min() == 0:
            message = f"vectors of items have from {lengths.min()!r} to {lengths.max()!r} numbers"
            hint = "give each item as many, or none at all"
            raise DataError(message, code="ragged-vectors", at=table.at, hint=hint)
        has = column.is_not_null().to_numpy()
        flat = column.drop_nulls().explode()
        width = int(lengths.max() or 0)  # type: ignore[arg-type]
    else:
        has = ~frame.select(pl.all_horizontal(pl.col(names).is_null())).to_series().to_numpy()
        flat = frame.filter(pl.Series(has)).select(pl.concat_list(names).explode()).to_series()
        width = len(names)
    if flat.dtype != pl.Float32:
        flat = flat.cast(pl.Float64)
    numbers = flat.fill_null(np.nan).to_numpy()
    if not np.isfinite(numbers).all():
        bad = int((~np.isfinite(numbers.reshape(-1, max(width, 1))).all(axis=1)).sum())
        message = f"vectors of {bad:,} items have a null, NaN or infinity"
        raise DataError(
            message, code="bad-vector", at=table.at, hint="leave such items without one"
        )
    rows = np.zeros((frame.height, width), dtype=numbers.dtype)
    rows[has] = numbers.reshape(-1, width) if width else rows[has]
    return rows, has


def _ages(column: pl.Series, now: str | int, table: Table) -> Floats:
    """Days before `now`; whole numbers count days."""
    dtype = column.dtype
    if dtype.is_integer():
        if not isinstance(now, int):
            raise _bad_now(f"now is {now!r}, and published are whole numbers", table)
        ages = float(now) - column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    else:
        moment = _moment(now, table)
        if dtype == pl.String:
            texts = column
            column = texts.str.to_datetime(strict=False, time_zone="UTC", time_unit="us")
            bad = texts.filter(column.is_null() & texts.is_not_null())
            if len(bad):
                message = f"published is text, and {bad[0]!r} is no date as ISO 8601 writes it"
                hint = "write 2026-01-31, or strptime(...) in its place"
                raise DataError(message, code="bad-time", at=table.at, hint=hint)
        seconds = column.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64) / 1e6
        ages = (moment.timestamp() - seconds.fill_null(np.nan).to_numpy()) / DAY
    if n_later := int((ages < 0.0).sum()):
        raise _bad_now(f"now = {now} lies before the date of {n_later:,} items", table)
    return np.asarray(ages, dtype=np.float64)


def _moment(now: str | int, table: Table) -> datetime:
    try:
        if isinstance(now, int):
            raise ValueError(now)
        moment = datetime.fromisoformat(now)
    except ValueError:
        raise _bad_now(f"now is {now!r}, no date as published", table) from None
    if isinstance(moment, date) and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment


def _bad_now(message: str, table: Table) -> DataError:
    hint = "now under [items]: when the lists were made, as published is written"
    return DataError(message, code="bad-now", at=table.at, hint=hint)


def _groups(column: pl.Series, name: str, table: Table) -> Groups:
    texts = column.cast(pl.String)
    names = texts.drop_nulls().unique().sort()
    if len(names) < 2:
        which = f"one value, {names[0]!r}" if len(names) else "no value"
        message = f"the column {name!r} of the items has {which}: that is no group beside another"
        raise DataError(message, code="one-group", at=table.at, hint="name another column by")
    codes = texts.to_frame("group").join(
        pl.DataFrame({"group": names, "code": np.arange(len(names), dtype=np.int32)}),
        on="group",
        how="left",
        maintain_order="left",
    )["code"]
    return Groups(codes.fill_null(-1).to_numpy().astype(np.int32), tuple(names.to_list()))
