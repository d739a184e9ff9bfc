"""Sums of runs against `math.fsum`, whatever the order of the values."""

import math

import numpy as np
import pytest

from evalkit.statistics.exact import sums_of_runs


@pytest.mark.parametrize("scale", [0, 3, 60, 300])
def test_each_run_is_the_fsum_of_its_rows(scale):
    draw = np.random.default_rng(scale)
    values = np.ldexp(draw.normal(size=(4000, 2)), draw.integers(-scale, scale + 1, (4000, 2)))
    values[3::7] = -values[:-3:7]  # much of it cancels
    values[::11] = 0.5
    firsts = np.unique(np.append(draw.integers(0, 4000, 600), 0))

    found = sums_of_runs(values, firsts)

    runs = np.split(values, firsts[1:])
    assert found.tolist() == [[math.fsum(column) for column in run.T] for run in runs]
    backwards = np.concatenate([run[::-1] for run in runs])
    assert sums_of_runs(backwards, firsts).tolist() == found.tolist()


def test_halves_are_rounded_by_what_lies_beyond_them():
    values = np.array([[1.0], [2.0**-53], [2.0**-150], [-1.0], [-(2.0**-53)], [2.0**-150]])

    assert sums_of_runs(values, np.array([0, 3])).tolist() == [[1.0 + 2.0**-52], [-1.0]]


def test_what_is_not_finite_is_added_plainly():
    values = np.array([[np.inf], [1.0], [np.inf], [-np.inf], [np.nan]])

    found = sums_of_runs(values, np.array([0, 2, 4]))[:, 0]

    assert found[0] == np.inf
    assert np.isnan(found[1:]).all()
    assert sums_of_runs(np.empty((0, 3)), np.empty(0, dtype=np.int64)).shape == (0, 3)
