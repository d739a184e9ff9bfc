"""How lists are spread over items, drawn: by hand, and as the Gini index has it."""

from itertools import pairwise

import polars as pl
import pytest
from shown_lists import METRICS, config_of, make_tables, merged, told

import evalkit
from evalkit import evaluate
from evalkit.aggregate.accumulators import genres
from evalkit.inference import popularity
from evalkit.kinds.rankings import measure as run
from evalkit.pipeline import run_config

LISTS = {1: [1, 2], 2: [1, 3], 3: [1, 9], 4: [1, 1]}  # 9 is none of the items
COUNTED = {"duplicates": "count"}  # item 1 stands twice in a list
TRAIN = {"user_id": [1, 2, 3, 1, 2, 2], "item_id": [1, 1, 1, 2, 3, 3]}  # of 4 there is no row


def rankings(lists):
    rows = [(u, i, rank) for u, items in lists.items() for rank, i in enumerate(items, 1)]
    return pl.DataFrame(rows, schema=["user_id", "item_id", "rank"], orient="row")


def graphs_of(lists, n_items, metrics, **more):
    items = pl.DataFrame({"item_id": range(1, n_items + 1)})
    given = {"rankings": {"m": rankings(lists)}, "items": items, "metrics": metrics}
    return evaluate(None, **given, **more, policies=COUNTED)


def test_shares_of_items_and_of_tenths_are_those_by_hand():
    report = graphs_of(LISTS, 4, ["novelty@2", "gini@2"], train=pl.DataFrame(TRAIN))

    lorenz, tenths = report.graphs
    assert (lorenz.kind, lorenz.y_name) == ("lorenz", "share of shown rows@2")
    assert lorenz.x == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert lorenz.y == (0.0, 0.0, 1 / 6, 2 / 6, 1.0)
    # item 4, then 2 and 3, which share alike, then 1: 0, 2, 4 rows of 6
    assert (tenths.kind, tenths.x) == ("popularity", tuple(range(1, 11)))
    wanted = [0, 0, 0.2, 0.4, 0.4, 0.4, 0.4, 1.0, 1.6, 1.6]
    assert tenths.y == pytest.approx([each / 6 for each in wanted], rel=1e-15)
    assert evalkit.Report.from_json(report.to_json()).graphs == report.graphs
    page = report.to_html()
    section = page[page.index('id="shown"') :].partition("<h2")[0]
    assert section.count('class="curve c0"') == 2
    assert 'id="graphs"' not in page


def test_many_items_are_thinned_to_their_own_points():
    (lorenz,) = graphs_of({u: range(1, u + 1) for u in range(1, 5)}, 201, ["hhi"]).graphs

    assert lorenz.y_name == "share of shown rows"
    assert len(lorenz.x) == 101
    assert (lorenz.x[50], lorenz.y[50]) == (100 / 201, 0.0)
    assert (lorenz.x[99], lorenz.y[99]) == (
        198 / 201,
        0.1,
    )  # the items are shown 0, ..., 0, 1, 2, 3, 4 times


def test_the_curve_holds_the_gini_index_and_nobody_else_has_one():
    tables = make_tables()
    given = {name: tables[name] for name in ("train", "items")} | {"policies": COUNTED}
    models = {name: tables[name] for name in "ab"}
    report = evaluate(tables["truth"], models, metrics=METRICS, **given)

    for graph in report.graphs[:2]:
        points = pairwise(zip(graph.x, graph.y, strict=True))
        area = sum((b[0] - a[0]) * (a[1] + b[1]) for a, b in points)
        assert 1 - area == pytest.approx(report.value("gini@2", model=graph.model), abs=1e-12)
    assert [graph.kind for graph in report.graphs] == ["lorenz"] * 2 + ["popularity"] * 2
    plain = evaluate(tables["truth"], models, metrics=["nDCG@3", "novelty@3"], **given)
    assert plain.graphs == ()


def test_attention_of_groups_stands_beside_their_share_of_the_items():
    items = pl.DataFrame({"item_id": [1, 2, 3, 4, 5], "by": ["<b>", "a", "a", "a", None]})
    metrics = ["exposure_parity(by='by', attention='geometric', patience=0.5)@2"]
    given = {"path": items, "columns": {"item": "item_id"}}
    report = evaluate(None, {"m": rankings(LISTS)}, items=given, metrics=metrics, policies=COUNTED)

    graph = report.graphs[-1]
    assert (graph.kind, graph.groups) == ("exposure", ("a", "<b>"))
    assert graph.x == (3 / 4, 1 / 4)
    # item 1 comes first four times, and once more second: items 2 and 3 come second
    assert graph.y == pytest.approx((2 * 0.5 / 5.5, 4.5 / 5.5), rel=1e-12)
    assert evalkit.Report.from_json(report.to_json()).graphs == report.graphs
    section = report.to_html().partition('id="shown"')[2].partition("<h2")[0]
    assert ">75.0%<" in section
    assert "percents: share of items" in section
    assert "&lt;b&gt;" in section
    assert "<b>" not in section
    plain = evaluate(
        None, {"m": rankings(LISTS)}, items=given, metrics=["gini@2"], policies=COUNTED
    )
    assert '"groups"' not in plain.to_json()


GENRES = pl.DataFrame(
    {"item_id": [1, 2, 3, 4], "genres": [["a", "b"], ["a"], ["<i>"], []]},
    schema_overrides={"genres": pl.List(pl.String)},
)


def of_genres(metric, lists=LISTS, train=TRAIN, **more):
    given = {"items": GENRES, "train": pl.DataFrame(train), **more}
    return evaluate(None, {"m": rankings(lists)}, metrics=[metric], policies=COUNTED, **given)


def test_genres_of_lists_stand_beside_those_of_the_users_train_rows():
    report = of_genres("calibration@2", {**LISTS, 5: [1], 6: [9]})

    (graph,) = report.graphs
    assert (graph.kind, graph.groups) == ("genres", ("a", "<i>", "b"))
    assert graph.y_name == "share of lists, calibration@2"
    # users 1, 2 and 3 have lists and train rows with genres: 1 and 2, 1 and 3, 1
    assert graph.x == pytest.approx([(3 / 4 + 1 / 4 + 1 / 2) / 3, 1 / 6, 1 / 3], abs=1e-9)
    assert graph.y == pytest.approx([(3 / 4 + 1 / 4 + 1 / 2) / 3, 1 / 6, 1 / 3], abs=1e-9)
    assert graph.rows == (3.0, 3.0, 3.0)
    assert graph.low[0] < graph.y[0] < graph.high[0]
    assert evalkit.Report.from_json(report.to_json()).graphs == report.graphs
    section = report.to_html().partition('id="shown"')[2].partition("<h2")[0]
    assert ">50.0%<" in section
    assert "percents: share of train rows" in section
    assert "&lt;i&gt;" in section
    assert "<i>" not in section.replace("<i>0", "")
    (weighed,) = of_genres("calibration(weighting='rank')@2", {1: [1, 3]}).graphs
    ranks = 1.0, 1 / 1.5849625007211562
    wanted = [ranks[0] / 2 / sum(ranks), ranks[1] / sum(ranks), ranks[0] / 2 / sum(ranks)]
    assert weighed.y == pytest.approx(wanted, abs=1e-9)
    assert weighed.low == (None, None, None)
    assert of_genres("calibration@2", {7: [1], 4: [1]}).graphs == ()


def test_many_genres_and_columns_of_groups_are_drawn_too():
    items = pl.DataFrame({"item_id": range(90), "of": [f"g{i % 45:02}" for i in range(90)]})
    items = pl.concat([items, pl.DataFrame({"item_id": [90], "of": ["g07"]})])
    given = {"path": items, "columns": {"item": "item_id"}}
    (graph,) = of_genres("calibration(by='of')@2", items=given).graphs

    assert graph.groups == ("g07", *(f"g{n:02}" for n in range(40) if n != 7))
    assert sum(graph.x) == pytest.approx(1.0)
    assert (
        "the 28 groups with the most items"
        in of_genres("calibration(by='of')@2", items=given).to_html()
    )


def test_genres_are_those_of_passes_and_shares(tmp_path, monkeypatch):
    tables = make_tables()
    kinds = [[["x", "y", "z"][k] for k in range(3) if i >> k & 1] for i in range(55)]
    tables["items"] = pl.DataFrame({"item_id": range(55), "genres": kinds})
    for name, table in tables.items():
        table.write_parquet(tmp_path / f"{name}.parquet")
    metrics = ["calibration@3", "calibration(weighting='rank')@5"]
    monkeypatch.setattr(popularity, "USERS_DRAWN", 40)
    monkeypatch.setattr(genres, "USERS_DRAWN", 40)
    config = config_of(tmp_path, metrics, of_items={"genres": "genres"})
    whole = told(run_config(config))

    assert [each["rows"][0] for each in whole["graphs"]] == [37.0, 36.0]  # who have genres, of 40
    assert told(merged(config, tmp_path)) == whole
    monkeypatch.setattr(run, "count_shares", lambda *_: 3)
    assert told(run_config(config, threads=2)) == whole
