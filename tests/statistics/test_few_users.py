"""`few-users` comes where intervals were measured to hold the true value too seldom."""

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.inference.caveats import too_narrow
from evalkit.report.json_ import parse_report
from evalkit.report.parquet import tables_of
from evalkit.statistics.exact import ExactSums


def reason(values, bounds=(0.0, 1.0)):
    sums = ExactSums(1)
    sums.add(np.asarray(values, dtype=np.float64).reshape(-1, 1))
    found = too_narrow(sums, 0, bounds)
    return found.why if found else ""


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.25, 0.75] * 24, "stands on 48 users"),
        ([0.25, 0.75] * 25, ""),
        ([0.0, 1.0] * 5, ""),  # Wilson's, of however few
        ([0.0] * 20, ""),
        ([0.0] * 96 + [1.0] * 4, "is 1 for 4 users alone"),
        ([1.0] * 999 + [0.0], "is 0 for 1 users alone"),
        ([0.0] * 95 + [1.0] * 5, ""),
        ([0.5] * 100, ""),  # nothing varies
        ([0.0] * 990 + [0.5] * 10, ""),  # 9.8, which is 0.31 x sqrt(1,000)
        ([0.0] * 9_900 + [0.5] * 100, ""),
        ([0.0] * 70_000 + [0.5] * 1_000, ""),  # 98.6 % are 0
        ([0.0] * 995 + [0.5] * 5, "skewness of 14.0"),
        ([0.0] * 900 + [3.0] * 100, "is not 0 for 100 users alone"),  # no skewness is known
        ([0.0] * 700 + [3.0] * 300, ""),
    ],
)
def test_few_users_or_skewed_values_are_told(values, said):
    found = reason(values, (0.0, 9.0) if max(values) > 1 else (0.0, 1.0))

    assert said in found
    assert bool(said) == bool(found)


def test_hundreds_of_users_are_not_few():
    truth = pl.DataFrame({"user": range(656), "item": [user % 3 for user in range(656)]})
    rankings = pl.DataFrame(
        {"user": [user for user in range(656) for _ in range(4)],
         "item": [0, 1, 2, 3] * 656, "rank": [1, 2, 3, 4] * 656}
    )  # fmt: skip

    report = evalkit.evaluate(truth, rankings, metrics=["nDCG@3", "recall@2", "RR", "hit@1"])
    few = evalkit.evaluate(truth.head(30), rankings.head(120), metrics=["nDCG@3", "RR", "hit@1"])

    assert not [each for each in report.warnings if each.code == "few-users"]
    (warning,) = [each for each in few.warnings if each.code == "few-users"]
    assert warning.message == ("take 2 intervals as rough: the worst hold in 91 of 100")
    caveats = [each.caveats for each in few.estimates if each.caveats]
    assert caveats == ["stands on 30 users: 95 % limits held 91 to 100 times in 100 there"] * 2


def test_differences_that_few_users_make_are_told():
    users, items = np.repeat(np.arange(400), 3), np.tile([1, 2, 3], 400)
    truth = pl.DataFrame({"user": np.arange(400), "item": np.arange(400) % 3 + 1})
    before = pl.DataFrame({"user": users, "item": items, "rank": items})
    swapped = np.where((users < 12) & (items < 3), 3 - items, items)  # 1 and 2 change places
    one_way = np.where((users % 3 == 0) & (users < 36) & (items == 1), 9, items)

    def told(items):
        models = {"before": before, "after": before.with_columns(item=pl.Series(items))}
        report = evalkit.evaluate(
            truth,
            models,
            metrics=["nDCG@3", "hit@3"],
            statistics={"baseline": "before", "test": "t"},
        )
        found = [each.message for each in report.warnings if each.code == "few-users"]
        caveats = [each.caveats for each in report.comparisons if each.caveats]
        return caveats, [message for message in found if "difference" in message]

    assert told(swapped) == ([], [])
    caveats, messages = told(one_way)
    assert messages == ["take 2 differences as rough: the worst hold in 72 of 100"]  # hit@3, too
    assert caveats[0].startswith("have a skewness of -5.5, much for 400 users")
    assert "72 to 94 times in 100" in caveats[0]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0] * 300, ""),
        ([1.0] * 290 + [30.0] * 10, "has weights that leave"),
        ([1.0] * 298 + [15.0] * 2, "has a skewness of"),
    ],
)
def test_weights_that_leave_few_users_are_told(weights, said):
    users = list(range(300))
    truth = pl.DataFrame({"user": users, "item": users, "weight": weights})
    items = [user if user % 3 == 0 or user == 299 else -1 for user in users]
    rankings = pl.DataFrame({"user": users, "item": items, "rank": [1] * 300})
    truth = pl.concat([truth, truth.with_columns(item=pl.col("item") + 1000)])  # nDCG is no share

    report = evalkit.evaluate(
        truth, rankings, metrics=["nDCG@3"], statistics={"weight": {"by": "weight"}}
    )

    told = [each.message for each in report.warnings if each.code == "few-users"]
    assert len(told) == bool(said)
    assert said in "".join(each.caveats or "" for each in report.estimates)


@pytest.mark.parametrize(("n_metrics", "is_told"), [(1, False), (60, True)])
@pytest.mark.parametrize("correction", ["holm", "bonferroni", "none"])
def test_differences_that_lean_much_for_one_of_many_tests_are_told(n_metrics, is_told, correction):
    users = list(range(300))
    truth = pl.DataFrame({"user": users, "item": users})
    old, new = [5] * 30 + [2] * 60 + [None] * 210, [None] * 30 + [1] * 60 + [None] * 210
    rankings = {
        model: pl.DataFrame(
            [
                (user, user if place == rank else -place, place)
                for user, rank in zip(users, ranks, strict=True)
                for place in range(1, 6)
            ],
            schema=["user", "item", "rank"],
            orient="row",
        )
        for model, ranks in (("old", old), ("new", new))
    }
    metrics = [f"RBP(patience={0.9 + 0.001 * number})" for number in range(n_metrics)]
    statistics = {"baseline": "old", "correction": correction, "test": "t"}

    report = evalkit.evaluate(truth, rankings, metrics=metrics, statistics=statistics)

    told = [each.message for each in report.warnings if "differences" in each.message]
    caveats = [each.caveats for each in report.comparisons if each.caveats]
    assert bool(caveats) == (is_told and correction != "none")
    message = f"take {len(caveats)} differences as rough: the worst hold in 83 of 100"
    assert told == [message] * bool(caveats)
    assert all("of 60 such tests" in each for each in caveats)


def test_every_caveat_stands_in_its_row_and_on_the_page(tmp_path):
    users = list(range(300))
    truth = pl.DataFrame({"user": users, "item": users, "half": ["a", "b"] * 150})
    ranks = {"old": [9] * 300, "new": [1 + user % 7 if user % 40 == 0 else 9 for user in users]}
    rankings = {
        name: pl.DataFrame({"user": users, "item": users, "rank": found})
        for name, found in ranks.items()
    }
    report = evalkit.evaluate(
        truth,
        rankings,
        metrics=["nDCG@7", "RR@7"],
        segments={"half": {"by": "half"}},
        statistics={"baseline": "old", "test": "t"},
        policies={"bad_ranks": "keep"},
    )

    tables = tables_of(report)
    told = [each.message for each in report.warnings if each.code == "few-users"]
    for name, message in zip(("metrics", "comparisons"), told, strict=True):
        caveats = tables[f"{name}.parquet"]["caveats"].drop_nulls()
        assert message.startswith(f"take {len(caveats)} ")
    assert report.to_html().count("<abbr") >= 2
    read = parse_report(report.to_json(), at="report.json")
    assert [each.caveats for each in read.estimates] == [each.caveats for each in report.estimates]


def test_differences_of_a_metric_without_bounds_are_told_where_few_users_make_them():
    users = list(range(600))
    truth = pl.DataFrame({"user": users, "item": users, "gain": [3.0] * 600})
    caveats = {}
    for n_gained in (30, 300):
        gained = {user for user in users if user < n_gained and user % 5}
        lost = {user for user in users if user < n_gained and not user % 5}
        rankings = {
            name: pl.DataFrame({"user": users, "item": users, "rank": [
                better if user in gained else worse if user in lost else 2 for user in users
            ]})
            for name, better, worse in (("old", 3, 1), ("new", 2, 4))
        }  # fmt: skip
        report = evalkit.evaluate(
            truth,
            rankings,
            metrics=["DCG@4"],
            columns={"relevance": "gain"},
            statistics={"baseline": "old"},
            policies={"bad_ranks": "keep"},
        )
        (caveats[n_gained],) = [each.caveats for each in report.comparisons]

    assert caveats[300] is None
    assert caveats[30].startswith("come of 30 users alone, and nobody knows how skewed they are")
