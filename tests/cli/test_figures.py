"""`evalkit figures`: pictures of what is finished, listed and written by name."""

from pathlib import Path

import polars as pl
import pytest
from program import Outcome, run_here

import evalkit


def figures(*arguments: str) -> Outcome:
    return run_here(["figures", *arguments], Path.cwd())


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Two runs of a job, and a split."""
    monkeypatch.chdir(tmp_path)
    lists = {"a": {1: [7, 8], 2: [8, 7]}, "b": {1: [8, 7], 2: [9, 7]}}
    for _ in range(2):
        evalkit.evaluate({1: [7], 2: [8]}, lists, metrics=["RR"], name="job").write("runs")
    log = pl.DataFrame({"user": [1, 1, 2, 2], "item": [7, 8, 7, 9], "time": [0, 90_000, 1, 95_000]})
    evalkit.split(log, by="user", test=1, out="cut")


def test_pictures_of_a_run_of_runs_over_time_and_of_a_split_are_listed(made):
    assert "RR of every model" in figures("last").out
    assert figures("runs").out.splitlines() == ["RR over 2 runs"]
    assert "Rows of each part" in figures("cut").out
    plots = evalkit.figures("cut")
    assert all(each.frame.height for each in plots.values())


def test_the_only_one_is_written_and_one_of_several_is_named(made, tmp_path):
    assert figures("runs", "--file", "x.svg").status == 0
    assert (tmp_path / "x.svg").read_text().startswith("<svg")
    many = figures("cut", "--file", "y.svg")
    assert many.status == 2
    assert "--figure" in many.err

    named = figures("last", "--figure", "RR of every model")

    assert named.out.startswith("<svg")
    assert "var(--" not in named.out


@pytest.mark.parametrize("name", ["last", "cut"])
def test_a_metric_of_one_thing_is_refused(made, name):
    found = figures(name, "-m", "RR")

    assert (found.status, found.codes) == (2, ["bad-option"])


def test_several_runs_of_different_data_give_the_diagram(made):
    lists = {"a": {1: [7, 8], 3: [8, 7]}, "b": {1: [8, 7], 3: [9, 7]}}
    evalkit.evaluate({1: [7], 3: [8]}, lists, metrics=["RR"], name="other").write("more")

    found = figures("runs/latest", "more/latest")

    assert found.out.splitlines() == ["mean ranks of RR over 2 data sets"]


def test_what_cannot_be_read_is_said(made, tmp_path):
    (tmp_path / "cut" / "leakage.json").write_text("{")
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen" / "selection.json").write_text("{}")

    assert "split-unreadable" in figures("cut").err
    assert "selection-unreadable" in figures("chosen").err
