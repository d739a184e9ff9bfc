"""A gate against an earlier run judges by the numbers that the runs themselves stand on."""

import math

import numpy as np
import polars as pl
import pytest
from statsmodels.stats.proportion import confint_proportions_2indep

from evalkit.config import StatisticsSection, build_config
from evalkit.errors import RequestError
from evalkit.jobs.job import Job
from evalkit.runs import load_run
from evalkit.runs.history.compare import compare_runs
from evalkit.runs.history.why import explain_runs

N_USERS = 400


@pytest.fixture
def logs(tmp_path):
    """Two nights of one truth: of 12 users alone another item is ranked first."""
    rng = np.random.default_rng(7)
    users, items = np.repeat(np.arange(N_USERS), 3), np.tile([3, 1, 2], N_USERS)
    wanted = rng.integers(1, 6, N_USERS)
    truth = pl.DataFrame({"user": np.arange(N_USERS), "item": wanted})
    truth.with_columns(house=pl.col("user") // 20).write_parquet(tmp_path / "truth.parquet")
    ranks = np.tile([1, 2, 3], N_USERS)
    before = pl.DataFrame({"user": users, "item": items, "rank": ranks})
    lost = (users < 12) & (ranks == 1)
    after = before.with_columns(item=pl.Series(np.where(lost, 9, items)))
    before.write_parquet(tmp_path / "before.parquet")
    after.write_parquet(tmp_path / "after.parquet")
    pl.DataFrame(
        {"user": np.arange(N_USERS), "orders": np.where(np.arange(N_USERS) < 12, 100.0, 1.0)}
    ).write_parquet(tmp_path / "users.parquet")
    return tmp_path


def nights(logs, *, metrics=("hit@3", "nDCG@3"), policies=None, **statistics):
    """Both nights as runs, the second with gates against the first."""
    found = []
    for night in ("before", "after"):
        tree = {
            "truth": {"path": str(logs / "truth.parquet")},
            "rankings": [{"model": "m", "path": str(logs / f"{night}.parquet")}],
            "metrics": {"names": list(metrics)},
            "policies": policies or {},
            "statistics": statistics,
            "gates": [{"metric": name, "max_drop": 0.5, "baseline": "last"} for name in metrics],
            "output": {"per_user": True},
        }
        run = Job(build_config(tree, name="night"), logs / "runs").run()
        found.append((night, load_run(run.path)))
    return found


def compared(runs):
    return {
        each.metric: each for each in compare_runs(runs, StatisticsSection(), threads=1).comparisons
    }


@pytest.mark.parametrize("policies", [{}, {"zeros": "survivors"}, {"zeros": "skip"}])
def test_a_gate_says_what_a_comparison_of_the_runs_says(logs, policies):
    runs = nights(logs, policies=policies)

    differences = compared(runs)
    for gate in runs[1][1].gates:
        pair = differences[gate.metric]
        assert (gate.judged_by, gate.n_users) == ("paired", pair.n_users)
        assert gate.delta == pytest.approx(pair.delta, rel=1e-12, abs=1e-15)
        assert (gate.low, gate.high) == pytest.approx((pair.low, pair.high), rel=1e-12)


@pytest.mark.parametrize(("max_drop", "outcome"), [(0.0093, "pass"), (0.009, "cannot tell")])
def test_identical_nights_pass_where_users_not_seen_cannot_have_lost_more(logs, max_drop, outcome):
    gates = [{"metric": "nDCG@3", "max_drop": max_drop, "baseline": "last"}]
    gated(logs, "before", gates)
    (gate,) = gated(logs, "before", gates).gates

    reach = 0.025 ** (-1 / N_USERS) - 1.0  # nobody of 400 users changed
    assert (gate.low, gate.high) == pytest.approx((-reach, reach), rel=1e-12)
    assert (gate.delta, gate.outcome) == (0.0, outcome)


def gated(logs, night, gates, *, policies=None, segments=None, **statistics):
    tree = {
        "truth": {"path": str(logs / "truth.parquet")},
        "rankings": [{"model": "m", "path": str(logs / f"{night}.parquet")}],
        "metrics": {"names": ["hit@3", "nDCG@3"]},
        "policies": policies or {},
        "segments": segments or {},
        "statistics": statistics,
        "gates": gates,
        "output": {"per_user": True},
    }
    return load_run(Job(build_config(tree, name="night"), logs / "runs").run().path)


DROP = [{"metric": "nDCG@3", "max_drop": 0.5, "baseline": "last"}]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"policies": {"zeros": "survivors"}}, "zeros is 'count' and 'survivors'"),
        ({"weight": {"by": "house + 1"}}, "weight is None and 'house + 1'"),
        ({"policies": {"null_ids": "drop"}}, ""),
        ({"level": 0.9}, ""),
    ],
)
def test_a_run_that_was_measured_otherwise_is_nothing_to_compare_with(logs, change, why):
    gated(logs, "before", DROP)
    (gate,) = gated(logs, "after", DROP, **change).gates

    if why:
        assert (gate.outcome, gate.fails, gate.delta) == ("cannot tell", True, None)
        assert gate.message == f"last measured nDCG@3 otherwise: {why}"
    else:
        assert gate.outcome == "pass"


@pytest.mark.parametrize("level", [0.95, 0.8])  # of the run before
def test_segments_are_judged_by_the_limits_that_their_numbers_have(logs, level):
    rule = {"metric": "hit@3", "max_drop": 0.1, "baseline": "last", "segment": "house=0"}
    segments = {"house": {"by": "house"}}
    before = gated(logs, "before", [rule], segments=segments, level=level)
    after = gated(logs, "after", [rule], segments=segments)

    (gate,) = after.gates
    old, new = (run.estimate("m", "hit@3", "house", "0") for run in (before, after))
    ones = [round(each.value * 20) for each in (new, old)]
    expected = confint_proportions_2indep(ones[0], 20, ones[1], 20, method="newcomb")
    assert (gate.judged_by, gate.delta) == ("independent", new.value - old.value)
    assert (gate.low, gate.high) == pytest.approx(expected, rel=1e-9)


def test_users_who_have_weights_are_judged_by_the_weighted_numbers(logs):
    weight = {"path": str(logs / "users.parquet"), "by": "orders"}
    runs = nights(logs, weight=weight)

    values = {(name, each.metric): each.value for name, run in runs for each in run.estimates}
    for gate in runs[1][1].gates:
        weighted = values["after", gate.metric] - values["before", gate.metric]
        assert (gate.judged_by, gate.delta) == ("independent", pytest.approx(weighted))
        assert "users have weights" in gate.message
    with pytest.raises(RequestError, match="weights") as refused:
        compared(runs)
    assert refused.value.code == "weighted-run"


@pytest.mark.parametrize("statistics", [{"cluster": "house"}, {"two_way": "item"}])
def test_errors_that_stand_on_more_than_users_are_not_replaced_by_smaller_ones(logs, statistics):
    runs = nights(logs, metrics=["recall@3", "nDCG@3"], **statistics)

    assert {gate.judged_by for gate in runs[1][1].gates} == {"independent"}
    report = compare_runs(runs, StatisticsSection(), threads=1)
    told = [each.message for each in report.warnings if each.code == "over-users-alone"]
    assert len(told) == 2
    assert "here they stand on users" in told[0]


OF_MEANS = "F1(mean='means')@3"


def test_a_number_made_of_means_is_judged_by_itself_and_not_by_values_of_users(logs):
    (_, before), (_, after) = runs = nights(logs, metrics=(OF_MEANS, "hit@3"))

    of_means, _ = after.gates
    wanted = after.value(OF_MEANS) - before.value(OF_MEANS)
    assert (of_means.judged_by, of_means.delta) == ("independent", pytest.approx(wanted, rel=1e-12))
    assert list(compared(runs)) == ["hit@3"]
    explained = explain_runs(*runs)
    assert {each.metric for each in explained} == {"hit@3"}


def test_a_number_made_of_means_takes_no_weight(logs):
    weight = {"path": str(logs / "users.parquet"), "by": "orders", "user": "user"}

    with pytest.raises(RequestError, match="it is no mean of users") as caught:
        nights(logs, metrics=(OF_MEANS,), weight=weight)

    assert caught.value.code == "conflicting-keys"


@pytest.mark.parametrize("policies", [{"missing_ranking": "nan"}, {"zeros": "nan"}])
def test_a_mean_that_a_run_leaves_undefined_is_none_beside_another_run(logs, policies):
    before = pl.read_parquet(logs / "before.parquet")
    before.filter(pl.col("user") > 0).write_parquet(logs / "before.parquet")
    runs = nights(logs, policies=policies)

    found = compare_runs(runs, StatisticsSection(), threads=1)

    assert [each.value for each in runs[0][1].estimates] == pytest.approx(
        [math.nan] * 2, nan_ok=True
    )
    of_first = [each for each in found.estimates if each.model == "m (before)"]
    assert all(math.isnan(each.value) for each in of_first)
    assert all(math.isnan(each.delta) for each in found.comparisons)


def test_ratings_are_judged_by_the_bounds_of_their_own_metrics(tmp_path):
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(60), 6)
    ratings = rng.integers(1, 6, users.size).astype(float)
    gates = [{"metric": "cosine(over='users')", "max_drop": 0.1, "baseline": "last"}]
    runs = []
    for night in ("before", "after"):
        guessed = ratings + 0.1 * rng.normal(size=users.size)
        table = {"user": users, "item": np.arange(users.size), "rating": ratings}
        pl.DataFrame({**table, "prediction": guessed}).write_parquet(tmp_path / f"{night}.parquet")
        tree = {
            "ratings": [{"model": "m", "path": str(tmp_path / f"{night}.parquet")}],
            "metrics": {"names": ["cosine(over='users')"]},
            "gates": gates,
            "output": {"per_user": True},
        }
        run = Job(build_config(tree, name="night"), tmp_path / "runs").run()
        runs.append((night, load_run(run.path)))

    (gate,), (pair,) = runs[1][1].gates, compared(runs).values()

    assert gate.judged_by == "paired"
    assert (gate.low, gate.high) == pytest.approx((pair.low, pair.high), rel=1e-12)
    assert gate.high - gate.low > 0.1  # two of sixty users whom nobody saw may have lost all
