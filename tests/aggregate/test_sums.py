"""Sums of models and of their comparison, by cell, against plain Python."""

import math

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.aggregate.sums import MANY_CUTOFFS, Totals

VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 0.25, math.nan, math.inf, -math.inf, 5e-324, 1e300, -3.5]),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)


@pytest.mark.parametrize("n_rows", [0, 1, 1500])
@pytest.mark.parametrize("width", [MANY_CUTOFFS - 1, MANY_CUTOFFS, 40])
def test_many_cutoffs_are_added_by_steps_to_the_same_sums(n_rows, width):
    random = np.random.default_rng(width)
    rising = np.cumsum(random.random((n_rows, width)) < 0.05, axis=1) / 7  # values of few steps
    rising[random.random(n_rows) < 0.1] = np.nan
    groups = [rising, random.random((n_rows, 2)), -np.exp(rising)]
    cells = np.zeros(n_rows, dtype=np.int32)
    plain, steps, others = (Totals(["a"], [], 2 * width + 2, 1, by_steps=n > 0) for n in range(3))
    plain.add({"a": groups}, [True] * 3, cells)
    for totals, part in ((steps, slice(0, 1100)), (others, slice(1100, None))):
        totals.add({"a": [each[part] for each in groups]}, [True] * 3, cells[part])
    steps.finish([others])

    found, wanted = steps.models["a"].state(), plain.models["a"].state()

    np.testing.assert_array_equal(found.used, wanted.used)
    np.testing.assert_array_equal(found.numbers, wanted.numbers)


@settings(deadline=None, max_examples=examples(150))
@given(data=st.data())
@pytest.mark.parametrize("higher", [True, False])
def test_pairs_are_compared_user_by_user(data, higher):
    n_users = data.draw(st.integers(0, 40))
    n_cells = data.draw(st.integers(1, 4))
    shape = st.lists(VALUES, min_size=2 * n_users, max_size=2 * n_users)
    old = np.array(data.draw(shape)).reshape(n_users, 2)
    new = np.array(data.draw(shape)).reshape(n_users, 2)
    cells = np.array(
        data.draw(st.lists(st.integers(0, n_cells - 1), min_size=n_users, max_size=n_users)),
        dtype=np.int32,
    )
    cut = data.draw(st.integers(0, n_users))
    totals = Totals(["a", "b"], [("a", "b")], 2, n_cells)
    for part in (slice(0, cut), slice(cut, n_users)):
        totals.add({"a": [old[part]], "b": [new[part]]}, [higher], cells[part])

    found = totals.pairs["a", "b"]
    for cell in range(n_cells):
        over = found.over(np.array([cell]))
        for column in range(2):
            pairs = [
                (float(a), float(b))
                for a, b in zip(old[cells == cell, column], new[cells == cell, column], strict=True)
            ]
            wins, ties, losses = over.outcomes[0, column].tolist()
            assert ties == sum(a == b for a, b in pairs)
            assert wins == sum(b > a if higher else b < a for a, b in pairs)
            assert losses == sum(b < a if higher else b > a for a, b in pairs)
            with np.errstate(all="ignore"):
                deltas = [float(np.float64(b) - np.float64(a)) for a, b in pairs]
            finite = [each for each in deltas if math.isfinite(each)]
            assert over.deltas.sum_of(column).count == len(finite)
            assert over.deltas.n_undefined(column) == sum(map(math.isnan, deltas))
            assert over.deltas.n_infinite(column) == sum(map(math.isinf, deltas))
            try:
                expected = math.fsum(finite)
            except OverflowError:
                expected = None
            if expected is not None:
                assert over.deltas.sum_of(column).total == expected
            alone = [a for a, b in pairs if math.isnan(b) and math.isfinite(a)]
            assert over.has_alone or not alone
            if over.has_alone:
                lone = over.baseline_alone.sum_of(column)
                assert lone.count == len(alone)
                assert lone.total == pytest.approx(math.fsum(alone))
