"""Errors of the parts of a change: by hand, and by weighing every user a little more."""

import math

import numpy as np
import pytest

from evalkit.statistics.change import UserCell, explain_change
from evalkit.statistics.change_errors import Spread, change_errors
from evalkit.statistics.exact import SCALE_BITS, ExactSum

WEIGHT, MORE = 10**6, 100  # of a user, and what one of them gets beyond


def run_of(users, weights=None):
    """Exact sums by cell of `(cell, value)`, values being multiples of 1/1024."""
    sums = {}
    for (cell, value), weight in zip(users, weights or [1] * len(users), strict=True):
        scaled = weight * (int(value * 1024) << SCALE_BITS - 10)
        sums[cell] = sums.get(cell, ExactSum()).merge(ExactSum(weight, scaled))
    return sums


def spread_of(users, bounds=(0.0, 1.0), *, by_segment=True):
    groups = {}
    for cell, value in users:
        groups.setdefault(cell.segment if by_segment else None, []).append(value)
    squares = {name: float(np.var(each) * len(each)) for name, each in groups.items()}
    return Spread(squares, bounds)


def draw(rng, n, values):
    cells = [UserCell(s, k, r) for s in "abc" for k in ("1", "2") for r in (False, True)]
    shares = rng.dirichlet(np.ones(len(cells)))
    return [
        (cell := cells[place], values(rng, place) if cell.is_ranked else 0.0)
        for place in rng.choice(len(cells), n, p=shares)
    ]


def hit(rng, place):
    return float(rng.random() < 0.2 + 0.05 * place)


def numbers(found):
    rows = [found.parts, *found.segments.values()]
    return np.array([[each.mix, each.truth, each.coverage, each.within] for each in rows])


def weighed(runs):
    """Errors by the infinitesimal jackknife: `explain_change` with one user weighing more."""
    even = [[WEIGHT] * len(users) for users in runs]
    here = numbers(explain_change(*map(run_of, runs, even)))
    variance = np.zeros_like(here)
    for run, users in enumerate(runs):
        for user in range(len(users)):
            weights = [list(each) for each in even]
            weights[run][user] += MORE
            moved = numbers(explain_change(*map(run_of, runs, weights))) - here
            variance += (moved * WEIGHT / MORE) ** 2 * len(users) / (len(users) - 1)
    return np.sqrt(variance)


@pytest.mark.parametrize("seed", range(4))
def test_errors_are_those_of_the_jackknife(seed):
    rng = np.random.default_rng(seed)
    runs = draw(rng, 40, hit), draw(rng, 60, hit)

    found = change_errors(tuple(map(run_of, runs)), tuple(map(spread_of, runs)))

    np.testing.assert_allclose(numbers(found), weighed(runs), rtol=2e-3, atol=1e-6)


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("by_segment", [True, False])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.0, math.inf), (-math.inf, math.inf)])
def test_where_spread_is_known_together_alone_errors_are_no_smaller(bounds, by_segment):
    rng = np.random.default_rng(9)
    runs = tuple(draw(rng, 50, lambda rng, _: rng.integers(0, 1024) / 1024) for _ in range(2))
    spreads = tuple(spread_of(each, bounds, by_segment=by_segment) for each in runs)

    found = numbers(change_errors(tuple(map(run_of, runs)), spreads))

    exact = weighed(runs)
    assert np.all(found >= exact * (1 - 2e-3))
    assert np.all(found[0] <= 2.0 * exact[0])


def test_the_error_of_the_whole_is_that_of_two_means():
    rng = np.random.default_rng(3)
    runs = draw(rng, 30, hit), draw(rng, 80, hit)

    found = change_errors(tuple(map(run_of, runs)), tuple(map(spread_of, runs)))

    errors = [np.std([v for _, v in each], ddof=1) / math.sqrt(len(each)) for each in runs]
    assert found.total == pytest.approx(math.hypot(*errors), rel=1e-12)


def test_a_change_of_the_mix_by_hand():
    new, old = UserCell("new", "1", is_ranked=True), UserCell("old", "1", is_ranked=True)
    runs = [(new, 0.25)] + [(old, 0.75)] * 3, [(new, 0.25)] * 2 + [(old, 0.75)] * 2

    found = change_errors(tuple(map(run_of, runs)), tuple(map(spread_of, runs)))

    # the mix is 0.5 times what a share loses; shares of 1/4 and 1/2 of 4 users: s / sqrt(n)
    by_hand = 0.5 * math.sqrt(3 / 16 / 3 + 1 / 4 / 3)
    assert found.parts.mix == pytest.approx(by_hand, rel=1e-12)
    assert (found.parts.truth, found.parts.coverage, found.parts.within) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("users", [[], [(UserCell("a", "1", is_ranked=True), 1.0)]])
def test_one_user_has_no_errors(users):
    others = [(UserCell("a", "1", is_ranked=True), value) for value in (0.0, 1.0)]
    runs = users, others

    assert change_errors(tuple(map(run_of, runs)), tuple(map(spread_of, runs))) is None


def test_values_beyond_the_bounds_lose_no_spread():
    cells = UserCell("a", "1", is_ranked=True), UserCell("a", "2", is_ranked=True)
    users = [(cell, value) for cell in cells for value in (-3.0, 3.0)]

    narrow, wide = (
        change_errors((run_of(users),) * 2, (spread_of(users, bounds),) * 2).parts.within
        for bounds in ((0.0, 1.0), (-math.inf, math.inf))
    )

    assert narrow == wide > 1.0
