"""Files of first nights: what can be read is read, and hints of what cannot lead to an answer."""

import bz2
import datetime
import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import evalkit
from evalkit import evaluate
from evalkit.config import TruthTable, load_config
from evalkit.errors import EvalkitError
from evalkit.pipeline import run_config
from evalkit.sources import open_truth, told_form

TRUTH = pl.DataFrame({"user": [1, 2, 3], "item": [10, 11, 12]})
RANKINGS = TRUTH.with_columns(rank=1)


def raised(act: Callable[[], object]) -> EvalkitError:
    with pytest.raises(EvalkitError) as caught:
        act()
    return caught.value


def hit(truth: object, rankings: object = RANKINGS, **more: object) -> float:
    return evaluate(truth, rankings, metrics=["hit@1"], **more).value("hit@1")


# ---------------------------------------------------------------- times


@pytest.mark.parametrize("zone", ["+05:30", "-03:30", "Z", "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("kind", ["parquet", "two files", "arrow", "memory"])
def test_a_column_of_any_time_zone_is_read(tmp_path, zone, kind):
    moments = pa.array([datetime.datetime(2026, 1, day) for day in (1, 2, 3)])
    when = moments.cast(pa.timestamp("us")).cast(pa.timestamp("us", tz=zone))
    table = pa.table({"user": [1, 2, 3], "item": [10, 11, 12], "ts": when})
    given: object = str(tmp_path)
    if kind == "arrow":
        feather.write_feather(table, tmp_path / "a.arrow")
    elif kind == "memory":
        given = table
    else:
        pq.write_table(table, tmp_path / "a.parquet")
        if kind == "two files":
            pq.write_table(table.slice(1), tmp_path / "b.parquet")

    unused = evaluate(given, RANKINGS, metrics=["hit@1"])
    by_day = {"day": {"by": "strftime(ts, '%d')", "pick": "max"}}
    used = evaluate(given, RANKINGS, metrics=["hit@1"], segments=by_day)

    assert unused.value("hit@1") == 1.0
    assert used.value("hit@1", segment="day=03") == 1.0


# ---------------------------------------------------------------- nothing but a header


@pytest.mark.parametrize("is_truth", [True, False])
def test_a_header_alone_is_a_table_without_rows(tmp_path, is_truth):
    path = tmp_path / "a.csv"
    path.write_text("user,item,rating,rank\n")
    tables = (str(path), RANKINGS) if is_truth else (TRUTH, str(path))

    assert raised(lambda: hit(*tables)).code == "empty-input"
    report = evaluate(*tables, metrics=["hit@1"], policies={"empty_input": "warn"})
    assert "empty-input" in [each.code for each in report.warnings]


def test_a_header_alone_beside_rows_is_no_row(tmp_path):
    (tmp_path / "a.csv").write_text("user,item\n")
    (tmp_path / "b.csv").write_text("user,item\n1,10\n2,11\n3,12\n")

    assert hit(str(tmp_path)) == 1.0


# ---------------------------------------------------------------- hints that are followed


def follow(hint: str, folder: Path) -> None:
    """Run the command that a hint ends in."""
    command = hint.partition("unpack it: ")[2] or hint[hint.index("iconv") :]
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=True)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_text_of_another_encoding_is_read_as_the_hint_says(tmp_path, monkeypatch, encoding):
    monkeypatch.chdir(tmp_path)
    text = "user,item,title\n1,10,café\n2,11,a\n3,12,b\n"
    coded = (
        text.encode(encoding) if "mark" not in encoding else b"\xff\xfe" + text.encode("utf-16-le")
    )
    Path("a.csv").write_bytes(coded)

    error = raised(lambda: hit("a.csv", columns={"item": "item"}))
    assert (error.code, "not UTF-8" in error.message) == ("unreadable-file", True)
    follow(error.hint, tmp_path)

    assert hit("utf8-a.csv") == 1.0


def test_a_packed_file_is_read_as_the_hint_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv.bz2").write_bytes(bz2.compress(TRUTH.write_csv().encode()))

    error = raised(lambda: hit("a.csv.bz2"))
    Path("b.csv").write_bytes(Path("a.csv.bz2").read_bytes())
    under_a_name = raised(lambda: hit("b.csv"))

    assert error.hint.endswith("bunzip2 -k a.csv.bz2")
    assert "packed in a way" in under_a_name.message


@pytest.mark.parametrize("name", ["a.json", "a.csv"])
def test_json_is_told_how_it_is_read(tmp_path, name):
    (tmp_path / name).write_text(json.dumps(TRUTH.to_dicts()))
    of_list = raised(lambda: hit(str(tmp_path / name)))
    (tmp_path / name).write_text(TRUTH.write_ndjson())
    of_lines = raised(lambda: hit(str(tmp_path / name)))

    assert "one object a line: jq -c '.[]'" in of_list.hint
    assert "ndjson" in of_lines.hint


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.txt", "part-00000"])
@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_what_a_file_seems_to_be_is_told_by_its_first_bytes(tmp_path, name, form):
    text = getattr(TRUTH, f"write_{form}")()
    packed = gzip.compress(text.encode()) if name.endswith("gz") else text.encode()
    (tmp_path / name).write_bytes(packed)

    assert told_form([str(tmp_path / name)], role="truth") == ({"format": form}, "")
    assert told_form([str(tmp_path)], role="truth") == ({"format": form}, "")
    for path in (tmp_path / name, tmp_path):
        error = raised(lambda path=path: open_truth(TruthTable(path=(str(path),))))
        assert f'"{form}"' in error.hint


def test_a_first_line_that_is_a_row_is_told_with_its_columns(tmp_path):
    (tmp_path / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742\n")

    form, row = told_form([str(tmp_path / "u.data")], role="truth")

    assert form == {"format": "csv", "header": False}
    assert row == "column_1 196, column_2 242, column_3 3, column_4 881250949"
    (tmp_path / "u.csv").write_text((tmp_path / "u.data").read_text())
    error = raised(lambda: hit(str(tmp_path / "u.csv")))
    assert "column_2 '242', column_3 '3'" in error.message


@pytest.mark.parametrize("name", ["run.json", "recs.npz"])
def test_one_json_value_and_what_programs_write_are_told_to_be_loaded(tmp_path, name):
    (tmp_path / "run.json").write_text(json.dumps({"q_1": {"d_1": 0.5}, "q_2": {"d_2": 0.5}}))
    np.savez(tmp_path / "recs.npz", ids=np.zeros(3))

    assert "load it in Python" in raised(lambda: hit(str(tmp_path / name))).hint


def test_ids_in_lists_are_never_cast(tmp_path):
    lists = pl.DataFrame({"user": [1, 2, 3], "item": [["10"], ["11"], ["12"]]})
    lists.write_parquet(tmp_path / "r.parquet")
    TRUTH.write_parquet(tmp_path / "t.parquet")
    config = tmp_path / "job.toml"
    config.write_text(
        'name = "n"\n[truth]\npath = "t.parquet"\n[[rankings]]\nmodel = "m"\n'
        'path = "r.parquet"\n[metrics]\nnames = ["hit@1"]\n'
    )
    error = raised(lambda: run_config(load_config(config)))
    assert (
        error.hint
        == 'give both one type, here item = "cast(item as varchar)" under [truth.columns]'
    )
    columns = 'path = "t.parquet"\ncolumns = { user = "user", item = "cast(item as varchar)" }'
    config.write_text(config.read_text().replace('path = "t.parquet"', columns))

    assert run_config(load_config(config)).value("hit@1") == 1.0


def test_bytes_and_text_are_told_to_meet_as_hex():
    ids = [bytes([number] * 16) for number in range(3)]
    truth = pl.DataFrame({"user": ids, "item": [1, 1, 1]})
    rankings = pl.DataFrame({"user": [each.hex() for each in ids], "item": [1, 1, 1], "rank": 1})

    error = raised(lambda: hit(truth, rankings))
    meant = truth.with_columns(pl.col("user").bin.encode("hex"))

    assert 'pl.col("user").bin.encode("hex")' in error.hint
    assert hit(meant, rankings) == 1.0


# ---------------------------------------------------------------- what was saved


def test_load_reads_what_save_wrote(tmp_path):
    report = evaluate(TRUTH, RANKINGS, metrics=["hit@1"])
    report.save(tmp_path / "b.json")

    assert evalkit.load(tmp_path / "b.json").value("hit@1") == 1.0
    (tmp_path / "b.json").write_text("{}")
    assert raised(lambda: evalkit.load(tmp_path / "b.json")).code.startswith("report-")


# ---------------------------------------------------------------- values that are none


@pytest.mark.parametrize(
    "rankings",
    [
        {"a": {"x": None}},
        {"m": {"a": None}},
        {"m": {"a": ["x"], "b": None}},
        np.array([["a", "b"]]),
        np.array([["a", 1]], dtype=object),
    ],
)
def test_what_is_no_list_and_no_number_is_refused(rankings):
    error = raised(lambda: hit({"a": ["x"]}, rankings))

    assert error.code in ("bad-type", "bad-matrix", "bad-score", "unknown-format")
    assert error.hint


def test_large_whole_scores_of_dicts_and_matrices_do_not_tie():
    large = 1 << 53

    assert hit({"a": ["x"]}, {"a": {"b": large, "x": large + 1}}) == 1.0
    assert hit({"a": ["x"]}, {"a": {"b": large + 1, "x": large}}) == 0.0
    truth = np.array([[0, 0, 1.0]])
    assert hit(truth, {"m": np.array([[large, large, large + 1]])}) == 1.0


def test_ids_that_look_like_paths_are_told_as_ids():
    error = raised(lambda: hit({"a": ["x"]}, {"b": ["x"]}))

    assert "the truth has no user of that ranking" in error.hint


KEYS = ("path", "format", "columns", "where", "header", "threshold")
VALUES = ("true", "7", "1.5", "[]", "[1]", "{}", "2026-01-01")
FITTING = {("columns", "{}"), ("header", "true"), ("threshold", "7"), ("threshold", "1.5")}


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key in KEYS for value in VALUES if (key, value) not in FITTING],
)
def test_a_value_of_any_other_type_is_refused_by_name(tmp_path, key, value):
    path = "" if key == "path" else 'path = "t"\n'
    (tmp_path / "job.toml").write_text(
        f'name = "n"\n[truth]\n{path}{key} = {value}\n[[rankings]]\nmodel = "m"\npath = "r"\n'
        '[metrics]\nnames = ["hit@1"]\n'
    )

    error = raised(lambda: load_config(tmp_path / "job.toml"))

    assert (error.exit_status, f"truth.{key}" in str(error)) == (2, True)
