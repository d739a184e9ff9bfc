"""Real ratings and real rankings: rating errors and AUC against NumPy and scikit-learn.

Needs EVALKIT_TEST_DATA, a folder with ml-100k and gowalla.
"""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evalkit

DATA = Path(os.environ.get("EVALKIT_TEST_DATA", "")) / "data"
pytestmark = pytest.mark.skipif(
    not os.environ.get("EVALKIT_TEST_DATA"), reason="EVALKIT_TEST_DATA is not set"
)


def test_user_and_item_means_predict_movie_ratings():
    """Predictions of a damped-mean model that is trained here, joined from a table of their own."""
    log = pl.read_parquet(DATA / "ml-100k" / "interactions.parquet")
    train, test = log.filter(pl.col("split") == "train"), log.filter(pl.col("split") == "test")
    mean = train["rating"].cast(pl.Float64).mean()
    item = train.group_by("item_id").agg(
        offset=(pl.col("rating").cast(pl.Float64) - mean).sum() / (pl.len() + 10)
    )
    user = (
        train.join(item, on="item_id")
        .group_by("user_id")
        .agg(
            taste=(pl.col("rating").cast(pl.Float64) - mean - pl.col("offset")).sum()
            / (pl.len() + 5)
        )
    )
    guessed = (
        test.join(item, on="item_id", how="inner")
        .join(user, on="user_id")
        .select("user_id", "item_id", prediction=mean + pl.col("offset") + pl.col("taste"))
    )
    names = ["MAE", "RMSE", "R2", "bias", "MAE(over='users')", "RMSE(over='users')"]

    report = evalkit.evaluate_ratings(
        test.select("user_id", "item_id", "rating"),
        {"means": guessed},
        metrics=names,
        columns={"user": "user_id", "item": "item_id"},
    )

    both = test.join(guessed, on=["user_id", "item_id"])
    true = both["rating"].cast(pl.Float64).to_numpy()
    error = both["prediction"].to_numpy() - true
    each = both.select("user_id", error=error).group_by("user_id")
    users = each.agg(mae=pl.col("error").abs().mean(), mse=(pl.col("error") ** 2).mean())
    expected = [
        np.abs(error).mean(),
        np.sqrt((error**2).mean()),
        1 - (error**2).sum() / ((true - true.mean()) ** 2).sum(),
        error.mean(),
        users["mae"].mean(),
        users["mse"].sqrt().mean(),
    ]
    np.testing.assert_allclose([e.value for e in report.estimates], expected, rtol=1e-11)
    counts = report.counts.models["means"]
    assert counts.rows_used == both.height
    assert test.height - both.height == 2  # items that nobody rated in train
    assert "unpredicted" in {warning.code for warning in report.warnings}


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("model", ["als32", "ease", "popularity"])
def test_scores_of_rankings_against_held_out_ratings(model):
    peer = pytest.importorskip("sklearn.metrics")
    rankings = pl.read_parquet(DATA / "ml-100k" / "rankings" / f"{model}.parquet")
    rankings = rankings.filter(pl.col("user_id") % 3 == 0)  # scikit-learn takes 3 ms a user
    log = pl.read_parquet(DATA / "ml-100k" / "interactions.parquet")
    held = log.filter(pl.col("split") == "test").select("user_id", "item_id", label=pl.lit(1))
    rows = rankings.join(held, on=["user_id", "item_id"], how="left").with_columns(
        pl.col("label").fill_null(0)
    )
    names = ["AUC", "AP", "AUC(over='users')", "GAUC", "AP(over='users')"]

    report = evalkit.evaluate_labels(rows, metrics=names, columns={"user": "user_id"})

    labels, scores = rows["label"].to_numpy(), rows["score"].to_numpy().astype(np.float64)
    aucs, sizes, aps = [], [], []
    for part in rows.partition_by("user_id"):
        y, s = part["label"].to_numpy(), part["score"].to_numpy().astype(np.float64)
        if y.any():
            aps.append(peer.average_precision_score(y, s))
        if 0 < y.sum() < y.size:
            aucs.append(peer.roc_auc_score(y, s))
            sizes.append(y.size)
    expected = [
        peer.roc_auc_score(labels, scores),
        peer.average_precision_score(labels, scores),
        np.mean(aucs),
        np.average(aucs, weights=sizes),
        np.mean(aps),
    ]
    np.testing.assert_allclose([e.value for e in report.estimates], expected, rtol=1e-12)
