"""What is drawn hangs on an id's value, whatever type a table gives it."""

import json

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import build_config
from evalkit.pipeline import run_config

RANDOM = np.random.default_rng(8)
N = 200
TRUTH = pl.DataFrame({"user": np.repeat(np.arange(N), 3), "item": RANDOM.integers(0, 30, 3 * N)})
TRUTH = TRUTH.unique(maintain_order=True)
SHOWN = pl.DataFrame({"user": np.repeat(np.arange(N), 4), "item": RANDOM.integers(0, 30, 4 * N)})
SHOWN = SHOWN.unique(maintain_order=True)
ROWS = SHOWN.with_columns(
    score=pl.Series(RANDOM.random(SHOWN.height)),
    label=pl.Series(RANDOM.integers(0, 2, SHOWN.height)),
)
START = pl.datetime(2026, 3, 29)


def at(unit):
    return lambda user: (START + pl.duration(minutes=user)).dt.cast_time_unit(unit).alias("user")


WHOLE = {
    "int64": [lambda user: user] * 2,
    "int16": [lambda user: user.cast(pl.Int16), lambda user: user.cast(pl.UInt8)],
    "uint64": [lambda user: user.cast(pl.UInt64)] * 2,
    "uint64 and int64": [lambda user: user.cast(pl.UInt64), lambda user: user],
    "decimal": [lambda user: user.cast(pl.Decimal(20, 0))] * 2,
    "decimal and int64": [lambda user: user.cast(pl.Decimal(20, 0)), lambda user: user],
    "wide decimal": [lambda user: user.cast(pl.Decimal(38, 0))] * 2,
}
TIMES = {unit: [at(unit)] * 2 for unit in ("ms", "us", "ns")} | {"both": [at("ms"), at("ns")]}
ASKED = {"sample": 0.6, "statistics": {"method": "bootstrap", "replicates": 100}}


def said(report):
    document = json.loads(report.to_json())
    return {key: document[key] for key in ("metrics", "counts")}


@pytest.mark.parametrize("cases", [WHOLE, TIMES], ids=["whole numbers", "times"])
@pytest.mark.parametrize("beside", [None, "day"])
def test_draws_of_rankings_are_those_of_the_value(cases, beside):
    found = {}
    for name, (of_truth, of_shown) in cases.items():
        truth = TRUTH.with_columns(of_truth(pl.col("user")), day=pl.lit("mo"))
        shown = SHOWN.with_columns(of_shown(pl.col("user")), day=pl.lit("mo"))
        users = {"user": "user" if beside is None else ["user", beside]}
        report = evalkit.evaluate(truth, {"a": shown}, metrics=["RR", "AP"], columns=users, **ASKED)
        found[name] = said(report)

    (first, *others) = found.values()
    assert all(each == first for each in others), [name for name in found if found[name] != first]


@pytest.mark.parametrize("cases", [WHOLE, TIMES], ids=["whole numbers", "times"])
def test_draws_of_labels_are_those_of_the_value(cases):
    found = {}
    for name, (of_user, _) in cases.items():
        rows = ROWS.with_columns(of_user(pl.col("user")))
        report = evalkit.evaluate_labels({"a": rows}, metrics=["AUC(over='users')"], **ASKED)
        found[name] = said(report)

    (first, *others) = found.values()
    assert all(each == first for each in others), [name for name in found if found[name] != first]


def test_the_largest_unsigned_ids_are_told_apart_as_decimals():
    user = [2**64 - 1, 2**64 - 2, 2**63, 1]
    for dtype in (pl.UInt64, pl.Decimal(20, 0), pl.Decimal(38, 0)):
        rows = pl.DataFrame({"user": pl.Series(user).cast(dtype), "item": [1, 2, 3, 4]})
        shown = rows.with_columns(item=pl.Series([1, 9, 3, 9]), rank=pl.lit(1))
        report = evalkit.evaluate(rows, {"a": shown}, metrics=["RR"], per_user=True)
        assert report.value("RR", model="a") == 0.5


def test_values_of_users_with_ids_of_128_bits_are_kept_as_text_in_the_order_of_numbers(tmp_path):
    ids = [-3, 20, 100, 2**70]
    truth = pl.DataFrame({"user": pl.Series(ids, dtype=pl.Int128), "item": range(4)})
    truth.write_parquet(tmp_path / "truth.parquet")
    truth.with_columns(rank=1).write_parquet(tmp_path / "a.parquet")
    table = {"path": str(tmp_path / "truth.parquet"), "columns": {"user": "user", "item": "item"}}
    ranked = {"path": str(tmp_path / "a.parquet"), "model": "a"}
    ranked["columns"] = {**table["columns"], "rank": "rank"}
    tree = {"truth": table, "rankings": [ranked], "metrics": {"names": ["RR"]}}
    config = build_config({**tree, "output": {"per_user": True}}, name="wide")
    for n_passes in (1, 3):
        with pytest.MonkeyPatch.context() as patch:
            place = "evalkit.kinds.rankings.measure.count_shares"
            patch.setattr(place, lambda *_, n=n_passes, **__: n)
            folder = tmp_path / f"{n_passes}"
            folder.mkdir()
            report = run_config(config, per_user=True, per_user_folder=folder)

        assert report.per_user("RR")["user"].to_list() == [*map(str, ids)]


def test_ratings_of_signed_and_unsigned_ids_keep_values_of_users(tmp_path):
    ratings = pl.DataFrame({"user": [1, 2], "item": [1, 2], "rating": [1.0, 2.0]})
    predictions = ratings.rename({"rating": "prediction"})
    ratings.write_parquet(tmp_path / "ratings.parquet")
    of_unsigned = predictions.with_columns(pl.col("user").cast(pl.UInt64))
    of_unsigned.write_parquet(tmp_path / "a.parquet")
    tree = {
        "ratings": {"path": str(tmp_path / "ratings.parquet")},
        "predictions": [{"path": str(tmp_path / "a.parquet"), "model": "a"}],
        "metrics": {"names": ["MAE(over='users')"]},
    }

    report = run_config(build_config(tree, name="n"), per_user=True, per_user_folder=tmp_path)

    assert report.per_user("MAE(over='users')")["value"].to_list() == [0.0, 0.0]
