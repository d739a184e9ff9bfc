"""Past experiments out of evalkit's own runs, and simulated histories whose truth is known."""

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.errors import RequestError
from evalkit.statistics.past import Past, best_drop, drops_of, lowest, replay

DROP = '[[gates]]\nmetric = "recall@2"\nbaseline = "prod"\nmodel = "MODEL"\nGATE\n'
OFFLINE = """
name = "offline-MODEL"
[truth]
path = "truth.csv"
[[rankings]]
model = "prod"
path = "prod.csv"
[[rankings]]
model = "MODEL"
path = "MODEL.csv"
[metrics]
names = ["recall@2"]
[statistics]
baseline = "prod"
"""
ONLINE = """
name = "NAME"
[experiment]
variants = { prod = 1, VARIANT = 1 }
[exposures]
path = "NAME.csv"
[metrics]
names = ["mean(clicks)", "mean(waits)"]
primary = ["METRIC"]
lower_is_better = ["mean(waits)"]
"""


def rank(hits, path):
    """40 users with one right item each; the first `hits` of them have it at rank 1."""
    rows = [(user, user if user < hits else 100 + user, 1) for user in range(40)]
    pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row").write_csv(path)


def runs_of(model, hits, effect, *, gate="max_drop = 0.1", variant=None, metric="mean(clicks)"):
    """A run of either side, in one folder."""
    rank(hits, f"{model}.csv")
    text = OFFLINE.replace("MODEL", model)
    gate = DROP.replace("MODEL", model).replace("GATE", gate)
    with open("offline.toml", "w") as file:
        file.write(text + gate)
    run_command(["run", "offline.toml", "--quiet"])
    draw = np.random.default_rng(hits)
    arm = np.arange(400) % 2
    name = variant or model
    units = {"unit": range(400), "variant": np.where(arm, name, "prod")}
    values = draw.normal(size=400)
    own = {"clicks": values + effect * arm, "waits": values - effect * arm}
    pl.DataFrame(units | own).write_csv(f"test-{model}.csv")
    online = ONLINE.replace("NAME", f"test-{model}").replace("VARIANT", name)
    with open("online.toml", "w") as file:
        file.write(online.replace("METRIC", metric))
    run_command(["run", "online.toml", "--quiet"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(user, user) for user in range(40)]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv("truth.csv")
    rank(20, "prod.csv")
    runs_of("up", 30, 1.0)
    runs_of("down", 10, -1.0, gate="max_drop_relative = 0.5")
    return tmp_path


def test_runs_of_both_sides_go_together_by_the_candidate(folder, capsys):
    found = evalkit.surrogates(folder / "runs")

    rows = {row["experiment"]: row for row in found.experiments.to_dicts()}
    assert rows["test-up"]["offline"] == pytest.approx(0.25)
    assert rows["test-down"]["offline"] == pytest.approx(-0.25)
    assert rows["test-up"]["online"] > 0 > rows["test-down"]["online"]
    assert {row["online_metric"] for row in rows.values()} == {"mean(clicks)"}
    assert dict(found.numbers.select("name", "value").iter_rows())["sign_agreement"] == 1.0
    capsys.readouterr()
    assert run_command(["surrogates", "runs", "--html", "page.html"]) == 0
    page = (folder / "page.html").read_text()
    assert "Offline to online" in page
    assert "test-down" in page


def test_past_gates_are_replayed_over_all_experiments(folder):
    """By hand: recall is 0.75 against 0.5, and 0.25; its limits lie within 0.15 of these."""
    gates = evalkit.surrogates("runs").past_gates.to_dicts()

    strict, half = sorted(gates, key=lambda gate: gate["bound"])
    assert (strict["gate"], strict["bound"]) == ("max_drop", 0.1)
    assert (half["gate"], half["bound"]) == ("max_drop_relative", 0.5)
    for gate in gates:  # half of 0.5 is 0.25: what drops by 0.25 may have dropped by more
        assert (gate["experiments"], gate["winners"], gate["losers"]) == (2, 1, 1)
        assert (gate["stopped_winners"], gate["passed_losers"], gate["cost"]) == (0, 0, 0.0)


def test_a_metric_whose_fall_is_good_counts_the_other_way(folder):
    by_waits = evalkit.surrogates("runs", online="mean(waits)")

    assert dict(by_waits.numbers.select("name", "value").iter_rows())["sign_agreement"] == 1.0


def test_what_is_missing_is_told_with_a_cure(folder):
    runs_of("new", 25, 0.5, variant="b")
    told = evalkit.surrogates("runs").warnings
    assert any("test-new: no offline run of 'b'" in each and "--pair" in each for each in told)

    paired = evalkit.surrogates("runs", pairs={"test-new": "offline-new"})
    assert "test-new" in paired.experiments["experiment"].to_list()
    with pytest.raises(RequestError, match="no two go together") as raised:
        evalkit.surrogates([each for each in map(evalkit.load, runs()) if each.kind != "rankings"])
    assert "--pair EXPERIMENT=OFFLINE" in str(raised.value.hint)
    runs_of("slow", 25, 0.5, metric="mean(waits)")
    with pytest.raises(RequestError, match=r"mean\(clicks\), mean\(waits\)") as raised:
        evalkit.surrogates("runs")
    assert "--online" in str(raised.value.hint)


def runs():
    from pathlib import Path

    return [each for each in Path("runs").iterdir() if (each / "report.json").is_file()]


def history(n, draw):
    """True effects of slope 1.5 and correlation 0.894, and both errors."""
    true = draw.normal(0.0, 0.02, n)
    online = 1.5 * true + draw.normal(0.0, 0.015, n)
    errors = np.full(n, 0.006), np.full(n, 0.01)
    return Past(
        true + draw.normal(0.0, errors[0]),
        errors[0],
        online + draw.normal(0.0, errors[1]),
        errors[1],
    )


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("n", [10, 30, 100])
def test_limits_hold_the_truth_of_simulated_histories(n):
    draw, held = np.random.default_rng(n), np.zeros(2)
    names = ("offline", "offline_error", "online", "online_error")
    for _ in range(60):
        past = history(n, draw)
        table = pl.DataFrame({name: getattr(past, name) for name in names})
        rows = {row["name"]: row for row in evalkit.surrogates(table).numbers.to_dicts()}
        for place, (name, truth) in enumerate((("slope", 1.5), ("true_correlation", 0.894))):
            row = rows[name]
            held[place] += row["low"] is not None and row["low"] <= truth <= row["high"]

    assert (held >= 0.85 * 60).all()


def test_nine_experiments_are_refused_a_slope():
    past = history(9, np.random.default_rng(1))
    names = ("offline", "offline_error", "online", "online_error")
    found = evalkit.surrogates(pl.DataFrame({name: getattr(past, name) for name in names}))

    rows = {row["name"]: row for row in found.numbers.to_dicts()}
    assert rows["slope"]["value"] is rows["slope"]["low"] is rows["true_correlation"]["low"] is None
    assert any("too few" in each for each in found.warnings)


def test_the_cheapest_drop_leaves_each_experiment_out():
    past = history(30, np.random.default_rng(5))

    def cheapest(some):
        return min(drops_of(some), key=lambda drop: (replay(some, drop).cost, drop))

    costs = []
    for place in range(past.n):
        passes = lowest(past, 0.95)[place] >= -cheapest(past.without(place))
        online = float(past.online[place])
        costs.append(max(-online, 0.0) if passes else max(online, 0.0))
    assert best_drop(past) == (cheapest(past), pytest.approx(sum(costs)))
