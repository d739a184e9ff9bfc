"""Baselines made of train on Spark: those of one process, whatever share of train is at hand."""

import json
from datetime import date, datetime

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES, both, check
from spark_logs import BESIDE, QUANTILES, make_lists, spell

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

TRUTH = '[truth]\npath = "truth.parquet"\n'
SHOWN = '[[rankings]]\nmodel = "a"\npath = "a.parquet"\n'
MADE = """
[[rankings]]
model = "popular"
builtin = "popular"
k = 7
[[rankings]]
model = "popular, seen too"
builtin = "popular"
seen = "keep"
[[rankings]]
model = "random"
builtin = "random"
k = 9
seed = 4
"""
LAST = """
[[rankings]]
model = "last"
builtin = "last"
by = "count"
k = 4
[[rankings]]
model = "latest"
builtin = "last"
k = 4
"""


@pytest.mark.parametrize(
    ("user", "item", "partitions"), [("int32", "uint64", 5), ("text", "date", 1)]
)
def test_popular_and_random_items_beside_a_model(session, tmp_path, user, item, partitions):
    make_lists(tmp_path, TYPES[user], TYPES[item])
    compared = '\n[statistics]\nbaseline = "popular"\n'

    found = check(
        TRUTH + MADE + SHOWN + BESIDE + spell(["nDCG@5", "recall@{1,9}"]) + compared,
        tmp_path,
        partitions=partitions,
    )

    assert '"popular, seen too"' in found.said


def test_own_items_metrics_of_lists_and_quantiles(session, tmp_path):
    make_lists(tmp_path)
    train = pl.read_parquet(tmp_path / "train.parquet")
    train.with_columns(time=pl.int_range(pl.len()) * 7919 % 1009).write_parquet(
        tmp_path / "train.parquet"
    )
    beside = BESIDE.replace(
        'path = "train.parquet"', 'path = "train.parquet"\ncolumns = { time = "time" }'
    )

    check(
        TRUTH + SHOWN + MADE + LAST + beside + spell(["nDCG@5", "gini@5", "novelty@5"]) + QUANTILES,
        tmp_path,
    )


RECENT = """
[[rankings]]
model = "recent"
builtin = "recent"
k = 8
[[rankings]]
model = "of a week"
builtin = "recent"
window = "7d"
seen = "keep"
[[rankings]]
model = "halved"
builtin = "recent"
half_life = "36h"
"""
TIMES = {
    "seconds": pl.col("n") * 86_400,
    "date": pl.lit(date(1969, 12, 1)) + pl.duration(days="n"),
    "ns": (pl.lit(datetime(2026, 1, 1)) + pl.duration(hours="n")).cast(pl.Datetime("ns")),
    "zone": (pl.lit(datetime(2026, 3, 1)) + pl.duration(hours="n")).dt.replace_time_zone("UTC"),
}
TIMED = BESIDE.replace('train.parquet"', 'train.parquet"\ncolumns = { time = "time" }')


def add_times(folder, kind):
    """Rows have 61 times, days or hours apart."""
    path = folder / "train.parquet"
    rows = pl.read_parquet(path).with_columns(n=pl.int_range(pl.len()) * 7919 % 61)
    rows.with_columns(time=TIMES[kind]).drop("n").write_parquet(path)


@pytest.mark.parametrize(
    ("kind", "item", "partitions"),
    [("seconds", "int32", 5), ("date", "text", 3), ("ns", "uint64", 1), ("zone", "ms", 9)],
)
def test_recent_items(session, tmp_path, kind, item, partitions):
    make_lists(tmp_path, item=TYPES[item])
    add_times(tmp_path, kind)

    found = check(
        TRUTH + RECENT + SHOWN + MADE + TIMED + spell(["nDCG@5", "recall@8"]),
        tmp_path,
        partitions=partitions,
    )

    assert '"of a week"' in found.said


def test_recent_items_of_a_table_of_a_catalog(session, tmp_path):
    make_lists(tmp_path, item=TYPES["text"])
    add_times(tmp_path, "zone")
    text = TRUTH + RECENT + TIMED + spell(["nDCG@5", "RR"])
    session.read.parquet(str(tmp_path / "train.parquet")).createOrReplaceTempView("of_train")
    of_catalog = text.replace('path = "train.parquet"', 'table = "of_train"')

    one, spark = both(text, tmp_path)[0], both(of_catalog, tmp_path)[1]

    assert not spark.status, spark.said
    assert json.loads(spark.said)["metrics"] == json.loads(one.said)["metrics"]


@pytest.mark.parametrize("lacks", ["time", "item"])
def test_rows_of_train_without_a_time_or_an_item(session, tmp_path, lacks):
    make_lists(tmp_path)
    add_times(tmp_path, "date")
    train = pl.read_parquet(tmp_path / "train.parquet")
    nothing = pl.when(pl.int_range(pl.len()) % 9 != 0).then(lacks).alias(lacks)
    train.with_columns(nothing).write_parquet(tmp_path / "train.parquet")
    text = TRUTH + RECENT + TIMED + spell(["RR"])

    assert "100 rows" in check(text, tmp_path, status=3).said
    dropped = text + '[policies]\nnull_ids = "drop"\n'
    check(dropped, tmp_path, status=3 if lacks == "time" else 0)


def test_rows_without_an_item_are_told(session, tmp_path):
    make_lists(tmp_path)
    train = pl.read_parquet(tmp_path / "train.parquet")
    train.with_columns(item=pl.when(pl.col("item") > 3).then("item")).write_parquet(
        tmp_path / "train.parquet"
    )

    check(TRUTH + MADE + BESIDE + spell(["RR"]), tmp_path, status=3)
    check(TRUTH + MADE + BESIDE + spell(["RR"]) + '[policies]\nnull_ids = "drop"\n', tmp_path)
