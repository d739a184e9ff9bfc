"""Comparisons at the edges, from the front entry point: all users differ alike, one has all
weight.
"""

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.report.comparisons import how_corrected
from evalkit.statistics.power import smallest_difference

METHODS = [
    {"test": "t"},
    {"test": "bootstrap"},
    {"test": "wilcoxon"},
    {"test": "permutation"},
    {"method": "bootstrap", "test": "t"},
    {"pairs": "all", "correction": "tukey", "test": "t"},
    {"cluster": "account", "test": "t"},
    {"weight": {"by": "weight"}, "test": "t"},
]


def measured(ranks, statistics, *, metrics=("RR",), columns=None, **more):
    """A report of users with one relevant item, by its rank in each model's list; None: no list."""
    (n,) = {len(each) for each in ranks.values()}
    users = list(range(n))
    given = {"account": users, "weight": [1.0] * n} | (columns or {})
    truth = pl.DataFrame({"user": users, "item": users, **given})
    rankings = {
        model: pl.DataFrame(
            [
                (user, user if place == rank else -place, place)
                for user, rank in zip(users, found, strict=True)
                for place in range(1, (rank or 0) + 1)
            ],
            schema=["user", "item", "rank"],
            orient="row",
        )
        for model, found in ranks.items()
    }
    chosen = statistics if "pairs" in statistics else {"baseline": "old", **statistics}
    return evalkit.evaluate(truth, rankings, metrics=metrics, statistics=chosen, **more)


@pytest.mark.some_cases(8)
@pytest.mark.parametrize("statistics", METHODS, ids=str)
@pytest.mark.parametrize(("n", "verdict"), [(2, "cannot tell"), (5, "cannot tell"), (6, "better")])
def test_a_difference_that_few_users_share_is_as_sure_as_their_signs(statistics, n, verdict):
    (found,) = measured({"old": [2] * n, "new": [1] * n}, statistics).comparisons

    assert (found.delta, found.std_error, found.verdict) == (0.5, 0.0, verdict)
    assert found.p_value == 2.0 ** (1 - n)
    assert found.smallest_difference is None  # how users vary is not known
    if verdict == "better":
        assert (found.low, found.high) == (0.5, 0.5)
    else:
        assert not found.low > 0.0


@pytest.mark.parametrize("statistics", [{}, {"cluster": "account"}, {"weight": {"by": "weight"}}])
@pytest.mark.parametrize(("n", "verdict"), [(6, "cannot tell"), (9, "cannot tell"), (10, "better")])
def test_users_not_seen_may_make_up_for_a_difference_that_all_share(statistics, n, verdict):
    (found,) = measured({"old": [2] * n, "new": [1] * n}, statistics).comparisons

    assert found.p_value == pytest.approx(2.0 * (1.0 / 1.5) ** n)
    assert (found.test, found.verdict) == ("hall, unseen", verdict)
    assert found.low == pytest.approx(0.5 - (0.025 ** (-1.0 / n) - 1.0))
    assert (found.low > 0.0) == (verdict == "better")


@pytest.mark.parametrize("unlike", [{"weight": [0.3, 1.7, 0.9, 2.1, 0.4]}, {}], ids=str)
@pytest.mark.parametrize(
    "statistics", [{"cluster": "account", "test": "t"}, {"weight": {"by": "weight"}, "test": "t"}]
)
@pytest.mark.parametrize("metric", ["precision@3", "nDCG@3", "DCG@3"])
def test_a_difference_that_all_share_is_none_the_surer_for_how_it_is_rounded(
    metric, statistics, unlike
):
    ranks = {"old": [None] * 5, "new": [3] * 5}
    more = {"columns": unlike, "policies": {"empty_input": "warn"}}
    (found,) = measured(ranks, statistics, metrics=[metric], **more).comparisons

    assert (found.std_error, found.test, found.verdict) == (0.0, "permutation", "cannot tell")
    assert found.p_value >= 0.0625


@pytest.mark.parametrize(
    "statistics",
    [
        {"cluster": "account"},
        {"weight": {"by": "weight"}},
        {"two_way": "item"},
        {"method": "bootstrap"},
        {"method": "bootstrap", "cluster": "account"},
    ],
    ids=str,
)
@pytest.mark.parametrize("rank", [2, 1])  # nobody has a hit, all have one
def test_shares_of_nobody_and_of_all_are_known_no_better_than_so_many_users_know(statistics, rank):
    ranks = {"old": [rank] * 5, "new": [rank] * 5}
    for columns in ({}, {"weight": [1.0, 1.0, 1.0, 1.0, 50.0]}):
        plain = measured(ranks, {}, metrics=["recall@1"], columns=columns).estimates
        found = measured(ranks, statistics, metrics=["recall@1"], columns=columns).estimates
        for estimate, of_users in zip(found, plain, strict=True):
            if "weight" in statistics and columns:  # one user alone has nearly all the weight
                assert estimate.high - estimate.low > 0.6
            else:
                assert estimate.low == pytest.approx(of_users.low)
                assert estimate.high == pytest.approx(of_users.high)


def test_users_who_vary_together_count_as_one():
    accounts = {"account": [0, 0, 0, 0, 1, 1, 1, 1]}
    ranks = {"old": [2] * 8, "new": [1] * 8}
    (found,) = measured(ranks, {"cluster": "account"}, columns=accounts).comparisons

    assert found.p_value == pytest.approx(2.0 * (1.0 / 1.5) ** 2)
    assert (found.low, found.high) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("n", "verdict"), [(5, "cannot tell"), (301, "cannot tell"), (302, "equivalent")]
)
def test_few_users_who_do_not_differ_are_no_proof_of_equivalence(n, verdict):
    ranks = {"old": [2] * n, "new": [2] * n}
    (found,) = measured(ranks, {"margin": 0.01}).comparisons

    assert (found.verdict, found.p_value) == (verdict, 1.0)
    assert found.p_equivalent == pytest.approx(1.01**-n)
    assert (found.low_margin > -0.01 and found.high_margin < 0.01) == (verdict == "equivalent")


def test_weights_that_one_user_has_alone_have_no_error():
    columns = {"weight": [0.0, 0.0, 0.0, 2.0]}
    ranks = {"old": [2, 3, 2, 3], "new": [1, 1, 2, 1]}
    report = measured(ranks, {"weight": {"by": "weight"}}, columns=columns)

    (found,) = report.comparisons
    assert found.delta == pytest.approx(2 / 3)
    assert (found.std_error, found.verdict) == (None, "not tested")
    assert [(each.value, each.std_error) for each in report.estimates] == [(1 / 3, None), (1, None)]


def test_tukeys_test_is_not_made_where_models_have_other_users():
    ranks = {
        "old": [1, 2, 3, 1, 2, 3, 1, 2],
        "new": [1, 1, None, 1, 2, 1, None, 2],
        "other": [None, 2, 2, 1, None, 1, 1, 1],
    }
    tukey = {"pairs": "all", "correction": "tukey"}
    apart = measured(ranks, tukey, policies={"missing_ranking": "skip"})
    together = measured(ranks, tukey)

    assert {each.verdict for each in apart.comparisons} == {"not tested"}
    assert "not tested against" in apart.verdict
    assert "nan" not in apart.verdict
    assert all(math.isnan(each.p_value) for each in apart.comparisons)
    assert "tukey-users" in {each.code for each in apart.warnings}
    assert not any(math.isnan(each.p_value) for each in together.comparisons)
    assert "tukey-users" not in {each.code for each in together.warnings}


@pytest.mark.parametrize("statistics", [{"cluster": "account"}, {"two_way": "item"}], ids=str)
def test_means_over_segments_that_share_clusters_have_no_error(statistics):
    columns = {"account": [0, 1, 2, 0, 1, 2], "half": ["a", "a", "a", "b", "b", "b"]}
    ranks = {"old": [2, 3, 2, 3, 1, 2], "new": [1, 1, 2, 1, 1, 3]}
    segments = {"half": {"by": "half"}}
    report = measured(ranks, statistics, metrics=["recall@1"], columns=columns, segments=segments)

    assert [each.std_error for each in report.macros] == [None, None]


VARIED = {
    "old": [1, 2, 3, 1, 2, 3, 1, 2],
    "new": [1, 1, 2, 1, 2, 1, 4, 2],
    "other": [2, 2, 2, 1, 3, 1, 1, 1],
}


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"correction": "holm"}, "Holm over 6 tests"),
        ({"correction": "holm", "family": "metric"}, "Holm over 6 tests, metric by metric"),
        ({"correction": "tukey"}, "all pairs over 6 tests, metric by metric"),
    ],
)
def test_a_report_says_what_was_corrected_together(chosen, said):
    report = measured(VARIED, {"pairs": "all", **chosen}, metrics=["RR", "DCG@3"])

    assert how_corrected(report.statistics) == said


def test_tukeys_power_is_that_of_the_pairs_of_one_metric():
    tukey = {"pairs": "all", "correction": "tukey", "test": "t"}
    report = measured(VARIED, tukey, metrics=["RR", "DCG@3"])

    for comparison in report.comparisons:
        deviation = comparison.std_error * math.sqrt(8)
        expected = smallest_difference(deviation, 8, level=1 - 0.05 / 3)
        assert comparison.smallest_difference == pytest.approx(expected)


def test_a_difference_that_cannot_be_is_not_what_users_would_show():
    (found,) = measured({"old": [1, 2], "new": [2, 3]}, {}).comparisons

    assert found.std_error > 0
    assert found.smallest_difference is None  # 22 of at most 1


def rare(statistics, *, n_gained=5, rank=1, **more):
    """Of 300 users so many gain a hit at a rank, and nobody loses one."""
    old = [1 if user >= 250 else None for user in range(300)]
    new = [rank if user < n_gained else old[user] for user in range(300)]
    return measured({"old": old, "new": new}, statistics, **more)


@pytest.mark.parametrize("statistics", [{"cluster": "account"}, {"two_way": "item"}], ids=str)
def test_few_hits_are_no_surer_over_clusters_than_the_exact_test_of_users(statistics):
    plain, found = (
        rare({"margin": 0.03, **each}, n_gained=4, metrics=["recall@1"]).comparisons[0]
        for each in ({}, statistics)
    )

    assert (plain.p_value, plain.verdict) == (0.0625, "not inferior")
    assert (found.p_value, found.test, found.verdict) == (0.0625, "mcnemar", "not inferior")
    assert found.low <= plain.low <= 0.0 <= plain.high <= found.high
    assert found.low_margin <= plain.low_margin <= plain.high_margin <= found.high_margin
    assert found.p_equivalent >= plain.p_equivalent
    assert found.p_not_inferior >= plain.p_not_inferior


@pytest.mark.parametrize(
    ("statistics", "more", "is_told"),
    [
        ({}, {"metrics": ["recall@1"]}, False),  # exact
        ({}, {"metrics": ["RR"], "rank": 2}, False),  # users not seen count
        ({"test": "t"}, {"metrics": ["RR"], "rank": 2}, True),
        ({"test": "t", "cluster": "account"}, {"metrics": ["RR"], "rank": 2}, True),
        (
            {"test": "t", "cluster": "account"},
            {"metrics": ["RR"], "rank": 2, "n_gained": 40},
            False,
        ),
        ({"test": "t", "two_way": "item"}, {"metrics": ["nDCG@2"], "rank": 2}, True),
        ({"test": "bootstrap"}, {"metrics": ["recall@1"]}, True),
        ({"method": "bootstrap"}, {"metrics": ["recall@1"]}, True),
        ({"test": "permutation"}, {"metrics": ["recall@1"]}, False),
    ],
)
def test_differences_that_few_users_make_are_told_whatever_they_stand_on(statistics, more, is_told):
    report = rare(statistics, **more)

    told = [each.message for each in report.warnings if each.code == "few-users"]
    assert ("take 1 difference as rough: the worst hold in 72 of 100" in told) == is_told
    assert bool(report.comparisons[0].caveats) == is_told


@pytest.mark.parametrize(
    "metric", ["F1(mean='means')@2", "sampled(catalogue=9, sample=5, estimate='likelihood')@2"]
)
def test_numbers_that_are_made_of_several_means_are_told_once_to_have_no_interval(metric):
    report = measured(VARIED, {"pairs": "all"}, metrics=["RR", metric])
    plain = measured(VARIED, {"pairs": "all"}, metrics=["RR", "F1@2"])

    label = report.estimates[1].metric
    (told,) = [each.message for each in report.warnings if each.code == "no-interval"]
    assert told.startswith(f"{label}: made of several means")
    assert {each.low for each in report.estimates if each.metric == label} == {None}
    assert "no-interval" not in {each.code for each in plain.warnings}
    for text in (report.to_markdown(), report.to_html()):
        assert text.count("made of several means") == 1


@pytest.mark.parametrize("metric", ["recall@1", "nDCG@2", "personalization@2"])
@pytest.mark.parametrize("statistics", [{"correction": "tukey"}, {"correction": "holm"}], ids=str)
def test_no_limit_of_a_difference_lies_beyond_what_it_can_be(statistics, metric):
    ranks = {"old": [2, 2, 2], "new": [1, 1, 2], "other": [3, 1, 1]}
    report = measured(ranks, {"pairs": "all", **statistics}, metrics=[metric])

    for comparison in report.comparisons:
        assert -1.0 <= comparison.low <= comparison.delta <= comparison.high <= 1.0
        assert -1.0 <= comparison.low_adjusted <= comparison.high_adjusted <= 1.0


@pytest.mark.parametrize("correction", ["holm", "none"])
@pytest.mark.parametrize(("n_gained", "p_value"), [(4, 0.0625), (5, 0.03125)])
def test_few_weighted_hits_are_no_surer_than_the_signs_of_their_users(
    n_gained, p_value, correction
):
    weighted = {"weight": {"by": "weight"}, "correction": correction, "margin": 0.03}
    report = rare(weighted, n_gained=n_gained, metrics=["recall@1"])

    (found,) = report.comparisons
    assert (found.p_value, found.test) == (p_value, "mcnemar")
    for low, high in ((found.low, found.high), (found.low_adjusted, found.high_adjusted)):
        assert (low <= 0.0 <= high) == (p_value > 0.05)


def test_tukeys_test_of_few_hits_is_no_surer_than_the_exact_one():
    tukey = {"pairs": "all", "correction": "tukey"}
    for n_gained, p_value in ((4, 0.0625), (5, 0.03125)):
        (found,) = rare(tukey, n_gained=n_gained, metrics=["recall@1"]).comparisons
        (exact,) = rare({}, n_gained=n_gained, metrics=["recall@1"]).comparisons
        assert (found.p_value, found.p_adjusted, found.test) == (p_value, p_value, "tukey")
        assert found.verdict == exact.verdict == ("better" if p_value < 0.05 else "cannot tell")
        assert found.low <= exact.low <= exact.high <= found.high

    three = {"old": [2] * 9, "new": [1] * 7 + [2] * 2, "other": [2] * 9}
    report = measured(three, tukey, metrics=["recall@1"])
    of_range = stats.studentized_range.sf(-math.sqrt(2) * stats.norm.ppf(1 / 256), 3, math.inf)
    found = [each.p_value for each in report.comparisons]
    assert found == pytest.approx([of_range, 1.0, of_range], rel=1e-9)
    assert 1 / 128 < of_range < 3 / 128  # alone, and by Bonferroni


@pytest.mark.parametrize("test", ["t", "wilcoxon", "permutation", "bootstrap"])
def test_one_user_is_not_tested_and_no_member_of_a_family(test):
    ranks = {"old": [3, 2, 1, 3, 2, 3, 2], "new": [1, 1, 1, 2, 1, 2, 1]}
    columns = {"half": ["alone", *["others"] * 6]}
    segments = {"half": {"by": "half"}}
    report = measured(ranks, {"test": test}, columns=columns, segments=segments)

    _, alone, others = report.comparisons
    assert (alone.segment, alone.verdict, alone.test) == ("alone", "not tested", test)
    assert math.isnan(alone.p_value)
    assert others.p_adjusted == others.p_value


@pytest.mark.parametrize("metric", ["RR", "recall@2"])
def test_tukeys_test_is_no_surer_than_the_own_test_of_each_pair(metric):
    rng = np.random.default_rng(8)
    old, other = rng.integers(2, 6, 200), rng.integers(1, 6, 200)
    near = np.where(np.arange(200) < 5, 1, old)  # few differ from old, and all of them gain
    far = np.where(np.arange(200) > 194, other, old)
    ranks = {"old": old.tolist(), "near": near.tolist(), "far": far.tolist()}
    alone, student, report = (
        measured(ranks, {"pairs": "all", **chosen}, metrics=[metric]).comparisons
        for chosen in (
            {"correction": "none"},
            {"correction": "tukey", "test": "t"},
            {"correction": "tukey"},
        )
    )

    own = [
        stats.studentized_range.sf(-math.sqrt(2) * stats.norm.ppf(each.p_value / 2), 3, math.inf)
        for each in alone
    ]
    expected = [*map(max, own, [each.p_value for each in student])]
    assert [each.p_value for each in report] == pytest.approx(expected, rel=1e-9)
    assert (expected == own) == (metric == "RR")
    for comparison, other in zip(report, student, strict=True):
        assert (comparison.low <= 0.0 <= comparison.high) == (comparison.p_adjusted > 0.05)
        assert comparison.low <= other.low <= other.high <= comparison.high
    assert {each.test for each in report} == {"tukey, unseen" if metric == "RR" else "tukey"}
