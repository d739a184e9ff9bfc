"""Invented logs: what they promise about content, form and repeatability."""

import tomllib
from pathlib import Path

import polars as pl
import pytest

from evalkit.cli import synth_logs
from evalkit.errors import RequestError


def read(folder: Path) -> pl.DataFrame:
    """The files of a folder by name, below each other."""
    return pl.concat(pl.read_parquet(path) for path in sorted(folder.glob("*.parquet")))


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    first = synth_logs.generate(tmp_path / "a", users=300, depth=20, models=2)
    second = synth_logs.generate(tmp_path / "b", users=300, depth=20, models=2)

    for name in ("truth", "model-1", "model-2"):
        one, two = (paths[name] / "part-0000.parquet" for paths in (first, second))
        assert one.read_bytes() == two.read_bytes()


def test_another_seed_gives_another_log(tmp_path):
    first = synth_logs.generate(tmp_path / "a", users=50, seed=1)
    second = synth_logs.generate(tmp_path / "b", users=50, seed=2)

    assert not read(first["truth"]).equals(read(second["truth"]))
    assert not read(first["model-1"]).equals(read(second["model-1"]))


def test_content_does_not_depend_on_how_work_is_cut(tmp_path, monkeypatch):
    whole = synth_logs.generate(tmp_path / "whole", users=500, models=2)
    monkeypatch.setattr(synth_logs, "ROWS_PER_BLOCK", 333)
    monkeypatch.setattr(synth_logs, "ROWS_PER_GROUP", 1000)
    pieces = synth_logs.generate(tmp_path / "pieces", users=500, models=2, files=7)

    assert len(list(pieces["truth"].iterdir())) == 7
    for name in ("truth", "model-1", "model-2"):
        assert read(pieces[name]).equals(read(whole[name]))


def test_scattered_rows_are_the_grouped_rows_in_another_order(tmp_path):
    grouped = synth_logs.generate(tmp_path / "grouped", users=400, depth=10)
    scattered = synth_logs.generate(tmp_path / "scattered", users=400, depth=10, order="scattered")

    for name in ("truth", "model-1"):
        one, two = read(grouped[name]), read(scattered[name])
        assert not two.equals(one)
        assert (two["user"].diff() != 0).mean() > 0.9
        assert two.sort(two.columns).equals(one.sort(one.columns))


def test_text_ids_order_like_the_numbers(tmp_path):
    numbers = synth_logs.generate(tmp_path / "numbers", users=120, depth=10)
    texts = synth_logs.generate(tmp_path / "texts", users=120, depth=10, ids="string")

    for name in ("truth", "model-1"):
        one, two = read(numbers[name]), read(texts[name])
        assert two.schema["user"] == two.schema["item"] == pl.String
        assert two["user"].str.slice(1).str.to_integer().equals(one["user"])
        assert two["item"].str.slice(1).str.to_integer().equals(one["item"])
        assert two["item"].str.len_bytes().n_unique() == 1


def test_forms_hold_the_same_rankings(tmp_path):
    made = {
        form: read(synth_logs.generate(tmp_path / form, users=90, depth=10, form=form)["model-1"])
        for form in ("rank", "score", "both", "list")
    }

    assert made["rank"].columns == ["user", "item", "rank"]
    assert made["score"].columns == ["user", "item", "score"]
    assert made["rank"].equals(made["both"].drop("score"))
    assert made["score"].equals(made["both"].drop("rank"))
    lists = made["list"].explode("items", "scores").rename({"items": "item", "scores": "score"})
    assert lists.equals(made["score"])


@pytest.mark.parametrize("depth", [1, 7, 50, 3000])
def test_rankings_hold_depth_different_items_with_falling_scores(tmp_path, depth):
    paths = synth_logs.generate(tmp_path / "log", users=40, depth=depth, models=2)

    for model in ("model-1", "model-2"):
        rows = read(paths[model])
        assert rows.height == 40 * depth
        assert rows.select("user", "item").is_unique().all()
        assert rows["rank"].to_list() == [*range(1, depth + 1)] * 40
        falls = rows.select(pl.col("score").diff().over("user").drop_nulls() < 0)
        assert falls.to_series().all()
        assert rows["score"].min() > 0
        assert rows["score"].max() <= 1


def test_a_log_looks_like_a_log(tmp_path):
    paths = synth_logs.generate(tmp_path / "log", users=20_000, models=2)
    truth, best, other = (read(paths[name]) for name in ("truth", "model-1", "model-2"))
    counts = truth.group_by("user").len()["len"]
    hits, fewer = (rows.join(truth, on=["user", "item"]) for rows in (best, other))

    assert truth.select("user", "item").is_unique().all()
    assert counts.len() == 20_000
    assert counts.mean() == pytest.approx(7.6, rel=0.05)
    assert counts.max() > 100  # a long tail
    assert counts.median() < 6
    assert sorted(truth["relevance"].unique()) == [1, 2, 3, 4, 5]
    assert hits.height / best.height == pytest.approx(0.05, rel=0.2)
    assert fewer.height < 0.95 * hits.height
    assert (hits["rank"] <= 10).mean() > 0.4  # better than chance in front
    popular = truth["item"].value_counts(sort=True)["count"]
    assert popular[:100].sum() > 0.05 * truth.height


def test_leave_one_out_has_one_relevant_item_each(tmp_path):
    truth = read(synth_logs.generate(tmp_path / "log", users=700, relevant=1)["truth"])

    assert truth["user"].to_list() == list(range(1, 701))


def test_a_small_catalogue_still_gives_different_items(tmp_path):
    paths = synth_logs.generate(tmp_path / "log", users=30, depth=10, items=20, relevant=50)
    truth = read(paths["truth"])

    assert truth.select("user", "item").is_unique().all()
    assert truth.group_by("user").len()["len"].max() == 10
    assert read(paths["model-1"])["item"].is_between(1, 20).all()


@pytest.mark.parametrize("form", ["rank", "score", "both", "list"])
def test_the_config_names_what_was_written(tmp_path, form):
    paths = synth_logs.generate(tmp_path / "log", users=60, depth=10, models=2, form=form)
    config = tomllib.loads(paths["config"].read_text())

    assert [each["model"] for each in config["rankings"]] == ["model-1", "model-2"]
    for section in (config["truth"], *config["rankings"]):
        files = sorted(paths["config"].parent.glob(section["path"]))
        assert files
        assert set(section["columns"].values()) <= set(pl.read_parquet_schema(files[0]))


def test_every_wrong_number_is_said_at_once(tmp_path):
    with pytest.raises(RequestError) as caught:
        synth_logs.generate(tmp_path / "log", users=0)
    assert caught.value.code == "bad-synth-option"
    with pytest.raises(Exception, match=r"(?s)users is 0.*relevant is 0\.5.*ids is 'uuid'"):
        synth_logs.generate(tmp_path / "log", users=0, relevant=0.5, ids="uuid")

    assert not any(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(RequestError) as caught:
        synth_logs.generate(tmp_path, users=10)
    assert caught.value.code == "folder-not-empty"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(synth_logs, "_render_config", fail)

    with pytest.raises(OSError, match="no space"):
        synth_logs.generate(tmp_path / "log", users=10)
    assert not any(tmp_path.iterdir())
