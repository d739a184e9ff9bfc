"""Thresholds below 0, and a truth that is train."""

import polars as pl
import pytest

import evalkit
from evalkit.config import build_config
from evalkit.errors import RequestError
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import open_partials
from tests.cli.program import run_here

TRUTH = pl.DataFrame({"user": [1, 1, 2], "item": [10, 11, 20], "relevance": [-0.5, 1.0, 2.0]})
RANKED = pl.DataFrame({"user": [1, 1, 2], "item": [10, 11, 20], "rank": [1, 2, 1]})


def evaluate(**options):
    return evalkit.evaluate(TRUTH, RANKED, metrics=["nDCG@5"], **options)


def test_a_threshold_below_zero_is_refused_where_negative_relevance_is_ignored():
    with pytest.raises(RequestError) as caught:
        evaluate(threshold=-1)

    assert caught.value.code == "threshold-below-zero"
    assert evaluate(threshold=0).value("nDCG@5") > 0.0
    assert 'policies={"negative_relevance": "subtract"}' in caught.value.hint
    assert evaluate(threshold=-1, policies={"negative_relevance": "subtract"}).estimates


def split_log(tmp_path, name="log.csv"):
    pl.DataFrame(
        {
            "user": [1, 1, 2, 2],
            "item": [10, 11, 20, 21],
            "split": ["train", "test", "train", "test"],
        }
    ).write_csv(tmp_path / name)
    RANKED.write_csv(tmp_path / "rankings.csv")
    return str(tmp_path / name)


def config_of(tmp_path, truth):
    tree = {
        "truth": truth,
        "rankings": [{"path": str(tmp_path / "rankings.csv"), "model": "als"}],
        "metrics": {"names": ["recall@5"]},
    }
    return build_config(tree, name="train")


def codes(report):
    return [each.code for each in report.warnings if each.code != "few-users"]


def test_a_run_warns_of_a_truth_that_is_train(tmp_path):
    config = config_of(tmp_path, {"path": split_log(tmp_path), "where": "split = 'train'"})

    assert "train-rows" in codes(run_config(config))
    other = config_of(tmp_path, {"path": split_log(tmp_path), "where": "split = 'test'"})
    assert "train-rows" not in codes(run_config(other))


def test_partials_warn_of_it_too(tmp_path):
    config = config_of(tmp_path, {"path": split_log(tmp_path), "where": "split = 'train'"})
    files = [tmp_path / f"{number}.partial" for number in (1, 2)]
    for number, file in enumerate(files, 1):
        measure_partial(config, (number, 2), threads=1).write(file)

    assert "train-rows" in codes(conclude_partials(open_partials(files), threads=1))


def test_a_truth_that_is_named_after_train_is_warned_of(tmp_path):
    truth = tmp_path / "train.csv"
    TRUTH.select("user", "item").write_csv(truth)
    RANKED.write_csv(tmp_path / "rankings.csv")

    assert "split-files" in codes(run_config(config_of(tmp_path, {"path": str(truth)})))


def test_frames_that_are_train_are_warned_of():
    truth = TRUTH.select("user", "item", split=pl.lit("train"))

    report = evalkit.evaluate(truth, RANKED, metrics=["recall@5"])

    assert "train-rows" in codes(report)


def test_init_writes_train_where_a_column_says_which_rows_are(tmp_path):
    log = split_log(tmp_path)
    out = tmp_path / "job.toml"

    given = ["--truth", log, "--rankings", f"als={tmp_path / 'rankings.csv'}", "--out", str(out)]
    done = run_here(["init", *given], tmp_path)

    assert done.status == 0, done.err
    text = out.read_text()
    assert "[train]\npath = " in text
    assert "where = \"split = 'train'\"" in text
    assert "where = \"split = 'test'\"" in text
