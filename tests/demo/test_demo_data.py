"""The demo's files: what they promise, and that they can be made again."""

import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest

from evalkit.cli.demo_files import demo_config

DEMO = demo_config().parent
MODELS = ["popularity", "item-knn", "als", "ease"]
DEPTH = 50


def read(name: str) -> pl.DataFrame:
    return pl.read_parquet(DEMO / f"{name}.parquet")


def test_the_demo_is_small():
    sizes = [path.stat().st_size for path in DEMO.rglob("*.parquet")]

    assert sum(sizes) < 1_500_000


def test_the_config_names_the_files_and_their_columns():
    config = tomllib.loads(demo_config().read_text())

    assert [each["model"] for each in config["rankings"]] == MODELS
    for section in (config["truth"], config["train"], *config["rankings"]):
        columns = pl.read_parquet_schema(DEMO / section["path"])
        assert set(section["columns"].values()) <= set(columns)


def test_the_config_loads():
    config = pytest.importorskip("evalkit.config")

    assert config.load_config(demo_config()).name == "demo"


def test_every_rating_is_in_train_or_test_and_the_last_fifth_is_test():
    train, test = read("train"), read("test")
    ratings = pl.concat([train, test])
    sizes = ratings.group_by("user").len().join(test.group_by("user").len(), on="user")
    borders = (
        train.group_by("user")
        .agg(pl.col("timestamp").max().alias("last"))
        .join(test.group_by("user").agg(pl.col("timestamp").min().alias("first")), on="user")
    )

    assert ratings.height == 100_004
    assert ratings.select("user", "item").is_unique().all()
    assert sizes.height == ratings["user"].n_unique() == 671
    assert (sizes["len_right"] == sizes["len"] // 5).all()
    assert (borders["last"] <= borders["first"]).all()


def test_users_and_items_describe_everybody_and_everything():
    train, test, users, items = read("train"), read("test"), read("users"), read("items")

    assert users["user"].to_list() == train["user"].unique().sort().to_list()
    assert users["n_train"].sum() == train.height
    assert items["item"].is_unique().all()
    for rows in (train, test):
        assert rows["item"].is_in(items["item"].implode()).all()


@pytest.mark.parametrize("model", MODELS)
def test_every_user_has_fifty_unseen_items_in_the_order_of_their_scores(model):
    rows = read(f"rankings/{model}")
    seen = rows.join(read("train"), on=["user", "item"])
    by_score = rows.sort("user", "score", "item", descending=[False, True, False])

    assert rows.height == 671 * DEPTH
    assert rows["rank"].to_list() == [*range(1, DEPTH + 1)] * 671
    assert rows.schema["score"] == pl.Float32
    assert rows["score"].is_finite().all()
    assert rows.select("user", "item").is_unique().all()
    assert rows.select("user", "score").is_unique().all()
    assert by_score.equals(rows)
    assert seen.is_empty()


def test_the_models_are_visibly_different():
    liked = read("test").filter(pl.col("rating") >= 4.0)
    hits = [
        read(f"rankings/{model}").filter(pl.col("rank") <= 10).join(liked, on=["user", "item"])
        for model in MODELS
    ]
    counts = [rows.height for rows in hits]

    assert counts == sorted(counts)
    assert counts[1] > 1.2 * counts[0]
    assert counts[3] > 1.05 * counts[2]


def test_the_licence_of_the_data_travels_with_it():
    text = (DEMO / "LICENSE-MovieLens.txt").read_text()

    assert "so long as it is distributed under these same license conditions" in text
    assert "F. Maxwell Harper and Joseph A. Konstan. 2015" in text


@pytest.mark.campaign
def test_the_script_makes_the_same_tables_again():
    script = Path(__file__).parents[2] / "bench" / "train_demo_models.py"
    made = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)

    assert made.returncode == 0, made.stdout + made.stderr
