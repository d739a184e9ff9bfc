"""Experiments on Spark: a share is units by hash, and the bytes are those of one process."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import check

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

JOB = """
[experiment]
variants = { control = 50, b = 50 }
window = "3d"
sums = { shown = "show", clicks = "click", spent = { kind = "buy", of = "value" } }
before = { spent = "predicted" }
[exposures]
path = "exposures.parquet"
[events]
path = "events.parquet"
[covariates]
path = "covariates.parquet"
[metrics]
names = ["mean(clicks)", "ratio(clicks, shown)", "mean(spent, winsor=0.9)",
    "quantile(spent, q=0.5, over='events')"]
primary = ["ratio(clicks, shown)"]
[segments]
country = { by = "country" }
"""
READY = """
[experiment]
variants = { control = 50, b = 50 }
before = { clicks = "predicted" }
[exposures]
path = "ready.parquet"
[metrics]
names = ["mean(clicks)", "quantile(clicks, q=0.9)"]
"""
START = dt.datetime(2026, 1, 1)


def make_logs(folder, make_id):
    draw = np.random.default_rng(1)
    n, m = 300, 4000
    times = [START + dt.timedelta(hours=int(hour)) for hour in draw.integers(0, 72, n)]
    exposures = pl.DataFrame(
        {
            "unit": [make_id(number) for number in range(n)],
            "variant": np.where(draw.random(n) < 0.5, "control", "b"),
            "time": times,
            "country": np.where(draw.random(n) < 0.3, "de", "fr"),
        }
    )
    minutes = draw.integers(-4000, 9000, m)
    events = pl.DataFrame(
        {
            "unit": [make_id(int(number)) for number in draw.integers(0, n + 20, m)],
            "time": [START + dt.timedelta(minutes=int(minute)) for minute in minutes],
            "kind": draw.choice(["show", "click", "buy"], m, p=[0.7, 0.2, 0.1]),
            "value": np.round(draw.lognormal(1.0, 2.0, m), 3),
        }
    )
    known = exposures.select("unit", predicted=pl.Series(draw.random(n)))
    frames = {"exposures": exposures, "events": events, "covariates": known.head(250)}
    frames["ready"] = known.with_columns(exposures["variant"], clicks=pl.Series(draw.random(n)))
    for name, frame in frames.items():
        frame.write_parquet(folder / f"{name}.parquet", row_group_size=500)


@pytest.mark.parametrize(
    ("text", "make_id", "partitions"),
    [(JOB, int, 1), (JOB, "unit-{}".format, 5), (JOB, int, 70), (READY, int, 3)],
    ids=["one", "texts", "many", "ready-made"],
)
def test_units_are_shared_out_by_a_hash(session, tmp_path, text, make_id, partitions):
    make_logs(tmp_path, make_id)

    found = check(text, tmp_path, partitions=partitions)

    assert '"delta":' in found.said
    assert '"sample-ratio"' in found.said
