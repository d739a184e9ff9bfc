"""Numbers of all lists together: counters, errors by influence, segments, pairs, shares."""

import math

import numpy as np
import polars as pl
import pytest
from shown_lists import METRICS, config_of, lists_of, make_tables, merged, numbers_of, told

from evalkit import evaluate
from evalkit.aggregate.accumulators import shown
from evalkit.kinds.rankings import measure as run
from evalkit.metrics import Items, Shown, parse_metrics
from evalkit.pipeline import run_config


@pytest.fixture(scope="module")
def tables():
    return make_tables()


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    return folder


def test_numbers_are_those_of_sets_in_segments_and_pairs_too(tables, folder):
    report = run_config(config_of(folder))

    catalogue = tables["items"]["item_id"].to_list()
    groups = dict(tables["users"].rows())
    lists = {name: lists_of(tables[name]) for name in "ab"}
    checked = 0
    for estimate in report.estimates:
        if estimate.name in ("nDCG", "novelty"):
            continue
        own = {
            u: i for u, i in lists[estimate.model].items() if estimate.segment in (None, groups[u])
        }
        wanted = numbers_of(own, catalogue, estimate.cutoff)[estimate.name]
        assert estimate.value == pytest.approx(wanted, rel=1e-12), estimate
        assert estimate.n_users == len(own)
        checked += 1
    assert checked == 2 * 4 * 7
    both = lists["a"].keys() & lists["b"].keys()
    for comparison in report.comparisons:
        if comparison.metric in ("nDCG@3", "novelty@3"):
            continue
        users = {u for u in both if comparison.segment in (None, groups[u])}
        old, new = (
            numbers_of(
                {u: lists[m][u] for u in sorted(users)}, catalogue, int(comparison.metric[-1])
            )
            for m in "ab"
        )
        name = comparison.metric.partition("@")[0]
        assert comparison.delta == pytest.approx(new[name] - old[name], abs=1e-12), comparison
        assert (comparison.n_users, comparison.wins) == (len(users), None)


def test_errors_are_those_of_the_users_influence(tables, folder):
    report = run_config(config_of(folder))
    lists, catalogue = lists_of(tables["a"]), tables["items"]["item_id"].to_list()
    names = {
        e.name: e for e in report.estimates if (e.model, e.segment, e.cutoff) == ("a", None, 5)
    }
    counts = {i: sum(i in items[:5] for items in lists.values()) for i in catalogue}
    total = sum(counts.values())
    hhi = names["hhi"].value
    n = len(lists)
    influences = [
        n * sum(2 * (counts[i] / total - hhi) / total for i in {*items[:5]} if i in counts)
        for items in lists.values()
    ]

    assert names["hhi"].std_error == pytest.approx(np.std(influences, ddof=1) / math.sqrt(n))


JACKKNIFED = {  # how near, where a list has several items; those that tie move each other
    "entropy@4": 1e-9,
    "list_surprisal@4": 1e-9,
    "gini@4": 0.02,
    "evenness(over='m-1')@4": 0.02,
    "gini_exposure@4": 0.02,
    "entropy(items='shown', scale='share')@4": 0.03,
    "entropy(items='shown', scale='per_item', log_base='e')@4": 0.06,
    "gini(items='shown', over='m-1')@4": 0.08,
}


@pytest.mark.parametrize("length", [1, 4])
def test_errors_are_those_of_users_left_out_one_by_one(length):
    rng, n, n_items = np.random.default_rng(5), 60, 400  # so that most items are shown once
    weight = 1.0 / np.arange(1, n_items + 1)
    lists = {
        model: [
            rng.choice(n_items, length, p=weight / weight.sum(), replace=False) for _ in range(n)
        ]
        for model in "ab"
    }
    rows = [(model, u, i, rank) for model in "ab" for u in range(n)
            for rank, i in enumerate(lists[model][u], 1)]  # fmt: skip
    frame = pl.DataFrame(rows, schema=["model", "user", "item", "rank"], orient="row")
    rankings = {m: frame.filter(model=m).drop("model") for m in "ab"}
    report = evaluate(
        pl.DataFrame({"user": range(n), "item": [0] * n}),
        rankings,
        metrics=list(JACKKNIFED),
        items=pl.DataFrame({"item": range(n_items)}),
        statistics={"baseline": "a"},
    )
    errors = {(each.metric, each.model): each.std_error for each in report.estimates}
    errors |= {(each.metric, "b - a"): each.std_error for each in report.comparisons}
    assert len(errors) == 3 * len(JACKKNIFED)

    everywhere = np.ones(n_items, dtype=bool)
    items = Items(*([None] * 12))._replace(is_listed=everywhere, popularity=everywhere)
    attention = 1.0 / np.log2(1.0 + np.arange(1, length + 1))

    def number(request, own):
        rows = np.concatenate(own)
        counts = np.bincount(rows, minlength=n_items)
        exposure = np.bincount(rows, np.tile(attention, len(own)), minlength=n_items)
        exposure *= counts > 0
        shown = Shown(counts, exposure, exposure, len(own), counts / length, 4)
        return request.metric.function(shown, items, dict(request.parameters))[0]

    for name, near in JACKKNIFED.items():
        (request,) = parse_metrics([name])
        near = 1e-9 if length == 1 and "shown" not in name else near
        left = {
            m: np.array([number(request, own[:u] + own[u + 1 :]) for u in range(n)])
            for m, own in lists.items()
        }
        left["b - a"] = left["b"] - left["a"]
        for model, values in left.items():
            wanted = math.sqrt((n - 1) / n * ((values - values.mean()) ** 2).sum())
            assert errors[request.label, model] == pytest.approx(wanted, rel=near), (name, model)


def covering(n_users, n_items, k, *, first=0):
    """One list a user, so that all items are shown, most of them often."""
    rows = [(u, (u * k + j + first) % n_items, j + 1) for u in range(n_users) for j in range(k)]
    return pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")


OF_COVERAGE = {"baseline": "a", "correction": "none"}


def test_coverage_of_all_items_may_be_an_item_less_and_never_more():
    items = pl.DataFrame({"item": range(50)})
    models = {"a": covering(100, 50, 3), "b": covering(100, 50, 3, first=7)}
    names = ["item_coverage@3", "item_coverage(scale='percent')@3", "item_coverage(scale='count')"]
    names += ["prediction_coverage", "item_coverage(at_users=25)"]
    combined = {"both": "item_coverage@3 + 1e-9 * list_length@3"}
    report = evaluate(
        None,
        models,
        metrics=[*names, "list_length@3"],
        combined=combined,
        items=items,
        statistics=OF_COVERAGE,
    )

    for label, unit in zip(names, (1, 100, 50, 1), strict=False):
        each = next(e for e in report.estimates if (e.metric, e.model) == (label, "a"))
        t = (unit - each.low) / each.std_error
        assert (each.value, each.high) == (unit, unit)
        assert each.std_error == pytest.approx(unit / 50)
        assert 1.98 < t < 1.99  # Student's, of 100 users
        pair = next(e for e in report.comparisons if e.metric == label)
        assert pair.std_error == pytest.approx(math.sqrt(2) * unit / 50)
        assert (pair.low < 0 < pair.high, pair.p_value) == (True, 1.0)
    both = next(e for e in report.estimates if (e.metric, e.model) == ("both", "a"))
    assert both.std_error == pytest.approx(1 / 50)
    (fewer,) = [e for e in report.estimates if e.metric == names[-1] and e.model == "a"]
    assert fewer.std_error >= math.sqrt(25 / 100) / 50


def test_coverage_of_equal_lists_does_not_differ_at_all():
    lists = covering(100, 50, 3)
    items = pl.DataFrame({"item": range(50)})
    given = {"items": items, "statistics": OF_COVERAGE, "metrics": ["item_coverage@3"]}
    (same,) = evaluate(None, {"a": lists, "b": lists}, **given).comparisons

    assert (same.delta, same.low, same.high, same.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_coverage_of_few_kept_lists_counts_what_all_show_alone(monkeypatch):
    often = covering(1000, 20, 2)
    alone = pl.DataFrame({"user": range(9), "item": range(100, 109), "rank": [3] * 9})
    items = pl.DataFrame({"item": range(120)})
    given = {"items": items, "metrics": ["item_coverage@3"]}
    rankings = {"a": pl.concat([often, alone])}
    (whole,) = evaluate(None, rankings, **given).estimates
    monkeypatch.setattr(shown, "SAMPLED", 50)
    (kept,) = evaluate(None, rankings, **given).estimates

    assert whole.std_error == pytest.approx(3 / 120, rel=0.01)
    assert kept.std_error == pytest.approx(whole.std_error, rel=0.01)


def test_passes_and_shares_give_the_bytes_of_the_whole(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "SAMPLED", 70)  # so that most users' lists are not kept
    config = config_of(folder)
    whole = told(run_config(config))

    assert told(merged(config, tmp_path)) == whole
    monkeypatch.setattr(run, "count_shares", lambda *_: 3)
    assert told(run_config(config)) == whole


def test_models_apart_give_the_numbers_of_models_together(folder):
    apart = run_config(config_of(folder, statistics={}))
    together = run_config(config_of(folder))

    values = {(e.model, e.metric, e.segment): e.value for e in together.estimates}
    assert {(e.model, e.metric, e.segment): e.value for e in apart.estimates} == values


def test_the_order_of_the_table_of_items_and_the_threads_change_no_digit(tables):
    def numbers(items, threads):
        rankings = {name: tables[name] for name in "ab"}
        given = {"train": tables["train"], "items": items, "threads": threads}
        given["policies"] = {"duplicates": "count"}
        return evaluate(tables["truth"], rankings, metrics=METRICS, **given).estimates

    assert numbers(tables["items"], 1) == numbers(tables["items"].reverse(), 2)


def test_an_empty_list_is_like_no_list_not_even_itself():
    lists = pl.DataFrame({"user": [1, 2, 3], "items": [["a", "b"], ["a", "b"], []]})

    report = evaluate(None, {"m": lists}, metrics=["personalization", "personalization@1"])

    # of three pairs one is alike
    for each in report.estimates:
        assert (each.value, each.n_users) == (pytest.approx(2 / 3), 3)


def test_exposure_is_undefined_where_nobody_has_a_list():
    truth = pl.DataFrame({"user": [1], "item": ["a"]})
    lists = pl.DataFrame({"user": [1], "item": ["a"], "rank": [1]}).clear()
    asked = {"metrics": ["gini_exposure@5"], "items": truth.select("item")}
    asked["policies"] = {"empty_input": "warn", "no_common_user": "warn"}

    report = evaluate(truth, {"m": lists}, **asked)

    assert math.isnan(report.value("gini_exposure@5"))
