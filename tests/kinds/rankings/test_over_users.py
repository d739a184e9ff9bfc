"""Numbers over users that are not their mean, from the config to the report."""

import json
import math

import numpy as np
import polars as pl
import pytest
from naive import over_users

import evalkit
from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.metrics import parse_metrics
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.memory import room_of_ordered
from evalkit.planning.partials import open_partials
from evalkit.runs.gates import judge
from evalkit.statistics.quantiles import Ordered, paired_error

N_USERS = 120
OWN = ("meta", "run_id", "run_key", "inputs")


def tables():
    rng = np.random.default_rng(7)
    pairs = pl.DataFrame({"user_id": range(N_USERS)}).join(
        pl.DataFrame({"item_id": range(20)}), how="cross"
    )
    found = {"truth": pairs.filter(pl.Series(rng.random(pairs.height) < 0.15))}
    for model in ("als", "bpr"):
        kept = pairs.filter(pl.Series(rng.random(pairs.height) < 0.4))
        found[model] = kept.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user_id"))
    found["users"] = pl.DataFrame(
        {
            "user_id": range(N_USERS),
            "shop": [f"shop {n % 3}" for n in range(N_USERS)],
            "weight": [1.0 + n % 4 for n in range(N_USERS)],
        }
    )
    return found


TABLES = tables()
NUMBERS = {
    "fraction(nDCG@5, at_least=0.3)": ("fraction", "nDCG@5", 0.3),
    "gmean(AP@5, floor=0.01)": ("gmean", "AP@5", 0.01),
    "median(nDCG@5)": ("median", "nDCG@5", math.nan),
    "quantile(nDCG@5, q=0.8)": ("quantile", "nDCG@5", 0.8),
    "tail_mean(nDCG@5, share=0.6)": ("tail_mean", "nDCG@5", 0.6),
    "lowest(RR)": ("lowest", "RR", math.nan),
    "highest(AP@5)": ("highest", "AP@5", math.nan),
}
WEIGHT = {"path": TABLES["users"], "by": "weight"}
SEGMENTS = {"shop": {"path": TABLES["users"], "by": "shop"}}


def evaluate(names, **more):
    rankings = {name: TABLES[name] for name in ("als", "bpr")}
    return evalkit.evaluate(TABLES["truth"], rankings, metrics=names, **more)


def estimate_of(report, model, label):
    return report.estimate(model, label, None, None)


@pytest.mark.parametrize(
    ("values", "how", "number", "expected"),
    [
        ([0.0, 0.5, 0.75, 1.0], "fraction", 0.5, 0.75),
        ([0.25, 1.0], "gmean", 1e-5, 0.5),
        ([0.0, 1.0], "gmean", 1e-4, 0.01),
        ([0.5, 0.0, 1.0, 0.25], "median", math.nan, 0.375),
        ([0.5, 0.0, 1.0, 0.25], "quantile", 0.5, 0.25),
        ([0.5, 0.0, 1.0, 0.25], "tail_mean", 0.5, 0.125),
        ([0.5, 0.0, 1.0, 0.25], "tail_mean", 0.375, 1 / 12),
        ([0.5, 0.0, 1.0, 0.25], "highest", math.nan, 1.0),
    ],
)
def test_numbers_by_hand(values, how, number, expected):
    assert over_users(how, [*values, math.nan], number) == pytest.approx(expected)


@pytest.mark.parametrize("label", NUMBERS)
def test_numbers_are_those_of_users_and_of_segments(label):
    how, metric, number = NUMBERS[label]
    report = evaluate([label, metric], per_user=True, segments=SEGMENTS)
    assert report.per_user_values.metrics == (metric,)
    for model in ("als", "bpr"):
        frame = report.per_user_values.frames[model]
        estimate = estimate_of(report, model, label)
        expected = over_users(how, frame[metric].to_list(), number)
        assert estimate.value == pytest.approx(expected, abs=1e-12)
        if how in ("lowest", "highest"):
            assert estimate.low is estimate.high is None
        else:
            assert estimate.low <= estimate.value <= estimate.high
            assert estimate.low < estimate.high
        for shop in range(3):
            own = frame.filter(pl.col("user_id") % 3 == shop)[metric].to_list()
            found = report.estimate(model, label, "shop", f"shop {shop}").value
            assert found == pytest.approx(over_users(how, own, number), abs=1e-12)


def test_a_difference_of_geometric_means_is_a_ratio():
    label = "gmean(AP@5, floor=0.01)"
    report = evaluate([label], statistics={"baseline": "als", "margin": 0.1})
    (found,) = report.comparisons
    old, new = (estimate_of(report, model, label).value for model in ("als", "bpr"))
    assert 1.0 + found.delta == pytest.approx(new / old)
    assert found.relative == found.delta
    assert -1.0 < found.low < found.delta < found.high


def test_ends_and_ties_are_not_tested():
    names = ["median(nDCG@5)", "lowest(nDCG@5)", "tail_mean(nDCG@5, share=0.05)"]
    report = evaluate(names, statistics={"baseline": "als", "margin": 0.5})
    assert {each.verdict for each in report.comparisons} == {"not tested"}  # two zeros are no proof
    assert {each.low for each in report.comparisons} == {None}
    assert any("median(nDCG@5): too many users" in each.message for each in report.warnings)


def test_quantiles_without_ties_are_compared():
    rng = np.random.default_rng(5)
    old, new = rng.random((2, 300))
    users = np.arange(300)
    error = paired_error(old, new, np.ones(300), users, 0.5, replicates=200, seed=1)
    assert error == pytest.approx(math.sqrt(2 * 0.25 / 300), rel=0.25)  # density 1, independent
    same = paired_error(old, old + 0.1, np.ones(300), users, 0.5, replicates=50, seed=1)
    assert same == pytest.approx(0.0, abs=1e-12)


def test_limits_hold_as_often_as_they_say():
    rng, held, n = np.random.default_rng(11), np.zeros(4), 120
    ones, users = np.ones(n), np.arange(n)
    for _ in range(400):
        values, clusters = rng.random(n), np.repeat(np.arange(n // 3), 3)
        together = rng.normal(size=n // 3)[clusters] + rng.normal(size=n)
        for place, (ordered, q, true) in enumerate(
            (
                (Ordered.of(values, ones, users), 0.5, 0.5),
                (Ordered.of(values, rng.exponential(size=n), users), 0.2, 0.2),
                (Ordered.of(np.round(4 * values), ones, users), 0.5, 2.0),
                (Ordered.of(together, ones, clusters), 0.5, 0.0),
            )
        ):
            found = ordered.limits(q, 2.0, (-9.0, 9.0))
            held[place] += found.low <= true <= found.high
    assert (held / 400 >= 0.93).all()
    assert held[[0, 1, 3]].max() / 400 <= 0.98


def test_weights_and_clusters_hold_for_quantiles():
    label = "quantile(nDCG@5, q=0.8)"
    report = evaluate([label], statistics={"weight": WEIGHT, "cluster": "user_id % 3"})
    per_user = evaluate(["nDCG@5"], per_user=True).per_user_values.frames["als"]
    known = per_user.drop_nans("nDCG@5").sort("nDCG@5")
    shares = (1.0 + known["user_id"] % 4).cum_sum()
    first = (shares >= 0.8 * shares[-1]).arg_max()
    found = estimate_of(report, "als", label)
    assert found.value == known["nDCG@5"][first]
    assert found.n_clusters == 3
    assert found.low <= found.value <= found.high


def test_segments_of_items_refuse_quantiles():
    items = pl.DataFrame({"item_id": range(20), "shelf": ["a", "b"] * 10})
    shelf = {"path": items, "by": "shelf", "item": "item_id"}
    with pytest.raises(EvalkitError) as caught:
        evaluate(["median(nDCG@5)"], segments={"shelf": shelf})
    assert caught.value.code == "item-segments"


def test_weights_hold():
    label = "fraction(nDCG@5, at_least=0.3)"
    report = evaluate([label, "nDCG@5"], per_user=True, statistics={"weight": WEIGHT})
    frame = report.per_user_values.frames["als"].drop_nans("nDCG@5")
    weights = 1.0 + frame["user_id"].to_numpy() % 4
    share = ((frame["nDCG@5"].to_numpy() >= 0.3) * weights).sum() / weights.sum()
    assert estimate_of(report, "als", label).value == pytest.approx(share)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("logs")
    for name, table in TABLES.items():
        table.write_parquet(found / f"{name}.parquet")
    return found


def config_of(folder, **sections):
    tree = {
        "truth": {"path": str(folder / "truth.parquet")},
        "rankings": [
            {"path": str(folder / f"{name}.parquet"), "model": name} for name in ("als", "bpr")
        ],
        "segments": {"shop": {"path": str(folder / "users.parquet"), "by": "shop"}},
        "metrics": {"names": list(NUMBERS)},
        "statistics": {"baseline": "als"},
        **sections,
    }
    return build_config(tree, name="logs")


def told(report):
    return {k: v for k, v in json.loads(report.to_json()).items() if k not in OWN}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_shares_merge_in_any_order(folder, tmp_path, order):
    config, paths = config_of(folder), []
    for share in order:
        paths.append(tmp_path / f"share-{share}")
        measure_partial(config, (share, 3)).write(paths[-1])
    assert told(conclude_partials(open_partials(paths))) == told(run_config(config))


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("fraction(nDCG@10", "bad-metric-syntax"),
        ("fraction(nDCG@10, 0.5)", "bad-metric-syntax"),
        ("fraction(nDCG@10, q=1)", "unknown-parameter"),
        ("gmean(AP, floor=0)", "bad-parameter-value"),
        ("fraction(gmean(AP))", "no-metric-of-users"),
        ("fraction(item_coverage@10)", "no-metric-of-users"),
        ("fraction(nDCQ@10)", "unknown-metric"),
    ],
)
def test_what_is_no_number_over_users_is_refused(written, code):
    with pytest.raises(EvalkitError) as caught:
        parse_metrics([written])
    assert caught.value.code == code


def test_labels_read_back():
    (request,) = parse_metrics(["FRACTION(ndcg(gain='exp2')@5)".lower()])
    assert request.label == "fraction(nDCG(gain='exp2')@5, at_least=0.5)"
    assert parse_metrics([request.label]) == [request]
    labels = [each.label for each in parse_metrics(["gmean(MAP@{5,10})"])]
    assert labels == ["gmean(AP@5, floor=1e-05)", "gmean(AP@10, floor=1e-05)"]


def test_a_gate_of_a_geometric_mean_asks_for_a_ratio(folder):
    gate = {"metric": "gmean(AP@5, floor=0.01)", "model": "bpr", "baseline": "als", "max_drop": 0.1}
    with pytest.raises(EvalkitError, match="are ratios"):
        config_of(folder, gates=[gate])


def test_values_that_do_not_fit_are_refused_with_what_they_need():
    (tight, wide) = (room_of_ordered(2, 1e6, n) for n in (0, 1))
    assert tight == 0.0
    assert wide > 2 * 8 * 1e6


@pytest.mark.parametrize("limit", [None, 2 << 30])
def test_limits_that_hold_change_nothing(limit):
    label = "tail_mean(nDCG@5, share=0.6)"
    report = evaluate([label], memory_limit=limit)
    assert estimate_of(report, "als", label).value > 0.0


def test_gates_judge_quantiles(folder):
    gates = [
        {"metric": "quantile(nDCG@5, q=0.8)", "model": "als", "min": 0.05},
        {"metric": "median(nDCG@5)", "model": "als", "max": 0.9},
        {"metric": "lowest(RR)", "model": "als", "min": 0.1},
    ]
    rules, report = config_of(folder, gates=gates).gates, run_config(config_of(folder))
    found = judge(rules, report, None, level=0.95)
    assert [each.outcome for each in found] == ["pass", "pass", "cannot tell"]


def test_a_profile_gives_its_parameters_inside():
    report = evaluate(["gmean(map)"], profile="trec_eval")
    assert report.labels == ("gmean(AP(over='relevant'), floor=1e-05)",)
    assert "not-in-profile" not in {each.code for each in report.warnings}


def test_the_sign_test_speaks_of_the_median_of_differences():
    report = evaluate(["AP@5", "nDCG@5"], statistics={"baseline": "als", "test": "sign"})
    for found in report.comparisons:
        n = found.wins + found.losses
        tail = sum(math.comb(n, k) for k in range(min(found.wins, found.losses) + 1)) / 2**n
        assert found.test == "sign"
        assert found.p_value == pytest.approx(min(1.0, 2.0 * tail), rel=1e-9)


def test_the_sign_test_decides_by_its_own_way():
    users = pl.DataFrame({"user_id": range(40)})
    truth = users.with_columns(item_id=pl.lit(1))
    rows = {
        "old": [[9, 1] if n < 30 else [1, 9] for n in range(40)],  # RR 1/2 of 30, 1 of 10
        "new": [[1, 9] if n < 30 else [9] * 8 + [1] for n in range(40)],
    }
    rankings = {
        name: pl.DataFrame(
            [(n, item if item == 1 else 100 + rank, rank)
             for n, items in enumerate(lists) for rank, item in enumerate(items, 1)],
            schema=["user_id", "item_id", "rank"], orient="row",
        )
        for name, lists in rows.items()
    }  # fmt: skip
    chosen = {"baseline": "old", "test": "sign"}
    (found,) = evalkit.evaluate(truth, rankings, metrics=["RR"], statistics=chosen).comparisons
    assert (found.wins, found.losses) == (30, 10)
    assert found.verdict == "better"


@pytest.mark.parametrize("written", ["gm_map", "GM_MAP", "gm_bpref", "gm_map@10"])
def test_geometric_means_are_read_by_the_names_of_trec_eval(written):
    (request,) = parse_metrics([written])
    inner = "bpref" if "bpref" in written else "AP@10" if "@" in written else "AP"
    assert request.label == f"gmean({inner}, floor=1e-05)"
