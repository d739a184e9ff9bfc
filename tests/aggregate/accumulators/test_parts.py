"""Sums that explain a change: exact for any values, in any order."""

from fractions import Fraction

import numpy as np
import pytest

from evalkit.aggregate.accumulators.parts import N_WORDS, Runs, WordSums, read_sum
from evalkit.statistics.exact import SCALE_BITS

VALUES = {
    "shares": [0.1, 1 / 3, 1.0, 0.0, np.nan],
    "large": [2.0**30, 1e300, -1e300, 3.5, 0.25],
    "tiny": [5e-324, 1e-40, -1e-40, 0.1, np.nan],
    "infinite": [np.inf, -np.inf, 0.5, 2.0**30 - 1e-7, -0.75],
}


@pytest.mark.parametrize("name", VALUES)
def test_sums_are_exact_whatever_the_size_of_values(name: str) -> None:
    values = np.array(VALUES[name])[:, None].repeat(3, axis=1)
    sums = WordSums(np.array([0, 1, 0, 1, 0], np.int32), np.zeros((2, N_WORDS, 3), np.int64))

    for users in ([4, 0], [1, 2, 3]):
        sums.add(np.array(users), values[users])

    numbers, texts = sums.over([Runs(np.arange(2), np.zeros(1, np.int64))], np.array([0, 2]))
    finite = [float(each) for each in VALUES[name] if np.isfinite(each)]
    assert numbers.tolist() == [len(finite)] * 2
    total = sum(map(Fraction, finite), Fraction(0)) * 2**SCALE_BITS
    assert [*map(read_sum, texts)] == [total] * 2
