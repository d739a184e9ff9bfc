"""Tables that a catalog of Spark names give the numbers of the same rows in files."""

import json
import re
from contextlib import nullcontext

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
from evalkit.engines._catalog import _at_version
from evalkit.errors import EvalkitError
from evalkit.pipeline import key_of_run, run_config

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


CATALOGUED = re.sub(r'path = "(\w+)\.parquet"', r'table = "shop.\1"', TABLES)
CATALOGUED += spell(["RR"]) + ENGINE


class StandIn:
    """A session whose tables are of a format that has versions: it answers what they would.

    Args:
        format: what the catalog says.
        number: of the version that tables have now.
    """

    def __init__(self, session, format, number):
        self.session, self.format, self.number = session, format, number

    def __getattr__(self, name):
        return getattr(self.session, name)

    def sql(self, text):
        found = re.fullmatch(r"SELECT \* FROM (\S+) VERSION AS OF (\d+)", text)
        if found:
            assert int(found[2]) == self.number
            return self.session.table(found[1]).where("true")  # another DataFrame
        answers = {
            r"DESCRIBE TABLE EXTENDED \S+": ("col_name, data_type", ("Provider", self.format)),
            r"DESCRIBE DETAIL \S+": ("format, id", ("delta", "an-id")),
            r"DESCRIBE HISTORY \S+ LIMIT 1": ("version, operation", (self.number, "WRITE")),
            r"SELECT snapshot_id FROM \S+\.refs WHERE name = 'main'": (
                "snapshot_id",
                (self.number,),
            ),
        }
        (answer,) = (each for form, each in answers.items() if re.fullmatch(form, text))
        names, row = answer
        return self.session.createDataFrame([row], names.split(", "))


def catalogued(session, folder):
    """A config whose tables Spark's catalog has."""
    make_lists(folder)
    session.sql("create database if not exists shop")
    for name in ("truth", "a", "b"):
        rows = session.read.parquet(str(folder / f"{name}.parquet"))
        rows.write.mode("overwrite").saveAsTable(f"shop.{name}")
    return parse_config(CATALOGUED, source="x.toml", base=folder)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_versions_are_fingerprints_and_what_is_read(session, tmp_path, monkeypatch, format):
    config, found = catalogued(session, tmp_path), []
    alone = json.loads(run_config(config).to_json())
    for number in (7, 7, 8):
        stand_in = StandIn(session, format, number)
        monkeypatch.setattr(
            "evalkit.engines._spark._session", lambda *_, own=stand_in: nullcontext(own)
        )
        report = json.loads(run_config(config).to_json())
        found.append((report["run_key"], [each["fingerprint"] for each in report["inputs"]]))
        assert key_of_run(config) == report["run_key"]
        assert report["metrics"] == alone["metrics"]
        assert report["inputs"][0]["paths"] == [f"table://shop.truth ({format} version {number})"]

    assert found[0] == found[1] != found[2]
    assert all(each["fingerprint"] is None for each in alone["inputs"])
    assert None not in found[0][1]


def test_if_new_says_that_it_cannot_know(session, tmp_path, caplog):
    from evalkit.cli.app import run_command

    config = catalogued(session, tmp_path)
    assert key_of_run(config) is None
    (tmp_path / "x.toml").write_text(CATALOGUED)
    for _ in range(2):
        line = ["run", tmp_path / "x.toml", "--out", tmp_path / "runs", "--if-new"]
        assert run_command([*map(str, line)]) == 0
        assert "work-not-known" in caplog.text
        caplog.clear()

    assert len([*(tmp_path / "runs").glob("2*")]) == 2


def test_a_table_that_changed_since_its_last_version_has_none(session, tmp_path, monkeypatch):
    catalogued(session, tmp_path)
    frame = session.table("shop.truth")
    stand_in = StandIn(session, "iceberg", 7)
    assert _at_version(stand_in, "shop.truth", frame)[1].number == "7"

    assert _at_version(stand_in, "shop.truth", frame.drop("item"))[1] is None
    assert _at_version(StandIn(session, "parquet", 7), "shop.truth", frame) == (frame, None)
    assert _at_version(StandIn(session, "iceberg", None), "shop.truth", frame) == (frame, None)
    assert _at_version(session, "shop.truth", frame) == (frame, None)


def test_path_and_table_exclude_each_other(tmp_path):
    text = TABLES.replace("[truth]", '[truth]\ntable = "shop.truth"') + spell(["RR"])

    with pytest.raises(EvalkitError) as caught:
        parse_config(text, source="x.toml", base=tmp_path)

    assert caught.value.code == "conflicting-keys"
