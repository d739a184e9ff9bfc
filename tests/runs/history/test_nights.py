"""Models over all nights of a job: which nights count, and that every entry point tells the
same.
"""

import json
import math
from dataclasses import replace

import polars as pl
import pytest
from example_runs import report
from segmented_logs import make_logs

import evalkit
from evalkit.cli.app import run_command
from evalkit.errors import EvalkitError
from evalkit.report import Comparison, Report, StatisticsUsed, render
from evalkit.report.html import render_html
from evalkit.report.nights import tell_nights
from evalkit.runs import load_run, publish
from evalkit.runs.history.nights import compare_over_nights
from evalkit.statistics.sequences import follow_nights

USED = StatisticsUsed(
    level=0.95, method="normal", test="t", correction="holm", family="report", n_tests=1,
    baseline="a", margin=None, replicates=None, seed=None, power=0.8,
)  # fmt: skip
NOTHING = dict.fromkeys(
    ("low", "high", "relative", "relative_low", "relative_high", "p_value", "p_adjusted",
     "effect_size", "wins", "ties", "losses", "margin", "smallest_difference", "users_needed")
)  # fmt: skip


def difference(delta, std_error=0.01, n_users=100, metric="nDCG@10", **more):
    return Comparison(
        baseline="a", candidate="als", metric=metric, segmentation=None, segment=None,
        delta=delta, std_error=std_error, test="t", n_users=n_users, verdict="cannot tell",
        **{**NOTHING, **more},
    )  # fmt: skip


def night(number, *comparisons, truth=None, **more):
    """A run, by its number; of its own truth where none is named."""
    inputs = (replace(report().inputs[0], fingerprint=truth or f"truth {number}"),)
    found = {"comparisons": comparisons, "statistics": USED, "inputs": inputs, **more}
    return report(f"n{number:02d}", **found)


def told(folder, last, users="disjoint", **more):
    (found,) = compare_over_nights(last, folder, users, **more)
    return found


def kept(folder, *nights):
    for each in nights:
        publish(each, folder, formats=())
    return folder


def test_nights_are_those_before_and_this_one(tmp_path):
    nights = [night(n, difference(delta)) for n, delta in enumerate((0.02, 0.03, 0.01))]
    kept(tmp_path, *nights, night(3, difference(9.0)))

    found = told(tmp_path, nights[2])

    by_hand = follow_nights([0.02, 0.03, 0.01], [0.01] * 3, [100] * 3, level=0.95, disjoint=True)
    assert [each.run_id for each in found.nights] == ["n00", "n01", "n02"]
    assert [(each.mean, each.low, each.high, each.p_value) for each in found.nights] == [
        (each.mean, each.low, each.high, each.p_value) for each in by_hand
    ]
    assert found == told(tmp_path, load_run(tmp_path / "n02"))


def test_the_first_night_needs_no_folder(tmp_path):
    found = told(tmp_path / "none", night(0, difference(0.5)))

    assert (len(found.nights), found.verdict, found.found) == (1, "better", "n00")


def test_what_was_found_once_stays_found(tmp_path):
    kept(tmp_path, night(0, difference(0.5)), night(1, difference(-0.5)))

    found = told(tmp_path, night(2, difference(0.0)))

    assert found.nights[-1].low < 0 < found.nights[-1].high
    assert (found.verdict, found.found) == ("better", "n00")


def test_of_runs_over_one_truth_the_last_counts(tmp_path):
    kept(tmp_path, night(0, difference(0.1), truth="t"), night(1, difference(0.2), truth="u"))

    found = told(tmp_path, night(2, difference(0.3), truth="t"))

    assert [each.run_id for each in found.nights] == ["n01", "n02"]


def test_nights_that_say_nothing_are_left_out(tmp_path):
    kept(
        tmp_path,
        night(0, difference(0.1, std_error=None)),
        night(1, difference(0.1, metric="RR")),
        night(2),
        replace(night(3, difference(0.1)), name="weekly"),
        night(4, replace(difference(0.1), segmentation="country", segment="de")),
        night(5, replace(difference(0.1), baseline="other")),
        night(6, difference(0.0, std_error=0.0)),
    )

    found = told(tmp_path, night(7, difference(0.1)))

    assert [each.run_id for each in found.nights] == ["n06", "n07"]
    assert found.nights[0].low is None


def test_runs_that_measured_otherwise_are_left_out_and_told(tmp_path):
    def config(threshold, day):
        truth = {"where": f"day = '{day}'", "threshold": threshold}
        return {"truth": truth, "variables": {"day": day}, "policies": {}}

    nights = [
        night(n, difference(0.1), config=config(threshold, f"2026-11-0{n + 1}"))
        for n, threshold in enumerate((4, 3, 3))
    ]
    kept(tmp_path, *nights[:2])

    found = told(tmp_path, nights[2])

    assert [each.run_id for each in found.nights] == ["n01", "n02"]
    assert found.n_left_out == 1


def test_clusters_come_again(tmp_path):
    found = told(tmp_path, night(0, difference(0.1, n_clusters=40, df=30.0)))

    assert found.users == "overlapping"


def test_all_that_is_asked_for_is_one_family(tmp_path):
    last = night(0, difference(0.03), difference(0.03, metric="RR"))
    last = replace(
        last, estimates=(*last.estimates, replace(last.estimates[0], metric="RR", name="RR"))
    )

    alone = told(tmp_path, last, metrics=["RR"])
    both = compare_over_nights(last, tmp_path, "disjoint", metrics=["RR", "ndcg@10"])

    assert {each.metric: each.n_tests for each in both} == {"RR": 2, "nDCG@10": 2}
    assert both[1].nights[0].p_value == 2 * alone.nights[0].p_value
    assert both[1].nights[0].low < alone.nights[0].low


def test_a_run_that_compares_nothing_has_nothing(tmp_path):
    assert compare_over_nights(night(0), tmp_path, "overlapping") == ()


@pytest.mark.parametrize(
    ("n_users", "users", "is_told"),
    [(49, "disjoint", True), (50, "disjoint", False), (49, "overlapping", False)],
)
def test_nights_of_few_users_are_told(tmp_path, n_users, users, is_told):
    last = night(0, difference(0.5, n_users=n_users))
    lines = tell_nights(compare_over_nights(last, tmp_path, users))

    assert any("a night stands on 49 users" in each for each in lines) == is_told


def test_every_form_of_a_report_tells_of_nights(tmp_path):
    last = night(0, difference(0.5))
    last = replace(last, nights=compare_over_nights(last, tmp_path, "overlapping"))

    assert Report.from_json(last.to_json()).nights == last.nights
    for text in (
        *(render(last, form) for form in ("markdown", "screen", "table")),
        render_html(last),
    ):
        assert "als is better than a" in " ".join(text.split())
    assert '"nights"' not in night(0).to_json()


JOB = """
name = "nightly"
[truth]
path = "truth.parquet"
where = "item > cast({least} as bigint)"
[[rankings]]
model = "a"
path = "a.parquet"
[[rankings]]
model = "b"
path = "b.parquet"
[metrics]
names = ["nDCG@8", "RR", "hit@1"]
primary = ["RR", "nDCG@8"]
[statistics]
baseline = "a"
over_nights = "disjoint"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    make_logs(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, *arguments):
    capsys.readouterr()
    run_command(list(arguments))
    return capsys.readouterr().out


def run(capsys, least, *options):
    said(capsys, "run", "job.toml", "--quiet", "--var", f"least={least}", *options)
    return json.loads(said(capsys, "report", "last", "--format", "json"))


@pytest.mark.parametrize("users", ["overlapping", "disjoint"])
def test_config_and_command_give_the_same(folder, capsys, users):
    for least in (0, 1, 2):
        by_config = run(capsys, least, "--set", f"statistics.over_nights={users}")["nights"]

    by_command = json.loads(said(capsys, "history", "nights", "--json"))
    asked = json.loads(
        said(capsys, "history", "nights", "--users", users, "-m", "rr", "-m", "nDCG@8", "--json")
    )

    assert by_command == asked == by_config
    assert [(each["metric"], each["users"], len(each["nights"])) for each in by_config] == [
        *(("nDCG@8", users, 3), ("RR", users, 3)),
    ]
    earlier = json.loads(said(capsys, "history", "nights", "last~1", "--json"))
    assert earlier[0]["nights"] == by_config[0]["nights"][:2]


def test_users_who_came_again_are_told_of(folder, capsys):
    for least in (0, 1):
        found = run(capsys, least, "--set", "output.per_user=true")["nights"]

    assert {each["users"] for each in found} == {"overlapping"}
    assert found[0]["n_shared"] > 200
    assert json.loads(said(capsys, "history", "nights", "--json")) == found
    assert "came again" in said(capsys, "history", "nights")


def test_users_who_come_back_after_a_night_are_found(folder, capsys):
    """Two halves of the users in turn: no two nights in a row share a user."""
    users = "cast(substr(cast(user as string), length(cast(user as string)), 1) as bigint)"
    text = (folder / "job.toml").read_text()
    (folder / "job.toml").write_text(
        text.replace(
            "item > cast({least} as bigint)", f"{users} % 2 = cast({{least}} as bigint) % 2"
        )
    )
    found = [
        run(capsys, least, "--set", "output.per_user=true")["nights"][0]
        for least in (70, 71, 70, 71)
    ]
    assert [each["n_shared"] for each in found] == [0] * 4
    assert [len(each["nights"]) for each in found] == [1, 2, 2, 2]  # of one truth the last

    copy = (folder / "truth.parquet").read_bytes()
    pl.read_parquet(copy).reverse().write_parquet(folder / "truth.parquet")
    found = run(capsys, 70, "--set", "output.per_user=true")["nights"][0]

    assert (found["users"], len(found["nights"])) == ("overlapping", 3)
    assert found["n_shared"] > 50
    assert "came again" in said(capsys, "history", "nights")


def test_nobody_says_that_users_differ_who_were_not_kept(folder, capsys):
    found = [run(capsys, least)["nights"][0] for least in (0, 1)]

    assert [(each["users"], each["n_shared"]) for each in found] == [("disjoint", None)] * 2
    assert "are said to share no users" in said(capsys, "history", "nights")


def test_a_sample_is_measured_otherwise(folder, capsys):
    run(capsys, 0, "--sample", "0.5")

    (found, _) = run(capsys, 0)["nights"]

    assert (len(found["nights"]), found["n_left_out"]) == (1, 1)


LABELS = """
name = "clicks"
[[labels]]
path = "{table}.parquet"
columns = {{ model = "model" }}
[metrics]
names = ["log-loss(over='users')"]
[statistics]
baseline = "a"
over_nights = "overlapping"
"""


def test_labels_measured_again_with_other_scores_are_one_night(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pl.DataFrame({"user": range(60), "label": [0, 1] * 30}).join(
        pl.DataFrame({"model": ["a", "b"]}), how="cross"
    )
    score = (pl.col("user") * 37 % 50 + pl.col("model").replace_strict({"a": 1, "b": 3})) / 60
    rows.with_columns(score=score).write_parquet("one.parquet")
    rows.with_columns(score=1 - score).write_parquet("again.parquet")
    rows.filter(pl.col("user") > 4).with_columns(score=score).write_parquet("two.parquet")
    for table in ("one", "again", "two"):
        (tmp_path / "job.toml").write_text(LABELS.format(table=table))
        said(capsys, "run", "job.toml", "--quiet")

    (found,) = json.loads(said(capsys, "history", "nights", "--json"))

    assert (len(found["nights"]), found["n_again"]) == (2, 1)
    assert "1 run over the same truth" in said(capsys, "history", "nights")


def test_python_has_no_nights_before(folder):
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(
            "truth.parquet",
            {"a": "a.parquet", "b": "b.parquet"},
            metrics=["RR"],
            statistics={"baseline": "a", "over_nights": "disjoint"},
        )
    assert caught.value.code == "bad-value"


def test_a_run_that_compares_no_models_is_told_so(folder, capsys):
    text = (folder / "job.toml").read_text()
    (folder / "job.toml").write_text(text.replace('baseline = "a"', ""))
    found = run(capsys, 0)

    assert "nights" not in found
    assert "nothing-over-nights" in [each["code"] for each in found["warnings"]]
    with pytest.raises(EvalkitError) as caught:
        run_command(["history", "nights"])
    assert caught.value.code == "nothing-in-common"


def test_the_index_holds_comparisons_of_all_users(folder, capsys):
    found = run(capsys, 0, "--set", 'segments.country={by = "country"}')

    sql = "SELECT metric, delta, std_error FROM comparisons ORDER BY rowid"
    rows = json.loads(said(capsys, "history", "query", sql, "--format", "json"))

    whole = [each for each in found["comparisons"] if each["segment"] is None]
    assert rows == [{name: each[name] for name in rows[0]} for each in whole]
    assert all(math.isfinite(each["delta"]) for each in rows)
