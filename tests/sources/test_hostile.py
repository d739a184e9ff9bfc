"""Small files that claim much are refused before a reader sees them; honest extremes are read."""

import base64
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evalkit
from evalkit.sources.arrow import MOST_LEVELS, MOST_NAME, batch_fault
from evalkit.sources.footers import footer_fault
from evalkit.sources.parquet import page_fault
from tests.peaks import run_evalkit
from tests.sources.hostile import CODECS, Column, element, numbers, same, write

USERS, ITEMS = [row // 4 for row in range(480)], [row % 4 for row in range(480)]
LOG = {"user": Column(numbers(USERS), 480), "item": Column(numbers(ITEMS), 480)}
PEAK = 300  # MiB, of a process that imports everything


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.parquet", LOG, 480)


def refused(truth: object, rankings: object) -> str:
    """What is said of the data, in Python."""
    with pytest.raises(evalkit.EvalkitError) as caught:
        evalkit.evaluate(truth, {"m": rankings}, metrics=["nDCG@5"])
    assert (caught.value.code, caught.value.exit_status) == ("unreadable-file", 3)
    return str(caught.value)


def test_what_is_written_here_is_read(log):
    found = evalkit.evaluate(str(log), {"m": str(log)}, metrics=["nDCG@5"])

    assert found.value("nDCG@5") == 1.0


@pytest.mark.parametrize("codec", [each for each in CODECS if each != "lzo"])
@pytest.mark.parametrize("type", [2, 6])
@pytest.mark.parametrize("is_many", [False, True])
def test_a_page_claims_no_more_than_its_codec_can_hold(tmp_path, codec, type, is_many):
    """Of text, four bytes of Zstandard may be 128 KiB."""
    stored = bytes(4_000)
    claims = Column(stored, 480, claimed=(1 << 31) - 2, codec=codec, type=type)
    path = write(tmp_path / "a.parquet", {"user": claims}, 480)

    fault = page_fault(str(path), ["user"], is_many=is_many)

    assert fault == "a page claims more bytes than those that it has can hold"


def test_a_page_of_numbers_claims_no_more_than_its_numbers_take(tmp_path):
    claims = Column(bytes(100_000), 480, claimed=(1 << 31) - 2, codec="zstd")
    path = write(tmp_path / "a.parquet", {"user": claims}, 480)

    assert "can hold" in (page_fault(str(path), ["user"]) or "")


@pytest.mark.parametrize("n_rows", [1 << 24, 1 << 28, (1 << 31) - 1, 1 << 40])
@pytest.mark.parametrize("side", ["truth", "rankings"])
def test_a_row_group_claims_no_more_values_than_its_bytes_hold(tmp_path, log, n_rows, side):
    """Also those that a run of one value may be."""
    plain = {name: Column(each.content, n_rows) for name, each in LOG.items()}
    runs = {"user": same(1, n_rows), "item": same(2, n_rows)}
    for columns in (plain, runs):
        path = write(tmp_path / "a.parquet", columns, n_rows)
        pair = (path, log) if side == "truth" else (log, path)

        assert "more values than its bytes" in refused(*map(str, pair))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "brotli", "none"])
def test_one_value_a_million_times_is_read(tmp_path, codec):
    table = pa.table({"user": [1] * 1_100_000, "item": ["an item"] * 1_100_000})
    for use_dictionary in (True, False):
        path = tmp_path / "a.parquet"
        pq.write_table(table, path, compression=codec, use_dictionary=use_dictionary,
                       row_group_size=2_000_000, data_page_size=1 << 28)  # fmt: skip

        assert page_fault(str(path), ["user", "item"]) is None


def test_one_long_text_many_times_is_read(tmp_path):
    path = tmp_path / "a.parquet"
    with duckdb.connect() as connection:
        sql = f"copy (select 1 as user, repeat('a', 999) as item from range(300000)) to '{path}'"
        connection.execute(f"{sql} (format parquet, row_group_size 400000)")
    assert page_fault(str(path), ["user", "item"]) is None


def nested(depth: int) -> list[bytes]:
    """Below two columns one that is nested."""
    inner = [element(b"a", children=1)] * depth
    return [element(b"user"), element(b"item"), *inner, element(b"a")]


@pytest.mark.parametrize("depth", [MOST_LEVELS + 1, 5_000, 50_000])
def test_a_schema_nested_too_deep_is_refused(tmp_path, log, depth):
    columns = {**LOG, "x": Column(b"", 0)}
    path = write(tmp_path / "a.parquet", columns, 480, fields=nested(depth))

    assert "nested more than" in refused(str(log), str(path))
    assert footer_fault(str(path), is_many=True) == footer_fault(str(path))


def nested_arrow(depth: int) -> pa.Schema:
    kind: pa.DataType = pa.int64()
    for _ in range(depth):
        kind = pa.struct([("a", kind)])
    return pa.schema([("user", pa.int64()), ("item", pa.int64()), ("x", kind)])


@pytest.mark.parametrize("depth", [1_000, 4_000])
def test_a_schema_of_arrow_nested_too_deep_is_refused(tmp_path, log, depth):
    schema = nested_arrow(depth)
    stream, file = tmp_path / "stream.arrow", tmp_path / "file.arrow"
    stream.write_bytes(schema.serialize().to_pybytes() + b"\xff\xff\xff\xff\0\0\0\0")
    with pa.ipc.new_file(str(file), schema):
        pass
    kept = base64.b64encode(schema.serialize().to_pybytes())
    parquet = write(tmp_path / "a.parquet", LOG, 480, kept=kept)

    for path in (stream, file, parquet):
        assert "nested more than" in refused(str(log), str(path))
        assert "nested more than" in refused(str(path), str(log))


def test_a_schema_nested_as_deep_as_allowed_is_fine(tmp_path):
    table = nested_arrow(MOST_LEVELS - 1).empty_table()
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema):
        pass

    assert footer_fault(str(tmp_path / "a.parquet")) is None
    assert batch_fault(str(tmp_path / "a.arrow")) is None


@pytest.mark.parametrize("n_letters", [MOST_NAME + 1, 100_000])
@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson", "arrow", "frame"])
def test_a_name_that_nobody_gave_is_refused(tmp_path, log, n_letters, form):
    frame = pl.DataFrame({"a" * n_letters: [1], "user": [1], "item": [1]})
    path = tmp_path / f"a.{form}"
    writers = {"parquet": frame.write_parquet, "csv": frame.write_csv}
    writers |= {"ndjson": frame.write_ndjson, "arrow": frame.write_ipc}
    if form != "frame":
        writers[form](path)

    said = refused(str(log), frame if form == "frame" else str(path))

    assert "name has more than 4,096 bytes" in said
    assert len(said) < 400


def test_long_names_that_are_read_cost_no_time(tmp_path):
    name = "a" * MOST_NAME
    columns = {"user": name, "item": "item"}
    frame = pl.DataFrame({name: USERS, "item": ITEMS})

    found = evalkit.evaluate(frame, {"m": frame}, metrics=["nDCG@5"], columns=columns)

    assert found.value("nDCG@5") == 1.0


@pytest.mark.parametrize("what", ["claims", "values", "nested"])
def test_a_small_file_takes_no_memory(tmp_path, log, what):
    """By the operating system, of whole processes."""
    path = tmp_path / "a.parquet"
    if what == "claims":
        claims = {name: Column(each.content, 480, claimed=(1 << 31) - 2, codec="snappy")
                  for name, each in LOG.items()}  # fmt: skip
        write(path, claims, 480)
    elif what == "values":
        n_rows = (1 << 31) - 1
        write(path, {"user": same(1, n_rows), "item": same(2, n_rows)}, n_rows)
    else:
        write(path, {**LOG, "x": Column(b"", 0)}, 480, fields=nested(5_000))
    ended = run_evalkit("evaluate", "--truth", str(path), "--rankings", f"m={log}", "-m", "nDCG@5")

    assert ended.status == 3, ended.stderr
    assert "error[unreadable-file]" in ended.stderr
    assert ended.peak_mib < PEAK
