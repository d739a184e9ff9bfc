"""Forms in memory that could mean two things are read as what is certain, or refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import evalkit
from evalkit.errors import EvalkitError

TRUTH = pl.DataFrame({"user_id": [1, 2], "item_id": [10, 20]})
RANKED = pl.DataFrame(
    {"user_id": [1, 1, 2, 2], "item_id": [11, 10, 21, 20], "score": [0.1, 0.9, 0.2, 0.8]}
)


def evaluate(truth, rankings, **options):
    return evalkit.evaluate(truth, rankings, metrics=["RR"], **options)


def refused(truth, rankings, **options):
    with pytest.raises(EvalkitError) as caught:
        evaluate(truth, rankings, **options)
    return caught.value


def forms(frame):
    pandas = frame.to_pandas()
    return {
        "records": frame.to_dicts(),
        "columns": frame.to_dict(as_series=False),
        "series": frame.to_dict(),
        "arrays": {name: frame[name].to_numpy() for name in frame.columns},
        "pandas records": pandas.to_dict("records"),
        "pandas list": pandas.to_dict("list"),
        "pandas series": pandas.to_dict("series"),
        "pandas dict": pandas.to_dict(),
        "pandas index": pandas.to_dict("index"),
    }


@pytest.mark.parametrize("form", forms(TRUTH))
@pytest.mark.parametrize("names", [("user_id", "item_id"), ("user", "item"), ("userId", "movieId")])
def test_tables_that_are_written_as_dicts_are_read_by_guessed_names(form, names):
    new = dict(zip(("user_id", "item_id"), names, strict=True))
    truth, rankings = (forms(each.rename(new))[form] for each in (TRUTH, RANKED))

    assert evaluate(truth, rankings).value("RR") == 1.0
    assert evaluate(truth, {"als": rankings}).value("RR", model="als") == 1.0


def test_columns_of_unequal_length_are_told():
    error = refused({"user_id": [1, 2], "item_id": [1]}, RANKED)

    assert "user_id has 2, item_id has 1" in error.message


def test_ids_that_are_called_as_columns_are_ids():
    truth = {"u": ["a"], "i": ["b"]}

    assert evaluate(truth, {"u": ["a"], "i": ["c", "b"]}).value("RR") == 0.75


ONES = np.array([[1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("top", [np.array([[0, 2], [1, 0]]), np.array([[0], [1]], np.int32)])
def test_arrays_of_ids_or_scores_are_refused_with_both_spellings(top):
    error = refused(ONES, top)

    assert error.code == "two-readings"
    assert "rankings.tolist()" in error.hint
    assert "rankings.astype(float)" in error.hint
    assert evaluate([[0], [1]], top.tolist()).value("RR") == 1.0
    assert refused([[0], [1]], {"als": top}).code == "two-readings"


def test_whole_numbers_of_the_shape_of_the_truth_are_scores():
    assert evaluate(ONES, ONES * 5).value("RR") == 1.0
    assert evaluate([["a"], ["b"]], ONES * 5, item_ids=np.array(["a", "b", "c"])).value("RR") == 1.0


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_matrices_of_another_shape_than_the_truths_are_refused(make):
    assert refused(make(ONES), make(ONES[:, :2] * 1.0)).code == "bad-matrix"
    assert refused(make(ONES), np.vstack([ONES, ONES]) * 1.0).code == "bad-matrix"


def test_lists_of_unequal_number_are_refused():
    assert refused([[1], [2], [3]], [[1], [2]]).code == "bad-matrix"
    assert refused([[1], [2], [3]], {"als": [[1], [2]]}).code == "bad-matrix"
    assert refused([[1], [2], [0]], ONES * 1.0).code == "bad-matrix"


@pytest.mark.parametrize("rows", [[(1, 10), (2, 20)], [(1, 10, 3), (2, 20, 1)]])
def test_tuples_on_both_sides_are_refused_with_both_spellings(rows):
    error = refused(rows, rows)

    assert error.code == "two-readings"
    assert "pl.DataFrame(rows, schema=" in error.hint
    assert "[list(row) for row in rows]" in error.hint
    assert evaluate([list(row) for row in rows], [list(row) for row in rows]).value("RR") == 1.0


def test_a_matrix_with_ids_from_one_is_refused():
    truth = pl.DataFrame({"user": [1, 2], "item": [1, 3]})
    scores = np.array([[0.9, 0.1, 0.2], [0.1, 0.2, 0.9]])

    error = refused(truth, scores)

    assert error.code == "bad-matrix"
    assert "user_ids=range(1, 3)" in error.hint
    assert "item_ids=range(1, 4)" in refused(truth, scores, user_ids=range(1, 3)).hint
    ids = {"user_ids": range(1, 3), "item_ids": range(1, 4)}
    assert evaluate(truth, scores, **ids).value("RR") == 1.0


def test_the_truths_matrix_beside_ids_from_one_is_refused():
    rankings = pl.DataFrame({"user": [1, 2], "item": [1, 2]})

    assert refused(ONES, rankings).code == "bad-matrix"


def test_a_truth_id_outside_of_the_matrix_or_the_lists_is_refused(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text("user,item\n0,7\n1,1\n")

    assert refused(str(path), ONES * 1.0).code == "bad-matrix"
    assert refused({5: [1]}, [[1], [2]]).code == "bad-matrix"


def test_what_is_masked_is_not_there():
    truth = np.ma.array(np.ones((1, 3)), mask=[[True, False, True]])
    scores = np.ma.array([[9.0, 5.0, 7.0]], mask=[[True, False, True]])

    assert evaluate(truth, np.array([[9.0, 5.0, 7.0]])).value("RR") == pytest.approx(1 / 3)
    assert evaluate(truth, scores).value("RR") == 1.0
    lists = [np.ma.array([4, 1], mask=[True, False])]
    assert evaluate([[1]], lists).value("RR") == 1.0


@pytest.mark.parametrize("make", [list, np.array, pl.Series, pd.Series, pd.Index, tuple])
def test_ids_of_matrices_are_arrays_and_series_too(make):
    users, items = make(["x", "y"]), make(["a", "b", "c"])
    truth = {"x": ["a"], "y": ["b"]}

    assert evaluate(truth, ONES * 1.0, user_ids=users, item_ids=items).value("RR") == 1.0
    ranked = {"x": {"a": 1.0}, "y": {"b": 1.0}}
    assert evaluate(ONES, ranked, user_ids=users, item_ids=items).value("RR") == 1.0
    assert evaluate([["a"], ["b"]], [["a"], ["b"]], user_ids=users).value("RR") == 1.0
