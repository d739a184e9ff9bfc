"""Numbers of all lists together: counters, errors by influence, segments, pairs, shares."""

import math

import numpy as np
import pytest
from shown_lists import METRICS, config_of, lists_of, make_tables, numbers_of, told

from evalkit import evaluate
from evalkit.looks import shown
from evalkit.partials import open_partials
from evalkit.rankings import _run as run
from evalkit.street import conclude_partials, measure_partial, run_config


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
    for each in report.estimates:
        if each.name in ("nDCG", "novelty"):
            continue
        own = {u: i for u, i in lists[each.model].items() if each.segment in (None, groups[u])}
        wanted = numbers_of(own, catalogue, each.cutoff)[each.name]
        assert each.value == pytest.approx(wanted, rel=1e-12), each
        assert each.n_users == len(own)
        checked += 1
    assert checked == 2 * 4 * 7
    both = lists["a"].keys() & lists["b"].keys()
    for each in report.comparisons:
        if each.metric in ("nDCG@3", "novelty@3"):
            continue
        users = {u for u in both if each.segment in (None, groups[u])}
        old, new = (
            numbers_of({u: lists[m][u] for u in sorted(users)}, catalogue, int(each.metric[-1]))
            for m in "ab"
        )
        name = each.metric.partition("@")[0]
        assert each.delta == pytest.approx(new[name] - old[name], abs=1e-12), each
        assert (each.n_users, each.wins) == (len(users), None)


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


def test_passes_and_shares_give_the_bytes_of_the_whole(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "SAMPLED", 70)  # so that most users' lists are not kept
    config = config_of(folder)
    whole = told(run_config(config))
    paths = []
    for share in (2, 3, 1):
        paths.append(tmp_path / f"share-{share}")
        measure_partial(config, (share, 3)).write(paths[-1])

    assert told(conclude_partials(open_partials(paths))) == whole
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
        return evaluate(tables["truth"], rankings, metrics=METRICS, **given).estimates

    assert numbers(tables["items"], 1) == numbers(tables["items"].reverse(), 2)
