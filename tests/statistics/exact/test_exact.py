"""Exact sums: equal to `math.fsum`, and blind to order, splits, threads and pickling."""

import math
import pickle
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import JIT_OFF

from evalkit.statistics.exact import (
    SCALE_BITS,
    CellRows,
    ExactSum,
    ExactSums,
    StepSums,
    add_weighted,
)

laws = settings(deadline=None, max_examples=examples(100))

FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e308, -1e308, 1 / 3]),
)
VALUES = st.lists(FINITE, max_size=40)
PARTS = st.lists(VALUES, max_size=6)


def sums_of(values, n_columns=1):
    sums = ExactSums(n_columns)
    sums.add(np.asarray(values, dtype=np.float64).reshape(-1, n_columns))
    return sums


def sum_of(values):
    return sums_of(values).sum_of(0)


def exactly(values):
    return sum((Fraction(value) for value in values), Fraction(0))


@laws
@given(values=VALUES)
def test_the_sum_is_the_rational_one(values):
    found = sum_of(values)

    assert Fraction(found.scaled, (1 << SCALE_BITS)) == exactly(values)
    assert found.count == len(values)


@laws
@given(values=VALUES)
def test_the_total_is_that_of_fsum(values):
    try:
        expected = math.fsum(values)
    except OverflowError:  # fsum gives up at partial sums, too
        return

    assert sum_of(values).total == expected


@laws
@given(values=st.lists(FINITE, min_size=1, max_size=40))
def test_the_mean_is_rounded_once_and_never_overflows(values):
    assert sum_of(values).mean == float(exactly(values) / len(values))


@laws
@given(values=VALUES, data=st.data())
def test_order_changes_no_bit(values, data):
    assert sum_of(data.draw(st.permutations(values))) == sum_of(values)


@laws
@given(parts=PARTS)
def test_any_split_gives_the_same_sum(parts):
    whole = sum_of([value for part in parts for value in part])

    assert reduce(ExactSum.merge, map(sum_of, parts), ExactSum()) == whole


@laws
@given(one=VALUES, two=VALUES, three=VALUES)
def test_merging_is_associative_and_commutative(one, two, three):
    a, b, c = sum_of(one), sum_of(two), sum_of(three)

    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(b) == b.merge(a)


@laws
@given(values=VALUES)
def test_nothing_and_pickling_change_nothing(values):
    found = sum_of(values)

    assert found.merge(ExactSum()) == found
    assert pickle.loads(pickle.dumps(found)) == found


@laws
@given(parts=PARTS, carries=st.integers(1, 5))
def test_carrying_early_changes_no_bit(parts, carries):
    total, spread = ExactSums(1), [ExactSums(1), ExactSums(1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalkit.statistics.exact._kernels.ADDS_BEFORE_CARRY", carries)
        for number, part in enumerate(parts):
            spread[number % 2].add(np.array(part, dtype=np.float64).reshape(-1, 1))
        total.merge(spread[0])
        total.merge(spread[1])
        total.merge(ExactSums(1))

    assert total.sum_of(0) == sum_of([value for part in parts for value in part])


ANY = st.one_of(FINITE, st.sampled_from([math.nan, -math.nan, math.inf, -math.inf]))


@laws
@given(rows=st.lists(st.tuples(ANY, ANY, ANY), max_size=20))
def test_columns_are_summed_apart_and_odd_values_counted(rows):
    sums = sums_of(rows, 3)

    for column in range(3):
        values = [row[column] for row in rows]
        finite = [value for value in values if math.isfinite(value)]
        assert sums.sum_of(column) == sum_of(finite)
        assert sums.n_undefined(column) == sum(map(math.isnan, values))
        assert sums.n_infinite(column) == sum(map(math.isinf, values))


def test_first_column_says_where_values_go():
    sums = ExactSums(3)
    sums.add(np.array([[1.0], [2.0]]), first_column=1)

    assert [sums.sum_of(column).total for column in range(3)] == [0.0, 3.0, 0.0]


def test_the_mean_of_nothing_is_undefined():
    assert math.isnan(ExactSum().mean)
    assert ExactSum().total == 0.0


def test_cancellation_leaves_the_small_value():
    assert sum_of([1e300, 1.0, -1e300, 5e-324]).total == 1.0
    assert sum_of([1e300, -1e300, 5e-324]).total == 5e-324


@pytest.mark.parametrize("odd", [0.0, 5e-324])
@pytest.mark.parametrize("size", [2.0**-52, 1.0, 2.0**390, 2.0**420])
def test_many_values_of_one_sign_fill_no_limb_over(monkeypatch, odd, size):
    # values with all 53 bits set, on the grid (odd = 0, size small) and one by one
    monkeypatch.setattr("evalkit.statistics.exact._kernels.ADDS_BEFORE_CARRY", 1 << 20)
    value = float(2**53 - 1) * size
    n = 1_000 if JIT_OFF else 1 << 20
    values = np.full((n, 1), -value)
    values[-1] = odd
    sums = ExactSums(1)
    for _ in range(3):
        sums.add(values)

    scaled, odd_scaled = int(Fraction(value) * 2**1074), int(odd > 0)
    assert sums.sum_of(0).scaled == 3 * (odd_scaled - (n - 1) * scaled)
    assert sums.sum_of(0).squares == 3 * (odd_scaled + (n - 1) * scaled**2)


@laws
@given(values=VALUES)
def test_squares_are_exact(values):
    squares = sum(Fraction(value) ** 2 for value in values)

    assert Fraction(sum_of(values).squares, 1 << 2148) == squares


@laws
@given(values=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40), size=st.integers(-390, 390))
def test_the_standard_error_is_that_of_the_textbook(values, size):
    values = [value * 2.0**size for value in values]
    n, mean = len(values), sum(map(Fraction, values)) / len(values)
    variance = sum((Fraction(value) - mean) ** 2 for value in values) / (n - 1)

    assert sum_of(values).std_error == math.sqrt(variance / n)


@laws
@given(values=st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=40), at=st.integers(0, 40))
def test_skewness_is_that_of_the_textbook_and_has_no_order(values, at):
    found = sums_of(values).skewness_of(0)
    part = sums_of(values[at:][::-1])
    part.merge(sums_of(values[:at]))

    assert repr(part.skewness_of(0)) == repr(found)  # NaN or the same bits
    cut = np.rint(np.array(values) * 2.0**20)
    if cut.std() > 20:
        third = np.mean((cut - cut.mean()) ** 3)
        assert found == pytest.approx(third / cut.std() ** 3, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("values", [[], [0.5], [0.25] * 9, [0.5, 1.5, 0.0], [0.25, 0.25 + 1e-7]])
def test_there_is_no_skewness_without_spread_or_beyond_one(values):
    assert math.isnan(sums_of(values).skewness_of(0))


def test_undefined_values_have_no_part_in_the_skewness():
    sums = sums_of([0.0, math.nan, 0.0, 1.0, math.nan])

    assert sums.skewness_of(0) == pytest.approx(1 / math.sqrt(2))


def test_powers_of_many_values_fill_nothing_over():
    sums = sums_of([-1.0, 1.0, 1.0] * (100 if JIT_OFF else 30_000))
    sums.powers *= 10**9 // sums.powers[0, 0]  # as of a billion users

    sums.counts[0, 0] = 0
    assert sums.skewness_of(0) == pytest.approx(-1 / math.sqrt(2), rel=1e-9)


@pytest.mark.parametrize("values", [[], [0.25]])
def test_fewer_than_two_values_have_no_standard_error(values):
    assert sum_of(values).std_error is None


def test_equal_values_have_a_standard_error_of_zero():
    assert sum_of([1 / 3] * 30).std_error == 0.0


def test_values_of_any_magnitude_sum_up_as_fsum_says():
    rng = np.random.default_rng(11)
    values = rng.random(20_000) * 10.0 ** rng.integers(-200, 200, 20_000)
    values[::2] *= -1

    assert sum_of(values).total == math.fsum(values)


ODD = [0.0, -0.0, math.nan, math.inf, 1.0, -0.3, 1e300, 1e-310]


@settings(max_examples=examples(30))
@given(
    st.integers(0, 40),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from(["steps", "alike", "all differ"]),
    st.integers(0, 99),
)
def test_steps_from_cutoff_to_cutoff_add_up_as_the_values_do(n_users, widths, kind, seed):
    random = np.random.default_rng(seed)
    values = random.choice([*ODD, *random.random(3)], size=(n_users, sum(widths)))
    if kind == "alike":
        values[:] = values[:, :1]
    if kind == "all differ":
        values = random.random(values.shape)
    whole, one, other = ExactSums(sum(widths)), StepSums(tuple(widths)), StepSums(tuple(widths))
    first = 0
    for width in widths:
        own = values[:, first : first + width]
        whole.add(own, first_column=first)
        one.add(own[: n_users // 3], first_column=first)
        other.add(own[n_users // 3 :], first_column=first)
        first += width
    one.merge(other)
    wanted, found = whole.state(), one.sums().state()
    np.testing.assert_array_equal(found.used, wanted.used)
    np.testing.assert_array_equal(found.numbers, wanted.numbers)


@settings(max_examples=examples(30))
@given(st.integers(0, 30), st.integers(1, 4), st.integers(0, 99))
def test_a_value_of_some_weight_is_added_as_often(n_rows, n_columns, seed):
    random = np.random.default_rng(seed)
    pool = [*ODD, -math.inf, *random.random(3), *(random.random(3) * 2.0 ** -random.integers(1070))]
    values = random.choice(pool, size=(n_rows, n_columns))
    weights = random.integers(0, 9, size=values.shape)
    wanted, found = ExactSums(n_columns), ExactSums(n_columns)
    for column in range(n_columns):
        one_by_one = np.repeat(values[:, column], weights[:, column])
        wanted.add(one_by_one[:, None], first_column=column)

    add_weighted(found, values, weights)

    np.testing.assert_array_equal(found.state().used, wanted.state().used)
    np.testing.assert_array_equal(found.state().numbers[:, :-1], wanted.state().numbers[:, :-1])


def test_large_weights_fill_nothing_over():
    values, weights = np.array([[0.1], [0.7], [-1.0]]), np.full((3, 1), (1 << 29) - 7)
    sums = ExactSums(1)

    add_weighted(sums, values, weights)

    scaled = sum(Fraction(float(value)) for value in values[:, 0]) * ((1 << 29) - 7)
    squares = sum(Fraction(float(value)) ** 2 for value in values[:, 0]) * ((1 << 29) - 7)
    found = sums.sum_of(0)
    assert Fraction(found.scaled, 1 << SCALE_BITS) == scaled
    assert Fraction(found.squares, 1 << 2 * SCALE_BITS) == squares
    assert found.count == 3 * ((1 << 29) - 7)


@settings(max_examples=examples(20))
@given(st.integers(0, 60), st.booleans(), st.integers(0, 99))
def test_cells_add_up_alike_whether_their_values_wait_or_not(n_users, has_odd, seed):
    random = np.random.default_rng(seed)
    pool = [0.0, 1.0, *random.random(4), *(ODD if has_odd else [])]
    values, cells = random.choice(pool, size=(n_users, 2)), random.integers(0, 5, n_users)
    sums, settled = ExactSums(2, 5), ExactSums(2, 5)
    for each in (sums, settled):
        each.add(values, rows=CellRows.of(cells.astype(np.int32), 5))
    settled.settle()

    for chosen in (np.array([1]), np.array([0, 2, 4]), np.arange(5)):
        wanted = ExactSums(2)
        wanted.add(values[np.isin(cells, chosen)])
        for sums_of_one in (sums, settled):
            np.testing.assert_array_equal(
                sums_of_one.over(chosen).state().used, wanted.state().used
            )
            np.testing.assert_array_equal(
                sums_of_one.over(chosen).state().numbers, wanted.state().numbers
            )
