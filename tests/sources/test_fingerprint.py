"""A fingerprint changes with the data and with nothing else."""

import pickle
import shutil

import polars as pl
import pytest

from evalkit.config import TruthTable
from evalkit.sources import Table, open_truth

ROWS = pl.DataFrame({"user": [1, 2, 3], "item": [4, 5, 6]})


def truth_at(*paths: object) -> Table:
    return open_truth(TruthTable(path=tuple(map(str, paths))))


def write(frame: pl.DataFrame, path: object) -> None:
    (frame.write_parquet if str(path).endswith("parquet") else frame.write_csv)(path)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_copy_has_the_same_fingerprint(tmp_path, suffix):
    write(ROWS, tmp_path / f"a.{suffix}")
    shutil.copy(tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}")

    first, second = (truth_at(tmp_path / f"{name}.{suffix}").fingerprint() for name in "ab")

    assert first == second
    assert len(first) == 32


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    "other",
    [ROWS.with_columns(item=pl.Series([4, 5, 7])), ROWS.head(2), ROWS.rename({"item": "item "})],
    ids=["value", "rows", "name"],
)
def test_other_data_has_another_fingerprint(tmp_path, suffix, other):
    other = other.rename({"item ": "item"}, strict=False).with_columns(extra=1)
    write(ROWS, tmp_path / f"a.{suffix}")
    write(other, tmp_path / f"b.{suffix}")

    first, second = (truth_at(tmp_path / f"{name}.{suffix}").fingerprint() for name in "ab")

    assert first != second


def test_the_partition_of_a_file_is_part_of_its_data(tmp_path):
    for day in "12":
        (tmp_path / f"day={day}").mkdir()
        write(ROWS, tmp_path / f"day={day}" / "a.parquet")

    first, second = (truth_at(tmp_path / f"day={day}").fingerprint() for day in "12")

    assert first != second


def test_data_in_memory_has_no_fingerprint():
    assert open_truth(TruthTable(path=("memory",)), ROWS).fingerprint() is None


def test_row_counts_are_known_where_they_are_cheap(tmp_path):
    write(ROWS, tmp_path / "a.parquet")
    write(ROWS.with_columns(extra=1), tmp_path / "b.parquet")
    write(ROWS, tmp_path / "c.csv")

    assert truth_at(tmp_path / "*.parquet").n_rows_hint() == 6
    assert truth_at(tmp_path / "c.csv").n_rows_hint() is None
    assert open_truth(TruthTable(path=("memory",)), ROWS).n_rows_hint() == 3
    assert open_truth(TruthTable(path=("memory",)), ROWS.lazy()).n_rows_hint() is None


def test_tables_go_to_other_processes(tmp_path):
    write(ROWS, tmp_path / "a.parquet")
    table = truth_at(tmp_path / "a.parquet")

    copy = pickle.loads(pickle.dumps(table))

    assert copy.frame.collect().rows() == ROWS.rows()
    assert copy.fingerprint() == table.fingerprint()
