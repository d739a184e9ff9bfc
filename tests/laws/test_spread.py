"""Standard errors of functions of users' sums: no split moves a bit; they agree with NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.kinds.pointwise.spread import TermSums
from evalkit.metrics import Smooth

RATIO = Smooth((("a",), ("b",)), lambda a, b: a / b)
SPREAD = Smooth(
    (("a",), ("a^2",), ("b",)), lambda a, squares, b: (squares / b - a * a / b / b) ** 0.5
)
COLUMNS = (("a",), ("b",), ("a^2",))
# steps of derivatives are a share of a sum, so they vanish beside one of 1e-300
VALUES = st.floats(-1e6, 1e6, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-250)


def users_of(pairs: list[tuple[float, float]]) -> np.ndarray:
    a, b = np.array(pairs).T
    return np.stack([a, np.abs(b) + 1.0, a * a], axis=1)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=40), st.randoms())
def test_no_order_and_no_split_of_users_moves_a_standard_error(pairs, random):
    users = users_of(pairs)
    whole, parts = TermSums([RATIO, SPREAD]), TermSums([RATIO, SPREAD])
    assert whole.terms == COLUMNS
    whole.add(users)

    shuffled = users[random.sample(range(len(users)), len(users))]
    cut = random.randint(0, len(users))
    for piece in (shuffled[cut:], shuffled[:cut]):
        part = TermSums([RATIO, SPREAD])
        part.add(piece)
        parts.merge(part)

    for number in (RATIO, SPREAD):
        assert parts.std_error(number) == whole.std_error(number)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=40))
def test_the_error_of_a_ratio_is_that_of_its_linearisation(pairs):
    users = users_of(pairs)
    sums = TermSums([RATIO])
    sums.add(users[:, :2].copy())

    ratio = math.fsum(users[:, 0]) / math.fsum(users[:, 1])
    influence = (users[:, 0] - ratio * users[:, 1]) / users[:, 1].sum()
    expected = math.sqrt(len(users) / (len(users) - 1) * math.fsum(influence**2))
    size = np.abs(users[:, :2]).max() / users[:, 1].sum()
    assert sums.std_error(RATIO) == pytest.approx(expected, rel=1e-9, abs=1e-13 * size)
    found = sums.influences(RATIO, users[:, :2])
    np.testing.assert_allclose(found, influence, rtol=1e-9, atol=1e-12 * max(1.0, size))


def test_a_single_user_and_a_kink_have_no_error():
    one, undefined = TermSums([RATIO]), TermSums([RATIO])
    one.add(np.array([[1.0, 2.0]]))
    undefined.add(np.zeros((5, 2)))

    assert one.std_error(RATIO) is None
    assert undefined.std_error(RATIO) is None


def test_users_who_are_alike_leave_no_error():
    sums = TermSums([RATIO])
    sums.add(np.tile([0.1, 3.0], (1000, 1)))

    assert sums.std_error(RATIO) == pytest.approx(0.0, abs=1e-17)
