"""Tables of Spark have no order but that of a column; what looks at it is refused without one."""

import json

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import ORDERS, make_copies, make_lists

from evalkit.errors import EvalkitError

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


@pytest.mark.parametrize("name", ORDERS)
def test_a_column_says_the_order_of_rows(session, tmp_path, name):
    import evalkit.spark

    make_copies(tmp_path, name)
    key, value = ORDERS[name][0].split("\n")[0].replace('"', "").split(" = ")
    asked = {"metrics": METRICS, "policies": {key: value, "bad_ranks": "keep"}}
    order = {"order": "place"}
    truth, shown = (shuffled(session, tmp_path, each) for each in ("truth", "a"))

    one, spark = (
        said(evaluate(right, {"a": lists}, columns={"truth": order, "rankings": order}, **asked))
        for evaluate, right, lists in zip(
            (evalkit.evaluate, evalkit.spark.evaluate), truth, shown, strict=True
        )
    )
    with pytest.raises(EvalkitError) as caught:
        evalkit.spark.evaluate(truth[1], {"a": shown[1]}, **asked)

    assert spark == one
    assert caught.value.code == "not-on-spark"
    assert "columns.order" in caught.value.hint


WEIGHTED = "calibration(by='genres', history='weighted')@5"


def test_the_order_of_histories(session, tmp_path):
    import evalkit.spark

    make_lists(tmp_path)
    train = pl.read_parquet(tmp_path / "train.parquet").with_row_index("place")
    train.write_parquet(tmp_path / "train.parquet")
    tables = {name: shuffled(session, tmp_path, name) for name in ("truth", "a", "train", "items")}
    asked = {
        "metrics": ["calibration(history='weighted')@5"],
        "columns": {"train": {"order": "place"}},
    }

    one, spark = (
        said(
            evaluate(
                tables["truth"][place],
                {"a": tables["a"][place]},
                train=tables["train"][place],
                items={"path": tables["items"][place], "separator": "|"},
                **asked,
            )
        )
        for place, evaluate in enumerate((evalkit.evaluate, evalkit.spark.evaluate))
    )

    assert spark == one
