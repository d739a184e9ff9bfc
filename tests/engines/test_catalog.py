"""Tables that a catalog of Spark names give the numbers of the same rows in files."""

import json
import re

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import (
    BESIDE,
    LABELS,
    ON_TRAIN,
    QUANTILES,
    TABLES,
    USERS,
    make_lists,
    make_rows,
    spell,
)

from evalkit.config import parse_config
from evalkit.errors import EvalkitError
from evalkit.street import key_of_run, run_config

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ENGINE = '\n[engine]\nkind = "spark"\npartitions = 3\n'
OF_ITS_OWN = ("meta", "run_id", "run_key", "inputs")


def told(text, folder):
    document = json.loads(run_config(parse_config(text, source="x.toml", base=folder)).to_json())
    return {key: each for key, each in document.items() if key not in OF_ITS_OWN}, document


@pytest.mark.parametrize(("kind", "way"), [("lists", "table"), ("labels", "path")])
def test_tables_of_a_catalog_are_read_as_files_are(session, tmp_path, kind, way):
    if kind == "lists":
        make_lists(tmp_path)
        text = TABLES + BESIDE + spell(ON_TRAIN) + QUANTILES
    else:
        make_rows(tmp_path)
        text = LABELS + USERS
    session.sql("create database if not exists shop")
    for path in tmp_path.glob("*.parquet"):
        rows = session.read.parquet(str(path))
        rows.write.mode("overwrite").saveAsTable(f"shop.{path.stem}")
    named = r'table = "spark_catalog.shop.\1"' if way == "table" else r'path = "table://shop.\1"'

    files, _ = told(text + ENGINE, tmp_path)
    tables, document = told(re.sub(r'path = "(\w+)\.parquet"', named, text) + ENGINE, tmp_path)

    assert tables == files
    assert all(each["paths"][0].startswith("table://") for each in document["inputs"])
    assert all(each["fingerprint"] is None for each in document["inputs"])


REFUSED = {
    "local": ("", "table-of-spark"),
    "nowhere": (ENGINE, "path-not-found"),
    "no name": (ENGINE, "path-not-found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_is_not_there_is_told(session, tmp_path, case):
    make_lists(tmp_path)
    engine, code = REFUSED[case]
    name = "a b; drop" if case == "no name" else "shop.nowhere"
    text = TABLES.replace('path = "truth.parquet"', f'table = "{name}"') + spell(["RR"])
    config = parse_config(text + engine, source="x.toml", base=tmp_path)

    with pytest.raises(EvalkitError) as caught:
        run_config(config)

    assert caught.value.code == code


def test_a_run_key_says_that_it_cannot_know(tmp_path):
    text = TABLES.replace('path = "truth.parquet"', 'table = "shop.truth"') + spell(["RR"])

    assert key_of_run(parse_config(text + ENGINE, source="x.toml", base=tmp_path)) is None


def test_path_and_table_exclude_each_other(tmp_path):
    text = TABLES.replace("[truth]", '[truth]\ntable = "shop.truth"') + spell(["RR"])

    with pytest.raises(EvalkitError) as caught:
        parse_config(text, source="x.toml", base=tmp_path)

    assert caught.value.code == "conflicting-keys"
