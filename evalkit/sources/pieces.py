"""Files of a table in pieces that processes elsewhere read: neighbouring rows of one file."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import polars as pl

from evalkit.sources.batches import stream_batches
from evalkit.sources.failures import mapped
from evalkit.sources.paths import File
from evalkit.sources.scan import scan_file
from evalkit.sources.trec import Kind


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring rows of one file.

    Args:
        kind: what a TREC file is.
        first: its first row.
        n_rows: how many there are; None: all from there on, and nobody has counted them.
    """

    file: File
    kind: Kind
    first: int = 0
    n_rows: int | None = None

    def read(self, types: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame]:
        """Its rows in their order, in frames as the reader makes them.

        Args:
            types: of the table's own columns that are read, through all of its files.
        Raises:
            DataError: the file cannot be read [unreadable-file, path-not-found].
        """
        with mapped(self.file.path, lambda error: None):
            rows = scan_file(self.file, types, self.kind)
            if self.n_rows is not None:
                rows = rows.slice(self.first, self.n_rows)
            yield from stream_batches(rows, self.n_rows)


def cut_into_pieces(files: Sequence[File], kind: Kind, most: int) -> list[Piece]:
    """Whole files, and row groups of larger ones, of about `most` rows, in the order of the rows.

    Local paths become absolute: another process has another working directory.
    """
    found: list[Piece] = []
    for file in files:
        if file.remote:
            found.append(Piece(file, kind))
            continue
        own = replace(file, path=os.path.abspath(file.path))
        groups = _row_groups(own) if file.format == "parquet" and file.version is None else None
        if groups is None:
            found.append(Piece(own, kind))
            continue
        first = n_rows = 0
        for size in groups:
            if n_rows and n_rows + size > most:
                found.append(Piece(own, kind, first, n_rows))
                first, n_rows = first + n_rows, 0
            n_rows += size
        found.append(Piece(own, kind, first, n_rows))
    return found


def _row_groups(file: File) -> list[int] | None:
    """The rows of each; None where the footer does not tell, which whoever reads the rows says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with suppress(OSError, pa.ArrowException):
        footer = pq.read_metadata(file.path)
        return [footer.row_group(place).num_rows for place in range(footer.num_row_groups)]
    return None
