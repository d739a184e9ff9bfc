"""What metrics of lists are given beside them: the same at every entry point, told where
missing.
"""

import polars as pl
import pytest
from program import run_here

from evalkit import evaluate
from evalkit.config import parse_config
from evalkit.errors import EvalkitError, RequestError
from evalkit.pipeline import run_config

RANKED = pl.DataFrame({"user": [1, 1, 2, 4], "item": [3, 4, 1, 9], "rank": [1, 2, 1, 1]})
TRUTH = pl.DataFrame({"user": [1, 2], "item": [3, 2]})
TRAIN = pl.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 3, 1]})
ITEMS = pl.DataFrame({"item": [1, 2, 3, 4], "genres": ["a|b", "b", None, "c"]})


@pytest.fixture
def folder(tmp_path):
    tables = {"truth": TRUTH, "als": RANKED, "train": TRAIN, "items": ITEMS, "other": RANKED}
    for name, table in tables.items():
        table.write_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


def config_of(folder, text):
    return parse_config(text, source="lists.toml", base=folder)


WHOLE = """
[[rankings]]
model = "als"
path = "als.parquet"
earlier = "other.parquet"
[train]
path = "train.parquet"
[items]
path = "items.parquet"
columns = { item = "item", genres = "genres" }
separator = "|"
[users]
path = "truth.parquet"
[metrics]
names = ["novelty@2"]
reference = "other.parquet"
"""


def test_every_table_is_an_input_with_a_fingerprint_and_its_columns(folder):
    report = run_config(config_of(folder, WHOLE))

    found = {each.role: (each.rows, dict(each.columns), each.fingerprint) for each in report.inputs}
    assert set(found) == {"rankings", "train", "items", "users", "reference", "earlier"}
    assert all(rows and print_ for rows, _, print_ in found.values())
    assert found["items"][1] == {"item": "item", "genres": "genres"}
    assert found["users"][1] == {"user": "user"}


def test_a_path_of_a_reference_is_relative_to_the_config_and_a_model_is_none(folder):
    path = config_of(folder, WHOLE)
    model = config_of(folder, WHOLE.replace('reference = "other.parquet"', 'reference = "als"'))

    assert path.metrics.reference == str(folder / "other.parquet")
    assert not path.reference_is_model
    assert model.reference_is_model
    with pytest.raises(RequestError) as raised:
        config_of(folder, WHOLE.replace('reference = "other.parquet"', 'reference = "ales"'))
    assert (raised.value.code, raised.value.hint) == ("unknown-model", "did you mean 'als'?")


def test_rankings_alone_are_measured_without_a_truth_and_its_counts_are_0(folder):
    with_truth = evaluate(TRUTH, {"als": RANKED}, metrics=["novelty@2"], train=TRAIN)

    alone = evaluate(None, {"als": RANKED}, metrics=["novelty@2"], train=TRAIN)

    assert alone.estimates == with_truth.estimates
    counts = alone.counts.truth
    assert (counts.rows, counts.users, counts.pairs, counts.in_train) == (0, 0, 0, 0)
    assert alone.counts.models["als"].rows_used == RANKED.height
    assert [each.role for each in alone.inputs] == ["rankings", "train"]


def test_the_three_doors_say_the_same(folder):
    by_config = run_config(config_of(folder, WHOLE))
    by_python = evaluate(
        None,
        {"als": folder / "als.parquet"},
        metrics=["novelty@2"],
        train=folder / "train.parquet",
        items={"path": ITEMS, "separator": "|"},
        users=folder / "truth.parquet",
        reference=RANKED,
    )
    files = [f"--{name}={folder / name}.parquet" for name in ("train", "items")]
    ranked = ["--rankings", f"als={folder / 'als.parquet'}", "-m", "novelty@2", "--json"]
    other = ["--users", f"{folder / 'truth.parquet'}", "--reference", "als"]
    shown = run_here(["evaluate", *ranked, *files, *other], folder).document

    assert by_python.estimates == by_config.estimates
    assert shown["metrics"][0]["value"] == by_config.value("novelty@2")


@pytest.mark.parametrize(
    ("metrics", "given", "what"),
    [
        (["novelty@2"], {}, "novelty@2 needs train"),
        (["gini@2", "hhi@1"], {}, "gini@2, hhi@1 need items"),
        (["age@2"], {}, "age@2 needs items, all items that there are, with published"),
        (["age@2"], {"items": ITEMS}, "age@2 needs the column published of the table of items"),
        (["overlap@2"], {}, "overlap@2 needs reference"),
        (["temporal_diversity@2"], {}, "temporal_diversity@2 needs earlier"),
    ],
)
def test_what_a_metric_needs_and_the_request_lacks_is_one_error(metrics, given, what):
    with pytest.raises(EvalkitError) as raised:
        evaluate(TRUTH, {"als": RANKED}, metrics=metrics, **given)

    assert raised.value.code == "missing-input"
    assert raised.value.message.startswith(what)
    assert raised.value.hint


def test_accuracy_is_held_against_right_answers():
    with pytest.raises(RequestError) as raised:
        evaluate(None, {"als": RANKED}, metrics=["novelty@2", "nDCG@2"], train=TRAIN)

    assert raised.value.code == "missing-key"
    assert raised.value.hint == "nDCG@2 is held against right answers"


@pytest.mark.parametrize("by", ["gender", "n_relevant"])
def test_segments_of_the_truths_columns_need_a_truth(by):
    with pytest.raises(EvalkitError) as raised:
        evaluate(
            None,
            {"als": RANKED},
            metrics=["novelty@2"],
            train=TRAIN,
            segments={"s": {"by": by}},
        )

    assert raised.value.code == "missing-input"


def test_init_writes_what_check_finds_fine(folder):
    asked = ["init", "als=als.parquet", "--train", "train.parquet", "-o", "lists.toml"]
    assert run_here(asked, folder).status == 0

    checked = run_here(["check", "lists.toml", "--users", "truth.parquet"], folder)

    assert "0 wrong" in checked.out


def test_items_that_their_table_lacks_are_counted_and_three_are_named():
    report = evaluate(None, {"als": RANKED}, metrics=["item_coverage@2"], items=ITEMS.head(2))

    (told,) = (each for each in report.warnings if each.code == "unknown-items")
    assert told.message == "3 rows of lists (75.00%) show items that [items] lacks, as 3, 4, 9"
    assert report.counts.models["als"].unknown_items == 3


def test_an_age_is_of_a_date_that_can_be_read():
    items = pl.DataFrame({"item": [1, 3, 4], "published": ["2025-12-31", "2025-12-30", "soon"]})
    with pytest.raises(EvalkitError) as raised:
        evaluate(
            None, {"als": RANKED}, metrics=["age@2"], items={"path": items, "now": "2026-01-01"}
        )

    assert raised.value.code == "bad-time"


def test_a_gate_of_a_drop_needs_a_direction():
    gate = '[[gates]]\nmetric = "overlap@2"\nmax_drop = 0.1\nbaseline = "last"\n'
    with pytest.raises(RequestError) as raised:
        parse_config(WHOLE.replace("novelty@2", "overlap@2") + gate, source="lists.toml")

    assert raised.value.message == "overlap@2 has no better direction, so that it cannot drop"
