"""Gates pass, fail or cannot tell; every outcome is worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from example_runs import report, with_users

import evalkit
from evalkit.config import GateRule, build_config
from evalkit.errors import Errors, RequestError
from evalkit.jobs.job import Job
from evalkit.report import Comparison, PerUser, Report
from evalkit.report.verdict import is_first, render_prometheus
from evalkit.runs import publish
from evalkit.runs.gates import find_baselines, judge
from evalkit.runs.gates._counts import count_of
from evalkit.runs.gates._paired import difference_of

LOSSES = {"higher_is_better": False, "name": "first_hit_rank"}


def run(
    value: float = 0.5,
    error: float | None = 0.01,
    n_users: int = 1000,
    run_id: str = "now",
    values: dict[int, float] | None = None,
    **more: object,
) -> Report:
    """A run with one number: `value` of als, and the values of users that it kept."""
    whole = report(run_id)
    (estimate,) = whole.estimates
    kept = None
    if values is not None:
        frame = pl.DataFrame({"user": list(values), "nDCG@10": list(values.values())})
        kept = PerUser(("user",), ("nDCG@10",), {"als": frame})
    return replace(
        whole,
        estimates=(
            replace(estimate, value=value, std_error=error, n_users=n_users, **more),
        ),
        per_user_values=kept,
    )  # fmt: skip


def judged(rule: dict[str, object], now: Report, old: Report | None = None, folder=None):
    rules = [GateRule.model_validate({"metric": "nDCG@10", **rule})]
    if old is not None:
        publish(old, folder, formats=())
    baselines = find_baselines(rules, now.models, folder or "nowhere", name="nightly")
    (gate,) = judge(rules, now, baselines, level=0.95)
    return gate


# 1.96 standard errors of 0.01 reach 0.0196 to either side of 0.5.


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({"min": 0.48}, "pass"),
        ({"min": 0.49}, "cannot tell"),
        ({"min": 0.51}, "cannot tell"),
        ({"min": 0.52}, "fail"),
        ({"max": 0.52}, "pass"),
        ({"max": 0.51}, "cannot tell"),
        ({"max": 0.48}, "fail"),
        ({"min": 0.48, "min_users": 1001}, "cannot tell"),
    ],
)
def test_fixed_bound_is_judged_by_the_interval(rule, outcome):
    gate = judged(rule, run())

    assert (gate.outcome, gate.judged_by) == (outcome, "bound")
    assert gate.low == pytest.approx(0.4804, abs=1e-3)


@pytest.mark.parametrize(
    ("unclear", "outcome", "fails"), [("fail", "cannot tell", True), ("pass", "cannot tell", False)]
)
def test_unclear_gate_does_what_is_configured(unclear, outcome, fails):
    gate = judged({"min": 0.5, "unclear": unclear}, run())

    assert (gate.outcome, gate.fails) == (outcome, fails)


@pytest.mark.parametrize("now", [run(math.nan), run(error=None), run(n_users=1)])
def test_number_without_interval_cannot_tell(now):
    assert judged({"min": 0.1}, now).outcome == "cannot tell"


def test_what_the_report_lacks_cannot_tell():
    assert judged({"min": 0.1, "metric": "recall@5"}, run()).outcome == "cannot tell"
    assert judged({"min": 0.1, "model": "other"}, run()).outcome == "cannot tell"
    assert judged({"min": 0.1, "segment": "age=new"}, run()).outcome == "cannot tell"


# Independent intervals: sqrt(0.01^2 + 0.01^2) x 1.96 = 0.0277.


@pytest.mark.parametrize(
    ("before", "more", "outcome"),
    [
        (0.55, {}, "fail"),  # -0.05 +- 0.028 is below -0.002
        (0.52, {}, "cannot tell"),  # -0.02 +- 0.028
        (0.45, {}, "pass"),
        (0.45, LOSSES, "fail"),  # higher is worse here
        (0.55, LOSSES, "pass"),
    ],
)
def test_drop_without_values_of_users_is_judged_by_independent_intervals(
    tmp_path, before, more, outcome
):
    old, now = run(before, run_id="before", **more), run(**more)

    gate = judged({"max_drop": 0.002, "baseline": "last"}, now, old, tmp_path)

    assert (gate.outcome, gate.judged_by, gate.baseline_run) == (outcome, "independent", "before")
    assert gate.delta == pytest.approx(0.5 - before)
    assert "kept no values of users" in gate.message


def test_numbers_over_rows_have_no_values_of_users_whatever_a_run_kept():
    rows = pl.DataFrame(
        {"user": [1, 1, 2, 2], "score": [0.9, 0.2, 0.6, 0.4], "label": [1, 0, 1, 0]}
    )
    now = evalkit.evaluate_labels({"a": rows, "b": rows}, metrics=["AUC"])
    rules = [GateRule(metric="AUC", max_drop=0.1, baseline="a", model="b")]

    (gate,) = judge(rules, now, find_baselines(rules, now.models, "nowhere", name="x"), level=0.95)

    assert gate.judged_by == "independent"
    assert "since users have no values of it, and the run does not compare both" in gate.message


def shifted(shift: float, n_users: int = 100) -> dict[int, float]:
    """Values that differ much among users, and little from run to run."""
    return {user: (user % 10) / 10 + shift + (user % 3) * 0.02 for user in range(n_users)}


@pytest.mark.parametrize(
    ("shift", "outcome"), [(0.4, "fail"), (0.0, "pass"), (-0.4, "pass"), (0.066, "cannot tell")]
)
def test_drop_is_judged_user_by_user_where_values_are_kept(tmp_path, shift, outcome):
    # By user the runs differ by the shift and by 0.02 or so; users not seen make it 0.04 at most.
    old = run(run_id="before", error=0.1, values=shifted(shift))
    wobbling = {user: (user % 10) / 10 + (user % 7) * 0.008 for user in range(100)}
    now = run(error=0.1, values=wobbling)

    gate = judged({"max_drop": 0.06, "baseline": "last"}, now, old, tmp_path)

    assert (gate.outcome, gate.judged_by, gate.n_users) == (outcome, "paired", 100)
    expected = [wobbling[user] - value for user, value in shifted(shift).items()]
    assert gate.delta == pytest.approx(math.fsum(expected) / 100, rel=1e-15)


def test_users_without_a_value_in_either_run_are_left_out(tmp_path):
    values = shifted(0.0)
    old = run(run_id="before", values={**values, 3: math.nan})
    now = run(values={**values, 4: math.nan})

    gate = judged({"max_drop": 0.003, "baseline": "last"}, now, old, tmp_path)

    assert (gate.judged_by, gate.n_users, gate.delta) == ("paired", 98, 0.0)


@pytest.mark.parametrize(("value", "outcome"), [(0.0, "fail"), (0.45, "pass")])
def test_people_who_came_count_as_those_who_stayed(tmp_path, value, outcome):
    people = {user: (user % 10) / 10 for user in range(5_000)}
    newcomers = {user + 5_000: value for user in range(200)}
    stayed = {user: each for user, each in people.items() if user >= 200}

    old, now = run(run_id="before", values=people), run(values=stayed | newcomers)
    gate = judged({"max_drop": 0.01, "baseline": "last"}, now, old, tmp_path)

    assert (gate.outcome, gate.judged_by) == (outcome, "paired")
    assert gate.delta == pytest.approx(0.04 * (value - 0.45), abs=1e-15)


def test_the_error_of_runs_that_share_most_users_is_that_of_overlapping_samples():
    """s1^2/n1 + s0^2/n0 - 2 c cov/(n1 n0), of c users in both; within the loss of their ends."""
    draw = np.random.default_rng(11)
    old = draw.beta(0.6, 0.9, 10_000)
    new = np.where(draw.random(10_000) < 0.3, draw.random(10_000), old)
    old[:300], new[-400:] = math.nan, math.nan
    both = slice(300, -400)
    errors = np.nanvar(new, ddof=1) / 9_600 + np.nanvar(old, ddof=1) / 9_700
    together = 2 * 9_300 * np.cov(new[both], old[both])[0, 1] / (9_600 * 9_700)

    found = difference_of(new, old, bounds=(0.0, 1.0))

    assert found.mean == pytest.approx(np.nanmean(new) - np.nanmean(old), rel=1e-12)
    assert found.std_error == pytest.approx(math.sqrt(errors - together), rel=2e-3)


def test_runs_of_other_people_are_not_compared_user_by_user(tmp_path):
    old = run(run_id="before", values=shifted(0.0))
    now = run(values={user + 10: value for user, value in shifted(0.0).items()})

    gate = judged({"max_drop": 0.003, "baseline": "last"}, now, old, tmp_path)

    assert gate.judged_by == "independent"
    assert "share 90% of their users" in gate.message


def test_first_run_cannot_tell(tmp_path):
    gate = judged({"max_drop": 0.002, "baseline": "last"}, run(), folder=tmp_path)

    assert (gate.outcome, gate.fails) == ("cannot tell", True)
    assert "no run 'last' yet" in gate.message


def test_baseline_model_is_judged_by_the_comparison_of_the_run():
    now = run()
    (estimate,) = now.estimates
    pair = Comparison(
        baseline="old", candidate="als", metric="nDCG@10", segmentation=None, segment=None,
        delta=-0.01, std_error=0.001, low=-0.012, high=-0.008, relative=None, relative_low=None,
        relative_high=None, p_value=None, p_adjusted=None, effect_size=None, test="t",
        n_users=900, wins=0, ties=0, losses=0, margin=None, verdict="worse",
        smallest_difference=None,
        users_needed=None,
    )  # fmt: skip
    now = replace(now, estimates=(estimate, replace(estimate, model="old")), comparisons=(pair,))

    gate = judged({"max_drop": 0.002, "baseline": "old"}, now)

    assert (gate.model, gate.outcome, gate.judged_by) == ("als", "fail", "paired")
    assert (gate.delta, gate.n_users, gate.baseline_run) == (-0.01, 900, None)
    assert (gate.low, gate.high) == (-0.012, -0.008)

    now = replace(now, comparisons=(replace(pair, std_error=0.0, low=None, high=None),))
    gate = judged({"max_drop": 0.02, "baseline": "old"}, now)
    assert (gate.outcome, gate.low) == ("cannot tell", None)  # of three clusters that differ alike


# Counts of the report that test_runs makes: 3 rows of truth, 9 of als, 2 users.


def count(rule: dict[str, object], now: Report, old: Report | None = None, folder=None):
    rules = [GateRule.model_validate(rule)]
    if old is not None:
        publish(old, folder, formats=())
    baselines = find_baselines(rules, now.models, folder or "nowhere", name="nightly")
    return [
        (each.model, each.outcome, each.value, each.delta)
        for each in judge(rules, now, baselines, level=0.95)
    ]


def test_a_comparison_that_was_made_the_other_way_is_turned():
    now = run(0.52)
    base = replace(now.estimates[0], model="popularity", value=0.5)
    pair = Comparison(
        baseline="als", candidate="popularity", metric="nDCG@10", delta=-0.02, std_error=0.004,
        low=-0.028, high=-0.012, p_value=0.001, p_adjusted=0.001, test="t", n_users=1000, wins=1,
        ties=2, losses=3, verdict="worse",
    )  # fmt: skip
    now = replace(now, estimates=(*now.estimates, base), comparisons=(pair,))

    gate = judged({"max_drop": 0.0, "baseline": "popularity", "model": "als"}, now)

    assert (gate.outcome, gate.judged_by, gate.delta) == ("pass", "paired", 0.02)


@pytest.mark.parametrize(
    ("low", "high", "bound", "outcome"),
    [
        (-0.031, -0.009, 0.029, "cannot tell"),  # Student's limits, -0.028, would pass
        (-0.031, -0.009, 0.008, "fail"),
        (None, None, 0.5, "cannot tell"),  # models of other users have no limits of Tukey's
    ],
)
def test_a_pair_of_tukeys_test_is_judged_by_the_limits_that_are_shown(low, high, bound, outcome):
    now = run(0.48)
    base = replace(now.estimates[0], model="popularity", value=0.5)
    pair = Comparison(
        baseline="popularity", candidate="als", metric="nDCG@10", delta=-0.02, std_error=0.004,
        low=low, high=high, p_value=0.001, p_adjusted=0.001, test="tukey", n_users=1000, wins=1,
        ties=2, losses=3, verdict="worse",
    )  # fmt: skip
    now = replace(now, estimates=(*now.estimates, base), comparisons=(pair,))

    gate = judged({"max_drop": bound, "baseline": "popularity", "model": "als"}, now)

    assert (gate.outcome, gate.low, gate.high) == (outcome, low, high)


def test_shares_and_counts_are_judged():
    now = report("now")
    (als,) = now.counts.models.values()
    als = replace(als, users_without_ranking=1, rows_used=6)
    now = replace(now, counts=replace(now.counts, models={"als": als}))

    assert count({"data": "users_without_ranking", "max": 0.5}, now) == [
        ("als", "pass", 0.5, None)
    ]  # fmt: skip
    assert count({"data": "rows_dropped", "max": 0.3}, now) == [
        (None, "pass", 0.0, None),
        ("als", "fail", 1 / 3, None),
    ]
    assert count({"data": "pairs", "min": 4}, now) == [(None, "fail", 3.0, None)]
    assert count({"data": "rows", "min": 9, "model": "als"}, now) == [("als", "pass", 9.0, None)]


def test_drift_of_counts_is_judged(tmp_path):
    now = report("now")
    truth = replace(now.counts.truth, rows=4)
    now = replace(now, counts=replace(now.counts, truth=truth))

    found = count(
        {"data": "rows", "max_change": 0.25, "baseline": "last"}, now, report("before"), tmp_path
    )

    assert found == [(None, "fail", 4.0, 1 / 3), ("als", "pass", 9.0, 0.0)]
    assert count({"data": "rows", "max_change": 1, "baseline": "last~1"}, now, None, tmp_path) == [
        (None, "cannot tell", 4.0, None),
        ("als", "cannot tell", 9.0, None),
    ]


def test_unknown_baselines_are_told_together(tmp_path):
    rules = [
        GateRule(metric="nDCG@10", max_drop=0.1, baseline=name) for name in ("prod", "x", "als")
    ]

    with pytest.raises(Errors) as caught:
        find_baselines(rules, ["als"], tmp_path, name="nightly")

    assert [each.code for each in caught.value.errors] == ["unknown-run", "unknown-run"]


# The config.


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ({"min": 0.1}, "missing-key"),
        ({"metric": "nDCG@5", "data": "rows", "min": 1}, "conflicting-keys"),
        ({"metric": "nDCG@5"}, "missing-key"),
        ({"metric": "nDCG@5", "min": 0.1, "max": 0.2}, "conflicting-keys"),
        ({"metric": "nDCG@5", "max_drop": 0.1}, "missing-key"),
        ({"metric": "nDCG@5", "max_drop": -0.1, "baseline": "last"}, "out-of-range"),
        ({"metric": "nDCG@5", "min": 0.1, "baseline": "last"}, "conflicting-keys"),
        ({"metric": "nDCG@5", "max_change": 0.1, "baseline": "last"}, "conflicting-keys"),
        ({"data": "rows", "max_drop": 0.1, "baseline": "last"}, "conflicting-keys"),
        ({"metric": "nDCG@6", "min": 0.1}, "metric-not-measured"),
        ({"metric": "nDCG@{5,10}", "min": 0.1}, "metric-not-measured"),
        ({"metric": "nDCG@5", "min": 0.1, "model": "b"}, "unknown-model"),
        ({"metric": "nDCG@5", "max_drop": 0, "model": "a", "baseline": "a"}, "conflicting-keys"),
        ({"metric": "nDCG@5", "min": 0.1, "segment": "new"}, "out-of-range"),
        ({"metric": "nDCG@5", "min": 0.1, "segment": "age=new"}, "unknown-segment"),
        ({"metric": "nDCG@5", "min": 0.1, "unclear": "maybe"}, "unknown-choice"),
        ({"metric": "nDCG@5", "min": 0.1, "mx": 1}, "unknown-key"),
        ({"metric": "nDCG@5", "min": math.inf}, "out-of-range"),
        ({"data": "row", "min": 1}, "unknown-choice"),
        ({"data": "users_without_ranking", "max": 5}, "out-of-range"),
        ({"metric": "nDCG@5", "max_drop_relative": 0.1, "baseline": "last"}, "unknown-model"),
    ],
)
def test_gates_that_cannot_be_judged_are_refused(gate, code):
    tree = {
        "truth": {"path": "t.parquet"},
        "rankings": [{"model": "a", "path": "a.parquet"}],
        "metrics": {"names": ["nDCG@{5,10}"]},
        "gates": [gate],
    }

    with pytest.raises(RequestError) as caught:
        build_config(tree, name="job")

    assert caught.value.code == code


def test_gate_reads_any_spelling_of_a_metric():
    tree = {
        "truth": {"path": "t.parquet"},
        "rankings": [{"model": "a", "path": "a.parquet"}],
        "metrics": {"names": ["ndcg@{5,10}"]},
        "gates": [{"metric": "NDCG@5", "min": 0.1}],
    }

    assert build_config(tree, name="job").gates[0].metric == "nDCG@5"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"segments": {"min_users": 20}}, "min_users = 20 under [segments]"),
        (None, "fewer users than min_users"),
    ],
)
def test_a_segment_that_stands_with_other_small_ones_is_told(config, said):
    now = run()
    small = replace(now.estimates[0], segmentation="job", segment="(small)")
    now = replace(now, estimates=(*now.estimates, small), config=config)

    gate = judged({"min": 0.1, "segment": "job=doctor"}, now)
    other = judged({"min": 0.1, "segment": "age=new"}, now)

    assert gate.outcome == other.outcome == "cannot tell"
    assert said in gate.message
    assert "stand together as (small), and 'doctor' may be one of them" in gate.message
    assert "min_users" not in other.message


def test_numbers_that_users_have_no_values_of_are_judged_by_their_own_intervals(tmp_path):
    rows = [(user, (user + rank) % 12, rank) for user in range(120) for rank in (1, 2)]
    rankings = pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")
    rankings.write_parquet(tmp_path / "rankings.parquet")
    rankings.select("user", "item").write_parquet(tmp_path / "truth.parquet")
    pl.DataFrame({"item": range(12)}).write_parquet(tmp_path / "items.parquet")
    names, rule = ["nDCG@2", "entropy@2", "trade"], {"max_drop": 0.9, "baseline": "last"}
    tree = {
        "truth": {"path": str(tmp_path / "truth.parquet")},
        "rankings": [{"model": "m", "path": str(tmp_path / "rankings.parquet")}],
        "items": {"path": str(tmp_path / "items.parquet")},
        "metrics": {"names": names[:2], "combined": {"trade": "nDCG@2 + 0.1 * entropy@2"}},
        "gates": [{"metric": name, **rule} for name in names],
    }

    for _ in range(2):
        report = Job(build_config(tree, name="night"), tmp_path / "runs").run().report

    found = {gate.metric: (gate.judged_by, gate.delta, gate.outcome) for gate in report.gates}
    assert found["nDCG@2"] == ("paired", 0.0, "pass")
    assert found["entropy@2"] == found["trade"] == ("independent", 0.0, "pass")


@pytest.mark.parametrize("scale", [1e-160, 1e-3, 1.0, 1e5])
@pytest.mark.parametrize("share_changed", [0.0, 0.1, 1.0])
def test_users_who_stayed_the_same_move_no_digit(scale: float, share_changed: float) -> None:
    draw = np.random.default_rng(7)
    old = draw.random(999) * scale
    new = np.where(draw.random(999) < share_changed, draw.random(999), old)
    deltas = (new - old).tolist()
    mean = math.fsum(deltas) / 999
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in deltas) / 998 / 999)

    found = difference_of(new, old, bounds=(-math.inf, math.inf))

    assert (found.mean, found.std_error) == (mean, error)


def test_limits_of_a_paired_gate_lie_within_what_a_difference_can_be():
    new, old = np.array([1.0] * 9 + [0.5]), np.array([0.0] * 9 + [0.6])

    limits = difference_of(new, old, bounds=(0.0, 1.0)).limits(0.95)

    assert (limits.low > 0.0, limits.high) == (True, 1.0)


@pytest.mark.parametrize(
    ("base", "more", "outcome", "delta"),
    [
        (0.5, {}, "fail", -0.3),
        (0.5, LOSSES, "pass", -0.3),
        (-0.5, {}, "pass", 0.3),  # as R2 may be: nearer to 0 is better
        (-0.5, LOSSES, "fail", 0.3),
    ],
)
def test_a_relative_drop_is_told_as_a_difference_is(base, more, outcome, delta):
    now = run(0.7 * base, **more)
    pair = Comparison(
        baseline="old", candidate="als", metric="nDCG@10", delta=-0.3 * base, std_error=0.01,
        low=-0.3 * base - 0.02, high=-0.3 * base + 0.02, relative=-0.3, relative_low=-0.35,
        relative_high=-0.25, test="t", n_users=900, verdict="better",
    )  # fmt: skip
    other = replace(now.estimates[0], model="old", value=base)
    now = replace(now, estimates=(*now.estimates, other), comparisons=(pair,))

    gate = judged({"max_drop_relative": 0.1, "baseline": "old"}, now)

    assert (gate.outcome, gate.delta) == (outcome, delta)
    assert (gate.low, gate.high) == ((-0.35, -0.25) if delta < 0 else (0.25, 0.35))
    assert f"{-0.3 if outcome == 'fail' else 0.3:+.2%}" in gate.message
    distance = f"{0.1 + (-0.3 if outcome == 'fail' else 0.3):.3f}"
    (line,) = [
        each
        for each in render_prometheus(replace(now, gates=(gate,))).splitlines()
        if each.startswith("evalkit_gate_distance{")
    ]
    assert f"{float(line.split()[-1]):.3f}" == distance


def test_a_model_called_as_a_run_is_judged_against_that_run(tmp_path):
    old, now = run(run_id="before"), run()
    old, now = (
        replace(each, estimates=(*each.estimates, replace(each.estimates[0], model="last")))
        for each in (old, now)
    )
    publish(old, tmp_path, formats=())
    rules = [GateRule(metric="nDCG@10", max_drop=0.5, baseline="last")]

    baselines = find_baselines(rules, now.models, tmp_path, name="nightly")

    gates = judge(rules, now, baselines, level=0.95)
    assert [(each.model, each.outcome) for each in gates] == [("als", "pass"), ("last", "pass")]


def test_a_number_that_is_not_there_is_no_want_of_a_run(tmp_path):
    rule = {"max_drop": 0.002, "baseline": "last-passed"}

    first, odd = judged(rule, run(), folder=tmp_path), judged(rule, run(math.nan), folder=tmp_path)

    assert (first.fails, is_first(replace(run(), gates=(first,)))) == (True, True)
    assert (odd.fails, is_first(replace(run(), gates=(odd,)))) == (True, False)


@pytest.mark.parametrize("what", ["metric", "policy"])
def test_what_the_last_that_passed_lacks_is_compared_with_from_then_on(tmp_path, what):
    rule = {"max_drop": 0.002, "baseline": "last-passed"}
    old, now = run(run_id="before"), run()
    if what == "metric":
        old = replace(old, estimates=(replace(old.estimates[0], metric="nDCG@5"),))
    else:
        policies = {"missing_ranking": "skip"}
        old, now = replace(old, config={"policies": policies}), replace(now, config={})

    gate = judged(rule, now, old, tmp_path)
    by_tag = replace(gate, baseline="prod")

    assert (gate.outcome, gate.baseline_run) == ("cannot tell", "before")
    assert "this run will be it" in gate.message
    assert is_first(replace(now, gates=(gate,)))
    assert not is_first(replace(now, gates=(by_tag,)))  # a tag moves by hand


def test_numbers_of_one_name_and_another_kind_are_not_compared(tmp_path):
    rule = {"max_drop": 0.5, "baseline": "last"}
    old, now = (
        replace(run(run_id=name), config={"labels": [{"path": "rows"}]} if name == "now" else {})
        for name in ("before", "now")
    )

    gate = judged(rule, now, old, tmp_path)

    assert gate.outcome == "cannot tell"
    assert "kind is 'rankings' and 'labels'" in gate.message


@pytest.mark.parametrize(("data", "judged"), [("rows", ["b"]), ("users", ["b"])])
def test_a_count_of_the_truth_is_not_held_against_a_model(data, judged):
    now = with_users()
    models = {name: now.counts.models["als"] for name in ("als", "b")}
    now = replace(now, counts=replace(now.counts, models=models))
    rules = [GateRule(data=data, max_change=0.1, baseline="als")]
    baselines = find_baselines(rules, now.models, "nowhere", name="nightly")

    gates = judge(rules, now, baselines, level=0.95)

    assert [each.model for each in gates] == judged


def test_pairs_are_of_the_truth_and_no_model_has_any():
    tree = {
        "truth": {"path": "t"},
        "rankings": [{"model": "a", "path": "a"}, {"model": "b", "path": "b"}],
        "metrics": {"names": ["RR"]},
        "gates": [{"data": "pairs", "max_change": 0.1, "baseline": "b"}],
    }

    with pytest.raises(RequestError) as error:
        build_config(tree, name="job")

    assert error.value.code == "conflicting-keys"
    assert count_of(with_users(), "als", "pairs") is None
