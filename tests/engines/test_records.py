"""Lists of records, ages of the truth and the Python of executors, on Spark."""

import sys
from datetime import datetime
from types import SimpleNamespace

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import check

import evalkit
import evalkit.spark
from evalkit.engines._spark import _in_own_python

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

TEXT = """
[truth]
path = "truth.parquet"
[[rankings]]
model = "als"
path = "als.parquet"
[metrics]
names = ["RR", "nDCG@2"]
[[gates]]
data = "age"
max = "2d"
"""


@pytest.fixture
def logs(tmp_path):
    """Users 1 and 2: the item of one is first, that of the other second; user 3 has no list."""
    truth = {"user": [1, 2], "item": [10, 20], "ts": [datetime(2026, 11, 27)] * 2}
    pl.DataFrame(truth).write_parquet(tmp_path / "truth.parquet")
    record = pl.Struct({"movieId": pl.Int32, "rating": pl.Float32})
    pairs = [[(10, 0.5), (30, 0.4)], [(30, 0.9), (20, 0.4)], []]
    rows = [[{"movieId": i, "rating": s} for i, s in each] for each in pairs]
    lists = pl.Series(rows, dtype=pl.List(record))
    frame = pl.DataFrame({"user": [1, 2, 3], "recommendations": lists})
    frame.write_parquet(tmp_path / "als.parquet")
    return tmp_path


def test_files_say_on_spark_what_they_say_here(session, logs):
    check(TEXT, logs)


def test_frames_of_als_are_read(session, logs):
    truth, als = (session.read.parquet(str(logs / f"{name}.parquet")) for name in ("truth", "als"))

    report = evalkit.spark.evaluate(truth, {"als": als}, metrics=["RR"])

    assert report.estimates[0].value == 0.75
    assert [each.ranked_by for each in report.inputs if each.role == "rankings"] == ["score"]


class Conf:
    def __init__(self, *names):
        self.names = names

    def contains(self, name):
        return name in self.names


@pytest.mark.parametrize(
    ("master", "names", "environment", "expected"),
    [
        ("local[*]", (), {}, sys.executable),
        ("local[*]", ("spark.pyspark.python",), {}, "python3"),
        ("local[*]", (), {"PYSPARK_PYTHON": "/opt/python"}, "python3"),
        ("yarn", (), {}, "python3"),
    ],
)
def test_local_executors_run_this_python(monkeypatch, master, names, environment, expected):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    context = SimpleNamespace(master=master, getConf=lambda: Conf(*names), pythonExec="python3")

    with _in_own_python(SimpleNamespace(sparkContext=context)):
        assert context.pythonExec == expected

    assert context.pythonExec == "python3"


def test_a_session_by_connect_has_no_context():
    with _in_own_python(SimpleNamespace()):
        pass
