"""Values of every user, written to Parquet while they are measured."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.report.record import PerUser, readable

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

FILE = "per_user.parquet"
ROWS_A_MERGE = 1 << 16
REPEATS = 8  # of a value, from which on a column has a dictionary


class UserWriter:
    """One Parquet file a model while users come by in their order, then one of all models.

    Args:
        folder: exists; this writer alone uses it.
        user_columns: names of the user columns, as given.
        metrics: metric labels.
    """

    def __init__(self, folder: Path, user_columns: Sequence[str], metrics: Sequence[str]) -> None:
        self.folder = folder
        self.values = PerUser(tuple(user_columns), tuple(metrics), path=folder / FILE)
        self._models: list[str] = []
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, model: str, users: "pl.DataFrame") -> None:
        """User and metric columns of the next users of a model."""
        import pyarrow.parquet as pq

        table = users.to_arrow()
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
        for writer in self._writers.values():
            writer.close()
        parts = [self._part(model) for model in self._models]
        if not parts:
            self._write_nothing()
        elif in_order:
            self._interleave(parts)
        else:
            self._sort(parts)
        for part in parts:
            part.unlink()
        return self.values

    def _part(self, model: str) -> Path:
        return self.folder / f"model-{self._models.index(model)}.part"

    def _interleave(self, parts: list[Path]) -> None:
        import polars as pl
        import pyarrow.parquet as pq

        files = [pq.ParquetFile(part) for part in parts]
        writer: pq.ParquetWriter | None = None
        n_users, name_of_model = len(self.values.user_columns), self.values.model_column
        models = pl.Series(name_of_model, [*map(readable, self._models)], pl.String)
        names, order = models[:0], pl.Series(dtype=pl.UInt32)
        for blocks in zip(*map(_blocks, files), strict=True):
            rows = pl.concat([pl.DataFrame(each) for each in blocks])
            if order.len() != rows.height:  # which changes in the last block alone
                height = rows.height // models.len()
                order = pl.int_range(rows.height, dtype=pl.UInt32, eager=True)
                order = order % models.len() * height + order // models.len()
                names = models.gather(order // height)
            rows = rows.select(pl.all().gather(order)).insert_column(n_users, names)
            table = rows.to_arrow()
            if writer is None:
                writer = pq.ParquetWriter(
                    self.folder / FILE,
                    table.schema,
                    compression="zstd",
                    use_dictionary=_met_again(rows, table.column_names[n_users:]),
                    write_statistics=table.column_names[: n_users + 1],  # nobody looks for values
                )
            writer.write_table(table)
        if writer is not None:
            writer.close()
        for file in files:
            file.close()

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
        pl.concat(logs).sort(*self.values.user_columns, "__model").drop("__model").sink_parquet(
            self.folder / FILE, engine="streaming"
        )


def _met_again(rows: "pl.DataFrame", names: Sequence[str]) -> list[str]:
    """Columns of which most values are met again; of others, as ids are, no dictionary is made."""
    return [each for each in names if REPEATS * rows[each].n_unique() <= rows.height]


def _blocks(file: "pq.ParquetFile") -> Iterator["pa.RecordBatch"]:
    yield from file.iter_batches(batch_size=ROWS_A_MERGE)
