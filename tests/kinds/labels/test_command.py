"""Ratings and labels as whole commands: config to report, exit status, check."""

import json

import polars as pl
import pytest
from program import run_here

LABELS = """
[labels]
model = "ctr"
path = "impressions.parquet"
columns = {{ label = "clicked" }}
{more}
[metrics]
names = ["AUC", "GAUC", "log-loss"]
"""


def evalkit(folder, *arguments):
    return run_here([*arguments], folder)


@pytest.fixture
def folder(tmp_path):
    rows = {
        "user": [1, 1, 2, 2],
        "score": [0.9, 0.2, 0.6, 0.7],
        "clicked": [True, False, True, False],
    }
    pl.DataFrame(rows).write_parquet(tmp_path / "impressions.parquet")
    (tmp_path / "job.toml").write_text(LABELS.format(more=""))
    return tmp_path


def test_a_run_writes_its_report_and_curves(folder):
    done = evalkit(folder, "run", "job.toml", "--json")

    assert done.status == 0, done.err
    document = json.loads(done.out)
    values = {each["metric"]: each["value"] for each in document["metrics"]}
    assert values["AUC"] == 0.75
    assert {each["kind"] for each in document["graphs"]} == {
        "roc", "precision-recall", "gain", "lift", "calibration",
    }  # fmt: skip
    written = json.loads((folder / "runs" / "latest" / "report.json").read_text())
    assert written["metrics"] == document["metrics"]


def test_a_run_follows_a_profile_and_refuses_one_that_says_nothing(folder):
    done = evalkit(folder, "run", "job.toml", "--profile", "recbole", "--json")
    refused = evalkit(folder, "run", "job.toml", "--profile", "ranx")

    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert document["profile"] == "recbole"
    assert "AUC(over='users', weighting='positives')" in [e["metric"] for e in document["metrics"]]
    assert refused.status == 2
    assert "profile-without-kind" in refused.err


def test_a_report_is_read_back_with_its_graphs(folder):
    import evalkit as package

    evalkit(folder, "run", "job.toml")
    text = (folder / "runs" / "latest" / "report.json").read_text()

    report = package.Report.from_json(text)

    assert report.value("GAUC") == 0.5
    assert len(report.graphs) == 5
    assert report.to_json() == text


def test_a_table_shows_the_numbers(folder):
    done = evalkit(folder, "run", "job.toml")

    assert "0.750000" in done.out
    assert "verdict: fine" in done.out


@pytest.mark.parametrize(
    ("more", "codes", "status"),
    [
        ("[truth]\npath = 'x'\n", ["conflicting-keys"], 2),
        ("[statistics]\nbaseline = 'x'\n", ["unknown-model"], 2),
        ("[statistics]\ncurves = true\n", ["conflicting-keys"], 2),
        ("[statistics]\nmethod = 'bootstrap'\n", ["not-a-mean-of-users"], 2),
        ("[policies]\nbad_scores = 'last'\n", ["bad-policy"], 2),
        ("where = 'score > 2'\n", ["empty-input"], 3),
        ("threshhold = 1\n", ["unknown-key"], 2),
    ],
)
def test_what_is_wrong_ends_with_one_clear_error(folder, more, codes, status):
    (folder / "job.toml").write_text(LABELS.format(more=more))

    done = evalkit(folder, "run", "job.toml")

    assert done.status == status, done.err
    assert [code for code in codes if f"error[{code}]" in done.err] == codes
    assert "Traceback" not in done.err


def test_a_memory_limit_that_cannot_hold_is_told_before_data_is_read(folder):
    done = evalkit(folder, "run", "job.toml", "--memory-limit", "100MiB")

    assert done.status == 4
    assert "error[memory-limit]" in done.err


def test_check_lists_what_would_be_dropped(folder):
    rows = {"user": [1, None, 2], "score": [0.9, 0.2, None], "clicked": [1, 0, 1]}
    pl.DataFrame(rows).write_parquet(folder / "impressions.parquet")

    done = evalkit(folder, "check", "job.toml")

    assert done.status == 3
    assert "error[null-id]" in done.out
    assert "error[bad-score]" in done.out


def test_the_same_work_is_recognised(folder):
    first = evalkit(folder, "run", "job.toml", "--if-new", "-q")
    second = evalkit(folder, "run", "job.toml", "--if-new", "-q")

    assert (first.status, second.status) == (0, 0), second.err
    assert (
        len([each for each in (folder / "runs").iterdir() if (each / "report.json").exists()]) <= 2
    )


def test_predictions_join_ratings(folder):
    pl.DataFrame({"user": ["a", "b"], "item": [1, 2], "rating": [3, 5]}).write_csv(folder / "r.csv")
    pl.DataFrame({"user": ["a", "b"], "item": [1, 2], "prediction": [4.0, 5.0]}).write_parquet(
        folder / "p.parquet"
    )
    (folder / "r.toml").write_text(
        "[ratings]\npath = 'r.csv'\n[[predictions]]\nmodel = 'm'\npath = 'p.parquet'\n"
        "[metrics]\nnames = ['MAE']\n"
    )

    done = evalkit(folder, "run", "r.toml", "--json")

    assert done.status == 0, done.err
    assert json.loads(done.out)["metrics"][0]["value"] == 0.5


def test_gates_judge_metrics_of_labels_by_any_of_their_names(folder):
    gates = "[[gates]]\nmetric = 'GAUC'\nmin = 0.2\nunclear = 'pass'\n"
    gates += "[[gates]]\nmetric = 'logloss'\nmax = 0.1\nunclear = 'pass'\n"
    (folder / "job.toml").write_text(LABELS.format(more="").rstrip() + "\n" + gates)

    done = evalkit(folder, "run", "job.toml")

    assert done.status == 0, done.err
    assert "2 gates" in done.out
    assert "not in the report" not in done.out + done.err
