"""Users who are counted by their hits give what each of them measured gives, to the last bit."""

import numpy as np
import polars as pl
import pytest

from evalkit import pipeline
from evalkit.aggregate.accumulators import counted
from evalkit.config import build_config
from evalkit.planning.tables import Given
from evalkit.report import render

METRICS = [
    "hit@{1,3,20}",
    "recall@{1,3}",
    "recall",
    "precision@{2,5}",
    "precision(over=length)@5",
    "F1@{1,5}",
    "hits@4",
    "nDCG@{3,5}",
    "RR@5",
]
CASES = {
    "plain": {},
    "left out": {"policies": {"missing_ranking": "skip", "no_relevant": "skip"}},
    "one": {"policies": {"no_relevant": "one"}},
    "survivors": {"policies": {"zeros": "survivors"}},
    "rounded": {"policies": {"round_users": 2}},
    "threshold": {"truth": {"threshold": 2}},
}


def log(seed: int, n_users: int = 400) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A truth with users whom nobody ranks, and lists of any length."""
    random = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), random.integers(1, 9, n_users))
    truth = pl.DataFrame(
        {
            "user": users,
            "item": random.integers(0, 30, users.size),
            "relevance": random.integers(0, 4, users.size),
        }
    ).unique(["user", "item"], maintain_order=True)
    ranked = random.choice(n_users, n_users * 4 // 5, replace=False)
    rows = [
        {"user": int(user), "item": int(item), "rank": rank}
        for user in ranked
        for rank, item in enumerate(random.permutation(30)[: random.integers(1, 12)], 1)
    ]
    return truth, pl.DataFrame(rows)


APART = {  # what needs values of single users
    "pairs": {"statistics": {"baseline": "one"}},
    "segments": {"segments": {"few": {"by": "n_relevant", "edges": [3, 6]}}},
    "histograms": {"statistics": {"distributions": True}},
    "values": {},
}


def measure(truth, lists, case, threads, *, per_user=False, **more):
    worse = lists.with_columns(item=(pl.col("item") + 1) % 30)
    tree = {
        "truth": {"path": "memory", **case.get("truth", {})},
        "rankings": [{"model": name, "path": "memory"} for name in ("one", "two")],
        "metrics": {"names": METRICS},
        "policies": case.get("policies", {}),
        **more,
    }
    config = build_config(tree, name="counted", entry_point="python")
    given = Given(truth, [lists, worse])
    return pipeline.run_config(
        config, given=given, threads=threads, keep_parts=True, per_user=per_user
    )


@pytest.mark.parametrize("case", CASES)
def test_counted_users_give_the_same_numbers_and_parts(case, monkeypatch):
    truth, lists = log(len(case))
    one_by_one = measure(truth, lists, CASES[case], 1)
    met = []
    add_to = counted.HitCounts.add_to
    monkeypatch.setattr(counted, "USERS_A_ROW", 0)
    monkeypatch.setattr(
        counted.HitCounts, "add_to", lambda self, *given: met.append(self) or add_to(self, *given)
    )

    together = measure(truth, lists, CASES[case], 2)

    assert len(met) == 2  # models
    assert together.estimates == one_by_one.estimates
    assert together.parts.equals(one_by_one.parts)
    assert render(together, "csv") == render(one_by_one, "csv")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("apart", APART)
def test_users_who_are_looked_up_have_the_values_that_each_measured_has(apart, case, monkeypatch):
    truth, lists = log(len(case))
    given = truth, lists, CASES[case]
    one_by_one = measure(*given, 1, per_user=apart == "values", **APART[apart])
    met = []
    of_users = counted.HitValues.of_users
    monkeypatch.setattr(counted, "USERS_A_ROW", 0)
    monkeypatch.setattr(
        counted.HitValues,
        "of_users",
        lambda self, *given: met.append(self.counts) or of_users(self, *given),
    )

    looked_up = measure(*given, 2, per_user=apart == "values", **APART[apart])

    assert met
    assert looked_up.estimates == one_by_one.estimates
    assert looked_up.comparisons == one_by_one.comparisons
    assert looked_up.distributions == one_by_one.distributions
    assert looked_up.parts.equals(one_by_one.parts)
    if apart == "values":
        for model in ("one", "two"):
            found, wanted = (
                each.per_user_values.scan(model).collect() for each in (looked_up, one_by_one)
            )
            assert found.equals(wanted)
