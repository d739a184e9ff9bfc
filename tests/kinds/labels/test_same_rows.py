"""The same bytes for any order of rows, any split into files, any number of threads."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import evalkit

METRICS = [
    "AUC",
    "GAUC",
    "AUC(over='sessions')",
    "AP",
    "PR-AUC(integration='trapezoid')",
    "PR-AUC(over='users')",
    "partial-AUC",
    "log-loss",
    "log-loss(over='users')",
    "NE",
    "Brier",
    "ECE",
    "ECE(binning='mass')",
    "calibration",
    "F1(at='best')",
    "MCC",
]


def impressions(n, seed, dtype):
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.5, 3, n)
    return pl.DataFrame(
        {
            "user": rng.zipf(1.5, n) % 1000,
            "session": rng.integers(0, n // 5, n).astype(str),
            "score": np.round(scores, 3 if seed % 2 else 9).astype(dtype),
            "label": rng.random(n) < scores,
            "weight": rng.exponential(size=n).astype(dtype),
        }
    )


def numbers(report):
    document = json.loads(report.to_json())
    return {key: document[key] for key in ("counts", "metrics", "graphs", "warnings")}


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("columns", [{}, {"weight": "weight"}], ids=["plain", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", [1, 2])
def test_labels_are_the_same_for_any_order_and_threads(seed, dtype, columns):
    log = impressions(20_000, seed, dtype)
    named = {"session": "session", **columns}

    reports = [
        evalkit.evaluate_labels(log, metrics=METRICS, columns=named, threads=1),
        evalkit.evaluate_labels(log, metrics=METRICS, columns=named, threads=8),
        evalkit.evaluate_labels(log.reverse(), metrics=METRICS, columns=named),
        evalkit.evaluate_labels(
            log.sample(fraction=1.0, shuffle=True, seed=3), metrics=METRICS, columns=named
        ),
        evalkit.evaluate_labels(log.sort("score"), metrics=METRICS, columns=named),
    ]

    assert all(numbers(report) == numbers(reports[0]) for report in reports)


def test_many_parts_and_files_give_what_one_does(tmp_path, monkeypatch):
    from evalkit.kinds.labels import _parts
    from evalkit.kinds.pointwise import read as _reading
    from evalkit.kinds.pointwise import store as _store

    log = impressions(30_000, 4, "float64")
    whole = evalkit.evaluate_labels(log, metrics=METRICS, columns={"session": "session"})
    for number, part in enumerate(log.sample(fraction=1.0, shuffle=True, seed=5).iter_slices(7000)):
        part.write_parquet(tmp_path / f"{number}.parquet")
    monkeypatch.setattr(_store, "ROWS_A_PART", 500)
    monkeypatch.setattr(_parts, "ROWS_A_PART", 500)
    monkeypatch.setattr(_reading, "BATCH_ROWS", 999)
    monkeypatch.setattr(_store, "MORE_ROWS", 5000)
    monkeypatch.setattr(_reading, "UNKNOWN_ROWS", 4000)

    files = evalkit.evaluate_labels(
        str(tmp_path / "*.parquet"), metrics=METRICS, columns={"session": "session"}
    )
    lazy = evalkit.evaluate_labels(log.lazy(), metrics=METRICS, columns={"session": "session"})

    assert numbers(files)["metrics"] == numbers(whole)["metrics"]
    assert numbers(lazy)["metrics"] == numbers(whole)["metrics"]
    assert numbers(files)["graphs"] == numbers(whole)["graphs"]


def test_recoding_users_changes_nothing():
    log = impressions(5000, 6, "float32")
    text = log.with_columns(user=pl.format("u{}", pl.col("user")))

    one = evalkit.evaluate_labels(log, metrics=["GAUC", "AP(over='users')", "AUC"])
    other = evalkit.evaluate_labels(text, metrics=["GAUC", "AP(over='users')", "AUC"])

    assert numbers(one) == numbers(other)


def test_ratings_are_the_same_for_any_order_threads_and_form():
    rng = np.random.default_rng(9)
    n = 20_000
    pairs = pl.DataFrame(
        {
            "user": rng.integers(0, 300, n),
            "item": np.arange(n),
            "rating": rng.integers(1, 11, n) / 2,
            "prediction": rng.normal(3, 1, n),
        }
    )
    names = ["MAE", "RMSE", "R2", "MAE(over='users')", "R2(over='users')", "sMAPE"]
    shuffled = pairs.sample(fraction=1.0, shuffle=True, seed=1)
    ratings, predictions = pairs.drop("prediction"), shuffled.drop("rating")

    one = numbers(evalkit.evaluate_ratings(pairs, metrics=names, threads=1))
    other = numbers(evalkit.evaluate_ratings(shuffled, metrics=names, threads=8))
    joined = numbers(evalkit.evaluate_ratings(ratings, predictions, metrics=names))

    assert one == other
    assert (joined["metrics"], joined["graphs"]) == (one["metrics"], one["graphs"])


SCRIPT = """
import json, polars as pl, evalkit
log = pl.DataFrame({
    "user": [1, 1, 2, 2, 2, 3], "score": [0.2, 0.7, 0.7, 0.4, 0.0, 1.0],
    "label": [0, 1, 0, 1, 0, 1],
    "weight": [1.0, 0.3, 2.0, 0.1, 5.0, 1.0],
})
log = pl.concat([log] * 50)  # more rows of a part than 8 bits count
names = ["AUC", "GAUC", "AP", "log-loss", "Brier", "ECE", "partial-AUC", "F1(at='best')"]
reports = [
    evalkit.evaluate_labels(log.with_columns(pl.col("score").cast(dtype)), metrics=names, columns=c)
    for dtype in (pl.Float32, pl.Float64) for c in ({}, {"weight": "weight"})
]
reports.append(evalkit.evaluate_ratings(
    log, metrics=["MAE", "R2(over='users')"], columns={"rating": "label", "prediction": "score"}))
values = [each.value.hex() for report in reports for each in report.estimates]
print(json.dumps([values, *([each.y, each.low] for report in reports for each in report.graphs)]))
"""


def test_plain_python_gives_the_same_bits(capsys):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        check=False,
    )
    exec(SCRIPT, {})

    assert done.returncode == 0, done.stderr
    assert done.stdout == capsys.readouterr().out
