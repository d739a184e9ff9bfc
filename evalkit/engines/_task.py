"""What an executor does with its partition: evalkit's own measuring, and one row that comes of it.

Loaded before the environment of the process is set: it imports nothing heavy.
"""

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from evalkit.config import Config
    from evalkit.engines._layout import Kept
    from evalkit.partials import Partial
    from evalkit.planning.work import Known, Work

THREADS = (
    *("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "ARROW_NUM_THREADS"),
    "OPENBLAS_NUM_THREADS",
)
ROW = "part int, is_error boolean, n_rows array<bigint>, partial binary"


@dataclass(frozen=True, slots=True)
class Task:
    """What is done with each share of the users, as it goes to the executors.

    Args:
        config: with the columns that are read.
        kept: how the tables lie among the rows.
        n_shares: of the users; the last one has none, and is the driver's.
        sample, keep_users, keep_parts, known: as `planning.work.Work` takes them.
    """

    config: "Config"
    kept: "tuple[Kept, ...]"
    n_shares: int
    sample: float | None
    keep_users: bool | Sequence[str]
    keep_parts: bool
    known: "Known | None" = None

    def work(self, number: int, rows: "pl.DataFrame | None") -> "Work":
        """How a share is measured, whose rows these are."""
        from evalkit.engines._layout import given_of
        from evalkit.planning.work import Work

        return Work(
            given_of(self.kept, rows),
            threads=1,
            sample=self.sample,
            keep_users=self.keep_users,
            keep_parts=self.keep_parts,
            share=(number, self.n_shares),
            known=self.known,
        )

    def measure(self, number: int, rows: "pl.DataFrame | None") -> "Partial[Any]":
        """What a share leaves behind.

        Args:
            number: which, from 1.
            rows: of all tables; None where there is none.
        """
        from evalkit.config import speaking
        from evalkit.kinds import kind_named
        from evalkit.partials import Header, Partial

        work = self.work(number, rows)
        with speaking(self.config.door):
            left = kind_named(self.config.kind).measure(self.config, work)
        header = Header.of(left, work)
        known = header.versions | {"logarithms and powers": _digest_of_values()}
        return Partial(replace(header, versions=known), left.sums)


def _digest_of_values() -> str:
    """Tells libraries of mathematics apart that round otherwise: metrics rest on them."""
    import hashlib
    import math

    import numpy as np

    ranks = np.arange(1.0, 2000.0)
    found = [np.log2(ranks), np.log(ranks), np.exp(-ranks / 100), 0.8**ranks, np.sqrt(ranks)]
    found += [np.array([math.log2(x), 0.8 ** (x - 1), math.exp(x / 100)]) for x in ranks.tolist()]
    return hashlib.sha256(np.concatenate(found).tobytes()).hexdigest()[:16]


def measure_rows(packed: bytes, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """One row: the partial of a partition, or the error that ends it, which is no fault of Spark.

    Args:
        packed: a `Task`.
        batches: the rows of a partition.
    """
    task, number, rows = _begin(packed, batches)
    from evalkit.engines._layout import PART
    from evalkit.errors import EvalkitError

    try:
        content = task.measure(number + 1, rows).to_bytes()
        is_error = False
    except EvalkitError as error:
        content, is_error = pickle.dumps(error), True
    n_rows = [0] * len(task.kept)
    for place, n_there in [] if rows is None else rows[PART].value_counts().rows():
        n_rows[place] = n_there
    yield _row(number, is_error, n_rows, content)


def _begin(
    packed: bytes, batches: "Iterable[pa.RecordBatch]"
) -> "tuple[Task, int, pl.DataFrame | None]":
    """What is to be done with a partition, its number, and its rows."""
    for name in THREADS:  # as many processes as cores measure side by side
        os.environ[name] = "1"
    import polars as pl
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    held = list(batches)
    rows = pl.from_arrow(pa.Table.from_batches(held)) if held else None
    assert rows is None or isinstance(rows, pl.DataFrame)
    task: Task = pickle.loads(packed)  # noqa: S301  # from our own driver
    return task, context.partitionId(), rows


def note_rows(
    packed: bytes, types: "pa.Schema", batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """What the users of a partition add to what is known of all; nothing where data is wrong.

    Args:
        packed: a `Task`.
        types: of the columns that are noted.
    """
    task, number, rows = _begin(packed, batches)
    from evalkit.config import speaking
    from evalkit.errors import EvalkitError
    from evalkit.rankings import note_share, open_job

    try:
        with speaking(task.config.door):
            noted = note_share(open_job(task.config, task.work(number + 1, rows)))
    except EvalkitError:  # the partition tells it when it is measured
        return
    yield from noted.to_arrow().cast(types).to_batches()


def merge_rows(kind: str, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The partials of several partitions as one; an error stands for all.

    Args:
        kind: of the config.
    """
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from evalkit.kinds import kind_named
    from evalkit.partials import Partial, open_partials

    rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    rows.sort(key=lambda row: (not row["is_error"], row["part"]))
    if len(rows) < 2 or rows[0]["is_error"]:
        for row in rows[:1]:
            yield _row(**row)
        return
    with TemporaryDirectory() as folder:
        paths = [Path(folder, str(row["part"])) for row in rows]
        for path, row in zip(paths, rows, strict=True):
            path.write_bytes(row["partial"])
        whole: Partial[Any] = open_partials(paths, allow_missing=True).merged(kind_named(kind).sums)
    n_rows = [sum(counts) for counts in zip(*(row["n_rows"] for row in rows), strict=True)]
    yield _row(rows[0]["part"], False, n_rows, whole.to_bytes())


def _row(part: int, is_error: bool, n_rows: list[int], partial: bytes) -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.record_batch(
        {
            "part": pa.array([part], pa.int32()),
            "is_error": pa.array([is_error], pa.bool_()),
            "n_rows": pa.array([n_rows], pa.list_(pa.int64())),
            "partial": pa.array([partial], pa.binary()),
        }
    )
