"""What Python hands over besides frames: dicts, lists, matrices; and what a report gives back."""

import pickle
import re
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import EvalkitError
from evalkit.sources.failures import describe

RANDOM = np.random.default_rng(7)
RELEVANT = (RANDOM.random((30, 40)) < 0.1).astype(int)
SCORES = np.round(RANDOM.random((30, 40)), 1)  # with many ties
TOP = ["nDCG@5", "recall@{3,10}", "AP@5", "RR@10", "hit@3", "precision@5", "DCG@4", "hits@2"]


class Stored:
    """A sparse matrix as SciPy has it, as far as it is looked at."""

    def __init__(self, dense: np.ndarray) -> None:
        self.shape = dense.shape
        self.row, self.col = np.nonzero(dense)
        self.data = dense[self.row, self.col]

    def tocoo(self) -> "Stored":
        return self


def long(matrix: np.ndarray, number: str) -> pl.DataFrame:
    users, items = np.nonzero(np.ones_like(matrix) if number == "score" else matrix)
    return pl.DataFrame({"user": users, "item": items, number: matrix[users, items]})


def values(truth: object, ranked: object, **more: object) -> list[float]:
    report = evalkit.evaluate(truth, ranked, **{"metrics": TOP, **more})
    return [report.value(label) for label in report.labels]


def test_a_matrix_gives_the_numbers_of_its_long_table():
    wanted = values(long(RELEVANT, "relevance"), {"a": long(SCORES, "score")})

    assert values(RELEVANT, {"a": SCORES}) == wanted
    assert values(Stored(RELEVANT), {"a": Stored(SCORES + 1)}) == wanted
    assert values(RELEVANT, SCORES, metrics=[*TOP, "RR"])[:-1] == wanted  # RR reads all of it


def test_what_is_minus_infinity_or_not_stored_is_not_ranked():
    some = np.where(RANDOM.random(SCORES.shape) < 0.3, SCORES + 1, -np.inf)
    table = long(some, "score").filter(pl.col("score") != -np.inf)
    wanted = values(long(RELEVANT, "relevance"), {"a": table}, metrics=["AUC", "recall@10"])

    assert values(RELEVANT, {"a": some}, metrics=["AUC", "recall@10"]) == wanted
    stored = Stored(np.where(some == -np.inf, 0, some))
    assert values(RELEVANT, {"a": stored}, metrics=["AUC", "recall@10"]) == wanted


@pytest.mark.parametrize("policy", ["empty_ranking", "missing_ranking"])
@pytest.mark.parametrize("with_scores", [False, True])
def test_an_empty_list_is_one_through_every_door(policy, with_scores):
    truth = {1: ["a"], 2: ["c"], 3: ["a"]}
    lists = {1: [], 2: ["c", "a"]}
    frame = pl.DataFrame({"user": [1, 2], "items": [[], ["c", "a"]]})
    doors = [lists, frame]
    if with_scores:
        doors[0] = {1: {}, 2: {"a": 0.1, "c": 0.2}}
        doors[1] = frame.with_columns(scores=pl.Series([[], [0.2, 0.1]]))
    asked = {"metrics": ["hit@1"], "policies": {policy: "skip"}}
    found = [values(truth, {"a": door}, **asked) for door in doors]

    assert found == [[0.5], [0.5]]  # of users 2 and 3, or 1 and 2


@pytest.mark.parametrize("kept", ["best", "first", "last", "once", "count"])
def test_a_list_closes_up_behind_copies_through_every_door(kept):
    truth, lists = {0: ["a"]}, {0: ["x", "x", "a"]}
    frame = pl.DataFrame({"user": [0], "items": [lists[0]]})
    asked = {"metrics": ["RR"], "policies": {"duplicates": kept}}
    wanted = values(truth, {"a": frame}, **asked)

    assert values(truth, {"a": lists}, **asked) == wanted
    assert values([truth[0]], {"a": [lists[0]]}, **asked) == wanted


def test_several_lists_of_a_user_are_told():
    with pytest.raises(EvalkitError, match="the ranks of 1 users have gaps or repeats"):
        evalkit.evaluate({"u": ["a"]}, [["x"], ["a"]], user_ids=["u", "u"], metrics=["RR"])


@pytest.mark.parametrize("asked", [{"policies": {"no_relevant": "zero"}}, {"profile": "ranx"}, {}])
@pytest.mark.parametrize(
    "truth",
    [
        {0: [0], 1: []},
        {0: {0: 1}, 1: {}},
        [[0], []],
        np.array([[1, 0], [0, 0]]),
        Stored(np.array([[1, 0], [0, 0]])),
    ],
)
def test_users_of_a_truth_that_holds_nothing_for_them_count_as_in_a_table(truth, asked):
    scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    table = long(scores > 0.85, "relevance")
    rows = pl.DataFrame({"user": [1], "item": [0], "relevance": [False]})
    asked = {"metrics": ["hit@1"], **asked}
    wanted = values(pl.concat([table, rows]), {"a": long(scores, "score")}, **asked)

    assert values(truth, {"a": scores}, **asked) == wanted
    assert wanted == [0.5 if len(asked) > 1 else 1.0]


@pytest.mark.parametrize("nothing", [{}, []])
def test_lists_all_of_which_are_empty_are_no_rows(nothing):
    with pytest.raises(EvalkitError, match="the rankings of 'model' have no rows"):
        evalkit.evaluate({"u": ["a"]}, {"u": nothing}, metrics=["RR"])


def test_one_ranking_may_have_decimals_and_scores_that_are_none():
    scores = {"u": {"a": None, "b": Decimal("0.5"), "c": Decimal("0.7")}}

    report = evalkit.evaluate({"u": ["a"]}, scores, metrics=["RR"], policies={"bad_scores": "last"})

    assert report.value("RR") == 1 / 3


def test_scores_of_earlier_lists_put_them_in_order():
    lists = {1: ["b", "c", "a"]}
    models = {"m": {"path": lists, "earlier": [{1: {"a": 0.1, "b": 0.9, "c": 0.5}}]}}

    assert values(None, models, metrics=["temporal_diversity@1"]) == [0.0]


def test_dicts_and_lists_are_tables():
    truth = {"ann": {"a": 1, "b": 2}, "bob": {"c": 1}}
    scores = {"ann": {"b": 0.1, "x": 0.8, "a": 0.9}, "bob": {"c": 0.7}}
    lists = {"ann": ["a", "x", "b"], "bob": ["c"]}
    wanted = values(truth, {"m": scores})

    assert values(truth, scores) == wanted
    assert values(truth, {"m": lists}) == wanted
    ids = ["ann", "bob"]
    assert values([truth["ann"], truth["bob"]], [lists["ann"], ["c"]], user_ids=ids) == wanted
    binary = {"ann": {"a", "b"}, "bob": ["c"]}
    assert values(binary, {"m": lists}, metrics=["recall@2"]) == [0.75]


def test_columns_and_rows_are_named_for_one_table():
    truth = {"user": [1, 1, 2], "item": [1, 2, 3], "part": ["test", "train", "test"]}
    ranked = pl.DataFrame({"who": [1, 1, 2], "item": [2, 5, 3]})

    found = evalkit.evaluate(
        *(truth, {"m": ranked}),
        metrics=["recall@2"],
        where={"truth": "part = 'test'"},
        columns={"rankings": {"user": "who", "item": "item"}},
    )

    assert found.value("recall@2") == 0.5


@pytest.mark.parametrize(
    ("truth", "more", "code"),
    [
        ({1: 5}, {}, "bad-type"),
        (np.zeros(3), {}, "bad-matrix"),
        ({1: ["a"], "x": [2]}, {}, "bad-type"),
        (RELEVANT, {"user_ids": [1]}, "bad-matrix"),
        (RELEVANT, {"where": {"truht": "a"}}, "unknown-key"),
        (RELEVANT, {"where": {"train": "a"}}, "missing-key"),
        (RELEVANT, {"where": "part = 'test'"}, "wrong-type"),
        (RELEVANT, {"format": "trec"}, "wrong-type"),
        ([], {}, "unknown-format"),
        ({1: [(2, 5), (3, 4)]}, {}, "bad-type"),  # no items that are tuples
        ({"user": [1, 2], "item": [1]}, {}, "bad-type"),
        ({"user": [1, "a"], "item": [1, 2]}, {}, "bad-type"),
        ({1: [2], 2: {3: 0.5}}, {}, "bad-type"),
        ([[1], [2], [3]], {"user_ids": [1, 2]}, "bad-matrix"),
    ],
)
def test_what_is_no_table_is_told(truth, more, code):
    with pytest.raises(EvalkitError) as raised:
        evalkit.evaluate(truth, {"a": SCORES}, metrics=["RR"], **more)

    assert raised.value.code == code


@pytest.mark.parametrize(
    ("ranked", "hint"),
    [({1: {2, 3}}, "the best item first"), ({1: [[2], [3]]}, "all items one type")],
)
def test_rankings_without_an_order_of_items_are_told(ranked, hint):
    with pytest.raises(EvalkitError) as raised:
        evalkit.evaluate({1: [2]}, {"a": ranked}, metrics=["RR"])

    assert raised.value.code == "bad-type"
    assert hint in raised.value.hint


def test_a_table_of_segments_with_fewer_user_columns_is_told_what_to_join(tmp_path):
    table = pl.DataFrame({"user": [1], "session": ["a"], "item": [2]})
    table.select("user", group=pl.lit("x")).write_parquet(tmp_path / "users.parquet")
    with pytest.raises(EvalkitError) as raised:
        evalkit.evaluate(
            table,
            table,
            metrics=["RR"],
            columns={"user": ["user", "session"]},
            segments={"g": {"path": str(tmp_path / "users.parquet"), "by": "group"}},
        )

    assert (raised.value.code, raised.value.hint.split(" to ")[0]) == (
        "missing-column",
        "join session",
    )


@pytest.mark.parametrize("rows", [[(1, "a", 0.9), (2, "b", 0.4)], {1: [("a", 0.9)], 2: []}])
def test_tuples_of_items_and_scores_are_told_what_to_give(rows):
    with pytest.raises(EvalkitError) as raised:
        evalkit.evaluate({1: ["a"], 2: ["b"]}, {"als": rows}, metrics=["RR"])

    assert "{user: {item: score}}" in raised.value.hint


@pytest.mark.parametrize("listing", [list, tuple, np.array])
def test_lists_of_users_alone_are_one_model(listing):
    for users in (("ann", "bob"), (0, 1)):
        truth = dict(zip(users, ([1, 2], [3]), strict=True))
        lists = dict(zip(users, map(listing, ([1, 9], [9, 3])), strict=True))
        named = evalkit.evaluate(truth, {"mine": lists}, metrics=["RR"])

        assert evalkit.evaluate(truth, lists, metrics=["RR"]).value("RR") == named.value("RR")
    assert evalkit.evaluate([[1, 2], [3]], lists, metrics=["RR"]).value("RR") == 0.75


def test_a_report_is_frames_forms_and_a_plot(tmp_path):
    ranked = {"old": SCORES, "new": SCORES + RELEVANT * 0.3}
    report = evalkit.compare(RELEVANT, ranked, metrics=["nDCG@5", "MAP@10"], primary="MAP@10")

    assert report.verdict.startswith("by MAP@10, new is better than old, by +0.")
    assert report.comparisons["verdict"].to_list() == ["better", "better"]
    assert report.comparisons[0].delta == report.comparisons.frame["delta"][0]
    assert pickle.loads(pickle.dumps(report)).comparisons == report.comparisons
    assert report.findings.frame.height == report.segments.height == 0
    assert "MAP@10" in report.plot()._repr_svg_()
    style = report.plot().partition("<style>")[2].partition("</style>")[0]
    assert all("svg.evalkit" in each for each in re.findall(r"[^{}]+(?={[^{]*})", style))
    assert report._repr_html_().startswith("<p><b>By MAP@10, new is better than old")
    for form in (report.to_html, report.to_markdown, report.to_latex, report._repr_html_):
        assert "MAP@10: AP@10" in form()  # shown as asked, and what that is
    for ending in ("html", "tex", "md", "json", "csv", "parquet"):
        assert report.save(tmp_path / f"report.{ending}").stat().st_size > 100
    assert evalkit.load(report.write(tmp_path)) == report


def test_what_train_holds_is_dropped_before_a_matrix_is_cut():
    seen = (RANDOM.random(SCORES.shape) < 0.3) & (RELEVANT == 0)
    masked = np.where(seen, -np.inf, SCORES)

    assert values(RELEVANT, SCORES, train=seen.astype(int), drop_seen=True) == values(
        RELEVANT, masked
    )


def test_a_dataset_of_hugging_face_is_a_table():
    table = long(RELEVANT, "relevance")

    class Rows:
        def __getitem__(self, rows):
            assert rows == slice(None)
            return table.to_arrow()

    class Dataset:
        def with_format(self, name):
            assert name == "arrow"
            return Rows()

    Dataset.__module__ = "datasets.arrow_dataset"
    wanted = values(table, {"a": SCORES})

    assert values(Dataset(), {"a": SCORES}) == wanted


def test_dicts_of_nothing_are_models_unless_they_are_users():
    truth = {"u": ["a"], "v": ["b"]}
    with pytest.raises(EvalkitError) as both:
        evalkit.compare(truth, {"old": {}, "new": {}}, metrics=["RR"])
    warned = {"metrics": ["RR"], "policies": {"empty_input": "warn"}}

    users = evalkit.evaluate(truth, {"u": {}, "v": {}}, **warned)
    models = evalkit.evaluate(truth, {"old": {}, "new": {}}, **warned)

    assert "'old' have no rows" in str(both.value)
    assert "'new' have no rows" in str(both.value)
    assert (users.models, models.models) == (("model",), ("old", "new"))


def test_words_of_a_full_disk_are_of_the_machine_and_not_of_the_data():
    said = "parquet: underlying IO error: No space left on device (os error 28)"

    found = describe(pl.exceptions.ComputeError(said), "b.parquet")

    assert (found.code, found.exit_status) == ("machine-limit", 4)
