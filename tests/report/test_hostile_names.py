"""Names of the data command no spreadsheet, no terminal and no monitor."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from example_runs import report
from hypothesis import given
from hypothesis import strategies as st

from evalkit.cli import console
from evalkit.report import Report, render
from evalkit.report.forms.csv_ import safe_cell
from evalkit.report.json_ import dump_line
from evalkit.report.verdict import render_prometheus

STARTS = ["=1+1", "+1", "-1", "@x", "\t=1", "\n=1", "\r=1", "'=1", "\uff1d1", "\x00=1", "\x1b[31m"]
TEXTS = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(STARTS)


def named(*models: str) -> Report:
    whole = report()
    (estimate,) = whole.estimates
    (counts,) = whole.counts.models.values()
    return replace(
        whole,
        estimates=tuple(replace(estimate, model=model) for model in models),
        counts=replace(whole.counts, models=dict.fromkeys(models, counts)),
    )


@given(TEXTS)
def test_a_cell_begins_no_formula_and_its_text_comes_back(text):
    cell = safe_cell(text)

    assert not cell.startswith(("=", "+", "-", "@", "\t", "\n", "\uff1d"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", cell)
    if re.fullmatch("[ -~]*", text):
        assert cell.removeprefix("'") == text or (cell == text and not text.startswith("'"))


@given(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
def test_csv_is_read_back_row_by_row(models):
    rows = list(csv.DictReader(io.StringIO(render(named(*models), "csv"), newline="")))

    assert [row["model"] for row in rows] == list(map(safe_cell, models))
    assert {row["value"] for row in rows} == {"0.5"}


@pytest.mark.parametrize("value", [-1.5, -3, 0.0])
def test_numbers_are_no_text(value):
    assert safe_cell(value) == repr(value)


@given(TEXTS)
def test_json_on_one_line_is_plain_and_the_same(text):
    line = dump_line({"name": text})

    assert json.loads(line) == {"name": text}
    assert len(line.splitlines()) == 1
    assert not re.search("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", line)


def test_log_lines_are_plain(capsys):
    console.configure(["--log-format", "json"])
    try:
        console.warn("x", "a\u202eb\u2028c\x9bd https://h/a?jwt=s3cr3t")
    finally:
        console.configure([])

    line = capsys.readouterr().err
    assert line.isascii()
    assert "s3cr3t" not in line
    assert json.loads(line)["message"].startswith("a\u202eb\u2028c\x9bd")


@given(st.lists(TEXTS, min_size=1, max_size=6, unique=True))
def test_labels_that_differ_differ_in_prometheus(models):
    lines = [each for each in render_prometheus(named(*models)).split("\n") if each[:1] != "#"]
    values = [each.rpartition(" ")[0] for each in lines if each]

    assert len(set(values)) == len(values)
    assert sum(each.startswith("evalkit_metric_value{") for each in values) == len(models)


def test_one_model_has_one_label_in_every_family():
    text = render_prometheus(named("a\x00", "a\x01"))

    assert text.count('model="a\ufffd"') == text.count('model="a\ufffd (2)"') > 1
