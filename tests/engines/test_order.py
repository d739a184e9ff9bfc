"""Tables of Spark have no order but that of a column: the numbers are those of one process."""

import json
from functools import partial

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import ORDERS, make_copies, make_lists

import evalkit
import evalkit.spark

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

METRICS = ["nDCG@5", "recall@5", "AP"]


def said(report):
    document = json.loads(report.to_json())
    return {
        key: document[key] for key in document if key not in ("meta", "run_id", "run_key", "inputs")
    }


def shuffled(session, folder, name):
    """A table as polars and as Spark have it, whose rows stand in no order."""
    rows = pl.read_parquet(folder / f"{name}.parquet")
    rows = rows.sample(fraction=1.0, shuffle=True, seed=5)
    rows.write_parquet(folder / f"{name}.parquet")
    return rows, session.read.parquet(str(folder / f"{name}.parquet")).repartition(4)


@pytest.mark.parametrize("name", ["ties", "first", "truth", "rows"])
def test_a_column_says_the_order_of_rows(session, tmp_path, name):
    make_copies(tmp_path, name)
    key, value = ORDERS[name][0].split("\n")[0].replace('"', "").split(" = ")
    policies = {key: value, "bad_ranks": "keep"}
    order = {"order": "place"}
    asked = {"metrics": METRICS, "policies": policies}
    asked["columns"] = {"truth": order, "rankings": order}
    (truth, truth_there), (shown, there) = (
        shuffled(session, tmp_path, each) for each in ("truth", "a")
    )

    one = said(evalkit.evaluate(truth, {"a": shown}, **asked))
    spark = said(evalkit.spark.evaluate(truth_there, {"a": there}, partitions=3, **asked))

    assert spark == one


def test_the_order_of_histories(session, tmp_path):
    make_lists(tmp_path)
    train = pl.read_parquet(tmp_path / "train.parquet").with_row_index("place")
    train.write_parquet(tmp_path / "train.parquet")
    names = ("truth", "a", "train", "items")
    here, there = zip(*(shuffled(session, tmp_path, name) for name in names), strict=True)
    asked = {"metrics": ["calibration(history='weighted')@5"]}
    asked["columns"] = {"train": {"order": "place"}}

    def evaluated(evaluate, truth, shown, train, items):
        items = {"path": items, "separator": "|"}
        return said(evaluate(truth, {"a": shown}, train=train, items=items, **asked))

    one = evaluated(evalkit.evaluate, *here)
    assert evaluated(partial(evalkit.spark.evaluate, partitions=3), *there) == one
