"""Texts of options mean what they say."""

import json
import os
import shlex
from dataclasses import dataclass

import pytest

from evalkit.cli import console
from evalkit.cli.guess import split_name
from evalkit.cli.options import memory_limit_of, parse_count, parse_size
from evalkit.errors import RequestError

SIZES = [
    ("1", 1), ("1024", 1024), ("10b", 10), ("1k", 1000), ("1KiB", 1024), ("500MB", 500_000_000),
    ("8GiB", 8 << 30), ("1.5g", 1_500_000_000), (".5 GiB", 1 << 29), ("2TiB", 2 << 40),
]  # fmt: skip


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_a_size_is_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "8X", "GiB", "1e9", "80%", "0.1"])
def test_what_is_no_size_is_told(text):
    with pytest.raises(RequestError, match="is no size"):
        parse_size(text)


def test_the_default_memory_limit_is_below_what_there_is():
    assert memory_limit_of(None) >= 512 << 20
    assert memory_limit_of("1GiB") == 1 << 30


@pytest.mark.parametrize(
    ("text", "count"), [("10", 10), ("1e6", 10**6), ("1_000", 1000), ("2.5e3", 2500)]
)
def test_a_count_is_read(text, count):
    assert parse_count(text, at="--users") == count


@pytest.mark.parametrize("text", ["", "1.5", "many", "inf", "nan", "1e400"])
def test_what_is_no_count_is_told(text):
    with pytest.raises(RequestError, match="is no whole number"):
        parse_count(text, at="--users")


NAMES = [
    # text                        model    path
    ("als=als.parquet",          "als",   "als.parquet"),
    ("als=day=1/x.parquet",      "als",   "day=1/x.parquet"),
    ("rankings/als.parquet",     "als",   "rankings/als.parquet"),
    ("logs/day=1/als.parquet",   "als",   "logs/day=1/als.parquet"),
    ("rankings/als/",            "als",   "rankings/als/"),
    ("rankings/als/*.parquet",   "als",   "rankings/als/*.parquet"),
    ("s3://bucket/als.parquet",  "als",   "s3://bucket/als.parquet"),
    ("s3://bucket/als/*",        "als",   "s3://bucket/als/*"),
    ("*.parquet",                "model", "*.parquet"),
    ("=x.parquet",               "model", "=x.parquet"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "model", "path"), NAMES)
def test_rankings_have_the_name_given_or_their_file_s(text, model, path):
    assert split_name(text) == (model, path)


def test_an_existing_path_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "als=x.parquet").touch()

    assert split_name("als=x.parquet")[1] == "als=x.parquet"
    assert split_name("als=*.parquet")[1] == "als=*.parquet"


@dataclass(frozen=True)
class Step:
    stage: str
    rows: int
    total_rows: int | None
    unit: str = "rows"


PROGRESS = [
    # step                              new rows   seconds  told
    (Step("truth", 0, None),            0,         0.0,     "truth"),
    (Step("als", 500, None),            500,       1.0,     "als  500 rows  500 rows/s"),
    (Step("als", 2_000_000, 5_000_000), 2_000_000, 1.0,
     "als  2,000,000 of 5,000,000 rows  2.0 M rows/s  2 s left"),
    (Step("als", 1000, 1_000_000),      1000,      10.0,
     "als  1,000 of 1,000,000 rows  100 rows/s  2 h 46 min left"),
    (Step("als", 1000, 61_000),         1000,      2.0,
     "als  1,000 of 61,000 rows  500 rows/s  2 min 00 s left"),
    (Step("spark", 3, 12, "partitions"), 3,        30.0,
     "spark  3 of 12 partitions  1 min 30 s left"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "new_rows", "seconds", "told"), PROGRESS)
def test_progress_says_rows_rate_and_time_left(step, new_rows, seconds, told):
    assert console.describe(step, new_rows, seconds) == told


def test_progress_is_silent_where_stderr_is_no_terminal():
    assert console.progress_line() is None


A_SECOND = "dirty_decay_ms:1000,muzzy_decay_ms:0"
SOON = "dirty_decay_ms:50,muzzy_decay_ms:50"


@pytest.mark.parametrize("before", ["dirty_decay_ms:10000,muzzy_decay_ms:0", A_SECOND])
@pytest.mark.parametrize(("limit", "after"), [(None, f"narenas:1,{A_SECOND}"), ("1GiB", SOON)])
def test_a_command_lets_polars_give_memory_back_soon_below_a_limit(
    monkeypatch, before, limit, after
):
    monkeypatch.setenv("_RJEM_MALLOC_CONF", f"narenas:1,{before}")

    memory_limit_of(limit)

    assert os.environ["_RJEM_MALLOC_CONF"] == after


def test_what_is_set_of_the_allocator_stays_under_a_limit(monkeypatch):
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "narenas:2")

    memory_limit_of("1GiB")

    assert os.environ["_RJEM_MALLOC_CONF"] == "narenas:2"


def test_a_file_without_a_header_is_read_as_its_hint_says(evalkit, tmp_path):
    (tmp_path / "t.csv").write_text("1,10\n2,11\n3,12\n")
    (tmp_path / "r.csv").write_text("user,item,rank\n1,10,1\n2,11,1\n3,12,1\n")
    call = ["evaluate", "--truth", "t.csv", "--rankings", "r.csv", "-m", "hit@1", "--json"]

    refused = evalkit(*call)
    hint = refused.err.partition("columns are which, as ")[2].partition(", and so on")[0]
    answered = evalkit(*call, *shlex.split(hint))

    assert (refused.status, refused.codes) == (3, ["no-header"])
    assert answered.status == 0, answered.err
    assert json.loads(answered.out)["counts"]["truth"]["rows"] == 3
