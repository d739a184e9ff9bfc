"""Arrow files and streams that claim what cannot be are refused before anything is decoded."""

import random
import struct
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather

from evalkit.config import TruthTable
from evalkit.errors import DataError
from evalkit.sources import open_truth
from evalkit.sources.arrow import CONTINUES, batch_fault

ROWS = pl.DataFrame(
    {
        "user": range(300),
        "item": [f"item-{row % 7}" * (1 + row % 3) for row in range(300)],
        "kind": pl.Series(["abc"[row % 3] for row in range(300)], dtype=pl.Categorical),
        "tags": [[row, row + 1][: row % 3] for row in range(300)],
        "score": [None if row % 5 == 0 else row / 3 for row in range(300)],
        "none": [None] * 300,
    }
)
CODECS = ("uncompressed", "lz4", "zstd")


def write(path: Path, frame: pl.DataFrame, writer: str, codec: str) -> bytes:
    if writer == "polars":
        frame.write_ipc(path, compression=codec)
    elif writer == "polars-stream":
        frame.write_ipc_stream(path, compression=codec)
    elif writer == "feather":
        feather.write_feather(frame.to_arrow(), str(path), compression=codec, chunksize=70)
    else:
        options = pa.ipc.IpcWriteOptions(compression=None if codec == "uncompressed" else codec)
        table = frame.to_arrow()
        with pa.ipc.new_stream(str(path), table.schema, options=options) as sink:
            sink.write_table(table, max_chunksize=70)
    return path.read_bytes()


WRITERS = ("polars", "polars-stream", "feather", "arrow-stream")


@pytest.mark.some_cases(12)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("height", [0, 1, 300])
def test_what_writers_write_is_fine(tmp_path, writer, codec, height):
    write(tmp_path / "a.arrow", ROWS.head(height), writer, codec)

    assert batch_fault(str(tmp_path / "a.arrow")) is None


@pytest.mark.parametrize("codec", CODECS)
def test_the_same_value_a_million_times_is_fine(tmp_path, codec):
    frame = pl.DataFrame({"user": [0] * 3_000_000, "none": [None] * 3_000_000})
    write(tmp_path / "a.arrow", frame, "polars", codec)

    assert batch_fault(str(tmp_path / "a.arrow")) is None


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("claim", [1 << 40, 1 << 61, (1 << 63) - 1, -1 << 62])
def test_a_size_that_cannot_be_is_told(tmp_path, writer, claim):
    """Wherever one of the sizes of the metadata stands, another one is put in its place."""
    path = tmp_path / "a.arrow"
    content = write(path, pl.DataFrame({"user": range(70)}), writer, "uncompressed")
    size = struct.pack("<q", 70 * 8)
    places = [place for place in range(0, len(content), 4) if content[place:].startswith(size)]
    assert places

    for place in places:
        path.write_bytes(content[:place] + struct.pack("<q", claim) + content[place + 8 :])

        assert batch_fault(str(path)) is not None


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_buffer_that_cannot_be_so_large_is_told(tmp_path, writer, codec):
    path = tmp_path / "a.arrow"
    content = write(path, pl.DataFrame({"user": [7] * 5_000}), writer, codec)
    old, new = struct.pack("<q", 40_000 if "polars" in writer else 560), struct.pack("<q", 1 << 40)
    assert old in content

    path.write_bytes(content.replace(old, new))

    assert "compressed buffer" in (batch_fault(str(path)) or "")


@pytest.mark.parametrize("writer", ["polars-stream", "arrow-stream"])
def test_a_stream_that_seems_to_end_early_is_told(tmp_path, writer):
    path = tmp_path / "a.arrow"
    content = write(path, pl.DataFrame({"user": range(300)}), writer, "uncompressed")
    starts = [place for place in range(8, len(content)) if content[place:].startswith(CONTINUES)]
    assert len(starts) > 1

    for start in starts[:-1]:
        for head in (CONTINUES + bytes(4), bytes(8), b"\xfe"):
            path.write_bytes(content[:start] + head + content[start + len(head) :])

            assert batch_fault(str(path)) is not None


def test_the_error_names_the_file(tmp_path):
    path = tmp_path / "truth.arrow"
    content = write(path, pl.DataFrame({"user": range(517), "item": [1] * 517}), "polars", "lz4")
    path.write_bytes(content[:-10] + struct.pack("<i", 1 << 30) + content[-6:])

    with pytest.raises(DataError) as caught:
        open_truth(TruthTable(path=(str(path),)))

    assert (caught.value.code, caught.value.at) == ("unreadable-file", str(path))


@pytest.mark.parametrize(
    "content", [b"", b"ARROW", b"ARROW1", b"ARROW1\0\0ARROW1", b"x" * 99, b"\xff" * 4]
)
def test_what_is_no_arrow_ends_in_an_error(tmp_path, content):
    path = tmp_path / "truth.arrow"
    path.write_bytes(content)

    with pytest.raises(DataError) as caught:
        open_truth(TruthTable(path=(str(path),)))

    assert caught.value.code in ("unreadable-file", "empty-input")


@pytest.mark.parametrize("writer", WRITERS)
def test_damage_of_any_kind_ends_in_an_answer(tmp_path, writer):
    rng = random.Random(1)
    path = tmp_path / "a.arrow"
    content = write(path, ROWS, writer, "zstd")
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 3, 30])):
            damaged[rng.randrange(len(content))] = rng.choice([0, 127, 255, rng.randrange(256)])
        path.write_bytes(damaged[: rng.choice([len(content), rng.randrange(len(content))])])

        batch_fault(str(path))
