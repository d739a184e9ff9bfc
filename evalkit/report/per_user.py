"""Values of every user, written to Parquet while they are measured."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.report.record import PerUser, readable

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.parquet as pq

FILE = "per_user.parquet"
ROWS_A_MERGE = 1 << 16
REPEATS = 8  # of a value, from which on a column has a dictionary


class UserWriter:
    """The Parquet file of all models; where they come apart, one of each model before it.

    Args:
        folder: exists; this writer alone uses it.
        user_columns: names of the user columns, as given.
        metrics: metric labels.
        is_whole: all models come at once, each user once, in order.
    """

    def __init__(
        self,
        folder: Path,
        user_columns: Sequence[str],
        metrics: Sequence[str],
        *,
        is_whole: bool = False,
    ) -> None:
        self.folder, self.is_whole = folder, is_whole
        self.values = PerUser(tuple(user_columns), tuple(metrics), path=folder / FILE)
        self._models: list[str] = []
        self._writers: dict[str, pq.ParquetWriter] = {}  # of parts, by model
        self._writer: pq.ParquetWriter | None = None
        self._order: pl.Series | None = None
        self._wide: tuple[str, ...] = ()  # ids of 128 bits, which are written as text

    def add(self, frames: "Mapping[str, pl.DataFrame]") -> None:
        """User and metric columns of the next users, who are the same of each model."""
        import polars as pl
        import pyarrow.parquet as pq

        for frame in frames.values():
            self._wide = tuple(frame.select(pl.col(pl.Int128, pl.UInt128)).columns)
        as_text = pl.col(self._wide).cast(pl.String)
        frames = {model: frame.with_columns(as_text) for model, frame in frames.items()}
        if self.is_whole:
            self._models = [*frames]
            n_users = max((frame.height for frame in frames.values()), default=0)
            for begin in range(0, n_users, ROWS_A_MERGE):
                self._interleave([frame[begin:][:ROWS_A_MERGE] for frame in frames.values()])
            return
        for model, table in ((model, frame.to_arrow()) for model, frame in frames.items()):
            if model not in self._writers:
                self._models.append(model)
                self._writers[model] = pq.ParquetWriter(  # read once, soon
                    self._part(model),
                    table.schema,
                    compression="none",
                    use_dictionary=False,
                    write_statistics=False,
                )
            self._writers[model].write_table(table)

    def finish(self, *, in_order: bool) -> PerUser:
        """The finished file, ordered by user, then model as they came.

        Args:
            in_order: every model's users came once, in one order; otherwise they are sorted.
        """
        import pyarrow.parquet as pq

        for writer in self._writers.values():
            writer.close()
        parts = [self._part(model) for model in self._writers]
        files = [pq.ParquetFile(part) for part in parts]
        for blocks in zip(*map(_blocks, files), strict=True) if in_order else ():
            self._interleave(blocks)
        for file in files:
            file.close()
        if self._writer is not None:
            self._writer.close()
        elif parts and not in_order:
            self._sort(parts)
        else:
            self._write_nothing()
        for part in parts:
            part.unlink()
        return self.values

    def _part(self, model: str) -> Path:
        return self.folder / f"model-{self._models.index(model)}.part"

    def _interleave(self, blocks: "Sequence[pl.DataFrame]") -> None:
        """Write the same users of every model, user by user."""
        import polars as pl
        import pyarrow.parquet as pq

        n_users, name_of_model = len(self.values.user_columns), self.values.model_column
        rows, height, n_models = pl.concat(blocks), blocks[0].height, len(blocks)
        if self._order is None or self._order.len() != rows.height:
            order = pl.int_range(rows.height, dtype=pl.UInt32, eager=True)
            self._order = order % n_models * height + order // n_models
        names = pl.Series(name_of_model, [*map(readable, self._models)], pl.String)
        rows = rows.select(pl.all().gather(self._order))
        table = rows.insert_column(n_users, names.gather(self._order // height)).to_arrow()
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.folder / FILE,
                table.schema,
                compression="zstd",
                use_dictionary=_met_again(rows, table.column_names[n_users:]),
                write_statistics=table.column_names[: n_users + 1],  # nobody looks for values
            )
        self._writer.write_table(table)

    def _write_nothing(self) -> None:
        import polars as pl

        texts = dict.fromkeys([*self.values.user_columns, self.values.model_column], pl.String())
        numbers = dict.fromkeys(self.values.metrics, pl.Float64())
        pl.DataFrame(schema={**texts, **numbers}).write_parquet(self.folder / FILE)

    def _sort(self, parts: list[Path]) -> None:
        import polars as pl

        logs = [
            pl.scan_parquet(part, glob=False).select(
                *self.values.user_columns,
                pl.lit(readable(model)).alias(self.values.model_column),
                *self.values.metrics,
                pl.lit(number).alias("__model"),
            )
            for number, (part, model) in enumerate(zip(parts, self._models, strict=True))
        ]
        ids = [
            pl.col(name).cast(pl.Int128) if name in self._wide else name
            for name in self.values.user_columns
        ]
        pl.concat(logs).sort(*ids, "__model").drop("__model").sink_parquet(
            self.folder / FILE, engine="streaming"
        )


def _met_again(rows: "pl.DataFrame", names: Sequence[str]) -> list[str]:
    """Columns of which most values are met again; of others, as ids are, no dictionary is made."""
    return [each for each in names if REPEATS * rows[each].n_unique() <= rows.height]


def _blocks(file: "pq.ParquetFile") -> "Iterator[pl.DataFrame]":
    import polars as pl

    yield from map(pl.DataFrame, file.iter_batches(batch_size=ROWS_A_MERGE))
