"""Commands that notes and hints name can be pasted, whatever folders are called."""

import re
import shlex
import tomllib

import polars as pl
import pytest
from program import run_here

TRUTH = pl.DataFrame({"user": [1, 2, 3] * 4, "item": list(range(12))})
LISTS = TRUTH.with_columns(score=pl.Series([n / 12 for n in range(12)]))


def test_a_config_whose_name_begins_with_a_dash_is_no_option(tmp_path):
    TRUTH.write_parquet(tmp_path / "t.parquet")
    LISTS.write_parquet(tmp_path / "a.parquet")

    made = run_here(
        ["init", "--truth", "t.parquet", "--rankings", "a.parquet", "--out", "-j.toml"], tmp_path
    )

    run = re.search(r"evalkit (run .*) runs it", " ".join(made.err.split()))
    assert run is not None, made.err
    assert run_here(shlex.split(run[1]), tmp_path).status == 0


@pytest.mark.parametrize("name", ['o\'dir "é" x', "{x}", "[a]{x}*"])
def test_what_init_says_comes_next_can_be_pasted(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    TRUTH.write_parquet(folder / "right ones.parquet")
    LISTS.write_parquet(folder / "a'a.parquet")
    truth, lists = str(folder / "right ones.parquet"), str(folder / "a'a.parquet")

    made = run_here(
        ["init", "--truth", truth, "--rankings", lists, "--out", str(folder / 'jo "b.toml')],
        tmp_path,
    )

    (config,) = folder.glob("*.toml")
    named = re.search(r"^# (name = .*)$", config.read_text(), re.MULTILINE)
    assert named is not None
    assert tomllib.loads(named[1])["name"] == 'jo "b'
    said = " ".join(made.err.split())
    check = re.search(r"evalkit (check .*) looks for mistakes, evalkit (run .*) runs it", said)
    assert check is not None, said
    for command in check.groups():
        assert run_here(shlex.split(command), tmp_path).status == 0, command


@pytest.mark.parametrize("more", [(), ("--experiment",)])
def test_what_synth_says_comes_next_can_be_pasted(tmp_path, more):
    made = run_here(["synth", "--users", "20", "--out", "-a b'c", *more], tmp_path)

    assert run_here(shlex.split(made.err.split("evalkit", 1)[1]), tmp_path).status == 0


@pytest.mark.parametrize("more", [(), ("--experiment",)])
def test_a_folder_that_synth_cannot_make_is_told_as_such(tmp_path, more):
    (tmp_path / "taken").touch()

    made = run_here(["synth", "--users", "20", "--out", "taken/logs", *more], tmp_path)

    assert (made.status, made.codes) == (4, ["not-writable"])


def test_a_page_that_cannot_be_written_is_told_as_such(tmp_path):
    (tmp_path / "runs" / "index.html").mkdir(parents=True)

    made = run_here(["history", "html"], tmp_path)

    assert (made.status, made.codes) == (4, ["write-failed"])


@pytest.mark.parametrize("name", ["rec_{}", "{}", "rec {}"])
def test_items_side_by_side_are_lists_of_a_config(tmp_path, name):
    TRUTH.cast({"item": pl.String}).write_parquet(tmp_path / "t.parquet")
    wide = {"user": [1, 2, 3], name.format(1): ["90", "1", "2"], name.format(2): ["3", None, "5"]}
    pl.DataFrame(wide).write_parquet(tmp_path / "a.parquet")

    made = run_here(["init", "--truth", "t.parquet", "--rankings", "a.parquet"], tmp_path)
    ran = run_here(["run", "evalkit.toml", "--json"], tmp_path)

    assert "columns side by side are read as lists of items" in made.err
    (found,) = [each["value"] for each in ran.document["metrics"] if each["metric"] == "RR"]
    assert found == pytest.approx((0.5 + 1 + 1) / 3)
