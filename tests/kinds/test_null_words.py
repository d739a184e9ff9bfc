"""Ids that programs write for a null, or for a sum below a table, are told by every kind."""

import numpy as np
import polars as pl
import pytest

import evalkit

DRAW = np.random.default_rng(1)
USERS = ["ann", "bob", "cem", "dan"] * 10
ROWS = pl.DataFrame({"user": USERS, "score": DRAW.random(40), "label": DRAW.integers(0, 2, 40)})
JUDGED = [
    (f"u{unit}", f"j{judge}", int(DRAW.integers(0, 3))) for unit in range(9) for judge in (1, 2)
]


def of_labels(rows, **asked):
    return evalkit.evaluate_labels(rows, metrics=["AUC", "AUC(over='users')"], **asked)


def of_ratings(rows, **asked):
    rated = rows.rename({"label": "rating", "score": "prediction"})
    return evalkit.evaluate_ratings(rated, metrics=["RMSE"], **asked)


def of_logged(rows):
    log = rows.select("user", reward="label", propensity=pl.lit(0.5), b="score")
    return evalkit.evaluate_logged(
        log, {"b": {"probability": "b"}}, metrics=["SNIPS"], columns={"user": "user"}
    )


def words_of(report):
    return [each.message for each in report.warnings if each.code == "null-words"]


@pytest.mark.parametrize("evaluate", [of_labels, of_ratings, of_logged])
@pytest.mark.parametrize(("word", "kind"), [("nan", "null"), ("NULL", "null"), ("Total", "sum")])
@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_users_that_are_words_for_null_are_told(evaluate, word, kind, dtype):
    odd = ROWS.with_columns(pl.col("user").replace({"cem": word}).cast(dtype))

    (told,) = words_of(evaluate(odd))

    end = f"has users called {word!r}, as programs write a {kind}: they count"
    assert told == f"{evaluate.__name__.removeprefix('of_')} {end}"
    assert words_of(evaluate(ROWS)) == []


@pytest.mark.parametrize("evaluate", [of_labels, of_ratings])
def test_a_limit_of_memory_tells_the_same(evaluate):
    odd = ROWS.with_columns(pl.col("user").replace({"cem": "None"}))

    assert words_of(evaluate(odd, memory_limit=1 << 30)) == words_of(evaluate(odd))


@pytest.mark.parametrize(("column", "word"), [("unit", "nan"), ("judge", "None")])
def test_units_and_judges_that_are_words_for_null_are_told(column, word):
    rows = pl.DataFrame(JUDGED, schema=["unit", "judge", "rating"], orient="row")
    odd = rows.with_columns(pl.col(column).replace({rows[column][0]: word}))

    (told,) = words_of(evalkit.evaluate_judges(odd, metrics=["alpha"]))

    assert told == f"the table has {column}s called {word!r}, as programs write a null: they count"
    assert words_of(evalkit.evaluate_judges(rows, metrics=["alpha"])) == []
