"""Labels against scikit-learn, on random and on adversarial scores."""

import math

import numpy as np
import polars as pl
import pytest

import evalkit

peer = pytest.importorskip("sklearn.metrics")

POOLED = [
    "AUC",
    "partial-AUC(max_fpr=0.3)",
    "AP",
    "PR-AUC(integration='trapezoid')",
    "log-loss(clip=1e-12)",
    "Brier",
    "accuracy",
    "precision",
    "recall",
    "F1",
    "F2(threshold=0.25)",
    "balanced-accuracy",
    "MCC",
]
CASES = ["random", "ties", "constant", "subnormal", "float32", "extreme", "two values"]


def log_of(case, rng, n=2000):
    """Scores between 0 and 1 of one kind, labels that follow them, weights."""
    plain = rng.random(n)
    scores = {
        "random": plain,
        "ties": np.round(plain, 1),
        "constant": np.full(n, 0.25),
        "subnormal": np.where(plain < 0.5, plain * 5e-320, -0.0),
        "float32": plain.astype(np.float32),
        "extreme": np.where(plain < 0.1, 0.0, np.where(plain > 0.9, 1.0, plain)),
        "two values": np.where(plain < 0.3, 0.2, 0.7),
    }[case]
    labels = (rng.random(n) < 0.2 + 0.6 * plain).astype(np.int8)
    users = rng.integers(0, 40, n)
    weights = np.where(rng.random(n) < 0.1, 0.0, rng.exponential(size=n))
    return pl.DataFrame({"user": users, "score": scores, "label": labels, "weight": weights})


def theirs(frame, weighted):
    labels = frame["label"].to_numpy()
    scores = frame["score"].to_numpy().astype(np.float64)
    weights = frame["weight"].to_numpy() if weighted else np.ones(labels.size)
    called = {"sample_weight": weights}
    half, quarter = scores >= 0.5, scores >= 0.25
    precision, recall, _ = peer.precision_recall_curve(labels, scores, **called)
    clipped = np.clip(scores, 1e-12, 1 - 1e-12)
    losses = -np.where(labels == 1, np.log(clipped), np.log1p(-clipped))
    return [
        peer.roc_auc_score(labels, scores, **called),
        peer.roc_auc_score(labels, scores, max_fpr=0.3, **called),
        peer.average_precision_score(labels, scores, **called),
        peer.auc(recall, precision),
        float(np.average(losses, weights=weights)),
        peer.brier_score_loss(labels, scores, **called),
        peer.accuracy_score(labels, half, **called),
        peer.precision_score(labels, half, zero_division=np.nan, **called),
        peer.recall_score(labels, half, **called),
        peer.f1_score(labels, half, **called),
        peer.fbeta_score(labels, quarter, beta=2, **called),
        peer.balanced_accuracy_score(labels, half, **called),
        peer.matthews_corrcoef(labels, half, **called) if half.any() else math.nan,
    ]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_scikit_learn_over_rows(case, weighted):
    frame = log_of(case, np.random.default_rng(CASES.index(case)))
    columns = {"weight": "weight"} if weighted else {}

    report = evalkit.evaluate_labels(frame, metrics=POOLED, columns=columns)

    expected = theirs(frame, weighted)
    found = [each.value for each in report.estimates]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.some_cases(6)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_scikit_learn_user_by_user(case, weighted):
    frame = log_of(case, np.random.default_rng(CASES.index(case) + 100))
    columns = {"weight": "weight"} if weighted else {}
    names = ["AUC(over='users')", "GAUC", "AUC(over='users', weighting='positives')"]

    report = evalkit.evaluate_labels(frame, metrics=names, columns=columns)

    values, rows, positives = [], [], []
    for part in frame.partition_by("user"):
        labels, scores = part["label"].to_numpy(), part["score"].to_numpy().astype(np.float64)
        weights = part["weight"].to_numpy() if weighted else np.ones(labels.size)
        if weights[labels == 1].sum() > 0 and weights[labels == 0].sum() > 0:
            values.append(peer.roc_auc_score(labels, scores, sample_weight=weights))
            rows.append(weights.sum())
            positives.append(weights[labels == 1].sum())
    expected = [
        np.mean(values),
        np.average(values, weights=rows),
        np.average(values, weights=positives),
    ]
    found = [each.value for each in report.estimates]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert {each.n_users for each in report.estimates} == {len(values)}


@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_kind_have_no_auc(label):
    frame = pl.DataFrame({"user": [1, 1, 2], "score": [0.1, 0.4, 0.4], "label": [label] * 3})

    report = evalkit.evaluate_labels(frame, metrics=["AUC", "GAUC", "partial-AUC", "NE"])

    assert all(math.isnan(each.value) for each in report.estimates)
    assert report.estimates[1].n_undefined == 2
    assert "one-class" in [warning.code for warning in report.warnings]


def test_the_roc_curve_goes_through_points_of_scikit_learn():
    frame = log_of("ties", np.random.default_rng(5))
    report = evalkit.evaluate_labels(frame, metrics=["AUC"])

    fpr, tpr, thresholds = peer.roc_curve(
        frame["label"].to_numpy(), frame["score"].to_numpy(), drop_intermediate=False
    )
    (curve,) = [graph for graph in report.graphs if graph.kind == "roc"]
    theirs = dict(zip(thresholds, zip(fpr, tpr, strict=True), strict=True))
    for threshold, x, y in zip(curve.thresholds, curve.x, curve.y, strict=True):
        assert (x, y) == pytest.approx(theirs[threshold], abs=1e-15)
    assert len(curve.x) == len(fpr)
