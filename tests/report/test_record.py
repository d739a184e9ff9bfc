"""What a report answers to questions in Python."""

import math
import subprocess
import sys
from dataclasses import replace

import polars as pl
import pytest

import evalkit
from evalkit.errors import RequestError
from evalkit.report import PerUser, Report


@pytest.mark.parametrize("spelling", ["nDCG@10", "ndcg@10", "NDCG@10", "nDCG(gain='linear')@10"])
def test_value_takes_every_spelling_of_a_metric(report, spelling):
    assert report.value(spelling, model="als") == 0.25


def test_undefined_value_is_nan(report):
    assert math.isnan(report.value("recall@20", model="popularity"))


def test_model_may_be_left_out_when_there_is_one(make_report, make_estimate):
    report = make_report([make_estimate("als", "AP@10", 0.5)])

    assert report.value("MAP@10") == 0.5


@pytest.mark.parametrize(
    ("metric", "options", "code", "hint"),
    [
        ("nDCG@10", {}, "ambiguous-model", "model='als'"),
        ("nDCG@10", {"model": "alz"}, "unknown-model", "'als'"),
        ("nDCG@10", {"model": "als", "segment": "new"}, "unknown-segment", "none"),
        ("nDCG", {"model": "als"}, "metric-not-in-report", "'nDCG@10'"),
        ("nDCG@{5,10}", {"model": "als"}, "ambiguous-metric", "nDCG@5, nDCG@10"),
        ("ndgc@10", {"model": "als"}, "metric-not-in-report", "'nDCG@10'"),
        ("@@", {"model": "als"}, "metric-not-in-report", "it has nDCG@10"),
    ],
)
def test_question_that_nothing_or_too_much_fits_says_what_would(
    report, metric, options, code, hint
):
    with pytest.raises(RequestError) as caught:
        report.value(metric, **options)

    assert caught.value.code == code
    assert hint in caught.value.hint


def test_metric_of_a_users_own_file_is_found(make_report, make_estimate):
    report = make_report([make_estimate("als", "my_metric@3", 0.75)])

    assert report.value("My_Metric@3") == 0.75


def test_segment_is_named_with_or_without_its_segmentation(make_report, make_estimate):
    report = make_report(
        [
            make_estimate("als", "RR", 0.5),
            make_estimate("als", "RR", 0.1, segmentation="age", segment="new"),
            make_estimate("als", "RR", 0.2, segmentation="age", segment="old"),
            make_estimate("als", "RR", 0.3, segmentation="activity", segment="new"),
        ]
    )

    assert report.value("RR") == 0.5
    assert report.value("RR", segment="old") == 0.2
    assert report.value("RR", segment="activity=new") == 0.3
    with pytest.raises(RequestError, match="2 segmentations") as caught:
        report.value("RR", segment="new")
    assert caught.value.code == "ambiguous-segment"


def test_metrics_frame_has_a_row_for_each_number_and_null_for_undefined(report):
    frame = report.metrics

    assert frame.columns == [
        *("model", "metric", "value", "low", "high", "std_error"),
        *("n_users", "n_undefined", "n_clusters", "df", "policies"),
        *("label", "name", "cutoff", "parameters", "segmentation", "segment"),
    ]
    assert frame["value"].to_list() == [0.25, 0.5, 3.5, 0.125, None, 7.25]
    assert frame["cutoff"].dtype == pl.Int64


def test_empty_report_has_a_frame_of_the_same_types(make_report, report):
    assert make_report([]).metrics.schema == report.metrics.schema


def test_per_user_error_names_the_option(report):
    with pytest.raises(RequestError, match="no values of single users") as caught:
        report.per_user("nDCG@10", model="als")

    assert caught.value.code == "per-user-off"
    assert "per_user=True" in caught.value.hint


def test_per_user_gives_user_columns_and_value(report):
    frame = pl.DataFrame({"value": [1, 2], "nDCG@10": [0.5, 1.0], "recall@20": [0.0, 0.1]})
    kept = PerUser(("value",), ("nDCG@10", "recall@20"), {"als": frame})

    found = replace(report, per_user_values=kept).per_user("ndcg@10", model="als")

    assert found.to_dict(as_series=False) == {"value": [1, 2], "value_": [0.5, 1.0]}


def test_user_columns_with_the_names_of_patterns_are_taken_as_they_are(report):
    frame = pl.DataFrame({"*": [1], "^n.*$": ["a"], "nDCG@10": [0.5]})
    kept = PerUser(("*", "^n.*$"), ("nDCG@10",), {"als": frame})

    found = replace(report, per_user_values=kept).per_user("nDCG@10", model="als")

    assert found.columns == ["*", "^n.*$", "value"]


@pytest.mark.parametrize("as_folder", [False, True])
def test_per_user_reads_finished_files(report, tmp_path, as_folder):
    frame = pl.DataFrame(
        {"user": [1, 1, 2], "model": ["als", "popularity", "als"], "nDCG@10": [0.1, 0.2, 0.3]}
    )
    frame[:2].write_parquet(tmp_path / "a.parquet")
    frame[2:].write_parquet(tmp_path / "b.parquet")
    if not as_folder:
        frame.write_parquet(tmp_path / "all.parquet")
    path = tmp_path if as_folder else tmp_path / "all.parquet"
    kept = PerUser(("user",), ("nDCG@10",), path=path)

    found = replace(report, per_user_values=kept).per_user("nDCG@10", model="als")

    assert found.to_dict(as_series=False) == {"user": [1, 2], "value": [0.1, 0.3]}


def test_report_and_runs_import_neither_polars_nor_numpy():
    script = (
        "import sys, evalkit.runs; heavy = {'polars', 'numpy', 'numba', 'pyarrow', 'pydantic'};"
        "print(sorted(heavy & set(sys.modules)))"
    )

    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert found.stdout.strip() == "[]", found.stderr


# Names that were asked.


def two_users() -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    truth = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], "relevance": [3, 1, 2]})
    ranked = pl.DataFrame(
        {"user": [1, 1, 1, 2, 2], "item": ["b", "c", "a", "c", "a"], "rank": [1, 2, 3, 1, 2]}
    )
    return truth, {"m": ranked}


def test_value_takes_the_name_that_was_asked_under_a_profile_of_ones_own(tmp_path):
    house = tmp_path / "house.toml"
    house.write_text('name = "house"\nlike = "ranx"\n[metrics]\nnDCG = { gain = "exp2" }\n')
    names = ["nDCG@2", "nDCG(gain='binary')@2", "AP@2"]

    report = evalkit.evaluate(*two_users(), metrics=names, profile=str(house))

    assert len(set(report.labels)) == 3
    for name, label in zip(names, report.labels, strict=True):
        assert report.value(name) == report.value(label)
    assert report.value("ndcg@2") == report.value(report.labels[0])


def test_a_name_that_is_the_label_of_another_metric_is_ambiguous(tmp_path):
    house = tmp_path / "house.toml"
    house.write_text('name = "house"\n[metrics]\nnDCG = { gain = "exp2" }\n')

    report = evalkit.evaluate(
        *two_users(), metrics=["nDCG@2", "nDCG(gain='linear')@2"], profile=str(house)
    )

    assert report.labels == ("nDCG(gain='exp2')@2", "nDCG@2")
    assert report.value("nDCG(gain='linear')@2") != report.value("nDCG(gain='exp2')@2")
    with pytest.raises(RequestError) as caught:
        report.value("nDCG@2")
    assert caught.value.code == "ambiguous-metric"


@pytest.mark.parametrize("profile", ["evalkit", "sklearn", "recommenders", "torchmetrics"])
def test_names_of_labels_are_looked_up_among_labels(profile):
    shown = pl.DataFrame(
        {"user": [1, 1, 2, 2, 2], "score": [0.9, 0.2, 0.6, 0.6, 0.1], "label": [1, 0, 1, 0, 0]}
    )

    report = evalkit.evaluate_labels(shown, metrics=["AUC", "GAUC", "AP"], profile=profile)

    for known in (report, Report.from_json(report.to_json())):
        found = [known.value(name) for name in ("AUC", "GAUC", "AP")]
        assert found == [report.value(label) for label in report.labels]
