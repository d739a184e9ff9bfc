"""Margins of experiments: conversions that are few, and units that nobody has seen."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.statistics.independent import BoundedValues, Contrast, Group, Part, Rules
from evalkit.statistics.moments import Linear


def guarded(control, b, metric="fraction(y)", *, lower_is_better=True, **statistics):
    units = pl.DataFrame({"variant": ["a"] * len(control) + ["b"] * len(b), "y": [*control, *b]})
    report = evalkit.evaluate_experiment(
        units.with_row_index("unit"),
        variants={"a": len(control), "b": len(b)},
        metrics=[metric],
        guardrails=[metric],
        lower_is_better=[metric] if lower_is_better else [],
        statistics=statistics,
    )
    return report.comparisons[0]


def wilson(ones, n, z):
    middle, half = ones + z * z / 2, z * np.sqrt(ones * (n - ones) / n + z * z / 4)
    return (middle - half) / (n + z * z), (middle + half) / (n + z * z)


def test_no_crash_in_either_variant_is_not_inferior_where_units_are_enough():
    """0 of n: Wilson's upper limit z^2 / (n + z^2) is what may hide in the candidate."""
    few, many = (guarded([0] * n, [0] * n, margin=0.01) for n in (200, 400))

    z = stats.norm.isf(0.05)
    assert few.high_margin == pytest.approx(z**2 / (200 + z**2))
    assert few.verdict == "cannot tell"
    assert many.verdict == "equivalent"


def test_few_conversions_are_tested_by_the_limits_that_are_shown():
    """The margin at the limit of Newcombe at level 1 - 2 alpha: p is alpha."""
    ones, n, z = (3, 6), 400, stats.norm.isf(0.05)
    base, new = (wilson(one, n, z) for one in ones)
    high = 3 / n + np.hypot(new[1] - 6 / n, 3 / n - base[0])
    found = guarded([1] * 3 + [0] * 397, [1] * 6 + [0] * 394, margin=float(high))

    assert found.high_margin == pytest.approx(high)
    assert found.p_not_inferior == pytest.approx(0.05, abs=1e-6)


def test_few_conversions_against_a_share_of_the_baseline():
    """Zou and Donner: limits of p1 - (1 + m) p0, one of which is 0 where p is alpha."""
    ones, n, margin = (4, 1), 300, 0.2
    p = guarded([1] * 4 + [0] * 296, [1] + [0] * 299, margin_relative=margin).p_not_inferior
    z = stats.norm.isf(p)
    base, new = (wilson(one, n, abs(z)) for one in ones)
    scaled = 1 + margin
    excess = 1 / n - scaled * 4 / n

    assert excess + np.hypot(new[1] - 1 / n, scaled * (4 / n - base[0])) == pytest.approx(
        0.0, abs=1e-9
    )


def test_capped_values_of_few_units_say_nothing_of_those_not_seen():
    """One buyer among 60 could be 5 of 60; 60 units of which half buy are what they seem."""
    control, b = [0.0] * 59 + [0.5], [0.0] * 60
    rare = guarded(control, b, "mean(y, cap=1)", lower_is_better=True, margin=0.02)
    spread = [0.0, 1.0] * 30
    common = guarded(spread, spread, "mean(y, cap=1)", margin=0.3)
    plain = guarded(spread, spread, "mean(y)", margin=0.3)

    assert rare.p_not_inferior > 0.1
    assert rare.verdict == "cannot tell"
    assert rare.high_margin > 0.02
    assert common.p_not_inferior == plain.p_not_inferior
    assert (common.low_margin, common.high_margin) == (plain.low_margin, plain.high_margin)


def test_the_smaller_group_hides_more():
    """(1 - q)^n, q = x / (x + R), of 50 units beside 5,000."""
    one = np.ones(1)
    groups = [
        Group((Part(1.0, Linear(n, np.zeros(1), np.array([[1e-6]]), one)),), np.zeros(0))
        for n in (50, 5000)
    ]
    seen = BoundedValues(1.0, (1, 100), (1, 100))
    contrast = Contrast(*groups, Rules(), seen=seen)

    above, below = contrast.margin_p(0.05, is_relative=False)
    assert above == below == pytest.approx((1 - 0.05 / 1.05) ** 50)
    limits = contrast.margin_limits(0.1)
    assert contrast.margin_p(limits.high, is_relative=False)[1] == pytest.approx(0.05)


def test_false_non_inferiority_of_rare_losses_is_held():
    """Users lose 1 with chance 0.02 in the candidate alone: worse by exactly the margin."""
    draw = np.random.default_rng(2)
    wrong = 0
    for _ in range(60):
        lost = np.where(draw.random(120) < 0.02, 0.0, 1.0)
        found = guarded([1.0] * 120, lost, "mean(y, cap=1)", lower_is_better=False, margin=0.02)
        wrong += found.verdict in ("not inferior", "equivalent")

    assert wrong <= 6


def test_margins_of_means_count_units_not_seen() -> None:
    told = []
    for seed in range(30):
        rng, is_b = np.random.default_rng(seed), np.arange(1000) >= 100
        points = np.where(rng.random(1000) < 0.02, 50.0, 0.0) * np.where(is_b, 0.5, 1.0)
        units = pl.DataFrame({"variant": np.where(is_b, "b", "a"), "y": points})
        report = evalkit.evaluate_experiment(
            units.with_row_index("unit"),
            variants={"a": 100, "b": 900},
            metrics=["mean(y)"],
            statistics={"margin_relative": 0.5},
        )
        told.append(report.comparisons[0].verdict in ("equivalent", "not inferior"))

    assert sum(told) <= 1  # 4 without the units that were not seen
