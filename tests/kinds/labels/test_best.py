"""The best threshold is looked for in few places and none is missed; sums of the walk are exact."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.kinds.labels import _kernels, _walk
from evalkit.metrics import parse_metrics, registry_of

NAMES = (
    *("accuracy", "balanced-accuracy", "F1", "F(beta=3)", "MCC", "precision", "recall", "NPV"),
    *("error-rate", "fallout", "miss-rate", "FDR", "FOR", "informedness", "markedness", "kappa"),
    *("positive-likelihood-ratio", "negative-likelihood-ratio", "diagnostic-odds"),
    *("Fowlkes-Mallows", "threat-score", "prevalence-threshold"),
)
METRICS = parse_metrics(
    [f"{name.rstrip(')')}{', ' if '(' in name else '('}at='best')" for name in NAMES]
    + ["MCC(undefined='zero', at='best')", "balanced-accuracy(one_kind='other', at='best')"],
    metrics=registry_of("labels"),
)
RUNS = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30)), min_size=1, max_size=12)


@pytest.mark.some_cases(8)
@pytest.mark.parametrize("request_", METRICS, ids=lambda each: each.label)
@given(runs=RUNS, before=st.tuples(st.integers(0, 3), st.integers(0, 3)), after=st.integers(0, 3))
def test_no_block_with_the_best_threshold_is_left_out(request_, runs, before, after):
    labels = np.repeat([label for label, _ in runs], [n for _, n in runs])
    sum_1 = before[0] + np.cumsum(labels, dtype=np.float64)
    sum_0 = before[1] + np.cumsum(1 - labels, dtype=np.float64)
    totals = _walk.LabelTotals(float(sum_1[-1]) + after, float(sum_0[-1]) + after, weighted=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_walk, "BLOCK", 4)
        found = _walk._find_best(request_, sum_1, sum_0, totals)
        patch.setattr(_walk, "BLOCK", 1 << 20)
        expected = _walk._find_best(request_, sum_1, sum_0, totals)

    assert found == expected


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(FINITE, st.integers(0, 1 << 20)), max_size=40), FINITE)
def test_multiples_are_summed_exactly(pairs, more):
    values = np.array([value for value, _ in pairs], dtype=np.float64)
    times = np.array([number for _, number in pairs], dtype=np.float64)
    sums, others = _walk.TermSum(), _walk.TermSum()

    sums.add_products(values, times, weighted=False)
    sums.add_values(np.array([np.nan, more, np.inf]))
    others.add_values(values[::-1].copy())
    others.merge(sums)

    total = sum((Fraction(value) * (number + 1) for value, number in pairs), Fraction(more))
    assert others.value() == total


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 7))
def test_bins_of_equally_many_rows_end_where_a_scan_ends_them(rows, n_bins):
    good = np.array(rows, dtype=np.float64) + 1.0
    bad = good[::-1].copy()
    total, ends = float((good + bad).sum()), np.empty(n_bins, dtype=np.int64)

    _kernels.find_bin_ends(np.cumsum(good), np.cumsum(bad), good, bad, total, ends)

    above = np.cumsum(good + bad) - (good + bad)
    numbers = np.minimum(above * n_bins / total, n_bins - 1).astype(int)
    assert ends.tolist() == [int((numbers <= number).sum()) for number in range(n_bins)]
