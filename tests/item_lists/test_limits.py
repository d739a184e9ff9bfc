"""Limits of numbers of lists: within what these can be, and warned of where they are rough."""

import math
import runpy
from pathlib import Path

import polars as pl
import pytest

from evalkit import evaluate
from evalkit.metrics import registry_of

BENCH = Path(__file__).parents[2] / "bench"
ITEMS = pl.DataFrame(
    {"item": range(8), "genres": [["a"], ["b"]] * 4, "provider": ["x"] * 6 + ["y"] * 2}
)
RANKED = pl.DataFrame(  # five users, each of them another pair of items; one of the pair again
    [(user, item % 8, rank) for user in range(5) for rank, item in enumerate((user, user + 3), 1)],
    schema=["user", "item", "rank"],
    orient="row",
)
TRAIN = pl.DataFrame({"user": [0, 1, 2, 3, 4], "item": [0, 1, 2, 3, 5]})
ENDS = {
    "entropy@2": (0.0, 3.0),
    "entropy(scale='share')@2": (0.0, 1.0),
    "hhi@2": (1 / 8, 1.0),
    "effective_items@2": (1.0, 8.0),
    "gini@2": (0.0, 7 / 8),
    "gini_exposure@2": (0.0, 7 / 8),
    "evenness@2": (1 / 8, 1.0),
    "item_coverage@2": (0.0, 1.0),
    "calibration@1": (0.0, -math.log2(0.01)),
    "calibration(divergence='js')@1": (0.0, 1.0),
    "list_length@2": (0.0, 2.0),
    "tail_count@2": (0.0, 2.0),
}


@pytest.mark.parametrize("n_users", [2, 3, 5])
def test_limits_stay_within_what_a_number_can_be(n_users):
    ranked = RANKED.filter(pl.col("user") < n_users)
    report = evaluate(None, {"a": ranked}, metrics=list(ENDS), train=TRAIN, items=ITEMS)

    for each, (least, most) in zip(report.estimates, ENDS.values(), strict=True):
        assert least <= each.low <= each.value <= each.high <= most, each.metric


def test_groups_that_are_hardly_hit_are_warned_of():
    truth = pl.DataFrame({"user": range(200), "item": [0] * 198 + [6, 6]})
    ranked = pl.DataFrame({"user": range(200), "item": truth["item"], "rank": [1] * 200})
    report = evaluate(
        truth, {"a": ranked}, metrics=["exposure_equity@1", "exposure_parity@1"], items=ITEMS
    )

    told = [each.message for each in report.warnings if each.code == "few-lists"]
    assert told == ["take exposure_equity@1 as rough: 2 users in a sum"]


def test_limits_of_every_number_of_all_lists_are_simulated():
    drawn = runpy.run_path(str(BENCH / "simulate_lists.py"))
    names = {each.partition("(")[0].partition("@")[0] for each in drawn["METRICS"]}
    of_all = {n for n, each in registry_of("lists").items() if each.lists.family != "users"}

    assert of_all - names - set(drawn["OTHERS"]) == set()
