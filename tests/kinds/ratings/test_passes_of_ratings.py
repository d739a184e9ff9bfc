"""Ratings that do not fit into memory are read several times; two tables are joined in parts."""

import json
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalkit
from evalkit.errors import DataError, MachineError
from evalkit.kinds.pointwise import passes as _passes
from evalkit.kinds.pointwise import read as _reading
from evalkit.sources import Table

METRICS = ["MAE", "RMSE", "bias", "R2", "sMAPE", "MAE(over='users')", "R2(over='users')"]
N_ROWS = 4000


@pytest.fixture
def no_memory_at_rest(monkeypatch):
    """A process that takes no memory for itself, and small batches."""
    monkeypatch.setattr(_passes, "BYTES_AT_REST", 0)
    monkeypatch.setattr(_passes, "BYTES_OF_WORK", 0)
    monkeypatch.setattr(_reading, "BATCH_ROWS", 900)


@pytest.fixture
def reads(monkeypatch):
    """One entry for every time that a table is read."""
    found = []
    stream = Table.stream

    def counted(table, columns, *, most):
        found.append(table.role)
        return stream(table, columns, most=most)

    monkeypatch.setattr(Table, "stream", counted)
    return found


def rated(seed=1, *, text=False):
    rng = np.random.default_rng(seed)
    places = rng.choice(500 * 40, N_ROWS, replace=False)
    frame = pl.DataFrame(
        {
            "user": places // 40,
            "item": places % 40,
            "rating": rng.integers(1, 11, N_ROWS) / 2,
            "prediction": rng.normal(3, 1, N_ROWS),
        }
    )
    return frame.with_columns(pl.format("id {}", pl.col("user", "item"))) if text else frame


def numbers(report):
    document = json.loads(report.to_json())
    names = ("counts", "metrics", "graphs", "distributions", "warnings")
    return {key: document[key] for key in names}


@pytest.mark.parametrize("text", [False, True])
def test_a_limit_moves_no_byte_of_one_table(text, no_memory_at_rest, reads):
    pairs = rated(text=text).with_columns(
        prediction=pl.when(pl.col("prediction") < 2).then(None).otherwise("prediction")
    )
    asked = {"metrics": METRICS, "columns": {"item": "item"}}

    whole = evalkit.evaluate_ratings(pairs, **asked)
    n_reads = len(reads)
    limited = evalkit.evaluate_ratings(pairs, **asked, memory_limit=20_000)

    assert n_reads == 1
    assert len(reads) > 5
    assert numbers(limited) == numbers(whole)


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("text", [False, True])
def test_a_limit_moves_no_byte_of_two_tables(text, no_memory_at_rest, reads):
    ratings = rated(text=text)
    models = {
        "a": ratings.sample(3000, seed=1).drop("rating"),
        "b": pl.concat([ratings.tail(500), rated(7, text=text)])
        .drop("rating")
        .unique(["user", "item"]),
    }
    truth = pl.concat([ratings, ratings.head(50)]).drop("prediction")

    whole = evalkit.evaluate_ratings(truth, models, metrics=METRICS)
    n_reads = len(reads)
    limited = evalkit.evaluate_ratings(truth, models, metrics=METRICS, memory_limit=20_000)

    assert n_reads == 3
    assert len(reads) > 20
    assert numbers(limited) == numbers(whole)


@pytest.mark.parametrize("limit", [None, 8000])
def test_a_repeated_pair_is_found_in_every_pass(limit, no_memory_at_rest):
    pairs = rated()
    twice = pl.concat([pairs, pairs.tail(3)])

    with pytest.raises(DataError) as joined:
        evalkit.evaluate_ratings(
            pairs, twice.drop("rating"), metrics=["MAE"], memory_limit=limit and 2 * limit
        )
    with pytest.raises(DataError) as alone:
        evalkit.evaluate_ratings(
            twice, metrics=["MAE"], columns={"item": "item"}, memory_limit=limit
        )

    assert joined.value.message == "3 pairs are predicted twice or more"
    assert alone.value.message == "3 rows list a user's item again"


def test_one_user_with_all_rows_is_refused(no_memory_at_rest):
    pairs = rated().with_columns(user=1, item=pl.int_range(pl.len()))

    with pytest.raises(MachineError) as caught:
        evalkit.evaluate_ratings(
            pairs.drop("prediction"), pairs.drop("rating"), metrics=["MAE"], memory_limit=20_000
        )

    assert caught.value.code == "memory-limit"
    assert caught.value.message.startswith("8,000 rows of a user need")


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(-4, 4).map(lambda n: n / 2)),
    ),
    min_size=1,
    max_size=20,
)


@given(ROWS, ROWS.map(lambda rows: list({row[:2]: row for row in rows}.values())))
def test_the_join_is_that_of_dictionaries(ratings, predictions):
    true: dict[tuple[int, int], float] = {}
    for user, item, value in ratings:
        if value is not None:
            true[user, item] = max(value, true.get((user, item), -math.inf))
    guesses = {row[:2]: row[2] for row in predictions if row[2] is not None}
    errors = [abs(guess - true[pair]) for pair, guess in guesses.items() if pair in true]
    used = {user for user, item in guesses if (user, item) in true}

    report = evalkit.evaluate_ratings(
        pl.DataFrame(ratings, schema=["user", "item", "rating"], orient="row").cast(
            {"rating": pl.Float64}
        ),
        pl.DataFrame(predictions, schema=["user", "item", "prediction"], orient="row").cast(
            {"prediction": pl.Float64}
        ),
        metrics=["MAE"],
        policies={"empty_input": "warn"},
    )

    counts = report.counts.models["model"]
    expected = float(sum(map(Fraction, errors)) / len(errors)) if errors else math.nan
    np.testing.assert_equal(report.value("MAE"), expected)
    assert counts.rows == len(predictions)
    assert counts.rows_used == len(errors)
    assert counts.rows_dropped["unrated"] == len(guesses) - len(errors)
    assert counts.users == len(used)
    assert counts.users_without_ranking == len({user for user, _ in true} - used)
    assert counts.users_without_truth == len(
        {user for user, item in guesses if (user, item) not in true} - used
    )
