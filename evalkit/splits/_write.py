"""The rows of each part as they were, in files that no number of threads changes by a byte."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from evalkit.config import SplitSection
from evalkit.errors import DataError, RequestError
from evalkit.kernels.arrays import Bytes
from evalkit.splits._cut import Cut
from evalkit.splits._filters import PARTS, TEST, TRAIN, VALIDATION
from evalkit.splits._source import GROUP, Log

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ASSIGNMENT = "assignment.parquet"
MARKS = ("cold_user", "cold_item")


@contextmanager
def arrow_gives_back() -> Iterator[None]:
    """Let Arrow return memory as it is freed; its own pool keeps what it once had."""
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


class _Sink:
    """One Parquet file, in row groups of one size, whatever the batches were."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self._stack = stack
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0
        self.n_rows = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Rows behind those that are there."""
        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        self._waiting.append(table)
        self._n_waiting += table.num_rows
        self.n_rows += table.num_rows
        while self._n_waiting >= GROUP:
            self._flush(GROUP)

    def _flush(self, n_rows: int) -> None:
        import pyarrow as pa

        whole = pa.concat_tables(self._waiting)
        group = whole.slice(0, n_rows).combine_chunks()
        rest = whole.slice(n_rows)
        self._waiting, self._n_waiting = ([rest] if rest.num_rows else []), rest.num_rows
        self._open(group).write_table(group, row_group_size=GROUP)

    def _open(self, first: "pa.Table") -> "pq.ParquetWriter":
        """The file, whose columns are written as suits the first rows of each."""
        import pyarrow.parquet as pq

        if self._writer is None:
            packed = [name for name in first.column_names if _is_packed(first[name])]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._stack.enter_context(
                pq.ParquetWriter(
                    self.path,
                    first.schema,
                    compression="zstd",
                    version="2.6",
                    use_dictionary=[
                        leaf
                        for each in first.schema
                        if each.name not in packed
                        for leaf in _leaves(each.name, each.type)
                    ],
                    column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
                )
            )
        return self._writer

    def close(self) -> None:
        """Write what waits, and have it on the disk."""
        if self._n_waiting or self._writer is None:
            self._flush(self._n_waiting)
        self._stack.close()
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _leaves(name: str, dtype: "pa.DataType") -> Iterator[str]:
    """The columns of a Parquet file that a column is stored as."""
    import pyarrow as pa

    if pa.types.is_struct(dtype):
        for each in dtype:
            yield from _leaves(f"{name}.{each.name}", each.type)
    elif pa.types.is_nested(dtype) and not pa.types.is_map(dtype):
        yield from _leaves(f"{name}.list.element", dtype.value_type)
    else:
        yield name


def _is_packed(column: "pa.ChunkedArray") -> bool:
    """Whether whole numbers, or steps between them, take few bits beside how many there are.

    Such are ids that were counted up, times and grades: packed as differences they are smaller
    than by a dictionary, and written in half the time. Ids drawn from a large range are not, nor
    numbers of one byte, as letters of parts are.
    """
    import pyarrow as pa

    dtype = column.type
    if not (pa.types.is_integer(dtype) or pa.types.is_timestamp(dtype) or pa.types.is_date(dtype)):
        return False
    if dtype.bit_width == 8:
        return False
    # by way of a table: a column of its own would load all of Arrow's functions
    table = pa.table({"sample": column.slice(0, 1 << 16)})
    sample = pl.DataFrame(table).to_series().to_physical().drop_nulls()
    if sample.is_empty() or sample.dtype == pl.UInt64:
        return False
    values = sample.cast(pl.Int64).to_numpy().astype(np.float64)
    steps = np.diff(values, prepend=values[0])
    least = min(np.ptp(values), np.ptp(steps))
    return bool(least < 256 * np.unique(values).size)


@dataclass(slots=True)
class FoldPart:
    """What stands in one part of one fold."""

    fold: int
    name: str
    path: str = ""
    n_rows: int = 0


def fold_folder(fold: int, n_folds: int) -> str:
    """The folder of a fold, with a slash; empty where there is one alone."""
    return f"fold-{fold + 1}/" if n_folds > 1 else ""


@dataclass(slots=True)
class Writing:
    """Every part of every fold as one Parquet file; its rows and columns are those of the log.

    Raises:
        RequestError: the log has a column of a mark's name [bad-split].
    """

    log: Log
    cut: Cut
    rule: SplitSection
    folder: Path
    stack: ExitStack
    _sinks: dict[tuple[int, int], tuple[_Sink, FoldPart]] = field(default_factory=dict)
    _begin: int = 0

    def __post_init__(self) -> None:
        taken = [name for name in MARKS if name in self.log.whole.collect_schema()]
        if self.rule.mark_cold and taken:
            message = f"the log has columns {' and '.join(taken)}, which held-out parts would get"
            hint = "mark_cold = false under [split]"
            raise RequestError(message, code="bad-split", at=self.log.table.at, hint=hint)
        _check_types(self.log.whole.head(0).collect(), self.log.table.at)
        n_folds = len(self.cut.folds)
        for number, fold in enumerate(self.cut.folds):
            for name, letter in PARTS.items():
                wanted = fold.n_rows[letter] or letter in (TRAIN, TEST)
                if wanted or (letter == VALIDATION and self.rule.validation is not None):
                    path = f"{fold_folder(number, n_folds)}{name}/part-0.parquet"
                    inner = self.stack.enter_context(ExitStack())
                    part = FoldPart(number, name, path)
                    self._sinks[number, letter] = (_Sink(self.folder / path, inner), part)

    def add(self, batch: pl.DataFrame, marks: list[Bytes]) -> None:
        """The next rows of the log, and marks of cold ones for each fold."""
        here = slice(self._begin, self._begin + batch.height)
        self._begin += batch.height
        for (fold, letter), (sink, part) in self._sinks.items():
            mask = self.cut.folds[fold].letters[here] == letter
            n_rows = int(np.count_nonzero(mask))
            if not n_rows:
                continue
            chosen = batch if n_rows == batch.height else batch.filter(pl.Series(mask))
            sink.add(self._marked(chosen, marks[fold][mask], letter))
            part.n_rows += n_rows

    def end(self) -> list[FoldPart]:
        """All rows are here; the files are whole."""
        for (_, letter), (sink, _) in self._sinks.items():
            if sink.n_rows == 0:
                empty = self.log.whole.head(0).collect()
                sink.add(self._marked(empty, np.zeros(0, dtype=np.uint8), letter))
            sink.close()
        return [part for _, part in self._sinks.values()]

    def _marked(self, frame: pl.DataFrame, marks: Bytes, letter: int) -> pl.DataFrame:
        if not self.rule.mark_cold or letter not in (TEST, VALIDATION):
            return frame
        return frame.with_columns(
            pl.Series("cold_user", marks & 1 > 0), pl.Series("cold_item", marks & 2 > 0)
        )


def _check_types(empty: pl.DataFrame, at: str) -> None:
    """Refuse a log with columns of types that Arrow's library cannot write."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    refused = []
    for column in empty.get_columns():
        try:
            table = column.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest())
            pq.write_table(table, pa.BufferOutputStream())
        except pa.ArrowException:
            refused.append(f"{column.name} is {column.dtype}")
    if refused:
        message = f"{', '.join(refused)}, which the files of parts cannot hold"
        hint = 'write the log with other types, such as text, or give write = "assignment"'
        raise DataError(message, code="bad-type", at=at, hint=hint)


def write_assignment(cut: Cut, folder: Path) -> None:
    """One byte a row in place of rows: the letters of `Split.assignment`."""
    with ExitStack() as stack:
        sink = _Sink(folder / ASSIGNMENT, stack.enter_context(ExitStack()))
        n_rows = cut.folds[0].letters.size
        for begin in range(0, max(n_rows, 1), GROUP):
            sink.add(pl.DataFrame(list(_columns(cut, begin, begin + GROUP))))
        sink.close()


def _columns(cut: Cut, begin: int, end: int) -> Iterator[pl.Series]:
    n_folds = len(cut.folds)
    for number, fold in enumerate(cut.folds):
        name = "part" if n_folds == 1 else f"part_{number + 1}"
        yield pl.Series(name, fold.letters[begin:end])
