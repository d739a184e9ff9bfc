"""Data in memory opens as files do."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from evalkit import evaluate
from evalkit.config import RankingsColumns, RankingsTable, TruthColumns, TruthTable
from evalkit.errors import DataError
from evalkit.sources import Table, open_rankings, open_truth, reading

ROWS = pl.DataFrame({"user": ["b", "a"], "item": [2, 1], "relevance": [1.5, 0.0]})


def truth_of(given: object, **columns: str) -> Table:
    columns = {"relevance": "relevance", **columns}
    return open_truth(TruthTable(path=("memory",), columns=TruthColumns(**columns)), given)


def rows_of(table: Table) -> list[tuple[object, ...]]:
    with reading(table):
        return table.frame.collect(engine="streaming").rows()


class Stream:
    """Speaks Arrow's stream interface and nothing else, once."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.left = [frame]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.left.pop().__arrow_c_stream__(requested_schema)


GIVEN = {
    "polars": lambda frame: frame,
    "polars lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas().set_index(pd.Index([7, 3])),
    "pandas objects": lambda frame: frame.to_pandas().astype({"user": object}),
    "pyarrow table": lambda frame: frame.to_arrow(),
    "pyarrow reader": lambda frame: frame.to_arrow().to_reader(),
    "pyarrow batch": lambda frame: frame.to_arrow().combine_chunks().to_batches()[0],
    "pyarrow dataset": lambda frame: pyarrow.dataset.dataset(frame.to_arrow()),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
    "stream": Stream,
}


@pytest.mark.parametrize("kind", GIVEN)
def test_every_kind_of_data_gives_the_same_rows(kind):
    table = truth_of(GIVEN[kind](ROWS))

    assert rows_of(table) == ROWS.rows()
    assert rows_of(table) == ROWS.rows()  # a stream that can be read once was kept


def test_lazy_frames_stay_lazy():
    read = []

    def note(frame: pl.DataFrame) -> pl.DataFrame:
        read.append(frame)
        return frame

    truth_of(ROWS.lazy().map_batches(note, schema=ROWS.schema))

    assert not read


def test_arrow_datasets_read_only_what_is_asked_for(tmp_path):
    ROWS.with_columns(unused=pl.lit(1)).write_parquet(tmp_path / "a.parquet")
    given = pyarrow.dataset.dataset(tmp_path / "a.parquet")

    assert "PROJECT 3/4" in truth_of(given).frame.explain()


def test_a_path_given_in_place_of_a_table_is_opened(tmp_path):
    ROWS.write_parquet(tmp_path / "a.parquet")

    table = truth_of(tmp_path / "a.parquet")

    assert rows_of(table) == ROWS.rows()
    assert table.files == (str(tmp_path / "a.parquet"),)


def test_an_empty_pandas_frame_has_columns_without_type():
    table = truth_of(pd.DataFrame({"user": [], "item": [], "relevance": []}))

    assert set(table.frame.collect_schema().dtypes()) == {pl.Null}
    assert rows_of(table) == []


def test_errors_name_the_role_and_kind_of_data():
    assert truth_of(ROWS).at == "truth (polars DataFrame)"


def test_errors_of_a_pandas_frame_name_the_index_that_is_left_out():
    truth = pd.DataFrame({"user": [1], "item": [2]})

    with pytest.raises(DataError) as raised:
        evaluate(truth, truth.set_index("user"), metrics=["RR"])

    assert raised.value.code == "missing-column"
    assert (
        raised.value.at
        == "rankings (pandas DataFrame without its index user, which reset_index() keeps)"
    )


def test_list_columns_are_not_exploded():
    frame = pl.DataFrame({"user": [1, 2], "items": [[3, 4], []], "scores": [[0.5, 0.1], []]})
    columns = RankingsColumns(item="items", score="scores")

    table = open_rankings(RankingsTable(path=("memory",), columns=columns), frame)

    assert table.is_list
    assert rows_of(table) == frame.rows()


def test_arrays_of_fixed_width_are_lists():
    frame = pl.DataFrame(
        {"user": [1], "item": [[3, 4]]}, schema_overrides={"item": pl.Array(pl.Int64, 2)}
    )

    table = open_rankings(RankingsTable(path=("memory",)), frame)

    assert table.is_list
    assert table.frame.collect_schema()["item"] == pl.List(pl.Int64)


@pytest.mark.parametrize(
    "dtype",
    [pl.Int8, pl.UInt64, pl.String, pl.Binary, pl.Date, pl.Categorical, pl.Boolean, pl.Decimal(9)],
)
def test_ids_keep_their_type(dtype):
    frame = pl.DataFrame(
        {"user": pl.Series([None], dtype=dtype), "item": pl.Series([None], dtype=dtype)}
    )

    table = open_truth(TruthTable(path=("memory",)), frame)

    assert table.frame.collect_schema().dtypes() == [dtype, dtype]


def test_pyarrow_dictionaries_are_categories():
    given = pa.table({"user": pa.array(["a", "b"]).dictionary_encode(), "item": [1, 2]})

    table = open_truth(TruthTable(path=("memory",)), given)

    assert rows_of(table) == [("a", 1), ("b", 2)]
