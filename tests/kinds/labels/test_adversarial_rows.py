"""Labels at the edges against scikit-learn, as its profile measures."""

import math

import numpy as np
import polars as pl
import pytest

import evalkit

peer = pytest.importorskip("sklearn.metrics")

N = 40
RNG = np.random.default_rng(11)
SCORES = np.round(RNG.random(N), 2)
LABELS = (RNG.random(N) < 0.4).astype(int)
PLAIN = np.ones(N)
CASES = {
    "all zero": (SCORES, np.zeros(N, dtype=int), PLAIN),
    "all one": (SCORES, np.ones(N, dtype=int), PLAIN),
    "nothing called": (SCORES / 4, LABELS, PLAIN),
    "all called": (0.5 + SCORES / 4, LABELS, PLAIN),
    "one score": (np.full(N, 0.5), LABELS, PLAIN),
    "ends": (np.round(SCORES), LABELS, PLAIN),
    "subnormal": (SCORES * 1e-321, LABELS, PLAIN),
    "near one": (1 - SCORES * 2.0**-50, LABELS, PLAIN),
    "huge weights": (SCORES, LABELS, RNG.random(N) * 1e50),
    "small weights": (SCORES, LABELS, RNG.random(N) * 1e-50),
    "weights of all sizes": (SCORES, LABELS, 10.0 ** RNG.integers(-12, 12, N)),
    "zero weights": (SCORES, LABELS, (RNG.random(N) < 0.5).astype(float)),
}
COUNTED = {
    "accuracy": "accuracy_score",
    "balanced-accuracy": "balanced_accuracy_score",
    "precision": "precision_score",
    "recall": "recall_score",
    "F1": "f1_score",
    "MCC": "matthews_corrcoef",
}
SCORED = {
    "AUC": "roc_auc_score",
    "PR-AUC": "average_precision_score",
    "log-loss": "log_loss",
    "Brier": "brier_score_loss",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_the_edges_are_those_of_scikit_learn(case):
    scores, labels, weights = CASES[case]
    frame = pl.DataFrame({"user": 1, "score": scores, "label": labels, "weight": weights})

    report = evalkit.evaluate_labels(
        frame, metrics=[*COUNTED, *SCORED], profile="sklearn", columns={"weight": "weight"}
    )

    extra = {"log_loss": {"labels": [0, 1]}}
    for metric, name in SCORED.items():
        theirs = getattr(peer, name)(labels, scores, sample_weight=weights, **extra.get(name, {}))
        assert report.value(metric) == pytest.approx(theirs, rel=1e-12, nan_ok=True), metric
    for metric, name in COUNTED.items():
        theirs = getattr(peer, name)(labels, scores >= 0.5, sample_weight=weights)
        assert report.value(metric) == pytest.approx(theirs, rel=1e-12, abs=1e-12), metric


@pytest.mark.parametrize("weight", [1e101, 1e-101, 5e-324])
def test_weights_whose_products_are_no_numbers_are_refused(weight):
    frame = pl.DataFrame({"user": 1, "score": [0.1, 0.2], "label": [0, 1], "weight": [1.0, weight]})

    with pytest.raises(evalkit.EvalkitError) as caught:
        evalkit.evaluate_labels(frame, metrics=["AUC"], columns={"weight": "weight"})

    assert caught.value.code == "bad-weight"


def test_bins_of_equally_many_rows_are_cut_where_whole_numbers_say():
    n = 154  # 77 * (10 / 154) is below 5 in float64
    frame = pl.DataFrame({"user": 1, "score": [1 - row / n for row in range(n)]})
    frame = frame.with_columns(label=pl.Series([int(row >= 77) for row in range(n)]))

    report = evalkit.evaluate_labels(frame, metrics=["ECE(binning='mass')"])

    bins = [[row for row in range(n) if row * 10 // n == number] for number in range(10)]
    wrong = [abs(sum(frame["score"][row] - frame["label"][row] for row in rows)) for rows in bins]
    assert report.estimates[0].value == pytest.approx(sum(wrong) / n, rel=1e-12)


@pytest.mark.parametrize("column", ["label", "score"])
@pytest.mark.parametrize("limit", [None, 1 << 29])
def test_users_without_a_good_row_are_told_and_count_nowhere(column, limit):
    users = np.arange(3000) // 3  # of the last five nothing is left, of five more some rows are
    log = pl.DataFrame({"user": users, "score": (users * 7 % 10) / 10, "label": users % 2})
    is_bad = (pl.col("user") >= 995) | ((pl.col("user") < 5) & (pl.int_range(pl.len()) % 3 == 0))
    log = log.with_columns(pl.when(is_bad).then(None).otherwise(pl.col(column)).alias(column))

    asked = {
        "metrics": ["AUC", "Brier(over='users')"],
        "policies": {"bad_labels": "drop", "bad_scores": "drop"},
    }

    report = evalkit.evaluate_labels(log, memory_limit=limit, **asked)

    alone = evalkit.evaluate_labels(log.drop_nulls(), **asked)
    assert report.estimates == alone.estimates
    assert report.counts.models["model"].users == 995
    (warning,) = [each for each in report.warnings if each.code == "users-without-rows"]
    assert warning.message.startswith("5 users have no row left")


def test_users_with_an_infinite_mean_are_told():
    log = pl.DataFrame({"user": [1, 1, 2], "score": [0.5, 0.0, 0.5], "label": [1, 1, 0]})

    report = evalkit.evaluate_labels(log, metrics=["log-loss(over='users')", "Brier(over='users')"])

    assert [each.value for each in report.estimates] == [math.inf, 0.4375]
    (warning,) = [each for each in report.warnings if each.code == "infinite-value"]
    assert warning.message == "log-loss(over='users') is infinite for 1 users"


@pytest.mark.parametrize("seed", range(8))
def test_where_all_rows_are_called_none_is_left_over(seed):
    rng = np.random.default_rng(seed)
    weights, labels = rng.exponential(size=40), np.arange(40) % 3 == 0
    scores = np.where(labels, 0.4, np.round(rng.random(40), 1) / 2 + 0.45)  # all 0 above all 1
    log = pl.DataFrame({"user": 1, "score": scores, "label": labels, "weight": weights})
    names = ["specificity", "MCC", "accuracy(threshold=0.45)", "MCC(at='best')"]
    columns = {"weight": "weight"}

    one_score = evalkit.evaluate_labels(
        log.with_columns(score=0.7), metrics=names, columns=columns
    ).estimates
    upside_down = evalkit.evaluate_labels(
        log, metrics=["accuracy(threshold=0.45)", "specificity(threshold=0.45)"], columns=columns
    ).estimates

    assert one_score[0].value == 0.0
    assert math.isnan(one_score[1].value)
    assert math.isnan(one_score[3].value)
    assert [each.value for each in upside_down] == [0.0, 0.0]
