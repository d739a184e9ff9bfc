"""Adjusted p-values: by hand, and exactly those of statsmodels."""

import gc
import math
from itertools import pairwise

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from evalkit.errors import RequestError
from evalkit.statistics.corrections import CORRECTIONS, adjust

PEERS = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh", "by": "fdr_by"}
P_VALUES = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.01, 0.05, 1.0]), min_size=1)

GOLDENS = [
    # correction    p-values             by hand
    ("none",        [0.01, 0.04, 0.03],  [0.01, 0.04, 0.03]),
    ("bonferroni",  [0.01, 0.04, 0.03],  [0.03, 0.12, 0.09]),
    ("holm",        [0.01, 0.04, 0.03],  [0.03, 0.06, 0.06]),
    ("bh",          [0.01, 0.04, 0.03],  [0.03, 0.04, 0.04]),
    ("by",          [0.01, 0.04, 0.03],  [0.055, 11 / 150, 11 / 150]),
    ("bonferroni",  [0.5, 0.9],          [1.0, 1.0]),
    ("holm",        [],                  []),
]  # fmt: skip


@pytest.mark.parametrize(("correction", "p_values", "expected"), GOLDENS)
def test_adjusted_by_hand(correction, p_values, expected):
    assert adjust(p_values, correction).p_adjusted == pytest.approx(expected, abs=1e-15)


def check_beside_statsmodels(correction, p_values):
    expected = multipletests(p_values, method=PEERS[correction])[1]

    assert adjust(p_values, correction).p_adjusted == pytest.approx(list(expected), rel=1e-12)


@settings(deadline=None, max_examples=examples(200))
@given(p_values=P_VALUES)
@pytest.mark.parametrize("correction", ["bonferroni", "bh", "by"])
def test_adjusted_as_statsmodels_does(correction, p_values):
    check_beside_statsmodels(correction, p_values)


@pytest.mark.parametrize("n", [1, 2, 5, 17, 60])
def test_holm_is_that_of_statsmodels(n, monkeypatch):
    monkeypatch.setattr(gc, "collect", int)  # which statsmodels waits for
    p_values = np.random.default_rng(n).choice([0.0, 1e-9, 0.01, 0.013, 0.05, 0.2, 1.0], n)

    check_beside_statsmodels("holm", p_values.tolist())


@settings(deadline=None, max_examples=examples(200))
@given(p_values=P_VALUES)
@pytest.mark.parametrize("correction", sorted(PEERS))
def test_adjusting_keeps_the_order_and_lowers_none(correction, p_values):
    adjusted = adjust(p_values, correction).p_adjusted

    assert all(p <= after for p, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    assert all(adjusted[a] <= adjusted[b] for a, b in pairwise(order))


def test_tests_that_do_not_exist_are_no_part_of_the_family():
    family = adjust([0.01, math.nan, 0.02], "bonferroni")

    assert family.size == 2
    assert family.left_out == (1,)
    assert family.p_adjusted[0] == 0.02
    assert math.isnan(family.p_adjusted[1])


def test_an_unknown_correction_is_refused():
    with pytest.raises(RequestError) as caught:
        adjust([0.1], "sidak")

    assert caught.value.code == "unknown-correction"


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_each_is_judged_at_the_error_that_its_limits_go_with(correction):
    rng = np.random.default_rng(9)
    for n in (1, 2, 7, 60):
        p_values = np.append(rng.beta(0.3, 3, n), math.nan)
        family = adjust(list(p_values), correction, error=0.1)
        for p, adjusted, error in zip(p_values, family.p_adjusted, family.errors, strict=True):
            assert (p <= error) == (adjusted <= 0.1)
            assert math.isnan(error) == math.isnan(p)
