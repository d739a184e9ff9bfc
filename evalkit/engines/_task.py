"""What an executor does with its partition: evalkit's own measuring, and one row that comes of it.

Loaded before the environment of the process is set: it imports nothing heavy.
"""

import gc
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    import pyarrow as pa

    from evalkit.config import Config
    from evalkit.engines._cut import Cells
    from evalkit.engines._layout import LaidTable
    from evalkit.planning.partials import Partial
    from evalkit.planning.work import GlobalStats, MeasureOptions

THREADS = (
    *("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "ARROW_NUM_THREADS"),
    "OPENBLAS_NUM_THREADS",
)
ROW = "part int, is_error boolean, n_rows array<bigint>, files array<string>, partial binary"


@dataclass(frozen=True, slots=True)
class Task:
    """What is done with each share of the users, as it goes to the executors.

    Args:
        config: with the columns that are read.
        kept: how the tables lie among the rows.
        n_shares: of the users; the last one has none, and is the driver's.
        sample, per_user, keep_parts, known: as `MeasureOptions` takes them; `surveyed`: rows.
        folder: values of users are written there, instead of going with the partials.
        files: what the metric files of the config hold, by their paths.
    """

    config: "Config"
    kept: "tuple[LaidTable, ...]"
    n_shares: int
    sample: float | None
    per_user: bool | Sequence[str]
    keep_parts: bool
    known: "GlobalStats | None" = None
    surveyed: Sequence[Mapping[str, Any]] | None = None
    folder: "Path | None" = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @contextmanager
    def here(self) -> "Iterator[Task]":
        """The same, with its metric files in a folder of this process."""
        if not self.files:
            yield self
            return
        from evalkit.metrics import unpack_file

        with TemporaryDirectory() as folder:
            paths = []
            for number, (path, content) in enumerate(self.files.items()):
                os.mkdir(f"{folder}/{number}")
                own = f"{folder}/{number}/{os.path.basename(path)}"
                paths.append(unpack_file(path, content, own))
            yield replace(self, config=_with_files(self.config, paths))

    def work(self, number: int, rows: "Mapping[int, pl.DataFrame]") -> "MeasureOptions":
        """How a share is measured.

        Args:
            number: which, from 1.
            rows: of the tables, by their numbers.
        """
        import polars as pl

        from evalkit.engines._layout import given_of
        from evalkit.planning.work import MeasureOptions

        return MeasureOptions(
            given_of(self.kept, rows, {} if self.known is None else self.known.counts),
            threads=1,
            sample=self.sample,
            per_user=self.per_user,
            keep_parts=self.keep_parts,
            share=(number, self.n_shares),
            known=self.known,
            surveyed=None if self.surveyed is None else pl.DataFrame(self.surveyed),
        )

    def survey(self, rows: "Mapping[int, pl.DataFrame]") -> "pl.DataFrame":
        """What shares have to know of these rows of tables, by the numbers of the tables."""
        from evalkit.kinds import kind_named

        survey = kind_named(self.config.kind).survey
        assert survey is not None
        with self.here() as own:
            return survey(own.config, own.work(1, rows))

    def measure(self, number: int, rows: "Mapping[int, pl.DataFrame]") -> "Partial[Any]":
        """What a share leaves behind, as `work` takes it."""
        from evalkit.config import speaking
        from evalkit.engines._proofs import proof
        from evalkit.kinds import kind_named
        from evalkit.planning.partials import Header, Partial

        work = self.work(number, rows)
        with speaking(self.config.entry_point):
            left = kind_named(self.config.kind).measure(self.config, work)
        header = replace(Header.of(left, work), versions=proof())
        return Partial(replace(header, config=_with_files(header.config, self.files)), left.sums)

    def write_values(self, number: int, left: "Partial[Any]") -> list[str]:
        """The files that values of users went into, which a partial has no more."""
        if self.folder is None:
            return []
        from evalkit.engines._values import write_values

        return write_values(self.folder, number, self.config, self.per_user, left.body)


def _with_files(config: "Config", paths: Iterable[str]) -> "Config":
    metrics = config.metrics.model_copy(update={"files": tuple(paths)})
    return config.model_copy(update={"metrics": metrics})


def cut_files(packed: bytes, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The cells of some loads of files.

    Args:
        packed: a `Cutter`, and the loads.
        batches: the numbers of those that are read here.
    """
    _settle()
    from evalkit.engines._cut import failing_as_cells

    cutter, loads = _opened(packed)
    numbers = (number for batch in batches for number in batch.column(0).to_pylist())
    yield from failing_as_cells(
        cell for number in numbers for cell in cutter.cut_load(loads[number], number)
    )


def cut_frames(
    packed: bytes, part: int, batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """The cells of rows that Spark reads.

    Args:
        packed: a `Cutter`.
        part: number of the table.
    """
    _settle()
    from evalkit.engines._cut import failing_as_cells

    yield from failing_as_cells(_opened(packed).cut_batches(part, batches))


def measure_rows(packed: bytes, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """One row: the partial of a partition, or the error that ends it, which is no fault of Spark.

    Args:
        packed: a `Task`.
        batches: the cells of a partition.
    """
    task, number, cells = _begin(packed, batches)
    from evalkit.engines._proofs import pack_errors
    from evalkit.errors import EvalkitError, Faults

    files: list[str] = []
    try:
        with task.here() as own:
            left = own.measure(number + 1, cells.open())
            files = own.write_values(number + 1, left)
        content, is_error = left.to_bytes(), False
    except EvalkitError as error:
        content, is_error = pack_errors(Faults.of(error)), True
    yield _row(number, is_error, cells.n_rows, files, content)


def _begin(packed: bytes, batches: "Iterable[pa.RecordBatch]") -> "tuple[Task, int, Cells]":
    """What is to be done with a partition, its number, and its cells."""
    _settle()
    from pyspark import TaskContext

    from evalkit.engines._cut import Cells

    context = TaskContext.get()
    assert context is not None
    task: Task = _opened(packed)
    return task, context.partitionId(), Cells.of(task.kept, batches)


def _settle() -> None:
    """As many processes as cores measure side by side, and each measures many partitions."""
    for name in THREADS:
        os.environ[name] = "1"
    _freeze(len(sys.modules))


@cache
def _freeze(n_modules: int) -> None:
    """Let nobody look for garbage among what modules have brought, once for each that came.

    Spark looks after every task, which takes longer than a small partition itself.
    """
    gc.freeze()


def _opened(packed: bytes) -> Any:
    return pickle.loads(packed)  # noqa: S301  # from our own driver


def note_rows(
    packed: bytes, types: "pa.Schema", batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """What the users of a partition add to what is known of all; nothing where data is wrong.

    Args:
        packed: a `Task`.
        types: of the columns that are noted.
    """
    task, number, cells = _begin(packed, batches)
    from evalkit.config import speaking
    from evalkit.errors import EvalkitError
    from evalkit.kinds.rankings.kind import note_share

    try:
        with task.here() as own, speaking(own.config.entry_point):
            noted = note_share(own.config, own.work(number + 1, cells.open()))
    except EvalkitError:  # the partition tells it when it is measured
        return
    yield from noted.to_arrow().cast(types).to_batches()


def merge_rows(kind: str, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The partials of several partitions as one; an error stands for all.

    Args:
        kind: of the config.
    """
    from pathlib import Path

    from evalkit.engines._proofs import open_errors, pack_errors
    from evalkit.kinds import kind_named
    from evalkit.planning.partials import Partial, open_partials

    rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    if not rows:
        return
    n_rows = [sum(counts) for counts in zip(*(row["n_rows"] for row in rows), strict=True)]
    if failed := [row["partial"] for row in rows if row["is_error"]]:
        yield _row(rows[0]["part"], True, n_rows, [], pack_errors(open_errors(failed)))
        return
    with TemporaryDirectory() as folder:
        paths = [Path(folder, str(row["part"])) for row in rows]
        for path, row in zip(paths, rows, strict=True):
            path.write_bytes(row["partial"])
        whole: Partial[Any] = open_partials(paths, allow_missing=True).merged(kind_named(kind).sums)
    files = [name for row in rows for name in row["files"]]
    yield _row(rows[0]["part"], False, n_rows, files, whole.to_bytes())


def _row(
    part: int, is_error: bool, n_rows: list[int], files: list[str], partial: bytes
) -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.record_batch(
        {
            "part": pa.array([part], pa.int32()),
            "is_error": pa.array([is_error], pa.bool_()),
            "n_rows": pa.array([n_rows], pa.list_(pa.int64())),
            "files": pa.array([files], pa.list_(pa.string())),
            "partial": pa.array([partial], pa.binary()),
        }
    )
