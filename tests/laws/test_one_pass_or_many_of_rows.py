"""Ratings and labels that are held, or read in passes, say the same: also of what is wrong."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from campaigns import examples
from passes import Outcome, first_difference, outcome_of

import evalkit
from evalkit.kinds.labels import _parts
from evalkit.kinds.pointwise import memory as _room
from evalkit.kinds.pointwise import passes as _passes
from evalkit.kinds.pointwise import read as _reading
from evalkit.report import Report
from evalkit.sources import Table

N_ROWS = 1200


def limited(run: Callable[[int | None], Report], limit: int | None) -> tuple[Outcome, int]:
    """What a run in small batches says, and how often it reads a table."""
    n_reads, stream = 0, Table.stream

    def counted(table, columns, *, most):
        nonlocal n_reads
        n_reads += 1
        return stream(table, columns, most=most)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_room, "SLACK", 0.0)
        patch.setattr(_passes, "BYTES_AT_REST", 0)
        patch.setattr(_passes, "BYTES_OF_WORK", 0)
        patch.setattr(_parts, "ROWS_A_PART", 100)
        patch.setattr(_reading, "BATCH_ROWS", 300)
        patch.setattr(Table, "stream", counted)
        return outcome_of(lambda: run(limit)), n_reads


def spoil(rng, frame: pl.DataFrame, column: str, value: object) -> pl.DataFrame:
    share = float(rng.choice([0.01, 0.3]))
    bad = pl.Series(rng.random(frame.height) < share)
    spoilt = pl.when(bad).then(pl.lit(value)).otherwise(pl.col(column))
    return frame.with_columns(spoilt.alias(column))


def pick(rng, *choices):
    return choices[int(rng.integers(len(choices)))]


LABEL_FAULTS = {
    "nothing": lambda rng, rows: rows,
    "users": lambda rng, rows: spoil(rng, rows, "user", None),
    "models": lambda rng, rows: spoil(rng, rows, "model", None),
    "scores": lambda rng, rows: spoil(rng, rows, "score", pick(rng, None, np.nan)),
    "probabilities": lambda rng, rows: spoil(rng, rows, "score", 7.0),
    "labels": lambda rng, rows: spoil(rng, rows, "label", 3),
    "weights": lambda rng, rows: spoil(rng, rows, "weight", pick(rng, None, -1.0, np.inf)),
    "extremes": lambda rng, rows: spoil(rng, rows, "weight", 1e200),
    "repeats": lambda rng, rows: pl.concat([rows, rows.sample(50, seed=1)]),
    "huge": lambda rng, rows: spoil(
        rng, rows.with_columns(score=(pl.col("score") * 100).cast(pl.Int64)), "score", 1 << 60
    ),
    "no rows": lambda rng, rows: rows.clear(),
    "no rows of one": lambda rng, rows: rows.filter(pl.col("label") > 5),
}


def ids(rng, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.format("u{}", "user").alias("user")) if rng.random() < 0.4 else rows


@pytest.mark.some_cases(5)
@pytest.mark.parametrize("fault", LABEL_FAULTS)
@pytest.mark.parametrize("seed", range(examples(3)))
def test_labels_in_passes_say_what_labels_in_memory_say(seed, fault):
    rng = np.random.default_rng([seed, list(LABEL_FAULTS).index(fault)])
    n_users = int(rng.integers(3, 200))
    rows = pl.DataFrame(
        {
            "user": rng.integers(0, n_users, N_ROWS),
            "model": [f"m{n}" for n in rng.integers(0, 2, N_ROWS)],
            "item": rng.integers(0, 10**6, N_ROWS),
            "score": rng.random(N_ROWS),
            "label": rng.integers(0, 2, N_ROWS),
            "weight": rng.random(N_ROWS) + 0.1,
        }
    ).with_columns(land=pl.col("user") % 5)
    rows = LABEL_FAULTS[fault](rng, rows)
    if rng.random() < 0.4:
        rows = LABEL_FAULTS[str(rng.choice(list(LABEL_FAULTS)))](rng, rows)
    rows = ids(rng, rows)
    named = {"weight": "weight"} if rng.random() < 0.5 else {}
    named |= {"item": "item"} if rng.random() < 0.5 else {}
    tables = rows
    if rng.random() < 0.6:
        named["model"] = "model"
    else:
        tables = {"b": rows.drop("model"), "a": rows.drop("model").reverse()}
    asked = {
        "metrics": ["AUC", "GAUC", "log-loss", "PR-AUC", "F1(at='best')", "Brier(over='users')"],
        "columns": named,
        "policies": {
            "bad_scores": pick(rng, "error", "drop"),
            "bad_labels": pick(rng, "error", "drop"),
            "null_ids": pick(rng, "error", "drop"),
            "duplicates": pick(rng, "error", "count"),
            "empty_input": pick(rng, "error", "warn"),
        },
        "per_user": bool(rng.random() < 0.3),
        "sample": pick(rng, None, None, 0.5),
    }
    if rng.random() < 0.4:
        asked["segments"] = {"land": {"by": "land"}, "min_users": 2}

    def run(limit: int | None) -> Report:
        return evalkit.evaluate_labels(tables, memory_limit=limit, threads=1, **asked)

    one, _ = limited(run, None)
    many, n_reads = limited(run, 25_000)

    assert first_difference(one, many) == "", asked
    assert n_reads > 2 or one.status or not rows.height


RATING_FAULTS = {
    "nothing": lambda rng, rows: rows,
    "users": lambda rng, rows: spoil(rng, rows, "user", None),
    "items": lambda rng, rows: spoil(rng, rows, "item", None),
    "ratings": lambda rng, rows: spoil(rng, rows, "rating", pick(rng, None, np.nan, np.inf)),
    "predictions": lambda rng, rows: spoil(rng, rows, "prediction", pick(rng, None, np.nan)),
    "repeats": lambda rng, rows: pl.concat([rows, rows.sample(50, seed=1)]),
    "no rows": lambda rng, rows: rows.clear(),
}


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("fault", RATING_FAULTS)
@pytest.mark.parametrize("seed", range(examples(3)))
def test_ratings_in_passes_say_what_ratings_in_memory_say(seed, fault):
    rng = np.random.default_rng([seed, list(RATING_FAULTS).index(fault)])
    places = rng.choice(150 * 40, N_ROWS, replace=False)
    rows = pl.DataFrame(
        {
            "user": places // 40,
            "item": places % 40,
            "rating": rng.integers(1, 11, N_ROWS) / 2,
            "prediction": rng.normal(3, 1, N_ROWS),
        }
    ).with_columns(land=pl.col("user") % 5)
    spoilt = RATING_FAULTS[fault](rng, rows)
    if rng.random() < 0.4:
        spoilt = RATING_FAULTS[str(rng.choice(list(RATING_FAULTS)))](rng, spoilt)
    spoilt = ids(rng, spoilt)
    rows = (
        spoilt
        if spoilt["user"].dtype == rows["user"].dtype
        else rows.with_columns(pl.format("u{}", "user").alias("user"))
    )
    asked = {
        "metrics": ["MAE", "RMSE", "R2", "MAE(over='users')"],
        "policies": {
            "bad_scores": pick(rng, "error", "drop"),
            "null_ids": pick(rng, "error", "drop"),
            "unrated": pick(rng, "error", "skip"),
            "unpredicted": pick(rng, "error", "skip"),
            "truth_duplicates": pick(rng, "error", "max"),
            "empty_input": pick(rng, "error", "warn"),
        },
        "per_user": bool(rng.random() < 0.3),
    }
    if rng.random() < 0.4:
        asked["segments"] = {"land": {"by": "land"}, "min_users": 2}
    if rng.random() < 0.5:
        given = (spoilt,)
        asked["columns"] = {"item": "item"} if rng.random() < 0.5 else {}
    else:
        models = {"a": spoilt.drop("rating"), "b": rows.drop("rating").head(900)}
        given = (spoilt.drop("prediction"), models)

    def run(limit: int | None) -> Report:
        return evalkit.evaluate_ratings(*given, memory_limit=limit, threads=1, **asked)

    one, _ = limited(run, None)
    many, n_reads = limited(run, 20_000)

    assert first_difference(one, many) == "", asked
    assert n_reads > 2 or one.status or not spoilt.height
