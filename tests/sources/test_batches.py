"""A reader that panics does not make a table shorter."""

import os
import struct
import threading
from pathlib import Path

import polars as pl
import pytest

from evalkit.config import TrainTable
from evalkit.errors import DataError
from evalkit.sources import contents, open_train
from evalkit.sources.batches import stream_batches
from evalkit.sources.table import reading

ROWS = pl.DataFrame({"user": [f"user {row}" for row in range(100)], "item": range(100)})


def damaged(path: Path) -> Path:
    """An Arrow file whose footer says that a body reaches far behind the file's end."""
    ROWS.write_ipc(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    for place in range(len(content) - 24, 0, -1):
        start, n_header, n_body = struct.unpack_from("<qi4xq", content, place)
        if start > 8 and n_header > 8 and start + n_header + n_body < place:
            if content[start : start + 4] == b"\xff\xff\xff\xff":
                struct.pack_into("<q", content, place + 16, 1 << 37)
                path.write_bytes(content)
                return path
    raise AssertionError("no block is found")


def test_rows_come_in_their_order():
    frame = pl.concat([ROWS] * 50).with_row_index()

    assert pl.concat(stream_batches(frame.lazy())).equals(frame)


@pytest.mark.parametrize("given", [None, "100000"], ids=["unset", "set"])
def test_polars_is_told_how_to_read_while_it_plans_alone(tmp_path, given):
    if given is not None:
        pl.Config.set_streaming_chunk_size(int(given))
    before = {name: value for name, value in os.environ.items() if name.startswith("POLARS_")}
    rows = pl.DataFrame({"user": range(600_000), "item": 1})
    rows.write_parquet(tmp_path / "train.parquet", row_group_size=600_000)
    table = open_train(TrainTable(path=(str(tmp_path / "train.parquet"),)))
    try:
        frames = table.stream([pl.col("user_0").cast(pl.UInt64), "item"], most=1 << 18)
        first = next(frames).height
        after = {name: value for name, value in os.environ.items() if name.startswith("POLARS_")}
        heights = [first, *(each.height for each in frames)]
    finally:
        pl.Config.set_streaming_chunk_size(None)

    assert after == before
    assert sum(heights) == 600_000
    assert len(heights) == (3 if given is None else 6)


def test_no_rows_are_no_fault():
    assert sum(batch.height for batch in stream_batches(ROWS.clear().lazy())) == 0


def test_a_panic_is_raised(tmp_path):
    frame = pl.scan_ipc(damaged(tmp_path / "a.arrow"))

    with pytest.raises(pl.exceptions.ComputeError, match="broke off"):
        list(stream_batches(frame))


def test_a_panic_is_raised_where_the_number_of_rows_is_known(tmp_path):
    frame = pl.scan_ipc(damaged(tmp_path / "a.arrow"))

    with pytest.raises(pl.exceptions.ComputeError, match="broke off"):
        list(stream_batches(frame, ROWS.height))


@pytest.mark.parametrize("n_rows", [99, 101])
def test_another_number_of_rows_than_is_known_is_a_fault(n_rows):
    with pytest.raises(pl.exceptions.ComputeError, match="broke off"):
        list(stream_batches(ROWS.lazy(), n_rows))


@pytest.mark.parametrize("where", [None, "item < 30", "item < 0"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_tables_give_the_rows_that_where_leaves(tmp_path, where, suffix):
    path = tmp_path / f"train.{suffix}"
    (ROWS.write_parquet if suffix == "parquet" else ROWS.write_csv)(path)
    columns = {"user": "user", "item": "item"}
    table = open_train(TrainTable(path=(str(path),), where=where, columns=columns))

    n_rows = sum(batch.height for batch in table.stream([pl.all()], most=10))

    assert n_rows == {None: 100, "item < 30": 30, "item < 0": 0}[where]


@pytest.mark.parametrize(
    ("named", "where", "asked", "as_stored"),
    [
        (("who", "what"), None, (pl.col("user_0").alias("key"), pl.col("item")), True),
        (("who", "what"), None, (pl.col("user_0").cast(pl.Int64).alias("key"),), True),
        (("who", "what"), None, (pl.col("item").cast(pl.Int32, strict=False),), True),
        (("who", "what"), None, (pl.col("item").cast(pl.Int64), pl.col("user_0")), False),
        (("who", "what"), None, (pl.col("item"), pl.col("item").alias("again")), False),
        (("who", "what"), None, (pl.all(),), False),
        (("who", "who"), None, (pl.col("user_0"), pl.col("item")), False),
        (("who", "what + 1"), None, (pl.col("user_0"), pl.col("item")), False),
        (("who", "what"), "what > 4", (pl.col("user_0"), pl.col("item")), False),
    ],
)
@pytest.mark.parametrize("skip", [0, 3])
def test_columns_that_stay_as_they_are_need_no_work(tmp_path, named, where, asked, as_stored, skip):
    rows = pl.DataFrame({"what": [5, 4, None, 6, 7] * 2, "who": range(10)}).cast({"what": pl.Int32})
    rows.write_parquet(tmp_path / "train.parquet", row_group_size=4)
    columns = dict(zip(("user", "item"), named, strict=True))
    table = open_train(
        TrainTable(path=(str(tmp_path / "train.parquet"),), columns=columns, where=where)
    )

    assert (table._as_stored(asked) is not None) == as_stored
    streamed = pl.concat(table.stream(asked, most=3, skip=skip))
    assert streamed.equals(table.frame.slice(skip).select(asked).collect())


def test_a_fault_of_the_reader_is_raised():
    with pytest.raises(pl.exceptions.InvalidOperationError):
        list(stream_batches(ROWS.lazy().select(pl.col("user").cast(pl.Int64))))


def test_whoever_leaves_early_leaves_no_thread_behind():
    batches = stream_batches(pl.concat([ROWS] * 5_000, rechunk=False).lazy())
    next(batches)
    batches.close()

    until = [thread for thread in threading.enumerate() if thread.name == "reader"]
    for thread in until:
        thread.join(10)
        assert not thread.is_alive()


def test_a_table_that_makes_the_reader_panic_is_refused_not_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "batch_fault", lambda path: None)  # what finds such damage before
    path = damaged(tmp_path / "train.arrow")
    table = open_train(TrainTable(path=(str(path),)))

    with pytest.raises(DataError) as caught, reading(table):
        list(table.stream([pl.all()], most=10))

    assert caught.value.code == "unreadable-file"
    assert caught.value.at == str(path)


def test_rows_of_every_type_come_as_they_are():
    frame = pl.DataFrame(
        {
            "text": ["a", None],
            "enum": pl.Series(["x", None], dtype=pl.Enum(["x", "y"])),
            "category": pl.Series(["x", "z"], dtype=pl.Categorical),
            "list": [[1], []],
            "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)),
            "struct": [{"a": 1}, None],
            "binary": [b"1", None],
            "wide": pl.Series([1, None], dtype=pl.Int128),
            "decimal": pl.Series(["1.5", None]).cast(pl.Decimal(10, 2)),
            "time": pl.Series([1, None]).cast(pl.Datetime("ns", "UTC")),
            "null": [None, None],
        }
    )

    assert pl.concat(stream_batches(frame.lazy())).equals(frame)
