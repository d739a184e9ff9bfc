"""Ratings and labels on Spark: the bytes of one process, and its words for what is wrong."""

import re

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES, both, check, jobs_of
from spark_logs import LABELS, USERS, make_rows

from evalkit.engines import _results

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

TOGETHER = """
[[ratings]]
model = "a"
path = "a.parquet"
[[ratings]]
model = "b"
path = "b.parquet"
[metrics]
names = ["RMSE", "MAE", "MAE(over='users')", "R2"]
[statistics]
baseline = "a"
"""
JOINED = """
[[ratings]]
path = "ratings.parquet"
[[predictions]]
model = "a"
path = "a.parquet"
[[predictions]]
model = "b"
path = "b.parquet"
[metrics]
names = ["RMSE", "MAE(over='users')"]
[statistics]
baseline = "a"
"""


@pytest.mark.parametrize(
    ("text", "partitions"),
    [(TOGETHER, 1), (JOINED, 4), (LABELS, 30)],
    ids=["together", "joined", "labels"],
)
def test_models_are_compared_and_users_in_groups(session, tmp_path, text, partitions):
    make_rows(tmp_path)
    users = USERS if text != JOINED else USERS.replace('country = { by = "country" }', "")

    found = check(text + users, tmp_path, partitions=partitions)

    assert '"segment":' in found.said
    assert '"delta":' in found.said


OVER_USERS = re.sub(
    "names = .*", "names = [\"AUC(over='users')\", \"log-loss(over='users')\"]", LABELS
)


BY_TABLE = USERS.replace(", quantiles = 3", "")
OVER_RATERS = re.sub("names = .*", "names = [\"MAE(over='users')\"]", TOGETHER)


def alone(text):
    """Without comparisons: numbers over rows are sums then."""
    return text.partition("[statistics]")[0]


@pytest.mark.parametrize(
    "text",
    [OVER_USERS, OVER_RATERS, alone(TOGETHER), alone(JOINED)],
    ids=["labels", "ratings", "over-rows", "joined"],
)
def test_what_adds_up_is_merged_as_sums(session, tmp_path, monkeypatch, text):
    make_rows(tmp_path)
    monkeypatch.setattr(_results, "default_limit", lambda: 1)  # no rows go to the driver
    segments = BY_TABLE if text.count("[[ratings]]") != 1 else ""

    found = check(text + segments, tmp_path, partitions=30)
    check(text, tmp_path, partitions=1)
    check(text, tmp_path, sample=0.4)

    assert '"delta":' in found.said or "baseline" not in text


def test_ratings_of_models_that_a_column_names_are_merged_as_sums(session, tmp_path, monkeypatch):
    make_rows(tmp_path)
    monkeypatch.setattr(_results, "default_limit", lambda: 1)
    frames = [pl.read_parquet(tmp_path / f"{m}.parquet").with_columns(who=pl.lit(m)) for m in "ba"]
    stretched = frames[0].with_columns(rating=2.0 * pl.col("rating"))  # bins of its own
    pl.concat([stretched, frames[1]]).write_parquet(tmp_path / "both.parquet")

    check(
        '[[ratings]]\npath = "both.parquet"\ncolumns = { model = "who" }\n'
        '[metrics]\nnames = ["RMSE"]\n',
        tmp_path,
    )


@pytest.mark.parametrize("kind", TYPES)
def test_ids_of_every_type(session, tmp_path, kind):
    make_rows(tmp_path, TYPES[kind])

    check(TOGETHER + USERS, tmp_path)
    check(LABELS, tmp_path)


@pytest.mark.parametrize("text", [TOGETHER, LABELS], ids=["ratings", "labels"])
def test_samples_values_of_users_clusters_and_draws(session, tmp_path, text):
    make_rows(tmp_path)
    drawn = 'method = "bootstrap"\nreplicates = 100\n'

    check(text, tmp_path, sample=0.4)
    assert check(text, tmp_path, per_user=True).beside
    check(text + "cluster = \"coalesce(country, 'none')\"\n", tmp_path)
    mean = "MAE(over='users')" if text == TOGETHER else "AUC(over='users')"
    check(re.sub("names = .*", f'names = ["{mean}"]', text) + drawn, tmp_path)


@pytest.mark.parametrize("text", [TOGETHER, LABELS], ids=["ratings", "labels"])
def test_a_column_names_the_models(session, tmp_path, text):
    make_rows(tmp_path)
    frames = [pl.read_parquet(tmp_path / f"{m}.parquet").with_columns(who=pl.lit(m)) for m in "ba"]
    pl.concat(frames).sample(fraction=1.0, shuffle=True, seed=2).write_parquet(
        tmp_path / "both.parquet"
    )
    first, _, rest = text.partition("[[")[2].partition("[metrics]")
    section = first.partition("]]")[0]
    policies = 'policies.duplicates = "count"\n' if section == "labels" else ""
    table = f'{policies}[[{section}]]\npath = "both.parquet"\ncolumns = {{ model = "who" }}\n'

    check(table + "[metrics]" + rest + USERS, tmp_path)


@pytest.mark.parametrize("where", ["", 'where = "item > 1"\n'])
def test_more_rows_than_the_driver_holds_are_refused(session, tmp_path, monkeypatch, where):
    """Where all rows of files are read, before there is a job."""
    monkeypatch.setattr(_results, "default_limit", lambda: 1 << 10)
    make_rows(tmp_path)
    text = TOGETHER.replace('path = "', f'{where}path = "')

    with jobs_of(session) as jobs:
        _, spark = both(text, tmp_path)

    assert spark.status == 2
    assert "are put in order by the driver" in spark.said
    assert "--memory-limit" in spark.said
    assert bool(jobs) == bool(where)


def test_sessions(session, tmp_path):
    make_rows(tmp_path)
    text = LABELS.replace('path = "a.parquet"', 'path = "a.parquet"\ncolumns = { session = "at" }')
    text = text.replace('time = "at" }', 'time = "at", session = "at" }')

    check(text.replace('"GAUC"', "\"AUC(over='sessions')\""), tmp_path)


FAULTS = {
    "null-user": (LABELS, pl.when(pl.col("item") > 2).then("user").alias("user")),
    "bad-label": (LABELS, pl.col("label") + 2),
    "nan": (
        LABELS,
        pl.when(pl.col("item") > 2).then("score").otherwise(float("nan")).alias("score"),
    ),
    "rating": (TOGETHER, pl.col("rating") / 0.0),
    "twice": (JOINED, (pl.col("item") // 2).alias("item")),
    "country": (TOGETHER + USERS, pl.col("item").cast(pl.String).alias("country")),
    "copies": (
        LABELS.replace('"count"', '"error"')
        .replace("b.parq", "a.parq")
        .replace('at" }', 'rating" }'),
        pl.col("item") // 2 * 2,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_errors_of_the_data_are_those_of_one_process(session, tmp_path, name):
    make_rows(tmp_path)
    text, column = FAULTS[name]
    path = tmp_path / "a.parquet"
    pl.read_parquet(path).with_columns(column).write_parquet(path)

    check(text, tmp_path, status=3)


def test_tables_without_rows_are_told(session, tmp_path):
    make_rows(tmp_path)
    path = tmp_path / "a.parquet"
    pl.read_parquet(path).clear().write_parquet(path)

    check(LABELS, tmp_path, status=3)
