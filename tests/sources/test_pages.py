"""Pages of Parquet files that claim what cannot be are refused before anything is decoded."""

import random
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from evalkit.config import TruthTable
from evalkit.errors import DataError
from evalkit.sources import open_truth, parquet
from evalkit.sources.parquet import page_fault

ROWS = pl.DataFrame(
    {
        "user": [row // 3 for row in range(300)],
        "item": [str(row % 7) for row in range(300)],
        "tags": [[row, row + 1][: row % 3] for row in range(300)],
        "score": [None if row % 5 == 0 else row / 3 for row in range(300)],
    }
)
CODECS = ("zstd", "snappy", "lz4", "gzip", "brotli", "uncompressed")


def number(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    value = value << 1 if value >= 0 else ((-value) << 1) - 1
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def header(claimed: int, stored: int, values: int) -> bytes:
    sizes = b"\x15\x00\x15" + number(claimed) + b"\x15" + number(stored)
    return sizes + b"\x2c\x15" + number(values) + b"\x15\x00\x15\x06\x15\x06\x00\x00"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.parquet"
    ROWS.select("user", pl.lit(1).alias("item")).write_parquet(
        path, compression="uncompressed", statistics=False
    )
    return path


def patch(file: Path, begin: bytes) -> None:
    """Another header of the first page of the first column."""
    place = pq.ParquetFile(file).metadata.row_group(0).column(0)
    place = place.dictionary_page_offset or place.data_page_offset
    content = bytearray(file.read_bytes())
    content[place : place + len(begin)] = begin
    file.write_bytes(content)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("is_many", [False, True])
def test_what_polars_writes_is_fine(tmp_path, codec, is_many):
    ROWS.write_parquet(tmp_path / "a.parquet", compression=codec, row_group_size=100)

    assert page_fault(str(tmp_path / "a.parquet"), ROWS.columns, is_many=is_many) is None


@pytest.mark.parametrize("use_dictionary", [False, True])
@pytest.mark.parametrize("is_many", [False, True])
def test_row_groups_without_rows_are_fine(tmp_path, use_dictionary, is_many):
    file = tmp_path / "log" / "a.parquet"
    file.parent.mkdir()
    pq.write_table(ROWS.clear().to_arrow(), file, use_dictionary=use_dictionary)
    assert pq.ParquetFile(file).metadata.num_row_groups == 1

    assert page_fault(str(file), ROWS.columns, is_many=is_many) is None
    ROWS.write_parquet(tmp_path / "log" / "b.parquet")
    table = open_truth(TruthTable(path=(str(tmp_path / "log"),)), None)
    assert table.frame.collect().height == ROWS.height


def test_the_only_page_of_a_row_group_without_rows_is_held_against_its_column(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(ROWS.clear().to_arrow(), file)

    patch(file, b"\x15\x04\x15" + number(1 << 29))

    assert page_fault(str(file), ROWS.columns) is not None


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("size", [100, 1_000_000])
def test_what_arrow_writes_is_fine(tmp_path, version, codec, size):
    path = tmp_path / "a.parquet"
    table = ROWS.to_arrow()
    pq.write_table(
        table, path, compression=codec, data_page_version=version, data_page_size=size,
        row_group_size=100,
    )  # fmt: skip

    assert page_fault(str(path), ROWS.columns) is None


@pytest.mark.parametrize("height", [0, 1])
def test_few_rows_are_fine(tmp_path, height):
    ROWS.head(height).write_parquet(tmp_path / "a.parquet")

    assert page_fault(str(tmp_path / "a.parquet"), ROWS.columns) is None


@pytest.mark.parametrize(
    ("begin", "fault"),
    [
        (header(1 << 40, 10, 300), "more bytes"),
        (header(10, 1 << 40, 300), "more bytes"),
        (header(1 << 61, 10, 300), "more bytes"),
        (header(1 << 30, 10, 300), "more bytes"),
        (header(-5, 10, 300), "more bytes"),
        (header(10, -5, 300), "more bytes"),
        (header(10, 10, 1 << 30), "number of values"),
        (header(10, 10, -1), "number of values"),
        (b"\xff" * 20, "cannot be read"),
        (b"\x80" * 20, "more bytes"),
        (b"\x15\x00\x1c\x1c\x1c" + b"\x1c" * 60, "cannot be read"),
        (b"\x19\xfc" + b"\xff" * 8 + b"\x7f", "cannot be read"),
    ],
)
@pytest.mark.parametrize("is_many", [False, True])
def test_a_page_that_cannot_be_is_told(file, begin, fault, is_many):
    patch(file, begin)

    assert fault in (page_fault(str(file), ["user"], is_many=is_many) or "")
    assert page_fault(str(file), ["item"], is_many=is_many) is None


def test_the_error_names_the_file(file):
    patch(file, header(1 << 61, 10, 300))

    with pytest.raises(DataError) as caught:
        open_truth(TruthTable(path=(str(file),)))

    assert (caught.value.code, caught.value.at) == ("unreadable-file", str(file))


def test_a_footer_that_names_no_pages_is_told(file):
    content = file.read_bytes()
    n_footer = int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[:4] + content[-8 - n_footer :])

    assert page_fault(str(file), ["user"]) is not None


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"x" * 99]
)
def test_what_has_no_footer_is_left_to_the_reader(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)

    assert page_fault(str(tmp_path / "a.parquet"), ["user"]) is None


def test_damage_of_any_kind_ends_in_an_answer_the_same_compiled_and_not(tmp_path):
    rng = random.Random(1)
    path = tmp_path / "a.parquet"
    ROWS.write_parquet(path, row_group_size=100)
    content = path.read_bytes()
    known = {None, *parquet._FAULTS.values()}
    found = set()
    for _ in range(200):
        damaged = bytearray(content)
        least = rng.choice([0, len(content) - 900])
        for _ in range(rng.choice([1, 3])):
            damaged[rng.randrange(least, len(content) - 8)] = rng.choice([0, 127, 128, 255])
        path.write_bytes(damaged)
        plain, compiled = (
            page_fault(str(path), ROWS.columns, is_many=each) for each in (False, True)
        )
        assert plain == compiled
        found.add(plain)

    assert found <= known
    assert len(found) > 3
