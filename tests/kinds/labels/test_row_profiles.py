"""Profiles of ratings and labels: who wins, what the report carries, what is refused."""

import math

import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError, EvalkitError, RequestError
from evalkit.metrics.profiles import find_profile, profile_names, speaking_of

# user 1: the 1 wins both pairs; user 2: one pair won, one tied, one lost, one won
ROWS = pl.DataFrame(
    {
        "user": [1, 1, 1, 2, 2, 2, 2],
        "score": [0.9, 0.5, 0.1, 0.8, 0.6, 0.6, 0.7],
        "label": [1, 0, 0, 1, 1, 0, 0],
    }
)
OF_2 = (1 + 1 + 1 / 2 + 0) / 4
OF_2_LOST = (1 + 1 + 0 + 0) / 4

GAUCS = [
    # profile, metric, by hand
    ("evalkit", "GAUC", (3 * 1 + 4 * OF_2) / 7),
    ("recbole", "GAUC", (1 * 1 + 2 * OF_2) / 3),
    ("recbole", "GAUC(weighting='equal')", (1 + OF_2) / 2),
    ("cornac", "AUC", (1 + OF_2_LOST) / 2),
    ("cornac", "GAUC", (3 * 1 + 4 * OF_2_LOST) / 7),
    ("cornac", "AUC(over='users', ties='half')", (1 + OF_2) / 2),
]


@pytest.mark.parametrize(("profile", "metric", "expected"), GAUCS)
def test_an_alias_has_conventions_of_its_own_and_the_hand_wins(profile, metric, expected):
    report = evalkit.evaluate_labels(ROWS, metrics=[metric], profile=profile)

    assert report.value(metric) == pytest.approx(expected, abs=1e-15)


def test_the_report_carries_profile_parameters_and_policies():
    ratings = pl.DataFrame({"user": [1, 1], "item": [1, 2], "rating": [3.0, 4.0]})
    predictions = pl.DataFrame({"user": [1, 1], "item": [1, 2], "prediction": [3.5, 4.0]})

    report = evalkit.evaluate_ratings(ratings, predictions, metrics=["MAE"], profile="lenskit")

    (estimate,) = report.estimates
    assert report.profile == "lenskit"
    assert estimate.policies == {"unpredicted": "error", "unrated": "error"}
    assert estimate.parameters == {"over": "rows"}


def test_a_profiles_policies_refuse_and_the_hand_wins_with_a_warning():
    ratings = pl.DataFrame({"user": [1, 1], "item": [1, 2], "rating": [3.0, 4.0]})
    predictions = pl.DataFrame({"user": [1], "item": [1], "prediction": [3.5]})
    with pytest.raises(DataError) as caught:
        evalkit.evaluate_ratings(ratings, predictions, metrics=["MAE"], profile="lenskit")

    report = evalkit.evaluate_ratings(
        ratings,
        predictions,
        metrics=["MAE"],
        profile="lenskit",
        policies={"unpredicted": "skip"},
    )

    assert caught.value.code == "unpredicted"
    assert report.value("MAE") == 0.5
    assert "profile-overridden" in [each.code for each in report.warnings]


def test_a_metric_that_the_library_lacks_is_warned_of():
    report = evalkit.evaluate_labels(ROWS, metrics=["Brier"], profile="recbole")

    (warning,) = [each for each in report.warnings if each.code == "not-in-profile"]
    assert "Brier" in warning.message


ASK = {
    "ratings": lambda: evalkit.evaluate_ratings(ROWS, metrics=["MAE"], profile="ranx"),
    "labels": lambda: evalkit.evaluate_labels(ROWS, metrics=["AUC"], profile="ranx"),
}


@pytest.mark.parametrize("kind", ASK)
def test_a_profile_of_rankings_alone_is_refused(kind):
    assert "ranx" in {name for name in profile_names() if name not in speaking_of(kind)}
    with pytest.raises(RequestError) as caught:
        ASK[kind]()

    assert caught.value.code == "profile-without-kind"
    assert "sklearn" in caught.value.hint


def test_policies_of_rankings_are_no_parameters_here():
    with pytest.raises(RequestError) as caught:
        evalkit.evaluate_labels(ROWS, metrics=["Brier(round_users=2)"])

    assert caught.value.code == "unknown-parameter"


UNDEFINED = [
    # profile, metric, rows as (score, label), by hand
    ("sklearn", "precision", [(0.1, 1), (0.2, 0)], 0.0),
    ("sklearn", "recall", [(0.1, 0), (0.9, 0)], 0.0),
    ("sklearn", "balanced-accuracy", [(0.1, 0), (0.9, 0)], 1 / 2),
    ("sklearn", "MCC", [(0.1, 0), (0.9, 0)], 0.0),
    ("sklearn", "PR-AUC", [(0.1, 0), (0.9, 0)], 0.0),
    ("sklearn", "LRAP", [(0.1, 0), (0.9, 0)], 1.0),
    ("torchmetrics", "AUC", [(0.1, 0), (0.9, 0)], 0.0),
    ("torchmetrics", "accuracy", [(0.5, 1), (0.9, 1)], 1 / 2),  # 0.5 is not above 0.5
    ("evalkit", "accuracy", [(0.5, 1), (0.9, 1)], 1.0),
]


@pytest.mark.parametrize(("profile", "metric", "rows", "expected"), UNDEFINED)
def test_what_libraries_say_at_edges(profile, metric, rows, expected):
    frame = pl.DataFrame(rows, schema=["score", "label"], orient="row").with_columns(user=1)

    report = evalkit.evaluate_labels(frame, metrics=[metric], profile=profile)

    assert report.value(metric) == expected


# what each library printed at the edges, by its own names (bench/names_pointwise.py)
CALLED = [(0.6, 1), (0.6, 0), (0.7, 1)]  # no row is called negative
ALL_0 = [(0.25, 0), (0.75, 0)]
PRINTED_OF_LABELS = [
    # profile, name, rows as (score, label), printed by rexmex 0.1.3, torchmetrics 1.9.0, ...
    ("rexmex", "balanced_accuracy_score", ALL_0, 0.5),
    ("rexmex", "precision_score", [(0.25, 1), (0.25, 0)], 0.0),
    ("rexmex", "positive_predictive_value", [(0.25, 1), (0.25, 0)], math.nan),
    ("rexmex", "recall_score", ALL_0, 0.0),
    ("rexmex", "sensitivity", ALL_0, math.nan),
    ("torchmetrics", "AveragePrecision", ALL_0, 0.0),
    ("evidently", "Recall", ALL_0, 0.0),  # evidently 0.7.23
    ("evidently", "TPR", ALL_0, math.nan),
    ("spark", "precision", [(0.25, 1), (0.25, 0)], 0.0),  # PySpark 4.3.0
    ("tfma", "AUC", ALL_0, 0.0),  # TFMA 0.52.0
    ("tfma", "RecallAtPrecision(at_precision=0.9)", [(0.5, 1), (0.5, 0)], 0.0),
]


@pytest.mark.parametrize(("profile", "name", "rows", "printed"), PRINTED_OF_LABELS)
def test_names_of_labels_give_what_their_library_printed(profile, name, rows, printed):
    frame = pl.DataFrame(rows, schema=["score", "label"], orient="row").with_columns(user=1)

    report = evalkit.evaluate_labels(frame, metrics=[name], profile=profile)

    assert report.value(name) == pytest.approx(printed, nan_ok=True)


def test_an_area_that_is_interpolated_otherwise_is_refused():
    with pytest.raises(RequestError) as caught:
        evalkit.evaluate_labels(ROWS, metrics=["AUCPrecisionRecall"], profile="tfma")

    assert caught.value.code == "refused-metric"


EPS, EPS_32 = 2.220446049250313e-16, 1.17e-06
PRINTED_OF_RATINGS = [
    # profile, name, ratings, predictions, printed by scikit-learn 1.9.1, torchmetrics 1.9.0, rexmex
    ("sklearn", "mean_absolute_percentage_error", [0.0, 2.0], [1.0, 3.0], (1 / EPS + 0.5) / 2),
    ("rexmex", "mean_absolute_percentage_error", [0.0, 2.0], [1.0, 3.0], (1 / EPS + 0.5) / 2),
    ("torchmetrics", "MeanAbsolutePercentageError", [0.0, 2.0], [1.0, 3.0], (1 / EPS_32 + 0.5) / 2),
    ("torchmetrics", "SpearmanCorrCoef", [3.0, 3.0], [1.0, 2.0], 0.0),
    ("torchmetrics", "ConcordanceCorrCoef", [3.0, 3.0], [1.0, 2.0], math.nan),
    ("torchmetrics", "CriticalSuccessIndex(threshold=4)", [3.0, 3.0], [1.0, 2.0], 0.0),
]


@pytest.mark.parametrize("over", ["rows", "users"])
@pytest.mark.parametrize(
    ("profile", "name", "ratings", "predictions", "printed"), PRINTED_OF_RATINGS
)
def test_names_of_ratings_give_what_their_library_printed(
    profile, name, ratings, predictions, printed, over
):
    frame = pl.DataFrame({"user": [1, 1], "rating": ratings, "prediction": predictions})
    written = f"{name[:-1]}, over={over!r})" if "(" in name else f"{name}(over={over!r})"

    report = evalkit.evaluate_ratings(frame, metrics=[written], profile=profile)

    assert report.value(written) == pytest.approx(printed, nan_ok=True)


CONSTANT = [
    # metric, ratings, predictions, by hand
    ("R2", [2.0, 2.0], [2.0, 2.0], 1.0),
    ("R2", [2.0, 2.0], [2.0, 3.0], 0.0),
    ("explained-variance", [2.0, 2.0], [3.0, 3.0], 1.0),
    ("explained-variance", [2.0, 2.0], [2.0, 3.0], 0.0),
    ("explained-variance", [2.0], [3.0], 1.0),
]


@pytest.mark.parametrize("over", ["rows", "users"])
@pytest.mark.parametrize(("metric", "ratings", "predictions", "expected"), CONSTANT)
def test_equal_ratings_are_explained_or_not(metric, ratings, predictions, expected, over):
    frame = pl.DataFrame({"user": [1] * len(ratings), "rating": ratings, "prediction": predictions})
    name = f"{metric}(over='{over}')"

    report = evalkit.evaluate_ratings(frame, metrics=[name], profile="sklearn")

    assert report.value(name) == expected


def test_a_file_of_ones_own_builds_on_a_library(tmp_path):
    own = tmp_path / "house.toml"
    own.write_text('name = "house"\nlike = "recbole"\n[labels.metrics]\nAUC = { ties = "lost" }\n')

    report = evalkit.evaluate_labels(ROWS, metrics=["GAUC"], profile=str(own))

    assert report.estimates[0].value == pytest.approx((1 + 2 * OF_2_LOST) / 3, abs=1e-15)


BAD = {
    "unknown table": ("[labels.metric]\nAUC = {}", "bad-profile"),
    "unknown metric": ("[labels.metrics]\nnDCG = {}", "unknown-metric"),
    "unknown parameter": ('[labels.metrics]\nAUC = { tie = "lost" }', "unknown-parameter"),
    "bad value": ('[ratings.metrics]\nMAE = { over = "items" }', "bad-parameter-value"),
    "a policy of one metric": ("[labels.metrics]\nAUC = { round_users = 2 }", "unknown-parameter"),
    "unknown policy": ('[labels.policies]\nbad_label = "drop"', "unknown-key"),
}


@pytest.mark.parametrize(("text", "code"), BAD.values(), ids=BAD)
def test_what_is_wrong_with_a_profile_is_told_where(text, code, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(text if "labels" in text else f"{text}\n[labels.metrics]\nAUC = {{}}\n")

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_labels(ROWS, metrics=["AUC"], profile=str(file))

    assert caught.value.code == code
    assert str(file) in caught.value.at


def test_what_profiles_say_of_rows_is_not_said_of_rankings():
    profile = find_profile("recbole")

    assert "GAUC" in profile.of("labels").metrics
    assert "GAUC" not in profile.metrics
    assert profile.of("labels").policies == {}


NAMES = {
    ("labels", "sklearn"): {
        "f1_score": "F1(undefined='zero')",
        "precision_score": "precision(undefined='zero')",
        "cohen_kappa_score": "kappa",
        "jaccard_score": "threat-score(undefined='zero')",
        "d2_brier_score": "Brier-skill",
    },
    ("labels", "torchmetrics"): {
        "AUROC": "AUC(undefined='zero')",
        "BinaryF1Score": "F1(undefined='zero', rule='above')",
        "BinaryJaccardIndex": "threat-score(undefined='zero', rule='above')",
        "MatthewsCorrCoef": "MCC(undefined='zero', rule='above')",
        "EqualErrorRate": "EER",
    },
    ("labels", "rexmex"): {
        "hit_rate": "recall",
        "pr_auc_score": "PR-AUC(integration='trapezoid')",
        "critical_success_index": "threat-score",
        "fowlkes_mallows_index": "Fowlkes-Mallows",
    },
    ("labels", "tfma"): {
        "FallOut": "fallout(rule='above')",
        "DiagnosticOddsRatio": "diagnostic-odds(rule='above')",
        "PredictedPositiveRate": "positive-rate(rule='above')",
        "CoefficientOfDiscrimination": "Tjur-R2",
        "MeanPrediction": "mean-score",
    },
    ("ratings", "sklearn"): {
        "mean_tweedie_deviance": "Tweedie-deviance(power=0)",
        "mean_poisson_deviance": "Tweedie-deviance(power=1)",
        "d2_absolute_error_score": "D2-pinball(constant='finite')",
        "median_absolute_error": "median-error",
    },
    ("ratings", "torchmetrics"): {
        "ConcordanceCorrCoef": "concordance(moments='sample')",
        "KendallRankCorrCoef": "Kendall",
        "TweedieDevianceScore": "Tweedie-deviance(power=0)",
        "NormalizedRootMeanSquaredError": "nRMSE(by='mean')",
    },
}


@pytest.mark.parametrize(("kind", "profile"), NAMES, ids=" ".join)
def test_a_library_s_names_are_read_under_its_profile(kind, profile):
    if kind == "labels":
        frame = pl.DataFrame({"user": [1, 1, 2], "score": [0.9, 0.5, 0.2], "label": [1, 0, 1]})
    else:
        frame = pl.DataFrame({"user": [1, 1, 2], "rating": [1.0, 3.0, 2.0]})
        frame = frame.with_columns(prediction=pl.col("rating") + 0.5)
    evaluate = evalkit.evaluate_labels if kind == "labels" else evalkit.evaluate_ratings

    for name, expected in NAMES[kind, profile].items():
        report = evaluate(frame, metrics=[name], profile=profile)
        assert report.estimates[0].metric == expected, name
