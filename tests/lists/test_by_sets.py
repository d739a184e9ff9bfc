"""Metrics of users against plain Python over sets, on logs that repeat, lack and do not know items.

Lists are short and show an item twice, some users have no train or no right answers, train repeats
rows, and the table of items lacks items, genres and groups.
"""

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest

from evalkit import evaluate

K = 4


class Log:
    """A random log, by user, and what sets say of it."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(8, 30))
        known = [item for item in range(n) if rng.random() < 0.85]
        self.genres = {i: [f"g{g}" for g in range(4) if rng.random() < 0.4] for i in known}

        def lists(share, *, repeats):
            return {
                user: rng.choice(n, rng.integers(1, min(8, n)), replace=repeats).tolist()
                for user in range(30)
                if rng.random() < share
            }

        self.run, self.reference = lists(0.9, repeats=True), lists(0.8, repeats=False)
        self.truth = {user: set(own) for user, own in lists(0.7, repeats=True).items()}
        self.train = [
            (user, int(item)) for user in range(5, 40) for item in rng.choice(n, rng.integers(7))
        ]
        self.seen = {user: {i for u, i in self.train if u == user} for user, _ in self.train}
        self.popularity = Counter(item for own in self.seen.values() for item in own)

    def head(self):
        """The most popular items that make up 80 % of train, and those that tie with the last."""
        total, least = 0, 0
        for least in sorted(self.popularity.values(), reverse=True):
            total += least
            if total >= 0.8 * self.popularity.total():
                break
        return {item for item, n in self.popularity.items() if n >= least}

    def expected(self, user):
        """The most popular items that a user has not seen."""
        unseen = self.popularity.keys() - self.seen.get(user, set())
        return set(sorted(unseen, key=lambda item: (-self.popularity[item], item))[:K])

    def shares(self, items):
        """The share of each genre, an item split evenly over its own."""
        masses = Counter()
        for item in items:
            for genre in self.genres.get(item, ()):
                masses[genre] += 1 / len(self.genres[item])
        return {genre: mass / masses.total() for genre, mass in masses.items()}


def distance(one, other):
    return 1 - len(one & other) / len(one | other) if one | other else 0.0


def values_of(log, user):
    """Every metric of one user."""
    items, seen, relevant = log.run[user][:K], log.seen.get(user, set()), log.truth.get(user, set())
    n, head, users = len(items), log.head(), len(log.seen)
    weights = [1 / math.log2(1 + rank) for rank in range(1, n + 1)]
    sets = [set(log.genres[item]) for item in items if item in log.genres]
    pairs = [distance(a, b) for place, a in enumerate(sets) for b in sets[:place]]
    p, q = log.shares(seen), log.shares(items)
    wanted = set().union(*(log.genres.get(item, ()) for item in relevant))
    hit = set().union(*(log.genres.get(item, ()) for item in relevant & set(items)))
    epc = sum(
        w * (1 - log.popularity[item] / users)
        for w, item in zip(weights, items, strict=True)
        if item in relevant
    )
    new = [item for item in items if item not in log.expected(user)]
    return {
        "novelty": sum(-math.log2(max(log.popularity[i], 1) / users) for i in items) / n,
        "avg_popularity": sum(log.popularity[i] for i in items) / n,
        "tail_share": sum(i not in head for i in items) / n,
        "expected_popularity_complement": epc / sum(weights) if relevant else math.nan,
        "ild(distance='jaccard')": sum(pairs) / len(pairs) if pairs else math.nan,
        "genre_entropy": -sum(x * math.log2(x) for x in q.values()) if q else math.nan,
        "calibration": sum(x * math.log2(x / (0.99 * q.get(g, 0) + 0.01 * x)) for g, x in p.items())
        if p and q
        else math.nan,
        "subtopic_recall": len(hit) / len(wanted) if wanted else math.nan,
        "overlap": len(set(items) & set(log.reference[user][:K])) / K
        if user in log.reference
        else math.nan,
        "re_recommended": sum(i in seen for i in items) / n,
        "unexpectedness": len(new) / n,
        "serendipity": sum(i in relevant for i in new) / n if relevant else math.nan,
        "unrepeated": len(set(items)) / n,
    }


def frame(lists):
    rows = [(user, item, rank) for user, own in lists.items() for rank, item in enumerate(own, 1)]
    return pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")


@pytest.mark.parametrize("seed", range(4))
def test_every_user_has_the_values_that_sets_give(seed):
    log = Log(seed)
    wanted = {user: values_of(log, user) for user in log.run}
    names = list(next(iter(wanted.values())))
    genres = pl.Series(list(log.genres.values()), dtype=pl.List(pl.String))

    report = evaluate(
        frame(log.truth).drop("rank"),
        {"run": frame(log.run)},
        metrics=[f"{name}@{K}" for name in names],
        train=pl.DataFrame(log.train, schema=["user", "item"], orient="row"),
        items=pl.DataFrame({"item": list(log.genres), "genres": genres}),
        reference=frame(log.reference),
        policies={"duplicates": "count", "truth_in_train": "count"},
        per_user=True,
    )

    found = report.per_user_values.scan("run").collect()
    for row in found.filter(pl.col("user").is_in(list(wanted))).iter_rows(named=True):
        for name, value in wanted[row["user"]].items():
            assert row[f"{name}@{K}"] == pytest.approx(value, abs=1e-11, nan_ok=True), (row, name)
    assert set(wanted) <= set(found["user"].to_list())
