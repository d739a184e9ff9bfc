"""What rows hold, as one short text that no order, file, format or name of a column changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Keys
from evalkit.sources.batches import stream_batches
from evalkit.sources.ids import as_array, borrow, filled_texts, hash_bytes, mix

_PER_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(slots=True)
class Content:
    """The sum of the hashes of rows: equal for the same rows in any order and any parts.

    Rows that are there twice count twice. The sums of two hashes of each row, modulo 2^64, are
    128 bits: two contents are taken for one by chance alone, never by a common mistake.
    """

    n_rows: int = 0
    sums: tuple[int, int] = (0, 0)

    def add(self, frame: pl.DataFrame) -> None:
        """Count in all rows of a frame; every column of it, in its order, is a part of a row."""
        self.add_hashes(row_hashes(frame))

    def add_hashes(self, hashes: Keys) -> None:
        """Count in rows by their hashes."""
        found = np.zeros(2, dtype=np.uint64)
        sum_hashes(hashes, found)
        self.merge(Content(hashes.size, (int(found[0]), int(found[1]))))

    def merge(self, other: "Content") -> None:
        """Count in all rows of another content."""
        self.n_rows += other.n_rows
        one, two = (
            a + b & 0xFFFF_FFFF_FFFF_FFFF for a, b in zip(self.sums, other.sums, strict=True)
        )
        self.sums = (one, two)

    @property
    def fingerprint(self) -> str:
        """32 hex digits and the number of rows."""
        return f"{self.sums[0]:016x}{self.sums[1]:016x}-{self.n_rows}"

    def is_repeated(self, fingerprint: str) -> bool:
        """Whether these rows are those of a fingerprint, each of them as often as any other."""
        sums, _, size = fingerprint.rpartition("-")
        times, rest = divmod(self.n_rows, max(1, int(size)))
        one, two = (
            times * int(each, 16) & 0xFFFF_FFFF_FFFF_FFFF for each in (sums[:16], sums[16:])
        )
        return times > 0 and not rest and (one, two) == self.sums


def content_of(rows: pl.LazyFrame | pl.DataFrame, columns: Sequence[str] | None = None) -> Content:
    """What the columns of all rows hold; columns in the order given, by default all of them.

    The fingerprint of a table's users and items is that of `content_of(frame, [*users, item])`.
    Integers of any width that are equal are one value, and so are text and categories, or times
    in other units; text and numbers are not.
    """
    content = Content()
    lazy = rows.lazy()
    for batch in stream_batches(lazy if columns is None else lazy.select(columns)):
        content.add(batch)
    return content


def row_hashes(frame: pl.DataFrame, hashes: Keys | None = None) -> Keys:
    """uint64[n_rows], hashes of rows that no version of any library changes.

    Args:
        hashes: of the columns before these, which they go on from.
    """
    if hashes is None:
        hashes = np.zeros(frame.height, dtype=np.uint64)
    for column in frame.get_columns():
        absent = as_array(column.is_null()) if column.has_nulls() else np.zeros(0, dtype=np.bool_)
        words = _words(column)
        if words is not None:
            fold_words(words, absent, hashes)
            continue
        fold_words(np.zeros(frame.height, dtype=np.uint64), absent, hashes)
        hash_bytes(filled_texts(column), hashes)
    return hashes


def _words(column: pl.Series) -> Keys | None:
    """The values as 64 bits each; None of those that are text or bytes."""
    dtype = column.dtype
    if isinstance(dtype, pl.Decimal) or dtype in (pl.Int128, pl.UInt128) or dtype.is_nested():
        column = column.cast(pl.String) if not dtype.is_nested() else _nested(column)
        dtype = column.dtype
    if dtype.base_type() in (pl.String, pl.Categorical, pl.Enum, pl.Binary):
        return None
    if dtype.is_float():
        values = as_array(column.fill_null(0).cast(pl.Float64)) + 0.0  # -0.0 is 0.0
        values[np.isnan(values)] = np.nan
        return _bits(values)
    if isinstance(dtype, pl.Datetime | pl.Duration):
        with np.errstate(over="ignore"):
            units = as_array(column.to_physical().fill_null(0)) * np.int64(
                _PER_UNIT[dtype.time_unit]
            )
        return _bits(units)
    if dtype == pl.Null:
        return np.zeros(len(column), dtype=np.uint64)
    physical = column.to_physical()
    if physical.has_nulls():  # filling plans a query, which costs more than the rows of a batch
        physical = physical.fill_null(0 if dtype != pl.Boolean else False)
    return _bits(as_array(physical if dtype == pl.UInt64 else physical.cast(pl.Int64)))


def _nested(column: pl.Series) -> pl.Series:
    return column.to_frame("value").select(pl.struct("value").struct.json_encode()).to_series()


def _bits(values: npt.NDArray[Any]) -> Keys:
    return borrow(values.view(np.uint64))


@kernel(allocates=False)
def fold_words(words, absent, hashes):  # type: ignore[no-untyped-def]
    """Mix one value of each row into its hash; `absent` is empty where none is null."""
    for row in range(hashes.size):
        value = mix(hashes[row] + np.uint64(0x9E3779B97F4A7C15))
        if absent.size and absent[row]:
            hashes[row] = mix(value ^ np.uint64(0xD6E8FEB86659FD93))
        else:
            hashes[row] = mix(value + words[row] * np.uint64(0x2545F4914F6CDD1D))


@kernel(allocates=False)
def sum_hashes(hashes, sums):  # type: ignore[no-untyped-def]
    """Two sums over rows, each of another hash."""
    one, two = np.uint64(0), np.uint64(0)
    for row in range(hashes.size):
        one += mix(hashes[row] ^ np.uint64(0x8BB84B93962EACC9))
        two += mix(hashes[row] ^ np.uint64(0x2F58C5B3D5A1C9E7))
    sums[0] = one
    sums[1] = two
