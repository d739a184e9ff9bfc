"""Tables of items that are wrong, and what metrics of lists say little of, at every entry point."""

import json
from datetime import date

import polars as pl
import pytest

from evalkit import evaluate
from evalkit.config import evaluate_config, load_config
from evalkit.errors import EvalkitError
from evalkit.pipeline import run_config

ITEMS = pl.DataFrame({"item": [1, 2, 3, 4]})
RANKED = pl.DataFrame({"user": [1, 1, 1, 2, 2], "item": [1, 2, 9, 3, 2], "rank": [1, 2, 3, 1, 2]})
DATES = [date(2020, 1, 1)] * 4


def at_doors(metric, columns, folder, **more):
    """The report of Python, then of options, then of a config."""
    items = ITEMS.with_columns(**columns)
    yield lambda: evaluate(None, {"a": RANKED}, metrics=[metric], items={"path": items, **more})
    RANKED.write_parquet(folder / "a.parquet")
    items.write_parquet(folder / "items.parquet")
    settings = [f"items.{name}={value}" for name, value in more.items()]
    yield lambda: run_config(
        evaluate_config(
            truth=(),
            rankings=[("a", str(folder / "a.parquet"))],
            metrics=[metric],
            overrides=[f'--items="{folder}/items.parquet"', *settings],
        )
    )
    written = [f"{name} = {json.dumps(value)}" for name, value in more.items()]
    (folder / "job.toml").write_text(
        "\n".join(
            [
                "[items]",
                'path = "items.parquet"',
                *written,
                "[metrics]",
                f"names = [{json.dumps(metric)}]",
                '[[rankings]]\npath = "a.parquet"\nmodel = "a"',
            ]
        )
    )
    yield lambda: run_config(load_config(folder / "job.toml"))


@pytest.mark.parametrize(
    ("metric", "columns", "more", "code"),
    [
        ("genre_entropy@3", {"genres": pl.Series([1.0, 2.0, 3.0, 4.0])}, {}, "bad-type"),
        ("genre_entropy@3", {"genres": pl.Series([{"a": 1}] * 4)}, {}, "bad-type"),
        ("ild@3", {"vector": pl.Series([[1.0], [1.0, 2.0], [1.0], [1.0]])}, {}, "ragged-vectors"),
        ("ild@3", {"vector": pl.Series([[]] * 4, dtype=pl.List(pl.Float64))}, {}, "ragged-vectors"),
        ("ild@3", {"vector": pl.Series([[float("nan")]] * 4)}, {}, "bad-vector"),
        ("ild@3", {"vector": pl.Series(["1 2"] * 4)}, {}, "not-a-number"),
        ("age@3", {"published": pl.Series(DATES)}, {"now": "2019-12-31"}, "bad-now"),
        ("age@3", {"published": pl.Series(["soon"] * 4)}, {"now": "2020-01-31"}, "bad-time"),
        ("age@3", {"published": pl.Series(DATES)}, {"now": "soon"}, "bad-now"),
        ("age@3", {"published": pl.Series(DATES)}, {"now": 5}, "bad-now"),
        ("age@3", {"published": pl.Series([1, 2, 3, 4])}, {"now": "2020-01-31"}, "bad-now"),
        ("age@3", {"published": pl.Series(DATES)}, {}, "missing-input"),
        ("exposure_parity(by='p')@3", {"p": pl.lit("x")}, {}, "one-group"),
        ("exposure_parity(by='p')@3", {"p": pl.lit(None, dtype=pl.String)}, {}, "one-group"),
        ("rsp(by='p')@3", {"p": pl.lit("x")}, {}, "missing-input"),
        ("exposure_parity(by='p')@3", {"q": pl.lit("x")}, {}, "missing-column"),
        ("genre_entropy@3", {"q": pl.lit("x")}, {}, "missing-input"),
        ("ild@3", {"vector": pl.Series([[float("inf")]] * 4)}, {}, "bad-vector"),
        (
            "exposure_parity(by='p')@3",
            {"item": pl.Series([1, 1, 2, 3]), "p": pl.Series(["a", "b", "a", "b"])},
            {},
            "conflicting-items",
        ),
        (
            "ild@3",
            {"item": pl.Series([1, 1, 2, 3]), "vector": pl.Series([[1.0], [2.0], [1.0], [1.0]])},
            {},
            "conflicting-items",
        ),
        (
            "genre_entropy@3",
            {"item": pl.Series([1, 1, 2, 3]), "genres": pl.Series([["a"], ["b"], ["a"], ["a"]])},
            {},
            "conflicting-items",
        ),
    ],
)
def test_wrong_tables_of_items_are_one_error(metric, columns, more, code, tmp_path):
    for entry_point in at_doors(metric, columns, tmp_path, **more):
        with pytest.raises(EvalkitError) as raised:
            entry_point()
        assert raised.value.code == code


@pytest.mark.parametrize(
    "genres",
    [
        pl.Series(["a", "b", None, ""]),
        pl.Series([1, 2, None, None]),
        pl.Series([["a"], ["b"], [], None]),
        pl.Series(["a", "b", None, None], dtype=pl.Categorical),
    ],
)
def test_one_genre_an_item_and_items_without_one_are_counted(genres, tmp_path):
    for entry_point in at_doors("genre_entropy@3", {"genres": genres}, tmp_path):
        report = entry_point()
        counts = report.counts.models["a"]

        assert report.value("genre_entropy@3") == 0.5  # two genres of user 1, one of user 2
        assert (counts.empty_genres, counts.unknown_items, counts.short_lists) == (1, 1, 1)
        told = {each.code: each.message for each in report.warnings}
        assert told["unknown-items"].startswith("1 rows of lists (20.00%)")
        assert told["short-lists"].startswith("1 lists (50.00%)")
        assert "few-lists" not in told  # of numbers of all lists


def test_vectors_of_zeros_are_counted_and_few_users_told(tmp_path):
    vectors = {"vector": pl.Series([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], None])}
    for entry_point in at_doors("ild@3", vectors, tmp_path):
        assert entry_point().counts.models["a"].zero_vectors == 2
    for entry_point in at_doors("item_coverage@3", {}, tmp_path):
        report = entry_point()
        assert "few-lists" in {each.code for each in report.warnings}
        assert report.counts.models["a"].empty_genres == 0


def test_now_is_a_whole_number_where_dates_are(tmp_path):
    for entry_point in at_doors(
        "age@3", {"published": pl.Series([10, 20, 20, None])}, tmp_path, now=30
    ):
        assert entry_point().value("age@3") == (15 + 10) / 2


def test_earlier_lists_are_given_in_python_too(tmp_path):
    before = RANKED.with_columns(item=pl.col("item") + 1)
    before.write_parquet(tmp_path / "before.parquet")
    names = ["temporal_diversity@3", "temporal_novelty@3"]
    days = (before, RANKED), (str(tmp_path / "before.parquet"), {1: [1, 2, 9], 2: [3, 2]})
    for one, other in days:
        model = {"path": RANKED, "earlier": [one, other]}
        report = evaluate(None, {"a": model, "b": RANKED}, metrics=names)
        assert report.estimates[0].value == report.estimates[1].value == 0.0
        model = {"path": RANKED, "earlier": [one]}
        report = evaluate(None, {"a": model}, metrics=names[:1])
        assert report.value(names[0]) == pytest.approx(7 / 12)

    with pytest.raises(EvalkitError) as raised:
        evaluate(None, {"a": RANKED}, metrics=names)
    assert raised.value.hint == 'pass rankings={"als": {"path": table, "earlier": [table, table]}}'
    with pytest.raises(EvalkitError) as raised:
        evaluate(None, {"a": RANKED}, metrics=["rbo@3"])
    assert raised.value.hint == "pass reference=table"


def test_coverage_beyond_the_catalogue_says_so():
    items = ITEMS.head(1)
    name = "item_coverage(catalogue='items_open')@3"
    report = evaluate(None, {"a": RANKED}, metrics=[name], items=items)

    assert report.estimates[0].value > 1.0
    assert "coverage-above-one" in {each.code for each in report.warnings}


TRAIN = pl.DataFrame({"user": [1, 2, 2], "item": [1, 1, 2]})
EMPTY = {
    "train": (["novelty@2", "re_recommended@2"], {"train": TRAIN.clear()}),
    "users": (["user_coverage@2"], {"users": TRAIN.select("user").clear()}),
    "reference": (["overlap@2"], {"reference": RANKED.clear()}),
    "earlier": (["temporal_novelty@2"], {}),
}


@pytest.mark.parametrize("role", EMPTY)
def test_a_table_without_rows_that_metrics_need_is_refused_or_told(role):
    metrics, tables = EMPTY[role]
    ranked = {"path": RANKED, "earlier": [RANKED.clear()]} if role == "earlier" else RANKED

    with pytest.raises(EvalkitError) as caught:
        evaluate(None, {"a": ranked}, metrics=metrics, **tables)
    warn = {"empty_input": "warn"}
    report = evaluate(None, {"a": ranked}, metrics=metrics, policies=warn, **tables)

    assert caught.value.code == "empty-input"
    assert "have no rows" in caught.value.message or "has no rows" in caught.value.message
    assert "empty-input" in [each.code for each in report.warnings]


@pytest.mark.parametrize("metric", ["novelty@2", "novelty_of_rows@2", "EFD@2"])
def test_a_training_log_without_rows_says_nothing_of_novelty(metric):
    truth = pl.DataFrame({"user": [1, 2], "item": [1, 2]})
    warn = {"empty_input": "warn"}

    report = evaluate(truth, {"a": RANKED}, metrics=[metric], policies=warn, train=TRAIN.clear())

    assert not report.value(metric) < 0  # but 0, or no number


def test_a_user_who_should_have_got_a_list_has_an_id():
    users = pl.DataFrame({"user": [1, None, 7]})
    asked = {"metrics": ["user_coverage@2"], "users": users}

    with pytest.raises(EvalkitError, match="1 rows of the users have no user") as caught:
        evaluate(None, {"a": RANKED}, **asked)

    assert caught.value.code == "null-id"
    dropped = evaluate(None, {"a": RANKED}, **asked, policies={"null_ids": "drop"})
    assert dropped.value("user_coverage@2") == 0.5
