"""What Parquet files say of their own pages and rows is verified, or not used."""

import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalkit import compare, evaluate, evaluate_labels, evaluate_ratings
from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.jobs.check import check_config
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given
from evalkit.report import Report
from evalkit.sources import checksums
from evalkit.sources.extents import wrong_statistics
from evalkit.sources.parquet import read_pages
from evalkit.sources.paths import File

ROWS = pa.table(
    {
        "user": [user for user in range(90) for _ in range(8)],
        "item": [(user * 7 + place * 3) % 40 for user in range(90) for place in range(8)],
        "rank": [place + 1 for _ in range(90) for place in range(8)],
        "note": ["x" * 5 for _ in range(90 * 8)],
    }
)
TRUTH = pl.DataFrame({"user": range(90), "item": [user * 7 % 40 for user in range(90)]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.parquet"
    pq.write_table(
        ROWS,
        path,
        row_group_size=240,
        write_page_checksum=True,
        use_dictionary=False,
        compression="none",
    )
    return path


def flip(path: Path, column: int, group: int = 1) -> None:
    """One bit in the last byte of a column's pages."""
    place = pq.ParquetFile(path).metadata.row_group(group).column(column)
    content = bytearray(path.read_bytes())
    content[place.data_page_offset + place.total_compressed_size - 8] ^= 1
    path.write_bytes(content)


def job(rankings: Path, truth: Path, **more: object) -> Report:
    return run_config(config_of(rankings, truth, **more), given=Given())


def config_of(rankings: Path, truth: Path, *, where: str | None = None, **more: object) -> object:
    table: dict[str, object] = {"model": "m", "path": str(rankings)}
    if where is not None:
        table["where"] = where
    table["columns"] = {"user": "user", "item": "item", "rank": "rank"}
    return build_config(
        {
            "truth": {"path": str(truth), "columns": {"user": "user", "item": "item"}},
            "rankings": [table],
            "metrics": {"names": ["nDCG@5"]},
            **more,
        },
        name="n",
    )


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    TRUTH.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def raised(act: Callable[[], object]) -> EvalkitError:
    with pytest.raises(EvalkitError) as caught:
        act()
    return caught.value


# ---------------------------------------------------------------- checksums


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_flipped_bit_of_a_column_that_is_read_is_refused(file, truth, column):
    flip(file, column)

    error = raised(lambda: job(file, truth))

    assert (error.code, error.at) == ("wrong-checksum", str(file))
    assert error.exit_status == 3


def test_a_flipped_bit_is_refused_in_python_and_in_the_truth(file):
    flip(file, 2)

    of_rankings = raised(lambda: evaluate(TRUTH, str(file), metrics=["RR"]))
    of_truth = raised(
        lambda: evaluate(str(file), TRUTH, columns={"relevance": "rank"}, metrics=["RR"])
    )

    assert (of_rankings.code, of_truth.code) == ("wrong-checksum", "wrong-checksum")


def test_a_column_that_nobody_reads_is_not_verified(file, truth):
    flip(file, 3)

    assert job(file, truth).estimates


def test_pages_are_not_verified_where_a_config_says_so(file, truth):
    flip(file, 1, group=2)

    assert job(file, truth, verify_pages=False).estimates
    assert raised(lambda: job(file, truth)).code == "wrong-checksum"


def test_pages_are_not_verified_where_python_says_so(file):
    flip(file, 1, group=2)
    rankings = {"als": str(file), "bpr": str(file)}

    for call in (evaluate, compare):
        error = raised(lambda call=call: call(TRUTH, rankings, metrics=["RR"]))
        assert error.code == "wrong-checksum"
        assert "verify_pages=False" in error.hint
        assert call(TRUTH, rankings, metrics=["RR"], verify_pages=False).estimates


@pytest.mark.parametrize(
    ("call", "metric", "columns"),
    [
        (evaluate_ratings, "MAE", {"rating": "item", "prediction": "rank"}),
        (evaluate_labels, "AUC", {"score": "item", "label": "rank > 4"}),
    ],
)
def test_pages_of_rows_are_not_verified_where_python_says_so(file, call, metric, columns):
    flip(file, 1, group=2)

    error = raised(lambda: call(str(file), metrics=[metric], columns=columns))
    assert error.code == "wrong-checksum"
    unverified = call(str(file), metrics=[metric], columns=columns, verify_pages=False)
    assert unverified.estimates


def test_the_driver_of_spark_verifies_the_files_before_a_session_is_begun(file, truth):
    config = config_of(file, truth, engine={"kind": "spark", "master": "local[1]"})
    flip(file, 1, group=2)

    assert raised(lambda: run_config(config, given=Given())).code == "wrong-checksum"


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("is_many", [False, True])
def test_whole_files_pass(tmp_path, codec, version, is_many):
    path = tmp_path / "a.parquet"
    pq.write_table(
        ROWS, path, write_page_checksum=True, compression=codec, data_page_version=version,
        data_page_size=200,
    )  # fmt: skip

    pages = read_pages(str(path), ROWS.column_names, is_many=is_many)

    assert pages.fault is None
    assert len(pages.sums) >= 8
    assert checksums._sum_fault(str(path), ROWS.column_names, pages.sums) is None


def test_a_file_is_verified_once_and_again_when_it_changed(file, monkeypatch):
    sums = read_pages(str(file), ["user"]).sums
    checksums._sum_fault(str(file), ["user"], sums)
    read: list[object] = []
    monkeypatch.setattr(checksums, "_sum_of", lambda *each: read.append(each) or 0)

    checksums._sum_fault(str(file), ["user"], sums)
    assert not read
    os.utime(file, ns=(1, 1))
    checksums._sum_fault(str(file), ["user"], sums)
    assert len(read) == len(sums) == 3


def test_files_without_checksums_have_none(tmp_path):
    pq.write_table(ROWS, tmp_path / "a.parquet")

    assert not len(read_pages(str(tmp_path / "a.parquet"), ROWS.column_names).sums)


# ---------------------------------------------------------------- statistics and order


def lie(path: Path) -> None:
    """A row group whose least and greatest rank are beyond all ranks, in a true file."""
    whole = pq.ParquetFile(path).metadata.row_group(1).column(2)
    assert (whole.statistics.min, whole.statistics.max) == (1, 8)
    content = path.read_bytes()
    begin = int.from_bytes(content[-8:-4], "little")
    footer = bytearray(content[-8 - begin : -8])
    claims = (8).to_bytes(8, "little"), (1).to_bytes(8, "little")
    places = [at for at in range(len(footer)) if footer[at : at + 8] in claims]
    for place in places[10:14]:  # greatest and least, twice, of the second row group
        footer[place : place + 8] = (1_000_000).to_bytes(8, "little")
    path.write_bytes(content[: -8 - begin] + footer + content[-8:])
    lied = pq.ParquetFile(path).metadata.row_group(1).column(2)
    assert (lied.statistics.min, lied.statistics.max) == (1_000_000, 1_000_000)


def test_wrong_statistics_drop_no_row(file, truth):
    right = job(file, truth, where="rank <= 5").estimates
    lie(file)

    assert job(file, truth, where="rank <= 5").estimates == right


def test_check_tells_wrong_statistics(file, truth):
    config = config_of(file, truth)
    assert "wrong-statistics" not in [each.code for each in check_config(config)]
    lie(file)

    (found,) = (each for each in check_config(config) if each.code == "wrong-statistics")

    assert found.is_error
    assert "row group 1, rank" in found.message


def test_a_footer_that_claims_an_order_sorts_nothing(tmp_path, truth):
    mixed = ROWS.take(list(range(719, -1, -1)))
    pq.write_table(mixed, tmp_path / "r.parquet", sorting_columns=[pq.SortingColumn(0)])
    pq.write_table(mixed, tmp_path / "plain.parquet")
    where = "rank <= 5"

    claimed, plain = (
        job(tmp_path / name, truth, where=where) for name in ("r.parquet", "plain.parquet")
    )

    assert claimed.estimates == plain.estimates
    assert claimed.counts == plain.counts


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us"), pa.date64()])
def test_times_that_no_calendar_has_are_not_held_against_footers(kind, tmp_path):
    log = tmp_path / "labels.parquet"
    times = pa.array([0, 86_400_000 * 2**36], pa.int64()).view(kind)
    pq.write_table(pa.table({"user": [1, 2], "item": [1, 2], "time": times}), log)

    footers = File(str(log), "parquet")

    assert not [*wrong_statistics([footers], ["user", "time"])]
