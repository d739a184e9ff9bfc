"""Ratings by hand, against scikit-learn, from one table and from two."""

import math
from math import log

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError, RequestError

PAIRS = pl.DataFrame(
    {
        "user": [1, 1, 1, 2],
        "item": ["a", "b", "c", "a"],
        "rating": [4.0, 2.0, 0.0, 5.0],
        "prediction": [3.0, 2.5, 1.0, 5.0],
    }
)
# errors -1, .5, 1, 0; ratings' mean 11/4, squared distances 59/4
GOLDENS = [
    ("MAE", 2.5 / 4),
    ("MSE", 2.25 / 4),
    ("RMSE", 0.75),
    ("bias", 0.5 / 4),
    ("R2", 1 - 2.25 / 14.75),
    ("explained-variance", 1 - (2.25 - 0.25 / 4) / 14.75),
    ("MAPE", (1 / 4 + 1 / 4 + 0) / 3),
    ("sMAPE", (2 / 7 + 1 / 4.5 + 2 + 0) / 4),
    ("WAPE", 2.5 / 11),
    ("MAE(over='users')", (2.5 / 3 + 0) / 2),
    ("MSE(over='users')", 0.75 / 2),
    ("RMSE(over='users')", math.sqrt(0.75) / 2),
    ("bias(over='users')", (0.5 / 3) / 2),
    ("R2(over='users')", 1 - 2.25 / 8),
    ("explained-variance(over='users')", 1 - (2.25 - 0.25 / 3) / 8),
    ("MAPE(over='users')", 0.125),
    ("sMAPE(over='users')", (2 / 7 + 1 / 4.5 + 2) / 3 / 2),
    ("WAPE(over='users')", (2.5 / 6) / 2),
    ("max-error", 1.0),
    ("median-error", (0.5 + 1) / 2),
    ("median-error(over='users')", (1 + 0) / 2),
    ("MSLE", (log(4 / 5) ** 2 + log(3.5 / 3) ** 2 + log(2) ** 2) / 4),
    ("RMSLE", math.sqrt((log(4 / 5) ** 2 + log(3.5 / 3) ** 2 + log(2) ** 2) / 4)),
    ("log-cosh", (2 * log(math.cosh(1)) + log(math.cosh(0.5))) / 4),
    ("pinball(q=0.1)", (0.1 * 1 + 0.9 * 0.5 + 0.9 * 1) / 4),
    ("within-tolerance", 2 / 4),
    ("within-tolerance(tolerance=0.49)", 1 / 4),
    ("Minkowski(p=1)", 2.5),
    ("Minkowski", 1.5),
    ("nRMSE(by='mean')", 0.75 / 2.75),
    ("nRMSE(by='range')", 0.75 / 5),
    ("nRMSE(by='std')", 0.75 / math.sqrt(14.75 / 4)),
    ("nRMSE(by='l2')", 0.75 / math.sqrt(45)),
    ("relative-squared-error", 2.25 / 14.75),
    ("threat-score(threshold=3)", 1.0),
    ("threat-score", 1 / 2),
    # predictions' mean 11.5/4, squares 41.25; products 42
    ("cosine", 42 / math.sqrt(45 * 41.25)),
    ("Pearson", (42 - 11 * 11.5 / 4) / math.sqrt(14.75 * (41.25 - 11.5**2 / 4))),
    ("concordance", 2 * (42 - 11 * 11.5 / 4) / (14.75 + 41.25 - 11.5**2 / 4 + 4 * 0.125**2)),
    # ranks 3 2 1 4 of both
    ("Spearman", 1.0),
    ("Kendall", 1.0),
    # the median rating 2 to 4: distances 2, 0, 2, 3 from 2
    ("D2-pinball", 1 - 2.5 / 7),
    ("Tweedie-deviance(power=0)", 2.25 / 4),
    ("Poisson_deviance", 2 * (4 * log(4 / 3) - 1 + 2 * log(2 / 2.5) + 0.5 + 1) / 4),
    ("D2-Tweedie(power=0)", 1 - 2.25 / 14.75),
]


@pytest.mark.parametrize(("name", "expected"), GOLDENS, ids=[name for name, _ in GOLDENS])
def test_ratings_by_hand(name, expected):
    report = evalkit.evaluate_ratings(PAIRS, metrics=[name])

    assert report.estimates[0].value == pytest.approx(expected, abs=2e-15)


def test_two_tables_give_what_one_gives():
    names = [name for name, _ in GOLDENS]
    ratings, predictions = PAIRS.drop("prediction"), PAIRS.drop("rating").reverse()

    one = evalkit.evaluate_ratings(PAIRS, metrics=names)
    two = evalkit.evaluate_ratings(ratings, {"model": predictions}, metrics=names)

    assert [each.value for each in two.estimates] == [each.value for each in one.estimates]
    assert [each.std_error for each in two.estimates] == [each.std_error for each in one.estimates]


def test_agrees_with_scikit_learn():
    peer = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    true = rng.integers(1, 11, 5000) / 2
    guess = true + rng.normal(size=5000)
    frame = pl.DataFrame({"user": rng.integers(0, 90, 5000), "rating": true, "prediction": guess})

    report = evalkit.evaluate_ratings(
        frame, metrics=["MAE", "MSE", "RMSE", "R2", "explained-variance", "MAPE"]
    )

    expected = [
        peer.mean_absolute_error(true, guess),
        peer.mean_squared_error(true, guess),
        peer.root_mean_squared_error(true, guess),
        peer.r2_score(true, guess),
        peer.explained_variance_score(true, guess),
        peer.mean_absolute_percentage_error(true, guess),
    ]
    np.testing.assert_allclose([e.value for e in report.estimates], expected, rtol=1e-12)


def test_the_standard_error_over_rows_is_clustered_by_user():
    # users' sums of distances 2.5 and 0, of 3 pairs and 1: mean .625, n / (n - 1) = 2
    report = evalkit.evaluate_ratings(PAIRS, metrics=["MAE"])

    spread = (2.5 - 3 * 0.625) ** 2 + (0 - 0.625) ** 2
    assert report.estimates[0].std_error == pytest.approx(math.sqrt(2 * spread) / 4, abs=1e-15)


def test_what_is_not_predicted_or_not_rated_is_counted():
    ratings = pl.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 1, 9], "rating": [3, 4, 5, 2]})
    predictions = pl.DataFrame(
        {"user": [1, 2, 2, 7], "item": [1, 1, 5, 1], "prediction": [3.5, 4.0, 1.0, 1.0]}
    )

    report = evalkit.evaluate_ratings(ratings, {"m": predictions}, metrics=["MAE"])

    counts = report.counts.models["m"]
    assert report.value("MAE") == 0.75
    assert (counts.rows, counts.rows_used, counts.rows_dropped["unrated"]) == (4, 2, 2)
    assert (counts.users, counts.users_without_ranking, counts.users_without_truth) == (2, 1, 1)
    assert (report.counts.truth.rows, report.counts.truth.users) == (4, 3)
    assert [warning.code for warning in report.warnings] == [
        "unpredicted", "unrated", "few-users",
    ]  # fmt: skip
    assert report.warnings[0].message.startswith("2 true ratings")


@pytest.mark.parametrize(
    ("policies", "change", "code"),
    [
        ({"unpredicted": "error"}, {"prediction": [1.0, None, 1.0, 1.0]}, "unpredicted"),
        ({"unrated": "error"}, {"rating": [1.0, None, 1.0, 1.0]}, "unrated"),
        ({}, {"prediction": [1.0, math.nan, 1.0, 1.0]}, "bad-score"),
        ({}, {"rating": [1.0, math.inf, 1.0, 1.0]}, "bad-score"),
        ({}, {"user": [1, None, 2, 3]}, "null-id"),
        ({}, {"rating": ["a", "b", "c", "d"]}, "not-a-number"),
    ],
)
def test_faulty_data_is_refused_with_one_clear_error(policies, change, code):
    frame = pl.DataFrame({**PAIRS.to_dict(as_series=False), **change}, strict=False)

    with pytest.raises(DataError) as caught:
        evalkit.evaluate_ratings(frame, metrics=["MAE"], policies=policies)

    assert (caught.value.code, caught.value.exit_status) == (code, 3)


def test_a_pair_that_is_predicted_twice_is_refused():
    twice = pl.concat([PAIRS, PAIRS.head(1)]).drop("rating")

    with pytest.raises(DataError) as caught:
        evalkit.evaluate_ratings(PAIRS.drop("prediction"), {"m": twice}, metrics=["MAE"])

    assert caught.value.code == "duplicate-pair"


def test_in_one_table_pairs_are_searched_for_copies_where_items_are_named():
    twice = pl.concat([PAIRS, PAIRS.head(1)])

    report = evalkit.evaluate_ratings(twice, metrics=["MAE"])
    with pytest.raises(DataError) as caught:
        evalkit.evaluate_ratings(twice, metrics=["MAE"], columns={"item": "item"})

    assert report.counts.models["model"].duplicates_searched == "none"
    assert caught.value.code == "duplicate-pair"


def test_a_rating_that_is_there_twice_counts_with_its_largest_value():
    ratings = pl.DataFrame({"user": [1, 1], "item": [1, 1], "rating": [3.0, 4.0]})
    predictions = pl.DataFrame({"user": [1], "item": [1], "prediction": [4.5]})

    report = evalkit.evaluate_ratings(ratings, {"m": predictions}, metrics=["MAE"])
    with pytest.raises(DataError) as caught:
        evalkit.evaluate_ratings(
            ratings, {"m": predictions}, metrics=["MAE"], policies={"truth_duplicates": "error"}
        )

    assert report.value("MAE") == 0.5
    assert report.counts.truth.rows_dropped == {"duplicate": 1}
    assert caught.value.code == "duplicate-truth"


def test_policies_that_a_join_cannot_follow_are_refused():
    with pytest.raises(RequestError) as caught:
        evalkit.evaluate_ratings(PAIRS, metrics=["MAE"], policies={"duplicates": "best"})

    assert caught.value.code == "bad-policy"


def test_the_residual_histogram_holds_every_pair():
    report = evalkit.evaluate_ratings(PAIRS, metrics=["MAE"])

    (residuals,) = report.distributions
    assert sum(residuals.counts) == 4
    assert len(residuals.edges) == len(residuals.counts) + 1
    assert residuals.edges[0] <= -1.0
    assert residuals.edges[-1] >= 1.0
    assert "How many pairs have which value" in report.to_html()


def test_errors_by_true_rating():
    report = evalkit.evaluate_ratings(PAIRS, metrics=["MAE"])

    bias = next(graph for graph in report.graphs if graph.y_name == "bias")
    assert list(zip(bias.x, bias.y, bias.rows, strict=True)) == [
        (0.0, 1.0, 1.0), (2.0, 0.5, 1.0), (4.0, -1.0, 1.0), (5.0, 0.0, 1.0),
    ]  # fmt: skip


def test_a_sample_of_users_counts_predictions_that_were_left_out():
    n = 400
    rows = pl.DataFrame({"user": list(range(n)), "item": [1] * n, "rating": [3.0] * n})
    guesses = rows.head(300).select("user", "item", prediction=pl.lit(4.0))

    report = evalkit.evaluate_ratings(rows, {"m": guesses}, metrics=["MAE"], sample=0.5)

    counts = report.counts.models["m"]
    assert counts.rows == 300
    assert counts.rows_used == counts.users
    assert counts.rows_used + counts.rows_dropped["not_sampled"] == 300
    assert 100 < counts.users < 200
