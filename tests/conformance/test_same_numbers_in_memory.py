"""DuckDB relations, pandas, Polars and Arrow give the report that the Parquet files give."""

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import evalkit

OWN = ("meta", "run_id", "run_key", "inputs")
METRICS = ["nDCG@{5,10}", "recall(over='min_k')@20", "AP", "RR", "R-precision", "first_hit_rank"]
COLUMNS = {"user": "user_id", "item": "item_id", "relevance": "rating"}
MODELS = ("ease", "popularity")
POLICIES = {"ties": "item-desc"}

pytestmark = pytest.mark.usefixtures("jit")


def read_duckdb(path: Path) -> object:
    return duckdb.connect().read_parquet(str(path))


READERS: dict[str, Callable[[Path], object]] = {
    "path as text": str,
    "list of paths": lambda path: [path],
    "duckdb relation": read_duckdb,
    "pandas": pd.read_parquet,
    "polars": pl.read_parquet,
    "polars lazy": pl.scan_parquet,
    "arrow table": pq.read_table,
    "arrow batches": lambda path: pq.read_table(path).to_reader(),
    "arrow dataset": pyarrow.dataset.dataset,
}


@pytest.fixture(scope="module")
def files(ml_100k: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The test rows and two models' rankings, each in a file of its own."""
    truth = tmp_path_factory.mktemp("files") / "truth.parquet"
    interactions = pl.scan_parquet(ml_100k / "interactions.parquet")
    interactions.filter(pl.col("split") == "test").sink_parquet(truth)
    return {"truth": truth, **{name: ml_100k / f"rankings/{name}.parquet" for name in MODELS}}


def evaluate(
    files: dict[str, Path], read: Callable[[Path], object], ordering: str
) -> evalkit.Report:
    return evalkit.evaluate(
        read(files["truth"]),
        {name: read(files[name]) for name in MODELS},
        metrics=METRICS,
        columns={**COLUMNS, ordering: ordering},
        policies=POLICIES,
        per_user=True,
    )


def body(report: evalkit.Report) -> dict[str, object]:
    """What is the same for the same log in any form."""
    return {key: value for key, value in json.loads(report.to_json()).items() if key not in OWN}


@pytest.mark.parametrize("ordering", ["rank", "score"])
@pytest.mark.parametrize("kind", READERS)
def test_a_table_in_memory_gives_the_report_of_its_file(files, kind, ordering):
    from_files = evaluate(files, Path, ordering)

    found = evaluate(files, READERS[kind], ordering)

    assert body(found) == body(from_files)
    for model in MODELS:
        ours, theirs = (each.per_user("nDCG@10", model=model) for each in (found, from_files))
        assert ours["value"].equals(theirs["value"])
        assert ours["user_id"].to_list() == theirs["user_id"].to_list()


def test_a_query_of_duckdb_is_a_log(files):
    expected = evaluate(files, Path, "rank")
    connection = duckdb.connect()
    interactions = files["truth"]
    truth = connection.sql(
        f"select user_id as user, item_id as item, rating as relevance from '{interactions}'"
    )
    rankings = {
        name: connection.sql(
            "select user_id as user, item_id as item, "
            "row_number() over (partition by user_id order by rank) as rank "
            f"from '{files[name]}' order by item_id"
        )
        for name in MODELS
    }

    found = evalkit.evaluate(truth, rankings, metrics=METRICS, policies=POLICIES)

    assert body(found) == body(expected)


def test_pandas_with_an_index_and_objects_as_ids_is_a_log(files):
    expected = evaluate(files, Path, "rank")

    def as_objects(path: Path) -> pd.DataFrame:
        frame = pd.read_parquet(path).sample(frac=1, random_state=1)
        return frame.assign(
            user_id=frame["user_id"].astype(str).astype(object),
            item_id=frame["item_id"].astype(str).astype(object),
        )

    found = evaluate(files, as_objects, "rank")

    assert body(found) == body(expected)
