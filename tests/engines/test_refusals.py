"""What Spark cannot do is refused by its name before a job begins."""

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import both, jobs_of
from spark_logs import BESIDE, PLAIN, TABLES, make_lists, make_logs, spell

from evalkit.engines import _refusals, _spark
from evalkit.errors import EvalkitError

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

OF_CONFIGS = {
    "tail_share(head='first')@5 looks at the order of all of train": (
        TABLES + BESIDE + spell(["tail_share(head='first')@5"]),
        {},
    ),
    "a limit of memory is held": (TABLES + spell(["RR"]), {"memory_limit": 1 << 30}),
    "items has more than 9 items": (TABLES + BESIDE + spell(["gini@5"]), {}),
}


@pytest.mark.parametrize("what", OF_CONFIGS)
def test_of_configs(session, tmp_path, monkeypatch, what):
    make_lists(tmp_path)
    for each in (_refusals, _spark):
        monkeypatch.setattr(each, "MOST_WHOLE", 9)
    text, asked = OF_CONFIGS[what]

    with jobs_of(session) as jobs:
        _, spark = both(text, tmp_path, **asked)

    assert spark.status == 2
    assert f"not-on-spark: {what}" in spark.said
    assert not jobs


OF_FRAMES = {
    'ties = "input" looks at the order of rows': ({"ties": "input"}, ["rank"]),
    'ties = "numba" looks at the order of rows': ({"ties": "numba"}, ["rank"]),
    'duplicates = "first" looks at the order of rows': ({"duplicates": "first"}, []),
    'duplicates = "last" looks at the order of rows': ({"duplicates": "last"}, []),
    "the last row of a pair of the truth stays": ({"truth_duplicates": "last"}, []),
    "rankings are in the order of their rows": ({}, ["rank", "score"]),
}


@pytest.mark.parametrize("what", OF_FRAMES)
def test_of_data_frames_that_have_no_order(session, tmp_path, what):
    import evalkit.spark

    make_logs(tmp_path)
    policies, lacks = OF_FRAMES[what]
    read = session.read.parquet
    truth, shown = (read(str(tmp_path / f"{name}.parquet")) for name in ("truth", "a"))

    with jobs_of(session) as jobs, pytest.raises(EvalkitError) as caught:
        evalkit.spark.evaluate(truth, {"a": shown.drop(*lacks)}, metrics=["RR"], policies=policies)

    assert caught.value.code == "not-on-spark"
    assert caught.value.message.startswith(what)
    assert "columns.order" in caught.value.hint
    assert not jobs


def test_the_order_of_histories_in_data_frames(session, tmp_path):
    import evalkit.spark

    make_lists(tmp_path)
    read = session.read.parquet
    names = ("truth", "a", "train", "items")
    truth, shown, train, items = (read(str(tmp_path / f"{name}.parquet")) for name in names)
    asked = {"metrics": ["calibration(history='weighted')@5"], "train": train}

    asked["items"] = {"path": items, "separator": "|"}

    with jobs_of(session) as jobs, pytest.raises(EvalkitError) as caught:
        evalkit.spark.evaluate(truth, {"a": shown}, **asked)

    assert "looks at the order of rows" in caught.value.message
    assert not jobs


def test_two_servers_are_one_too_many(tmp_path):
    make_logs(tmp_path)

    _, spark = both(PLAIN, tmp_path, more='master = "local[2]"\nremote = "local[2]"\n')

    assert "not-on-spark: master and remote are both named" in spark.said


def test_nanoseconds_of_data_frames_are_refused(monkeypatch):
    """Spark itself makes none: they can come of a catalog that has them."""
    from evalkit.engines._layout import GivenPlace, Read, TablePart
    from evalkit.sources import Table

    table = Table("truth", pl.LazyFrame(), ("user",), "a frame")
    part = TablePart(GivenPlace("truth"), table, {"at": pl.Datetime("ns")})

    found = list(_refusals._of_parts(Read(None, [part], [], None, [])))

    assert found == [("truth has nanoseconds in at", "a frame")]
