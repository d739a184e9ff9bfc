"""Rows sorted by group, key and label, and bins that people can read, against NumPy."""

import numpy as np
import pytest

from evalkit.kinds.pointwise.store import (
    by_hash,
    count_by_hash,
    number_groups,
    order_keys,
    sort_labels,
    sort_packed,
    values_of,
)
from evalkit.kinds.ratings._graphs import bin_of, nice_edges

NUMBERS = [-np.inf, -1.5, -1e-40, 0.0, 1e-40, 0.1, 1.5, np.inf]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keys_order_as_their_values_do_and_give_them_back(dtype):
    largest = np.finfo(dtype).max
    values = np.unique(np.array([*NUMBERS, -largest, largest], dtype))
    odd = np.zeros(2, np.int64)

    keys = order_keys(values, odd)

    assert (keys[1:] > keys[:-1]).all()
    assert values_of(keys).tolist() == values.astype(np.float64).tolist()
    assert odd.tolist() == [0, np.isinf(values).sum()]


def test_values_that_are_none_are_counted():
    odd = np.zeros(2, np.int64)

    order_keys(np.array([np.nan, 1.0, np.nan, np.inf]), odd)

    assert odd.tolist() == [2, 1]


@pytest.mark.parametrize("n_bits", [1, 11, 40, 64])
@pytest.mark.parametrize("n", [0, 1, 1_999, 5_000])
def test_packed_keys_are_sorted_by_digits_as_numpy_sorts_them(n, n_bits):
    keys = np.random.default_rng(n).integers(0, 2**n_bits, n, dtype=np.uint64, endpoint=False)
    expected = np.sort(keys)

    sort_packed(keys, n_bits)

    assert (keys == expected).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 60, 4_000])
def test_rows_are_in_the_order_of_group_then_score_downwards_then_label(n, dtype):
    draw = np.random.default_rng(n)
    users = draw.integers(0, max(1, n // 9), n, dtype=np.uint64)
    scores = draw.integers(-5, 6, n).astype(dtype) / 4
    labels = draw.integers(0, 2, n).astype(np.uint8)
    groups = number_groups(users)

    starts, _, found, marks = sort_labels(
        groups, ~order_keys(scores, np.zeros(2, np.int64)), labels
    )

    order = np.lexsort((labels, -scores, groups.numbers))
    assert (groups.keys[groups.numbers] == users).all()
    assert starts.tolist() == [0, *np.cumsum(np.bincount(groups.numbers)).tolist()]
    assert found.tolist() == scores[order].astype(np.float64).tolist()
    assert marks.tolist() == labels[order].tolist()


def test_one_key_with_two_checks_is_no_group():
    keys = np.array([5, 5, 6], np.uint64)

    assert number_groups(keys, np.array([1, 1, 2], np.uint32)) is not None
    assert number_groups(keys, np.array([1, 3, 2], np.uint32)) is None


@pytest.mark.parametrize("n_parts", [1, 8])
def test_rows_of_one_key_lie_in_one_part_and_none_is_lost(n_parts):
    keys = np.random.default_rng(1).integers(0, 90, 3_000, dtype=np.uint64)
    starts, places = np.zeros(n_parts + 2, np.int32), np.empty(keys.size, np.int32)

    by_hash("user", n_parts)({"user": keys}, starts, places)

    counts = count_by_hash(keys, n_parts)
    part = np.searchsorted(np.cumsum(counts), places, side="right")
    assert sorted(places.tolist()) == list(range(keys.size))
    assert all(np.unique(part[keys == key]).size == 1 for key in np.unique(keys))


@pytest.mark.parametrize(
    ("low", "high", "most", "edges"),
    [
        (0.0, 1.0, 10, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (1.0, 5.0, 4, [1.0, 2.0, 3.0, 4.0, 5.0]),
        (-3.0, 14.0, 5, [-5.0, 0.0, 5.0, 10.0, 15.0]),
        (0.0, 2e-9, 2, [0.0, 1e-9, 2e-9]),
    ],
)
def test_edges_are_numbers_that_people_can_read(low, high, most, edges):
    assert nice_edges(low, high, most).tolist() == edges


@pytest.mark.parametrize("low", [-1e9, -0.3, 0.0, 7.0, 1e300])
@pytest.mark.parametrize("width", [0.0, 1e-7, 0.7, 12_345.6])
def test_edges_hold_every_value_and_the_last_one_belongs_inside(low, width):
    values = np.linspace(low, low + width, 7)
    edges = nice_edges(values[0], values[-1], 20)

    places = bin_of(values, edges)

    assert edges[0] <= values[0]
    assert edges[-1] >= values[-1]
    assert (np.diff(edges) > 0).all()
    assert edges.size <= 25
    assert (edges[places] <= values).all()
    assert ((values < edges[places + 1]) | (values == edges[-1])).all()
