"""What limits and tests promise, held against simulated experiments whose truth is known."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import GateRule
from evalkit.report.decision import decision_sentence
from evalkit.runs.gates import Baselines, judge
from evalkit.statistics.independent import Contrast, Group, Part, Rules
from evalkit.statistics.moments import Linear
from evalkit.statistics.spending import Sequential

N_DRAWS = 200


def contrast(rules, means, ns, variances):
    groups = []
    for mean, n, variance in zip(means, ns, variances, strict=True):
        one = np.ones(1)
        linear = Linear(int(n), np.array([mean]), np.array([[variance]]), one)
        groups.append(Group((Part(1.0, linear),), np.zeros(0)))
    return Contrast(groups[0], groups[1], rules).difference()


def alarms(rules_at, looks, n_draws=N_DRAWS):
    """Share of experiments without an effect in which any look finds one; 500 units a look."""
    draw = np.random.default_rng(3)
    found = 0
    for _ in range(n_draws):
        values = draw.normal(size=(2, 500 * looks))
        for look in range(1, looks + 1):
            seen = values[:, : 500 * look]
            one = contrast(
                rules_at(look), seen.mean(axis=1), (500 * look,) * 2, seen.var(axis=1, ddof=1)
            )
            if one.p_value <= 0.05:
                found += 1
                break
    return found / n_draws


def test_one_look_has_as_many_false_alarms_as_it_says():
    assert 0.02 <= alarms(lambda look: Rules(), 1) <= 0.095


def test_daily_looks_inflate_plain_tests_and_no_always_valid_one():
    sequential = Rules(is_normal=True, sequential=Sequential(10_000.0, 0.95))

    assert alarms(lambda look: Rules(), 10) > 0.1
    assert alarms(lambda look: sequential, 10) <= 0.05


def test_planned_looks_spend_what_they_may():
    times = (1 / 3, 2 / 3, 1.0)

    def rules(look):
        return Rules(is_normal=True, spending=("pocock", times[:look]))

    assert 0.015 <= alarms(rules, 3) <= 0.09


def test_relative_limits_of_skewed_units_hold_the_truth():
    draw = np.random.default_rng(5)
    held = 0
    for _ in range(N_DRAWS):
        base, new = draw.lognormal(0.0, 1.0, (2, 500))
        new = 1.2 * new
        limits = contrast(
            Rules(), (base.mean(), new.mean()), (500, 500), (base.var(ddof=1), new.var(ddof=1))
        ).relative_limits
        held += limits.low <= 0.2 <= limits.high

    assert 0.90 <= held / N_DRAWS <= 0.99


def seen_by(draw, sizes, effect=1.0, **asked):
    """Of units that mostly buy nothing, those of the candidate `effect` times as much."""
    n = sum(sizes)
    is_b = np.arange(n) >= sizes[0]
    bought = (draw.random(n) < 0.05) * draw.lognormal(size=n) * np.where(is_b, effect, 1.0)
    units = pl.DataFrame({"unit": range(n), "variant": np.where(is_b, "b", "a"), "bought": bought})
    variants = dict(zip("ab", sizes, strict=True))
    return evalkit.evaluate_experiment(
        units, variants=variants, metrics=["mean(bought)"], statistics=asked
    )


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("sizes", [(100, 900), (900, 100)])
@pytest.mark.parametrize("variance", ["welch", "pooled"])
def test_a_small_variant_that_lacks_large_values_has_no_verdict(sizes, variance):
    """By Welch's test alone 16 in 100 find an effect that is not there, by the pooled one 5."""
    draw = np.random.default_rng(8)
    reports = [seen_by(draw, sizes, variance=variance) for _ in range(60)]
    own = [report.comparisons[0] for report in reports]
    withheld = [each.p_value <= 0.05 for each in own]

    assert sum(each.verdict != "cannot tell" for each in own) <= 1
    assert sum(withheld) >= (6 if variance == "welch" else 1)
    for report, is_withheld in zip(reports, withheld, strict=True):
        codes = [each.code for each in report.warnings]
        assert codes.count("large-values") == is_withheld


def test_an_effect_that_both_variances_find_has_its_verdict():
    draw = np.random.default_rng(9)

    assert seen_by(draw, (2000, 18000), 4.0).comparisons[0].verdict == "better"
    few, many = (seen_by(draw, (n, n), 1.5) for n in (500, 20_000))
    assert many.comparisons[0].verdict == "better"
    for report in (few, many):  # of one size, variances are the same
        own = report.comparisons[0]
        assert (own.verdict == "better") == (own.p_value <= 0.05)
        assert "large-values" not in [each.code for each in report.warnings]


def test_a_margin_is_met_by_both_variances():
    """100 units of variance 0.048 beside 900 of 0.25: errors 0.027 by two, 0.05 by one."""
    a, b = [0.0] * 95 + [1.0] * 5, [0.0] * 891 + [5.0] * 9
    units = pl.DataFrame({"variant": ["a"] * 100 + ["b"] * 900, "y": [*a, *b]})
    report = evalkit.evaluate_experiment(
        units.with_row_index("unit"),
        variants={"a": 1, "b": 9},
        metrics=["mean(y)"],
        statistics={"margin": 0.06},
    )
    own = report.comparisons[0]

    assert own.p_not_inferior == own.p_equivalent == pytest.approx(0.0152, abs=0.001)
    assert own.verdict == "cannot tell"
    assert "large-values" in [each.code for each in report.warnings]


@pytest.mark.parametrize("n", [50, 300])
def test_what_has_lost_the_margin_is_seldom_equivalent(n):
    """A candidate that sells nothing any more: by t alone 22 to 29 in 100 are equivalent."""
    draw, margin = np.random.default_rng(11), 0.05 * np.exp(0.5)
    reports = [seen_by(draw, (n, n), 0.0, margin=margin) for _ in range(60)]
    own = [report.comparisons[0] for report in reports]
    false = [each.p_not_inferior is not None and each.p_not_inferior <= 0.05 for each in own]

    assert sum(false) >= 6
    assert sum(each.verdict in ("equivalent", "not inferior") for each in own) <= 4
    for report, each, is_false in zip(reports, own, false, strict=True):
        is_withheld = is_false and each.verdict == "cannot tell"
        assert ("large-values" in [one.code for one in report.warnings]) == is_withheld


def test_margins_of_many_units_are_met_as_before():
    draw = np.random.default_rng(12)
    own = seen_by(draw, (20_000, 20_000), 1.0, margin=0.04).comparisons[0]

    assert own.verdict == "equivalent"
    assert own.p_equivalent < 1e-4


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("is_lower", [False, True])
@pytest.mark.parametrize("role", ["primary", "guardrails"])
def test_a_loss_whose_verdict_is_withheld_holds_back(is_lower, role):
    draw, n = np.random.default_rng(8), 1000
    is_b = np.arange(n) >= 100
    reports = []
    for _ in range(30):
        bought = (draw.random(n) < 0.05) * draw.lognormal(size=n)
        units = pl.DataFrame(
            {
                "unit": range(n),
                "variant": np.where(is_b, "a", "b"),
                "bought": bought,
                "y": draw.normal(size=n) + ~is_b,
            }
        )
        reports.append(
            evalkit.evaluate_experiment(
                units,
                variants={"a": 9, "b": 1},
                metrics=["mean(y)", "mean(bought)"],
                lower_is_better=["mean(bought)"] if is_lower else [],
                **{"primary": ["mean(y)"], role: ["mean(y)", "mean(bought)"][role != "primary" :]},
            )
        )
    held = []
    for report in reports:
        own = next(each for each in report.comparisons if each.metric == "mean(bought)")
        is_held = own.p_value <= 0.05 and (own.delta > 0.0) == is_lower
        assert own.verdict == "cannot tell"
        said = "not yet, mean(bought) may have got worse" if is_held else "ship, mean(y) got better"
        assert decision_sentence(report) == f"b: {said}"
        held.append(is_held)
    assert any(held) != is_lower


@pytest.mark.parametrize("power", [-500, -365, 365, 500])
def test_verdicts_of_margins_have_no_scale(power):
    """Cubes of errors of such values are 0 or infinite."""
    values = np.random.default_rng(13).lognormal(size=200)

    def seen_at(scale, margin):
        units = pl.DataFrame({"variant": ["a", "b"] * 100, "y": values * scale})
        return evalkit.evaluate_experiment(
            units.with_row_index("unit"),
            variants={"a": 1, "b": 1},
            metrics=["mean(y)"],
            statistics={"margin": margin},
        ).comparisons[0]

    for margin in (0.5, 0.9, 1e120):
        own, scaled = seen_at(1.0, margin), seen_at(2.0**power, margin * 2.0**power)
        assert (scaled.verdict, scaled.p_equivalent) == (own.verdict, own.p_equivalent)
    assert own.verdict == "equivalent"


def test_covariates_gain_what_theory_says():
    """var(adjusted) = (1 - r^2) var(plain), r the correlation with the covariate."""
    draw = np.random.default_rng(7)
    n = 20_000
    before = draw.normal(size=n)
    after = 0.8 * before + 0.6 * draw.normal(size=n)
    units = pl.DataFrame(
        {"unit": range(n), "variant": ["a", "b"] * (n // 2), "y": after, "x": before}
    )
    report = evalkit.evaluate_experiment(
        units, variants={"a": 1, "b": 1}, metrics=["mean(y)"], before={"y": "x"}
    )

    adjusted, raw = report.comparisons
    assert (adjusted.std_error / raw.std_error) ** 2 == pytest.approx(0.36, abs=0.02)
    assert adjusted.theta == pytest.approx(0.8, abs=0.02)


def test_effects_of_triggered_units_are_diluted_to_all():
    draw = np.random.default_rng(9)
    n = 40_000
    sees, arm = draw.random(n) < 0.25, draw.random(n) < 0.5
    y = draw.exponential(size=n) + np.where(sees & arm, 0.4, 0.0)
    units = pl.DataFrame(
        {"unit": range(n), "variant": np.where(arm, "b", "a"), "triggered": sees, "y": y}
    )
    report = evalkit.evaluate_experiment(
        units,
        variants={"a": 1, "b": 1},
        metrics=["mean(y)"],
        columns={"triggered": "triggered"},
    )

    rows = {each.segment: each for each in report.comparisons}
    whole, some, diluted = rows[None], rows["triggered"], rows["diluted to all"]
    assert some.delta == pytest.approx(0.4, abs=4 * some.std_error)
    assert diluted.delta == pytest.approx(0.1, abs=4 * diluted.std_error)
    assert diluted.std_error < 0.6 * whole.std_error
    by_share = [some.low_gate / some.low, some.high_gate / some.high]
    assert by_share != [1.0, 1.0]
    assert [diluted.low_gate / diluted.low, diluted.high_gate / diluted.high] == pytest.approx(
        by_share
    )
    assert {each.segment for each in report.checks if each.check == "sample-ratio"} == {
        None,
        "triggered",
    }


def test_clusters_as_units_are_today_s_rule():
    """Against sums over clusters, which single samples of clusters have had so far."""
    from evalkit.statistics.exact import ExactSums
    from evalkit.statistics.ratios import RatioSum, terms_of

    draw = np.random.default_rng(11)
    n = 3000
    cluster = draw.integers(0, 40, n)
    y = draw.poisson(2.0, n) + draw.normal(size=40)[cluster]
    arm = cluster % 2
    units = pl.DataFrame(
        {"unit": range(n), "variant": np.where(arm == 1, "b", "a"), "y": y, "c": cluster}
    )
    report = evalkit.evaluate_experiment(
        units, variants={"a": 1, "b": 1}, metrics=["mean(y)"], statistics={"cluster": "c"}
    )

    for number, name in enumerate(("a", "b")):
        own = [c for c in range(40) if c % 2 == number]
        values = np.array([[y[cluster == c].sum()] for c in own])
        weights = np.array([[float((cluster == c).sum())] for c in own])
        sums = ExactSums(7)
        sums.add(terms_of(values, weights))
        wanted = RatioSum.of(sums, 0)
        found = next(each for each in report.estimates if each.model == name)
        assert found.value == pytest.approx(wanted.mean)
        assert found.std_error == pytest.approx(wanted.std_error)
        assert found.df == pytest.approx(wanted.df)
        assert found.n_clusters == 20


def test_clusters_that_were_assigned_are_what_the_sample_ratio_counts():
    """5 and 5 clusters, of 10 units in a and 40 in b; by units it were an alarm."""
    units = [(10 * c + i, "ab"[c % 2], c) for c in range(10) for i in range(40 if c % 2 else 10)]
    table = pl.DataFrame(units, schema=["unit", "variant", "c"], orient="row").with_row_index("y")
    ways = {"metrics": ["mean(y)"], "variants": {"a": 1, "b": 1}}
    table = table.with_columns(unit="y")

    whole = evalkit.evaluate_experiment(table, **ways)
    by_cluster = evalkit.evaluate_experiment(table, **ways, statistics={"cluster": "c"})
    assert [whole.checks[0].verdict, by_cluster.checks[0].verdict] == ["fail", "ok"]
    assert by_cluster.checks[0].value == 0.5


SPENDING = {"spending": "obrien-fleming", "final": 1500}
ALWAYS_VALID = {"method": "always-valid", "tightest_at": 1500}


@pytest.mark.some_cases(1)  # what is always valid is so in the test of daily looks too
@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("plan", [SPENDING, ALWAYS_VALID])
def test_looks_keep_the_error_of_all_that_is_decided(plan, seed):
    """20 histories of five looks without an effect; the guardrail is worse by just its margin.

    Of 1,400 histories with spending 5.5 % had a false primary effect, 4.4 % a guardrail that seemed
    to hold, 4.0 % a segment, 4.2 % a finding; of 300 always valid ones 0.0, 1.3, 0.3 and 0.0 %.
    """
    draw, n_histories, looks, n = np.random.default_rng(seed), 20, 5, 300
    found = dict.fromkeys(("primary", "guardrail", "segments", "limits", "findings"), 0)
    for _ in range(n_histories):
        is_b = draw.random(n * looks) < 0.5
        columns = {name: draw.normal(5.0, 1.0, n * looks) for name in ("y", "z", "g")}
        columns["g"] -= 0.2 * is_b
        units = pl.DataFrame({"variant": np.where(is_b, "b", "a"), **columns}).with_columns(
            s=pl.Series(draw.choice(["u", "v"], n * looks))
        )
        seen = set()
        for look in range(1, looks + 1):
            earlier = {"looks": [each / looks for each in range(1, look)]}
            report = evalkit.evaluate_experiment(
                units[: n * look],
                variants={"a": 1, "b": 1},
                metrics=["mean(y)", "mean(z)", "mean(g)"],
                primary=["mean(y)", "mean(z)"],
                guardrails=["mean(g)"],
                segments=["s"],
                statistics={"sequential": plan | (earlier if plan is SPENDING else {}),
                            "margin": 0.2, "search": True},
            )  # fmt: skip
            for each in report.comparisons:
                if each.metric == "mean(g)":
                    if each.segment is None and each.p_not_inferior <= 0.05:
                        seen.add("guardrail")
                    continue
                is_found = each.p_adjusted <= 0.05
                assert is_found == (not each.low_adjusted <= 0.0 <= each.high_adjusted)
                if is_found:
                    seen |= {"primary", "limits"} if each.segment is None else {"segments"}
            seen |= {"findings" for each in report.findings if each.metric != "mean(g)"}
        for name in seen:
            found[name] += 1

    assert max(found.values()) <= 0.15 * n_histories


def gates_on(report, metric="mean(bought)", **bounds):
    """Outcomes and messages of gates of the candidate, by their bounds."""
    rules = [
        GateRule(
            metric=metric, model="b", baseline="a" if "drop" in kind else None, **{kind: bound}
        )
        for kind, bound in bounds.items()
    ]
    return judge(rules, report, Baselines({}), level=0.95)


@pytest.mark.parametrize(("sizes", "least"), [((100, 900), 6), ((50, 50), 6), ((300, 300), 2)])
def test_a_gate_seldom_passes_what_has_lost_its_bound(sizes, least):
    """By the limits shown 10 in 100 pass, or more; of 300 units each fewer."""
    draw, bound = np.random.default_rng(15), 0.05 * np.exp(0.5)
    reports = [seen_by(draw, sizes, 0.0) for _ in range(60)]
    gates = [gates_on(report, max_drop=bound)[0] for report in reports]
    lows = [report.comparisons[0].low for report in reports]
    plain = [low is not None and low >= -bound for low in lows]

    assert sum(plain) >= least
    assert sum(gate.outcome == "pass" for gate in gates) <= 2
    for gate, is_plain in zip(gates, plain, strict=True):
        assert ("by the limits of the report" in gate.message) >= (
            is_plain and gate.outcome != "pass"
        )


def test_a_gate_seldom_fails_what_has_lost_nothing():
    """By the plain limits 15 in 100 fail."""
    draw = np.random.default_rng(16)
    reports = [seen_by(draw, (900, 100)) for _ in range(60)]

    assert sum(report.comparisons[0].high < 0.0 for report in reports) >= 4
    for kind in ("max_drop", "max_drop_relative"):
        assert sum(gates_on(report, **{kind: 0.0})[0].outcome == "fail" for report in reports) <= 1


def test_gates_of_many_units_are_told_as_before():
    draw = np.random.default_rng(17)
    same, worse = (seen_by(draw, (20_000, 20_000), effect) for effect in (1.0, 0.5))
    for report, told in ((same, "pass"), (worse, "fail")):
        gates = gates_on(report, max_drop=0.02, max_drop_relative=0.25)
        own = report.comparisons[0]

        assert [gate.outcome for gate in gates] == [told] * 2
        assert own.low_gate == pytest.approx(own.low, abs=0.25 * own.std_error)
        assert own.low_gate <= own.low < own.high <= own.high_gate
        assert own.relative_low_gate <= own.relative_low < own.relative_high
        assert own.relative_high <= own.relative_high_gate


@pytest.mark.parametrize("sizes", [(1, 30), (30, 1), (2, 2), (30, 30)])
@pytest.mark.parametrize("values", [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("metric", ["mean(y)", "ratio(y, y)"])
def test_a_gate_of_constant_or_single_units_never_passes(sizes, values, metric):
    """Nothing varies, or a variant is a unit: nothing is known of others."""
    y = np.repeat(values, sizes)
    units = pl.DataFrame({"unit": range(y.size), "variant": np.repeat(["a", "b"], sizes), "y": y})
    shares = dict(zip("ab", sizes, strict=True))
    report = evalkit.evaluate_experiment(units, variants=shares, metrics=[metric])
    gates = gates_on(report, metric, max_drop=0.1, max_drop_relative=0.1, min=-1.0, max=2.0)

    assert [gate.outcome for gate in gates] == ["cannot tell"] * 4


def test_a_gate_seldom_fails_a_mean_that_is_its_bound():
    """By Student's limits 30 in 100 of 50 units fail: no large value was drawn yet."""
    draw, bound = np.random.default_rng(19), 0.05 * np.exp(0.5)
    reports = [seen_by(draw, (50, 50)) for _ in range(60)]
    gates = [gate for report in reports for gate in gates_on(report, min=bound, max=bound)]
    told = [gate.outcome for gate in gates]

    assert told.count("fail") <= 2
    assert told.count("pass") <= 2
    assert sum("by the limits of the report" in gate.message for gate in gates) >= 20


def test_gates_of_values_without_a_bound_ask_for_units():
    """Of 50 units none may have the value that one in 200 has, a hundred times as large."""
    draw = np.random.default_rng(21)
    wide = {"max": 100.0, "max_drop": 100.0, "max_drop_relative": 100.0, "min": -100.0}
    for sizes, metric, asked in (
        ((50, 400), "mean(y)", {}),
        ((400, 199), "mean(y)", {}),
        ((200, 200), "mean(y)", {}),
        ((20, 20), "mean(y, cap=20)", {}),
        ((40, 40), "mean(y)", {"limits": "wald"}),
    ):
        units = pl.DataFrame(
            {
                "unit": range(sum(sizes)),
                "variant": np.repeat(["a", "b"], sizes),
                "y": 10.0 + draw.normal(size=sum(sizes)),
            }
        )
        shares = dict(zip("ab", sizes, strict=True))
        report = evalkit.evaluate_experiment(
            units, variants=shares, metrics=[metric], statistics=asked
        )
        outcomes = [gate.outcome for gate in gates_on(report, metric, **wide)]
        is_few = min(sizes) < 200 and metric == "mean(y)" and not asked
        of_most = "cannot tell" if is_few and sizes[1] < 200 else "pass"
        of_drops = "cannot tell" if is_few else "pass"
        assert outcomes == [of_most, of_drops, of_drops, "pass"]


def test_margins_of_few_clusters_are_not_told():
    """Nobody knows what few clusters hide, be they alike."""
    draw = np.random.default_rng(22)
    for n_clusters, verdict in ((29, "cannot tell"), (30, "equivalent")):
        cluster = np.arange(20 * n_clusters) % (2 * n_clusters)
        units = pl.DataFrame(
            {
                "unit": range(cluster.size),
                "cluster": cluster,
                "variant": np.where(cluster % 2 == 1, "b", "a"),
                "y": 10.0 + draw.normal(size=cluster.size),
            }
        )
        report = evalkit.evaluate_experiment(
            units,
            variants={"a": 1, "b": 1},
            metrics=["mean(y)"],
            statistics={"cluster": "cluster", "margin": 5.0},
        )
        assert report.comparisons[0].verdict == verdict
        assert report.comparisons[0].p_equivalent < 1e-6


def test_a_fraction_of_no_conversion_has_limits():
    """Wilson's, as those of one conversion: 0 of 30 may be 10 %."""
    units = pl.DataFrame({"unit": range(60), "variant": ["a", "b"] * 30, "y": [0] * 60})
    report = evalkit.evaluate_experiment(units, variants={"a": 1, "b": 1}, metrics=["fraction(y)"])

    assert [each.low for each in report.estimates] == [0.0, 0.0]
    assert report.estimates[1].high == pytest.approx(0.113513, abs=1e-6)
    (gate, *others) = gates_on(report, "fraction(y)", max=0.05)
    assert (gate.outcome, others) == ("cannot tell", [])


def test_relative_gates_of_few_conversions_go_by_newcombes_limits():
    """By Fieller's limits of 900 and 100 units, 65 in 100 fail that have lost just the bound."""
    draw, failed = np.random.default_rng(18), 0
    for _ in range(60):
        y = np.concatenate([draw.random(900) < 0.05, draw.random(100) < 0.005]).astype(int)
        variants = np.repeat(["a", "b"], (900, 100))
        units = pl.DataFrame({"unit": range(1000), "variant": variants, "y": y})
        report = evalkit.evaluate_experiment(
            units, variants={"a": 9, "b": 1}, metrics=["fraction(y)"]
        )
        failed += gates_on(report, "fraction(y)", max_drop_relative=0.9)[0].outcome == "fail"

    assert failed <= 2


def test_gates_of_interleaving_go_by_its_limits():
    users, won = np.repeat(np.arange(100), 5), np.arange(500) % 2
    credits = pl.DataFrame({"user": users, "credit_a": won, "credit_b": 1 - won})
    report = evalkit.evaluate_interleaving(credits, models=["a", "b"])
    (gate,) = gates_on(report, "share", max_drop=0.3)

    assert gate.outcome == "pass"
    assert (gate.low, gate.high) == (report.comparisons[0].low, report.comparisons[0].high)


def test_margins_and_gates_of_clusters_count_skewness():
    """By the plain limits 11 gates and 15 verdicts of 100 are wrong."""
    draw, wrong, passed = np.random.default_rng(21), 0, 0
    is_b, bound = np.arange(300) >= 30, 0.05 * np.exp(0.5)
    for _ in range(60):
        cluster = np.repeat(np.arange(300), 1 + draw.poisson(4, 300))
        spent = (draw.random(cluster.size) < 0.1) * draw.lognormal(size=cluster.size)
        units = pl.DataFrame(
            {
                "unit": range(cluster.size),
                "cluster": cluster,
                "variant": np.where(is_b[cluster], "b", "a"),
                "bought": spent * np.where(is_b[cluster], 0.5, 1.0),
            }
        )
        report = evalkit.evaluate_experiment(
            units,
            variants={"a": 1, "b": 9},
            metrics=["mean(bought)"],
            statistics={"cluster": "cluster", "margin": bound},
        )
        wrong += report.comparisons[0].verdict in ("equivalent", "not inferior")
        passed += gates_on(report, max_drop=bound)[0].outcome == "pass"

    assert wrong <= 5
    assert passed <= 3


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_an_open_side_of_a_gate_is_no_number(alternative):
    report = seen_by(np.random.default_rng(20), (20_000, 20_000), alternative=alternative)
    (gate,) = gates_on(report, max_drop=0.1)
    own = report.comparisons[0]

    assert (gate.low, gate.high) == (own.low_gate, own.high_gate)
    assert (gate.low is None) == (alternative == "less")
    assert (gate.high is None) == (alternative == "greater")


def test_a_gate_on_an_older_run_says_that_it_has_no_limits_to_go_by():
    report = seen_by(np.random.default_rng(21), (2000, 2000))
    ends = ("low_gate", "high_gate")
    older = replace(
        report,
        estimates=[replace(each, **dict.fromkeys(ends)) for each in report.estimates],
        comparisons=[replace(each, **dict.fromkeys(ends)) for each in report.comparisons],
    )
    (gate,) = gates_on(older, max_drop=1.0)

    assert gates_on(report, max_drop=1.0)[0].outcome == "pass"
    assert gate.outcome == "cannot tell"
    assert gate.message.endswith("has no limits that gates go by, as older runs have none")


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_a_gate_on_a_quantile_goes_by_the_limits_of_its_comparison(alternative):
    draw = np.random.default_rng(22)
    y = draw.lognormal(size=2000)
    units = pl.DataFrame({"unit": range(2000), "variant": ["a", "b"] * 1000, "y": y})
    report = evalkit.evaluate_experiment(
        units,
        variants={"a": 1, "b": 1},
        metrics=["quantile(y, q=0.5)"],
        statistics={"alternative": alternative},
    )
    (gate,), own = gates_on(report, "quantile(y, q=0.5)", max_drop=0.1), report.comparisons[0]

    assert (gate.low, gate.high, gate.n_users) == (own.low_gate, own.high_gate, 2000)
    assert "kept no values" not in gate.message
