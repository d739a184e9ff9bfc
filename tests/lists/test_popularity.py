"""How lists are spread over items, drawn: by hand, and as the Gini index has it."""

from itertools import pairwise

import polars as pl
import pytest
from shown_lists import METRICS, make_tables

import evalkit
from evalkit import evaluate

LISTS = {1: [1, 2], 2: [1, 3], 3: [1, 9], 4: [1, 1]}  # 9 is none of the items
TRAIN = {"user_id": [1, 2, 3, 1, 2, 2], "item_id": [1, 1, 1, 2, 3, 3]}  # of 4 there is no row


def rankings(lists):
    rows = [(u, i, rank) for u, items in lists.items() for rank, i in enumerate(items, 1)]
    return pl.DataFrame(rows, schema=["user_id", "item_id", "rank"], orient="row")


def graphs_of(lists, n_items, metrics, **more):
    items = pl.DataFrame({"item_id": range(1, n_items + 1)})
    given = {"rankings": {"m": rankings(lists)}, "items": items, "metrics": metrics}
    return evaluate(None, **given, **more)


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
    given = {name: tables[name] for name in ("train", "items")}
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
    report = evaluate(None, {"m": rankings(LISTS)}, items=given, metrics=metrics)

    graph = report.graphs[-1]
    assert (graph.kind, graph.groups) == ("exposure", ("a", "<b>"))
    assert graph.x == (3 / 4, 1 / 4)
    # item 1 comes first four times, and once more second: items 2 and 3 come second
    assert graph.y == pytest.approx((2 * 0.5 / 5.5, 4.5 / 5.5), rel=1e-12)
    assert evalkit.Report.from_json(report.to_json()).graphs == report.graphs
    section = report.to_html().partition('id="shown"')[2].partition("<h2")[0]
    assert "75.0% of items" in section
    assert "&lt;b&gt;" in section
    assert "<b>" not in section
    plain = evaluate(None, {"m": rankings(LISTS)}, items=given, metrics=["gini@2"])
    assert '"groups"' not in plain.to_json()
