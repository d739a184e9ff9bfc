"""Baselines made of train on Spark: those of one process, whatever share of train is at hand."""

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES, check
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


def test_rows_without_an_item_are_told(session, tmp_path):
    make_lists(tmp_path)
    train = pl.read_parquet(tmp_path / "train.parquet")
    train.with_columns(item=pl.when(pl.col("item") > 3).then("item")).write_parquet(
        tmp_path / "train.parquet"
    )

    check(TRUTH + MADE + BESIDE + spell(["RR"]), tmp_path, status=3)
    check(TRUTH + MADE + BESIDE + spell(["RR"]) + '[policies]\nnull_ids = "drop"\n', tmp_path)
