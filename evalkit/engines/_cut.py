"""Rows cut by share of the users: one cell of bytes for the rows of a table that a share is given.

So Spark moves few large cells, not many small rows. Files are read by evalkit itself, as in one
process; rows of DataFrames are those that Spark reads.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from evalkit.config.credentials import storing
from evalkit.engines._around import SHARED
from evalkit.engines._layout import LaidTable
from evalkit.engines._proofs import check_proof, open_errors, pack_errors
from evalkit.errors import DataError, EvalkitError, Faults, MachineError
from evalkit.sources import Piece
from evalkit.sources.ids import IdPlan, drawn_shares

ROWS_OF_CUT = 1_500_000  # that are in memory at a time
ROWS_OF_CELL = 1 << 18
BYTES_OF_BATCH = 1 << 23
FAULT = -1  # stands for the table where a cell holds an error
CELLS = "share int, part int, place bigint, n_rows bigint, content binary"
_TYPES = {
    **{"share": pa.int32(), "part": pa.int32(), "place": pa.int64(), "n_rows": pa.int64()},
    "content": pa.binary(),
}
SCHEMA = pa.schema(list(_TYPES.items()))


Load: TypeAlias = list[tuple[int, Piece]]  # what one task reads: pieces of tables by their number


def make_loads(pieces: Iterable[tuple[int, Piece]]) -> list[Load]:
    """Pieces put together to some million rows; those that nobody has counted stand alone."""
    loads: list[Load] = []
    room = 0
    for part, piece in pieces:
        n_rows = ROWS_OF_CUT if piece.n_rows is None else piece.n_rows
        if not loads or n_rows > room:
            loads.append([])
            room = ROWS_OF_CUT
        loads[-1].append((part, piece))
        room -= n_rows
    return loads


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts rows of all tables alike.

    Args:
        kept: the tables, without their rows.
        users: how their users become keys.
        n_shares: of the users.
        storage: options of object stores.
        proof: what this process must have as the driver has it.
    """

    kept: tuple[LaidTable, ...]
    users: IdPlan
    n_shares: int
    storage: Mapping[str, Any]
    proof: Mapping[str, str]

    def cut_load(self, load: Load, number: int) -> Iterator[pa.RecordBatch]:
        """The cells of a load of files, numbered in the order of their rows."""
        with storing(self.storage):
            for part, pieces in groupby(load, key=lambda each: each[0]):
                yield from self._cut(part, self._read(part, pieces), number << 32)

    def _read(self, part: int, pieces: Iterable[tuple[int, Piece]]) -> Iterator[pl.DataFrame]:
        for _, piece in pieces:
            try:
                yield from piece.read(self.kept[part].types)
            except DataError as error:
                if error.code != "path-not-found":
                    raise
                raise MachineError(
                    f"an executor cannot open a file that is here: {error.message}",
                    code="spark-failed",
                    at=error.at,
                    hint=SHARED,
                ) from error

    def cut_batches(self, part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The cells of rows that Spark reads of one table, of the columns `by_place` gives."""
        types = self.kept[part].types
        casts = [pl.col(name).cast(dtype) for name, dtype in types.items()]
        named = (batch.rename_columns(list(types)) for batch in batches)
        tables = (pl.DataFrame(pl.from_arrow(batch)).select(casts) for batch in named)
        yield from self._cut(part, tables, 0)

    def _cut(
        self, part: int, frames: Iterable[pl.DataFrame], first: int
    ) -> Iterator[pa.RecordBatch]:
        check_proof(self.proof)
        cells: list[dict[str, object]] = []
        n_bytes, place = 0, first
        for rows in _gathered(frames):
            for share, own in self._by_share(part, rows):
                content = _packed(own)
                cells.append(
                    dict(zip(_TYPES, (share, part, place, own.height, content), strict=True))
                )
                n_bytes, place = n_bytes + len(content), place + 1
                if n_bytes > BYTES_OF_BATCH:
                    yield pa.RecordBatch.from_pylist(cells, SCHEMA)
                    cells, n_bytes = [], 0
        if cells:
            yield pa.RecordBatch.from_pylist(cells, SCHEMA)

    def _by_share(self, part: int, rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        kept, plan = self.kept[part], self.users
        named = zip(kept.users, plan.columns, strict=True)
        ids = rows.select([made.alias(name) for made, name in named])
        shares = drawn_shares(ids, plan, self.n_shares)
        shares = shares.astype(np.min_scalar_type(self.n_shares))  # few bits are sorted in one go
        order = np.argsort(shares, kind="stable")
        sorted_ = rows[order]
        ends = np.searchsorted(shares[order], np.arange(self.n_shares + 1))
        for share in np.flatnonzero(np.diff(ends)).tolist():
            own = sorted_.slice(int(ends[share]), int(ends[share + 1] - ends[share]))
            for cell in own.iter_slices(ROWS_OF_CELL):
                yield share, cell


@dataclass(frozen=True, slots=True)
class Surveyor(Cutter):
    """Reads as a `Cutter` does, and gives what shares have to know of the rows, as Arrow.

    Args:
        survey: gives it of rows of tables, by the numbers of the tables.
        types: of what is given.
    """

    survey: Callable[[Mapping[int, pl.DataFrame]], pl.DataFrame]
    types: pa.Schema

    def _cut(
        self, part: int, frames: Iterable[pl.DataFrame], first: int
    ) -> Iterator[pa.RecordBatch]:
        with suppress(EvalkitError):  # whoever cuts these rows tells it
            for rows in _gathered(frames):
                yield from self.survey({part: rows}).to_arrow().cast(self.types).to_batches()


def _gathered(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The same rows in frames of one chunk each, of about `ROWS_OF_CUT` rows."""
    held: list[pl.DataFrame] = []
    n_rows = 0
    for frame in frames:
        held.append(frame)
        n_rows += frame.height
        if n_rows >= ROWS_OF_CUT:
            yield pl.concat(held, rechunk=True)
            held, n_rows = [], 0
    if n_rows:
        yield pl.concat(held, rechunk=True)


def _packed(rows: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    narrow = [each.shrink_dtype() if each.dtype.is_integer() else each for each in rows]
    pl.DataFrame(narrow).write_ipc(file, compression="zstd")
    return file.getvalue()


def failing_as_cells(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; what is wrong becomes a cell that says so, instead of a fault of Spark."""
    try:
        yield from batches
    except EvalkitError as error:
        content = pack_errors(Faults.of(error))
        cell = {"share": 0, "part": FAULT, "place": 0, "n_rows": 0, "content": content}
        yield pa.RecordBatch.from_pylist([cell], SCHEMA)


@dataclass(slots=True)
class Cells:
    """The cells that one share is given.

    Args:
        n_rows: by table.
        faults: what stands in place of cells.
    """

    kept: tuple[LaidTable, ...]
    n_rows: list[int]
    faults: Faults
    found: dict[int, list[tuple[int, bytes]]]

    @classmethod
    def of(cls, kept: tuple[LaidTable, ...], batches: Iterable[pa.RecordBatch]) -> "Cells":
        """All cells of a partition."""
        cells = cls(kept, [0] * len(kept), Faults(), {})
        for batch in batches:
            for row in batch.to_pylist():
                part = row["part"]
                if part == FAULT:
                    cells.faults.merge(open_errors([row["content"]]))
                    continue
                cells.n_rows[part] += row["n_rows"]
                cells.found.setdefault(part, []).append((row["place"], row["content"]))
        return cells

    def open(self) -> dict[int, pl.DataFrame]:
        """The rows of each table that has any, in the order of its files.

        Raises:
            EvalkitError: what a cell says instead.
        """
        self.faults.tell()
        frames = {}
        for part in list(self.found):
            cells = sorted(self.found.pop(part), key=lambda cell: cell[0])
            types = self.kept[part].types
            casts = [pl.col(name).cast(dtype) for name, dtype in types.items()]
            opened = [pl.read_ipc(io.BytesIO(content)).select(casts) for _, content in cells]
            frames[part] = pl.concat(opened, rechunk=True)
        return frames
