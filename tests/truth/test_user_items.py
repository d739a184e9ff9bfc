"""Interactions grouped by user, against dictionaries."""

import numpy as np
import pytest

from evalkit.truth import PairRows, build_user_items, count_shared

RULES = {"max": max, "sum": sum, "last": lambda relevances: relevances[-1]}


def keys(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def build(triples, **rules):
    users, items, relevances = (np.array(column) for column in zip(*triples, strict=True))
    rows = PairRows.of(
        users.astype(np.uint64),
        items.astype(np.uint64),
        relevances.astype(np.float64),
        coded=rules.get("duplicates") != "sum",
    )
    return build_user_items(rows, **rules)


def items_of(found) -> dict[int, set[int]]:
    whole = found.item_keys()
    return {
        int(user): {int(item) for item in whole[start : start + count]}
        for user, start, count in zip(found.users, found.starts, found.counts, strict=True)
    }


def random_triples(seed: int) -> list[tuple[int, int, float]]:
    draw = np.random.default_rng(seed)
    users, items = draw.integers(0, 40, 400), draw.integers(0, 12, 400)
    return list(zip(users.tolist(), items.tolist(), draw.integers(-1, 4, 400).tolist()))  # noqa: B905


@pytest.mark.parametrize("wide", [0, 2**40], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_items_and_relevant_counts_are_those_of_dictionaries(rule, is_sorted, wide):
    triples = [(user, item + wide, relevance) for user, item, relevance in random_triples(3)]
    triples = sorted(triples, key=lambda triple: triple[0]) if is_sorted else triples
    expected: dict[int, dict[int, list[float]]] = {}
    for user, item, relevance in triples:
        expected.setdefault(user, {}).setdefault(item, []).append(relevance)

    found, counts = build(triples, relevant_from=2.0, duplicates=rule, keep_negative=True)

    joined = {
        user: {item: RULES[rule](given) for item, given in items.items()}
        for user, items in expected.items()
    }
    kept = {
        user: {item for item, relevance in items.items() if relevance != 0}
        for user, items in joined.items()
    }
    n_relevant = dict(zip(found.users.tolist(), found.n_relevant.tolist(), strict=True))
    assert items_of(found) == kept
    assert n_relevant == {
        user: sum(relevance >= 2.0 for relevance in items.values())
        for user, items in joined.items()
    }
    assert counts.duplicates == len(triples) - sum(map(len, expected.values()))


def test_users_are_found_and_strangers_are_not():
    found, _ = build([(7, 1, 1.0), (2**63, 2, 1.0), (7, 3, 1.0)])

    codes = found.codes_of(keys(7, 8, 2**63, 0))

    assert found.n_users == 2
    assert (codes >= 0).tolist() == [True, False, True, False]
    assert found.users[codes[[0, 2]]].tolist() == [7, 2**63]


@pytest.mark.parametrize("threads", [1, 3])
def test_shared_items_are_counted_for_the_same_user_and_relevant_ones_alone(threads):
    one, _ = build([(1, 1, 3.0), (1, 2, 1.0), (2, 1, 3.0), (3, 5, 3.0)], relevant_from=2.0)
    other = PairRows.of(keys(1, 1, 2, 4), keys(1, 2, 9, 5))

    shared = count_shared(one, build_user_items(other)[0], relevant_from=2.0, threads=threads)

    assert shared == 1  # user 1, item 1: item 2 is not relevant, and others share nothing
