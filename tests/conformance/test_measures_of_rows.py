"""Ratings and labels against the records of rarer measures, each compared or exempt by name."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from test_rows import rows_of

import evalkit
from peers import fixture

FOLDER = Path(os.environ.get("EVALKIT_TEST_DATA", "absent")) / "conformance" / "measures"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="EVALKIT_TEST_DATA is not set")
PROFILES = {"scikit-learn": "sklearn", "torchmetrics": "torchmetrics"}
LIBRARIES = tuple(PROFILES)
EXACT, FLOAT32 = 1e-9, 1e-7

RATINGS = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall_tau_b": "Kendall",
    "kendall_tau_c": "Kendall(variant='c')",
    "median_error": "median-error",
    "max_error": "max-error",
    "msle": "MSLE",
    "rmsle": "RMSLE",
    "poisson_deviance": "Tweedie-deviance(power=1)",
    "gamma_deviance": "Tweedie-deviance(power=2)",
    "d2_absolute": "D2-pinball",
    "pinball": "pinball({})",
    "d2_pinball": "D2-pinball({})",
    "tweedie_deviance": "Tweedie-deviance({})",
    "d2_tweedie": "D2-Tweedie({})",
    "concordance": "concordance",
    "log_cosh": "log-cosh",
    "minkowski": "Minkowski({})",
    "nrmse": "nRMSE({})",
    "critical_success": "threat-score(threshold=3)",
    "cosine": "cosine",
    "relative_squared_error": "relative-squared-error",
}
THRESHOLD = "threshold(of={!r}, reaches={!r}, least={{1}})"
LABELS = {
    "tp": "TP({})",
    "fp": "FP({})",
    "tn": "TN({})",
    "fn": "FN({})",
    "kappa": "kappa({})",
    "jaccard": "threat-score({})",
    "lr_positive": "positive-likelihood-ratio({})",
    "lr_negative": "negative-likelihood-ratio({})",
    "informedness": "informedness({})",
    "npv": "NPV({})",
    "mcc": "MCC({})",
    "hinge": "hinge",
    "brier_skill": "Brier-skill",
    "d2_log_loss": "log-loss-skill",
    "eer": "EER",
    "log_auc": "log-AUC",
    "recall_at_precision": "recall({})",
    "precision_at_recall": "precision({})",
    "sensitivity_at_specificity": "recall({})",
    "specificity_at_sensitivity": "specificity({})",
    "recall_at_precision_threshold": THRESHOLD.format("recall", "precision"),
    "precision_at_recall_threshold": THRESHOLD.format("precision", "recall"),
    "sensitivity_at_specificity_threshold": THRESHOLD.format("recall", "specificity"),
    "specificity_at_sensitivity_threshold": THRESHOLD.format("specificity", "recall"),
}


def records() -> Iterator[dict]:
    for library in LIBRARIES:
        for line in (FOLDER / f"{library}.jsonl").read_text().splitlines()[1:]:
            yield {"library": library, **json.loads(line)}


def written(record: dict) -> str:
    """How evalkit writes a record's metric."""
    known = RATINGS if record["fixture"].startswith("ratings") else LABELS
    first, _, rest = record["variant"].partition(",")[0].partition(" ")
    names = {
        "threshold": "threshold",
        "min_precision": "at_precision",
        "min_recall": "at_recall",
        "min_specificity": "at_specificity",
        "min_sensitivity": "at_recall",
    }
    argument = f"{names.get(first, first)}={rest!r}" if first == "by" else ""
    if first in (*names, "q", "p", "power"):
        argument = f"{names.get(first, first)}={rest}"
    name = known[record["metric"]].format(argument, rest)
    return name.replace("()", "")


def frame_of(name: str) -> pl.DataFrame:
    if not name.startswith("ratings"):
        return rows_of(name, catalogue=False, copies=True)
    rows = [(str(user), rating, guess) for user, _, rating, guess in fixture(name)["ratings"]]
    return pl.DataFrame(rows, schema=["user", "rating", "prediction"], orient="row")


def is_float32(record: dict) -> bool:
    """Torchmetrics divides counts, and multiplies weights of kappa, in float32."""
    return record["library"] == "torchmetrics" and (
        "_at_" in record["metric"] or record["metric"] in ("kappa", "eer", "log_auc", "cosine")
    )


def is_exempt(record: dict) -> str:
    """Why a record is no number of ours."""
    if record["metric"].endswith("_specificity_threshold") and record["mean"] == 1.0:
        return "nothing is called positive: torchmetrics' curve begins at 1, ours at no score"
    return ""


def value_of(reports: dict, record: dict) -> float:
    report = reports[record["library"]]
    return float(report.value(written(record)))


def test_every_record_is_compared_or_exempt_for_a_reason():
    counts: Counter[str] = Counter()
    by_log: dict[str, list[dict]] = defaultdict(list)
    for record in records():
        why = is_exempt(record)
        kind = "compared, float32" if is_float32(record) else "compared"
        counts[f"exempt: {why}" if why else kind] += 1
        if not why:
            by_log[record["fixture"]].append(record)
    wrong = []
    for log, asked in by_log.items():
        frame = frame_of(log)
        evaluate = evalkit.evaluate_ratings if "rating" in frame else evalkit.evaluate_labels
        reports = {
            library: evaluate(frame, metrics=list(map(written, own)), profile=PROFILES[library])
            for library in LIBRARIES
            if (own := [record for record in asked if record["library"] == library])
        }
        for record in asked:
            theirs, ours = float(record["mean"]), value_of(reports, record)
            tolerance = FLOAT32 if is_float32(record) else EXACT
            if ours != pytest.approx(theirs, rel=0.0, abs=tolerance, nan_ok=True):
                wrong.append((record["library"], log, written(record), theirs, ours))

    print(dict(counts))
    assert wrong == []
    assert sum(counts.values()) == 206
