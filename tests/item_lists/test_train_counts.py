"""Users and rows of items in train: as sets count them, whoever stands in the truth."""

from collections import Counter

import numpy as np
import polars as pl
import pytest

from evalkit import evaluate

METRICS = ["avg_popularity@3", "calibration(by='genre')@3", "unseen_share@3"]
SOME = {"one": [1], "some": range(1, 12, 2), "all": range(1, 60)}


def make_tables(spell):
    """Lists of 20 users, and train of 40 users, who have some items twice and more, one many."""
    rng = np.random.default_rng(7)
    items = np.arange(1, 201)
    lists = [
        (u, i, rank) for u in range(1, 21) for rank, i in enumerate(rng.permutation(210)[:3], 1)
    ]
    train = [
        (u, i) for u in range(1, 41) for i in rng.choice(items, 300 if u == 5 else 1 + 9 * (u % 4))
    ]
    ranked = pl.DataFrame(lists, schema=["user_id", "item_id", "rank"], orient="row")
    rows = pl.DataFrame(train, schema=["user_id", "item_id"], orient="row")
    table = pl.DataFrame({"item_id": items, "genre": [f"g{each % 3}" for each in items]})
    return tuple(each.with_columns(pl.col("^.*_id$").cast(spell)) for each in (ranked, rows, table))


@pytest.mark.parametrize("spell", [pl.Int64, pl.String])
@pytest.mark.parametrize("order", ["grouped", "scattered"])
def test_users_of_items_are_counted_whoever_stands_in_the_truth(spell, order):
    ranked, train, items = make_tables(spell)
    popular = Counter(item for _, item in set(train.rows()))
    wanted = np.mean([popular[item] for item in ranked["item_id"]])
    rows = set(train.rows())
    unseen = np.mean([(user, item) not in rows for user, item, _ in ranked.rows()])
    given = train if order == "grouped" else train.sample(fraction=1.0, shuffle=True, seed=3)
    found = []
    for users in SOME.values():
        truth = pl.DataFrame({"user_id": users, "item_id": [1] * len(users)})
        report = evaluate(
            truth.with_columns(pl.all().cast(spell)),
            {"m": ranked},
            train=given,
            items=items,
            metrics=METRICS,
            threads=2,
        )
        assert report.value("avg_popularity@3") == pytest.approx(wanted, rel=1e-12)
        assert report.value("unseen_share@3") == pytest.approx(unseen, rel=1e-12)
        found.append([report.value(each) for each in METRICS])

    assert found[0] == found[1] == found[2]
