"""Hints about ids are followed as they are written, and what comes next is the number."""

import ast
import re
import uuid

import polars as pl
import pytest

import evalkit
from evalkit.config import parse_config
from evalkit.errors import EvalkitError
from evalkit.pipeline import run_config

TRUTH = pl.DataFrame({"userId": [1, 2], "movieId": [10, 20]})
RANKED = pl.DataFrame({"userId": [1, 1, 2, 2], "movieId": [10, 30, 30, 20], "rank": [1, 2, 1, 2]})
LISTS = RANKED.group_by("userId", maintain_order=True).agg(recs=pl.col("movieId"))
TEXT = pl.col("movieId").cast(pl.String)
USERS = pl.col("userId").cast(pl.String)
NAMES = {each: uuid.uuid5(uuid.NAMESPACE_DNS, str(each)) for each in (10, 20, 30)}
WIDE = pl.lit((1 << 64) - 100, pl.UInt64)
CASES = {
    "numbers and text": (TRUTH, RANKED.with_columns(TEXT)),
    "text and numbers": (TRUTH.with_columns(TEXT), RANKED),
    "users": (TRUTH.with_columns(USERS), RANKED),
    "lists of numbers and text": (TRUTH.with_columns(TEXT), LISTS),
    "lists of text and numbers": (TRUTH, LISTS.cast({"recs": pl.List(pl.String)})),
    "lists of text and wide numbers": (
        TRUTH.with_columns(pl.col("movieId").cast(pl.UInt64) + WIDE),
        LISTS.with_columns(
            pl.col("recs").list.eval((pl.element().cast(pl.UInt64) + WIDE).cast(pl.String))
        ),
    ),
    "lists as text": (
        TRUTH,
        LISTS.cast({"recs": pl.List(pl.String)}).with_columns(
            recs=pl.format("[{}]", pl.col("recs").list.join(", "))
        ),
    ),
    "wide numbers and text": (
        TRUTH.with_columns(pl.col("movieId").cast(pl.UInt64) + WIDE),
        RANKED.with_columns((pl.col("movieId").cast(pl.UInt64) + WIDE).cast(pl.String)),
    ),
    "wide decimals and text": (
        TRUTH.with_columns(pl.col("movieId").cast(pl.Decimal(38, 0)) + WIDE),
        RANKED.with_columns((pl.col("movieId").cast(pl.Int128) + WIDE).cast(pl.String)),
    ),
    "text and wide numbers": (
        TRUTH.with_columns((pl.col("movieId").cast(pl.Int128) + WIDE).cast(pl.String)),
        RANKED.with_columns(pl.col("movieId").cast(pl.Int128) + WIDE),
    ),
    "decimals with a point": (
        TRUTH.with_columns(pl.col("movieId").cast(pl.Decimal(20, 2))),
        RANKED,
    ),
    "cases": (
        TRUTH.with_columns(movieId=pl.format("SKU_{}", "movieId")),
        RANKED.with_columns(movieId=pl.format("sku_{}", "movieId")),
    ),
    "dashes": (
        TRUTH.with_columns(movieId=pl.Series([NAMES[i].hex for i in TRUTH["movieId"]])),
        RANKED.with_columns(movieId=pl.Series([str(NAMES[i]) for i in RANKED["movieId"]])),
    ),
}  # fmt: skip


def hint_of(act):
    with pytest.raises(EvalkitError) as caught:
        act()
    return caught.value.hint


@pytest.mark.parametrize("case", CASES)
def test_hints_of_python_are_followed(case):
    truth, ranked = CASES[case]

    def evaluate(**more):
        return evalkit.evaluate(truth, {"m": ranked}, metrics=["RR"], **more)

    hint = hint_of(evaluate)
    columns = ast.literal_eval(re.search(r"columns=(\{.*\}\}|\{.*?\})", hint)[1])

    assert evaluate(columns=columns).estimates[0].value == 0.75


@pytest.mark.parametrize("case", CASES)
def test_hints_of_a_config_are_followed(tmp_path, case):
    truth, ranked = CASES[case]
    truth.write_parquet(tmp_path / "truth.parquet")
    ranked.write_parquet(tmp_path / "m.parquet")

    def run(of_truth="", of_rankings=""):
        text = f"""
[truth]
path = "truth.parquet"
{of_truth}
[[rankings]]
model = "m"
path = "m.parquet"
{of_rankings}
[metrics]
names = ["RR"]
"""
        return run_config(parse_config(text, source="x.toml", base=tmp_path))

    hint = hint_of(run)
    found = re.findall(r"(columns = \{.*?\}) under \[+(\w+)\]", hint)
    assert found, hint
    written = {table: columns for columns, table in found}
    report = run(written.get("truth", ""), written.get("rankings", ""))

    assert report.estimates[0].value == 0.75


def test_bytes_of_a_uuid_meet_its_text():
    truth = TRUTH.with_columns(movieId=pl.Series([NAMES[i].bytes for i in TRUTH["movieId"]]))
    ranked = RANKED.with_columns(movieId=pl.Series([str(NAMES[i]) for i in RANKED["movieId"]]))

    hint = hint_of(lambda: evalkit.evaluate(truth, {"m": ranked}, metrics=["RR"]))
    columns = ast.literal_eval(re.search(r"columns=(\{.*\}\})", hint)[1])
    expression = re.search(r"in Polars (pl\.col\(.*?\"hex\"\))", hint)[1]
    truth = truth.with_columns(eval(expression, {"pl": pl}))
    report = evalkit.evaluate(truth, {"m": ranked}, metrics=["RR"], columns=columns)

    assert report.estimates[0].value == 0.75
