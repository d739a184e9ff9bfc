"""How often verdicts and gates err where nobody knows how large a difference can be."""

import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import GateRule
from evalkit.runs.gates import Baselines, judge

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize(
    ("kind", "population", "n", "metric", "gain", "least"),
    [
        ("rankings", "sparse", 20, "DCG@10", 0.0, {"gates by limits": 30}),
        ("rankings", "large gains", 50, "DCG@10", 0.0, {"better by p": 40}),
        ("rankings", "few lose", 50, "DCG@10", -0.02, {"within by p": 20, "gates by limits": 20}),
        ("ratings", "odd users", 20, "MAE", 0.0, {"better by p": 40, "gates by limits": 40}),
        ("ratings", "odd users", 50, "MAE(over='users')", 0.0, {"better by p": 15}),
        ("labels", "2 % positive", 20, "AUC", 0.0, {"better by p": 10, "gates by limits": 5}),
        ("rankings", "large gains", 500, "DCG@10", 0.0, {}),
        pytest.param("ratings", "tails", 300, "RMSE", 0.0, {}, marks=pytest.mark.campaign),
        pytest.param(
            *("labels", "5 % positive", 300, "log-loss", 0.0, {}), marks=pytest.mark.campaign
        ),
    ],
)
def test_what_p_alone_gets_wrong_is_withheld(
    kind, population, n, metric, gain, least, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    wrong = runpy.run_path(str(BENCH / "verdicts_simulated.py"))["wrong"]

    found = wrong(kind, population, n, 60, {metric: gain})[metric]

    assert max(found["better"], found.get("within", 0)) <= 10  # 7 of 60, at 5 % once in 50 tests
    assert found["gates"] <= 7
    for what, share in least.items():
        assert found[what] >= share


@pytest.mark.parametrize("metric", ["RMSE", "MAE", "MAE(over='users')"])
def test_a_difference_of_many_users_is_told(metric: str) -> None:
    rng = np.random.default_rng(3)
    users, errors = np.repeat(np.arange(300), 5), rng.normal(0.0, 1.0, 1500)
    logs = {
        name: pl.DataFrame({"user": users, "rating": 3.0, "prediction": 3.0 + part * errors})
        for name, part in (("old", 1.0), ("new", 0.9), ("same", 1.001))
    }
    statistics = {"baseline": "old", "margin": 0.04}
    report = evalkit.evaluate_ratings(logs, metrics=[metric], statistics=statistics)
    rule = GateRule(metric=metric, baseline="old", max_drop=0.04)

    assert [each.verdict for each in report.comparisons] == ["better", "equivalent"]
    gates = judge([rule], report, Baselines({}), level=0.95)
    assert [each.outcome for each in gates] == ["pass", "pass"]


def test_what_is_withheld_is_told() -> None:
    values = [0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.3, 0.1, 0.2]
    logs = {
        name: pl.DataFrame({"user": range(10), "rating": 3.0, "prediction": 3.0 + more})
        for name, more in (("old", 1.0 + pl.Series(values)), ("new", 0.9))
    }
    report = evalkit.evaluate_ratings(logs, metrics=["MAE"], statistics={"baseline": "old"})
    rules = [GateRule(metric="MAE", model="new", baseline="old", max_drop=0.0)]
    rules += [GateRule(metric="MAE", model="new", max=2.0)]

    assert report.comparisons[0].verdict == "cannot tell"
    assert "large-values" in {each.code for each in report.warnings}
    rules += [GateRule(metric="MAE", model="new", min=0.5)]
    gates = judge(rules, report, Baselines({}), level=0.95)
    for gate, asked in zip(gates, (200, 200, 30), strict=True):
        assert gate.outcome == "cannot tell"
        assert f"10 users are too few, {asked} are asked" in gate.message


def test_gates_of_values_that_lean_count_it() -> None:
    rng, n, draws = np.random.default_rng(8), 200, 60
    sizes = np.repeat(1.0 + rng.pareto(3.0, n * draws), 5)  # whose squares have the mean 3
    rows = pl.DataFrame({"user": np.repeat(np.arange(n * draws), 5), "rating": 3.0})
    rows = rows.with_columns(
        draw=pl.col("user") // n, prediction=3.0 + pl.Series(sizes * rng.normal(size=sizes.size))
    )
    report = evalkit.evaluate_ratings(rows, metrics=["RMSE"], segments={"draw": {"by": "draw"}})
    rules = [GateRule(metric="RMSE", max=3.0**0.5, segment=f"draw={draw}") for draw in range(draws)]
    gates = judge(rules, report, Baselines({}), level=0.95)

    assert sum((each.high or 0.0) <= 3.0**0.5 for each in report.estimates) >= 12
    assert sum(each.outcome == "pass" for each in gates) <= 6


def test_few_clusters_tell_nothing() -> None:
    rng, users = np.random.default_rng(4), np.repeat(np.arange(290), 5)
    errors = rng.normal(0.0, 1.0, users.size)
    rows = pl.DataFrame({"user": users, "rating": 3.0, "cluster": users // 10})
    logs = {
        name: rows.with_columns(prediction=3.0 + part * pl.Series(errors))
        for name, part in (("old", 1.0), ("new", 0.9))
    }

    def verdict(cluster: str) -> str:
        statistics = {"baseline": "old", "cluster": cluster}
        found = evalkit.evaluate_ratings(logs, metrics=["RMSE"], statistics=statistics)
        return found.comparisons[0].verdict

    assert (verdict("cluster"), verdict("user")) == ("cannot tell", "better")


def test_gates_of_rare_hits_have_exact_limits() -> None:
    truth = pl.DataFrame({"user": range(50), "item": 0})
    ranked = pl.DataFrame({"user": range(50), "item": [0, *[1] * 49], "rank": 1})
    report = evalkit.evaluate(truth, ranked, metrics=["hit@1"])
    rules = [GateRule(metric="hit@1", min=least) for least in (0.003, 0.0005)]

    assert (report.estimates[0].low or 0.0) > 0.003  # of 0.3 % such limits are in 14 of 100 draws
    found = [each.outcome for each in judge(rules, report, Baselines({}), level=0.95)]
    assert found == ["cannot tell", "pass"]
