"""DataFrames of Spark say what the same files say here, whatever types Spark gives their ids."""

import json
from functools import partial

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES
from passes import outcome_of
from spark_logs import make_logs

import evalkit
import evalkit.spark
from evalkit.errors import EvalkitError

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

DRAWN = {"statistics": {"method": "bootstrap", "replicates": 100, "baseline": "a"}, "sample": 0.7}
KINDS = [("uint64", "date"), ("text", "uint64"), ("date", "text"), ("ms", "binary"), ("zone", "ms")]


def evaluated(evaluate, read, **asked):
    """What is said of tables that `read` opens by their names."""
    segments = {"n": {"by": "n_relevant", "quantiles": 3}}
    named = asked.get("columns", {})
    if "user" not in named:
        segments["kind"] = {"path": read("users"), "by": "kind", "user": "who"}
    lists = read("a") if "model" in named else {"a": read("a"), "b": read("b")}
    asked = {"metrics": ["nDCG@{2,5}", "RR"], "segments": segments, **asked}
    outcome = outcome_of(lambda: evaluate(read("truth"), lists, train=read("train"), **asked))
    assert not outcome.status, outcome.said
    return {**json.loads(outcome.said), "inputs": None}


def same(session, folder, **asked):
    """Whether DataFrames say what files of the same rows say here, but for inputs."""
    path = lambda name: str(folder / f"{name}.parquet")  # noqa: E731
    spark = partial(evalkit.spark.evaluate, partitions=3)
    read = lambda name: session.read.parquet(path(name))  # noqa: E731
    return evaluated(evalkit.evaluate, path, **asked) == evaluated(spark, read, **asked)


@pytest.mark.parametrize(("user", "item"), KINDS)
def test_ids_of_every_type(session, tmp_path, user, item):
    make_logs(tmp_path, user=TYPES[user], item=TYPES[item])

    assert same(session, tmp_path, **DRAWN)


def test_lists_of_items(session, tmp_path):
    make_logs(tmp_path, as_lists=True, user=TYPES["date"])

    assert same(session, tmp_path)


def test_two_columns_make_a_user_and_a_column_names_the_models(session, tmp_path):
    make_logs(tmp_path)
    for name in ("truth", "a", "b", "train"):
        path = tmp_path / f"{name}.parquet"
        at = pl.datetime(2026, 1, 1) + pl.duration(hours=pl.col("user") % 7)
        rows = pl.read_parquet(path).with_columns(at=at.dt.cast_time_unit("ms"), model=pl.lit(name))
        rows.with_columns(pl.col("user") // 7).write_parquet(path)
    lists = [pl.read_parquet(tmp_path / f"{name}.parquet") for name in "ab"]
    pl.concat(lists).sample(fraction=1.0, shuffle=True, seed=1).write_parquet(
        tmp_path / "a.parquet"
    )

    assert same(session, tmp_path, columns={"user": ["user", "at"], "model": "model"}, **DRAWN)


@pytest.mark.parametrize("name", ["a.user", "us`er", "user as such"])
def test_names_that_spark_would_read_as_something_else(session, tmp_path, name):
    make_logs(tmp_path)
    for path in tmp_path.glob("*.parquet"):
        pl.read_parquet(path).rename({"user": name}, strict=False).write_parquet(path)

    assert same(session, tmp_path, columns={"user": name})


def test_columns_that_nobody_reads_may_be_of_any_kind(session, tmp_path):
    from pyspark.sql import functions as f

    make_logs(tmp_path)
    shown, truth = (
        session.read.parquet(str(tmp_path / f"{name}.parquet")) for name in ("a", "truth")
    )
    odd = [f.expr("interval 1 month").alias("span"), f.lit(1).alias("z"), f.lit(2).alias("z")]

    asked = {"metrics": ["RR"], "partitions": 2, "columns": {"user": "user"}}
    plain, beside = (
        evalkit.spark.evaluate(truth.select("*", *more), {"a": shown.select("*", *more)}, **asked)
        for more in ([], [*odd, f.col("user").alias("USER")])
    )

    assert beside.value("RR", model="a") == plain.value("RR", model="a")
    with pytest.raises(EvalkitError) as caught:
        evalkit.spark.evaluate(truth.select(*odd), {"a": shown}, **asked)
    assert caught.value.code == "missing-column"


@pytest.mark.parametrize("name", ["train", "users"])
def test_a_table_without_rows(session, tmp_path, name):
    make_logs(tmp_path)
    path = tmp_path / f"{name}.parquet"
    pl.read_parquet(path).clear().write_parquet(path)

    assert same(session, tmp_path)
