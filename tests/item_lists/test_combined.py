"""Numbers that are combined of several metrics: values, errors, pairs, shares, what is refused."""

import math

import polars as pl
import pytest
from shown_lists import config_of, lists_of, make_tables, merged, numbers_of, told

from evalkit import compare, evaluate
from evalkit.aggregate.accumulators import shown
from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.kinds.rankings import measure as run
from evalkit.metrics import parse_metrics
from evalkit.metrics._declare import Combination
from evalkit.pipeline import run_config

METRICS = ["nDCG@3", "novelty@3", "gini@5", "mad(by='group', of='novelty')@3"]
COMBINED = {
    "trade": "hmean(nDCG@3, novelty@3)",
    "weighed": "0.7 * nDCG@3 - gini@5 * 0.3",
    "mean-of-two": "mean(novelty@3, gini@5)",
    "least": "min(nDCG@3, gini@5, novelty@3)",
    "of_groups": "novelty@3 + 2*mad(by='group', of='novelty')@3",
}


@pytest.fixture(scope="module")
def tables():
    pairs = [(u, (u + j) % 9) for u in range(0, 120, 2) for j in range(4)]
    truth = pl.DataFrame(pairs, schema=["user_id", "item_id"], orient="row")
    return {**make_tables(n_users=120, seed=4, repeats=False), "truth": truth}


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    return folder


def naive(values, lists, catalogue, groups, users):
    """Every combination by its definition, over some users."""
    accuracy = [values["nDCG@3"][u] for u in users if u in values["nDCG@3"]]
    novelty = {u: values["novelty@3"][u] for u in users if u in values["novelty@3"]}
    ndcg, new = sum(accuracy) / len(accuracy), sum(novelty.values()) / len(novelty)
    gini = numbers_of({u: lists[u] for u in users if u in lists}, catalogue, 5)["gini"]
    own = [[v for u, v in novelty.items() if groups[u] == g] for g in "xyz"]
    means = [sum(each) / len(each) for each in own if each]
    apart = [abs(one - other) for n, one in enumerate(means) for other in means[:n]]
    return {
        "trade": 2 / (1 / ndcg + 1 / new),
        "weighed": 0.7 * ndcg - 0.3 * gini,
        "mean-of-two": (new + gini) / 2,
        "least": min(ndcg, gini, new),
        "of_groups": new + (2 * sum(apart) / len(apart) if apart else math.nan),
    }


def values_of(report, model):
    frame = report.per_user_values.frames[model]
    return {
        name: {u: v for u, v in frame.select("user_id", name).rows() if v is not None and v == v}
        for name in ("nDCG@3", "novelty@3")
    }


def jackknife(function, users):
    """The standard error of a function of users, each of whom is left out once."""
    found = [function([u for u in users if u != out]) for out in users]
    n = len(users)
    return {
        name: math.sqrt(
            (n - 1) / n * sum((each[name] - sum(e[name] for e in found) / n) ** 2 for each in found)
        )
        for name in COMBINED
    }


def test_numbers_and_errors_are_those_of_users_left_out_one_by_one(tables, folder):
    report = run_config(config_of(folder, METRICS, combined=COMBINED), per_user=True)

    catalogue, groups = tables["items"]["item_id"].to_list(), dict(tables["users"].rows())
    values = {model: values_of(report, model) for model in "ab"}
    lists = {model: lists_of(tables[model]) for model in "ab"}
    names = {(e.model, e.metric): e for e in report.estimates if e.segment is None}

    def numbers(model, users, segment_values=values):
        return naive(segment_values[model], lists[model], catalogue, groups, users)

    for model in "ab":
        users = sorted({*values[model]["nDCG@3"], *values[model]["novelty@3"]})
        errors = jackknife(lambda them, model=model: numbers(model, them), users)
        for name, wanted in numbers(model, users).items():
            each = names[model, name]
            assert each.value == pytest.approx(wanted, rel=1e-12)
            assert each.std_error == pytest.approx(errors[name], rel=0.08), (model, name)
            assert each.n_users == 60 if "nDCG" in COMBINED[name] else len(lists[model])

    both = {
        name: values["a"][name].keys() & values["b"][name].keys()
        for name in ("nDCG@3", "novelty@3")
    }
    paired = {
        model: {name: {u: values[model][name][u] for u in both[name]} for name in both}
        for model in "ab"
    }
    users = sorted(both["nDCG@3"] | both["novelty@3"])
    shown_by_both = lists["a"].keys() & lists["b"].keys()

    def deltas(them):
        own = [u for u in them if u in shown_by_both or u in both["nDCG@3"]]
        cut = {m: {u: lists[m][u] for u in own if u in shown_by_both} for m in "ab"}
        old, new = (naive(paired[m], cut[m], catalogue, groups, own) for m in "ab")
        return {name: new[name] - old[name] for name in COMBINED}

    wanted, errors = deltas(users), jackknife(deltas, users)
    for comparison in report.comparisons:
        if comparison.metric in COMBINED and comparison.segment is None:
            assert comparison.delta == pytest.approx(wanted[comparison.metric], abs=1e-12), (
                comparison.metric
            )
            assert comparison.std_error == pytest.approx(errors[comparison.metric], rel=0.08), (
                comparison.metric
            )


def test_one_part_alone_gives_its_own_error(tables):
    report = evaluate(
        tables["truth"],
        {"a": tables["a"]},
        metrics=["nDCG@3", "gini@5", "novelty@3"],
        combined={"low": "min(nDCG@3, gini@5)", "tiny": "gini@5 + 1e-30 * novelty@3"},
        train=tables["train"],
        items=tables["items"],
    )
    errors = {each.metric: each.std_error for each in report.estimates}

    assert errors["low"] == pytest.approx(errors["nDCG@3"], rel=1e-12)
    assert errors["tiny"] == pytest.approx(errors["gini@5"], rel=1e-12)


def test_passes_shares_threads_and_models_apart_give_the_same(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "SAMPLED", 40)  # so that most users' values are not kept
    config = config_of(folder, METRICS, combined=COMBINED)
    whole = told(run_config(config))

    assert told(merged(config, tmp_path)) == whole
    monkeypatch.setattr(run, "count_shares", lambda *_: 3)
    assert told(run_config(config, threads=2)) == whole
    apart = run_config(config_of(folder, METRICS, {}, COMBINED))
    for row, own in zip(whole["metrics"], apart.estimates, strict=True):
        assert row["metric"] == own.metric
        assert row["value"] == (None if math.isnan(own.value) else own.value)


def test_python_options_and_gates_know_combinations(folder, tables):
    config = config_of(folder, METRICS, {}, COMBINED)
    rankings = {name: tables[name] for name in "ab"}
    given = {
        "train": tables["train"],
        "items": tables["items"],
        "policies": {"duplicates": "count"},
    }
    segments = {"group": {"path": tables["users"], "by": "group"}}
    report = evaluate(
        tables["truth"],
        rankings,
        metrics=METRICS,
        combined=COMBINED,
        primary="trade",
        segments=segments,
        **given,
    )

    assert report.estimates == run_config(config).estimates
    assert report.primary == ("trade",)
    gate = {"metric": "trade", "min": 9.0}
    gated = config_of(folder, METRICS, {}, COMBINED, [gate])
    assert gated.gates[0].metric == "trade"
    drop = {"metric": "mean-of-two", "max_drop": 1.0, "baseline": "last"}
    with pytest.raises(EvalkitError, match="no better direction"):
        config_of(folder, METRICS, {}, COMBINED, [drop])
    found = compare(
        tables["truth"], rankings, metrics=["nDCG@3", "RR"], combined={"t": "nDCG@3+RR"}
    )
    assert {each.metric for each in found.comparisons} == {"nDCG@3", "RR", "t"}


@pytest.mark.parametrize(
    ("written", "code", "said"),
    [
        ("hmean(nDCG@3, novelty@3", "bad-combination", "lacks )"),
        ("nDCG@3 novelty@3", "bad-combination", "character 8"),
        ("max(nDCG@3, novelty@3)", "unknown-metric", "max"),
        ("nDCG@3 / novelty@3", "bad-combination", "lacks"),
        ("0.5 *", "bad-combination", "lacks a metric"),
        ("hmean(nDCG@3 novelty@3)", "bad-combination", "lacks a comma"),
        ("mean(nDCG@3)", "bad-combination", "alone"),
        ("mean(nDCG@3, nDCG@3)", "bad-combination", "twice"),
        ("mean(nDCG@{3,5}, novelty@3)", "bad-combination", "2 metrics"),
        ("mean(other, novelty@3)", "bad-combination", "combination itself"),
        ("mean(min(nDCG@3, hit@3), novelty@3)", "bad-combination", "combination itself"),
        ("mean(nDCG@5, novelty@3)", "metric-not-measured", "nDCG@5"),
        ("mean(RMSE, novelty@3)", "metric-of-other-kind", "ratings"),
        ("0 * nDCG@3 + novelty@3", "bad-combination", "weight 0"),
        ("hmean(nDCG@3, popularity_lift@3)", "bad-combination", "below 0"),
    ],
)
def test_what_is_no_combination_is_refused_with_its_place(written, code, said):
    tree = {
        "truth": {"path": "t.parquet"},
        "rankings": [{"path": "r.parquet", "model": "a"}],
        "metrics": {
            "names": ["nDCG@3", "novelty@3", "popularity_lift@3"],
            "combined": {"trade": written, "other": "nDCG@3 + novelty@3"},
        },
    }
    with pytest.raises(EvalkitError) as raised:
        build_config(tree, name="x")

    assert (raised.value.code, raised.value.at) == (code, "metrics.combined.trade")
    assert said in raised.value.message


def test_derivatives_are_those_of_the_numbers():
    parts = tuple(parse_metrics(["nDCG@3", "RR", "hit@3"]))
    for how in ("min", "mean", "hmean", "sum"):
        made = Combination(how, parts, (0.5, -2.0, 1.0))
        values = [0.4, 0.3, 0.9]
        number, slopes = made.at(values, [0.1, 0.1, 0.1])
        for place, slope in enumerate(slopes):
            moved = [v + 1e-7 * (n == place) for n, v in enumerate(values)]
            assert (made.at(moved, [0.1] * 3)[0] - number) / 1e-7 == pytest.approx(slope, abs=1e-5)
    assert Combination("hmean", parts, (1.0,) * 3).at([0.0, 0.5, 0.5], [0.1] * 3) == (
        0.0,
        [3, 0, 0],
    )
    assert Combination("min", parts, (1.0,) * 3).at([0.5, 0.5, 0.7], [0.1, 0.2, 0.9])[1] == [
        0,
        1,
        0,
    ]


def test_segments_of_items_weights_and_clusters_are_refused(tables):
    def measure(**given):
        both = {"train": tables["train"], "items": tables["items"]}
        return evaluate(
            tables["truth"], {"a": tables["a"]}, metrics=["nDCG@3", "gini@5"], **both, **given
        )

    kinds = tables["items"].with_columns(kind=pl.col("item_id") % 2)
    weight = {"path": tables["users"].with_columns(w=1.5), "by": "w"}
    for code, given in (
        ("item-segments", {"segments": {"k": {"path": kinds, "item": "item_id", "by": "kind"}}}),
        ("conflicting-keys", {"statistics": {"weight": weight}}),
    ):
        with pytest.raises(EvalkitError) as raised:
            measure(**given)
        assert raised.value.code == code
    report = measure(statistics={"method": "bootstrap"})
    (told_so,) = [each for each in report.warnings if each.code == "not-resampled"]
    assert told_so.message.startswith("gini@5: ")
