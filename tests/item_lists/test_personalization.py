"""Personalization of lists of unequal lengths: against plain Python, users left out one by one."""

import math

import numpy as np
import polars as pl
import pytest

from evalkit import evaluate


def personalization(lists, k, over):
    """1 less the mean likeness of two different users; an empty list is like none."""
    cut = [set(items[:k]) for items in lists]
    alike = [
        len(one & other) / (k if over == "k" else math.sqrt(len(one) * len(other)))
        for place, one in enumerate(cut)
        for other in cut[:place]
    ]
    # over k a list has k in common with itself, however short, so that nothing is left of it
    short = sum(1 - len(each) / k for each in cut) if over == "k" else 0.0
    return 1 - (2 * sum(alike) - short) / (len(cut) * (len(cut) - 1))


@pytest.mark.parametrize("over", ["k", "lengths"])
def test_numbers_and_errors_are_those_of_users_left_out_one_by_one(over):
    rng = np.random.default_rng(3)
    lists = [rng.permutation(20)[: rng.integers(1, 7)].tolist() for _ in range(50)]
    rows = [(u, i, rank) for u, own in enumerate(lists) for rank, i in enumerate(own, 1)]
    frame = pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")

    (found,) = evaluate(None, {"a": frame}, metrics=[f"personalization(over='{over}')@4"]).estimates

    left = [personalization(lists[:u] + lists[u + 1 :], 4, over) for u in range(50)]
    assert found.value == pytest.approx(personalization(lists, 4, over), rel=1e-12)
    assert found.std_error == pytest.approx(math.sqrt(49 * np.var(left)), rel=0.05)
