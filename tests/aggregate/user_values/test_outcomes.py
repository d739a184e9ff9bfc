"""Who is averaged, and with what: every policy about users by itself, and one against another."""

import itertools
import math

import polars as pl
import pytest

import evalkit
from evalkit.aggregate.user_values.outcomes import (
    ABSENT,
    FILL,
    KEEP,
    ONE,
    SKIP,
    SPOIL,
    WITHOUT_RANKING,
    WITHOUT_RELEVANT,
    WITHOUT_ROWS,
    ZERO,
    outcomes_of,
)

nan = math.nan
HIT, MISS = 10, 99

# 1 hits at rank 1 of 2, 2 has no ranking, 3 an empty list; 4, 5 and 6 are the same without
# relevant items
TRUTH = pl.DataFrame(
    [(user, HIT, 1.0 if user < 4 else 0.0) for user in range(1, 7)],
    schema=["user", "item", "relevance"],
    orient="row",
)
LISTS = pl.DataFrame(
    {"user": [1, 3, 4, 6], "item": [[HIT, MISS], [], [HIT, MISS], []]},
    schema={"user": pl.Int64, "item": pl.List(pl.Int64)},
)


def settled(metric, *, truth=TRUTH, rankings=LISTS, threshold=None, **policies):
    """The mean, how many users it stands on, and their values."""
    report = evalkit.evaluate(
        truth,
        {"als": rankings},
        metrics=[metric],
        policies=policies,
        threshold=threshold,
        per_user=True,
        threads=1,
    )
    values = report.per_user(metric)["value"].to_list()
    estimate = report.estimates[0]
    assert estimate.n_users + estimate.n_undefined == len(values)
    return estimate.value, estimate.n_users, values


# ---------------------------------------------------------------- the empty list


@pytest.mark.parametrize("slow", [{}, {"round_users": 16}, {"duplicates": "once"}])
def test_an_empty_list_counts_0_where_a_metric_has_no_value_of_it(slow):
    # AUC has no pair in an empty list; precision is 0 by itself
    mean, n_users, values = settled("AUC", **slow)

    assert (mean, n_users) == (1 / 3, 3)
    assert values == pytest.approx([1.0, 0.0, 0.0, nan, nan, nan], nan_ok=True)


@pytest.mark.parametrize(("policy", "n_users"), [("zero", 3), ("skip", 2), ("nan", 1)])
def test_the_policy_of_empty_lists_holds_where_it_is_written(policy, n_users):
    mean, n_counted, values = settled("AUC", empty_ranking=policy, missing_ranking="zero")

    assert n_counted == (2 if policy == "nan" else n_users)
    assert math.isnan(mean) == (policy == "nan")
    assert math.isnan(values[2]) == (policy != "zero")


def test_an_empty_list_is_undefined_where_lower_is_better():
    assert settled("first_hit_rank")[:2] == (1.0, 1)


def test_all_unlisted_candidates_tie_below_an_empty_list():
    # with candidates AUC has a value of an empty list, and that one counts
    assert settled("AUC(candidates=5)")[2][:3] == [1.0, 0.0, 0.5]


# ---------------------------------------------------------------- one policy against another


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        # no_relevant of users 4, 5 (no ranking) and 6 (an empty list)
        ({"no_relevant": "skip"}, [1.0, 0.0, 0.0, nan, nan, nan]),
        ({"no_relevant": "zero"}, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ({"no_relevant": "one"}, [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]),
        # who is left out by one policy is left out, whatever another says
        ({"no_relevant": "one", "missing_ranking": "skip"}, [1.0, nan, 0.0, 1.0, nan, 1.0]),
        ({"no_relevant": "zero", "empty_ranking": "skip"}, [1.0, 0.0, nan, 0.0, 0.0, nan]),
        ({"no_relevant": "skip", "empty_ranking": "nan"}, [1.0, 0.0, nan, nan, nan, nan]),
        # a value that spoils the mean is undefined, and comes before 0 and 1
        ({"no_relevant": "nan"}, [1.0, 0.0, 0.0, nan, nan, nan]),
        ({"no_relevant": "one", "missing_ranking": "nan"}, [1.0, nan, 0.0, 1.0, nan, 1.0]),
    ],
)
@pytest.mark.parametrize("slow", [{}, {"duplicates": "once"}])
def test_policies_about_users_meet(policies, expected, slow):
    mean, _, values = settled("recall@1", **policies, **slow)

    assert values == pytest.approx(expected, nan_ok=True)
    counted = [value for value in expected if value == value]
    right = nan if "nan" in policies.values() else sum(counted) / len(counted)
    assert mean == pytest.approx(right, nan_ok=True)


def test_every_case_has_one_fate():
    """The whole table: left out, then spoilt, then a missing ranking, then what is filled in."""
    words = itertools.product(
        ("zero", "skip", "nan"), ("zero", "skip", "nan"), ("skip", "zero", "one", "nan")
    )
    for missing, empty, without in words:
        fates = outcomes_of(missing, empty, without, higher_is_better=True)
        assert fates[0] == KEEP
        by_word = {"skip": SKIP, "nan": SPOIL}
        assert fates[WITHOUT_RANKING] == {**by_word, "zero": ZERO}[missing]
        assert fates[WITHOUT_ROWS] == {**by_word, "zero": FILL}[empty]
        assert fates[WITHOUT_RELEVANT] == {**by_word, "zero": FILL, "one": ONE}[without]
        for case, other in ((WITHOUT_RANKING, missing), (WITHOUT_ROWS, empty)):
            both = fates[case | WITHOUT_RELEVANT]
            said = (other, without)
            if "skip" in said:
                assert both == SKIP
            elif "nan" in said:
                assert both == SPOIL
            elif case == WITHOUT_RANKING:
                assert both == ZERO
            else:
                assert both == (ONE if without == "one" else FILL)
        assert all(fates[case | ABSENT] == SKIP for case in range(8))


def test_where_lower_is_better_nothing_is_0():
    fates = outcomes_of("zero", "zero", "zero", higher_is_better=False)

    assert list(fates[[WITHOUT_RANKING, WITHOUT_ROWS, WITHOUT_RELEVANT]]) == [SKIP, KEEP, KEEP]


# ---------------------------------------------------------------- zeros


def test_zeros_that_are_left_out_are_no_values_of_users():
    # of the three with relevant items one has a value above 0
    assert settled("precision@2", zeros="skip")[:2] == (0.5, 1)
    assert settled("precision@2", zeros="skip")[2] == pytest.approx([0.5] + [nan] * 5, nan_ok=True)


def test_survivors_are_averaged_and_the_others_keep_their_0():
    mean, n_users, values = settled("precision@2", zeros="survivors")

    assert (mean, n_users) == (0.5, 1)
    assert values == pytest.approx([0.5, 0.0, 0.0, nan, nan, nan], nan_ok=True)


def test_a_zero_by_policy_is_a_zero():
    # what missing_ranking, empty_ranking and no_relevant count 0 is left out by zeros = "skip"
    assert settled("precision@2", zeros="skip", no_relevant="zero")[:2] == (0.5, 1)
    assert math.isnan(settled("precision@2", zeros="nan", no_relevant="zero")[0])
    assert settled("recall@1", zeros="skip", no_relevant="one")[:2] == (1.0, 3)


def test_who_is_left_out_by_another_policy_spoils_no_mean_of_zeros():
    policies = {"missing_ranking": "skip", "empty_ranking": "skip", "zeros": "nan"}

    assert settled("precision@2", **policies)[:2] == (0.5, 1)


def test_a_value_that_is_rounded_to_0_is_a_zero():
    assert settled("precision@10", round_users=0, zeros="skip")[:2] == (0.0, 0)


@pytest.mark.parametrize("zeros", ["skip", "survivors"])
@pytest.mark.parametrize(("metric", "mean"), [("RR", 0.0), ("AUC", 0.0), ("first_hit_rank", nan)])
def test_the_mean_of_nobody_is_0_unless_lower_is_better(zeros, metric, mean):
    missed = pl.DataFrame({"user": [1, 2, 3], "item": [MISS] * 3, "rank": [1] * 3})

    found, n_users, values = settled(metric, rankings=missed, zeros=zeros)

    assert n_users == 0
    assert found == pytest.approx(mean, nan_ok=True)
    shown = [value for value in values if value == value]
    assert set(shown) <= ({0.0} if zeros == "survivors" and metric == "RR" else set())


# ---------------------------------------------------------------- gains below the threshold

BELOW = pl.DataFrame(
    [(1, 10, 2.5), (1, 11, 4.0), (1, 12, 1.0), (2, 10, 2.5), (2, 11, 1.0)],
    schema=["user", "item", "relevance"],
    orient="row",
)
SHOWN = pl.DataFrame(
    {"user": [1, 1, 1, 2, 2], "item": [10, 11, 12, 11, 10], "rank": [1, 2, 3, 1, 2]}
)


def test_shifted_gains_below_the_threshold_count_as_others_do():
    # threshold 3: 4.0 is worth 2^2 - 1 = 3, 2.5 is worth 2^0.5 - 1, and 1.0 nothing
    gain, second = 2**0.5 - 1, 1 / math.log2(3)

    def values(metric, **policies):
        return settled(metric, truth=BELOW, rankings=SHOWN, threshold=3.0, **policies)[2]

    shifted = "gain='exp2_shifted'"
    assert values(f"CG({shifted})", no_relevant="zero") == pytest.approx([3 + gain, gain])
    assert values(f"DCG({shifted})")[0] == pytest.approx(gain + 3 * second)
    assert values(f"nDCG({shifted})")[0] == pytest.approx((gain + 3 * second) / (3 + gain * second))
    assert values(f"CG({shifted}, below_threshold='ignore')")[0] == pytest.approx(3.0)


def test_shifted_gains_are_subtracted_where_the_relevance_is_below_0():
    truth = pl.DataFrame({"user": [1, 1, 1], "item": [10, 11, 12], "relevance": [4.0, -1.0, 1.0]})
    metric = "CG(gain='exp2_shifted')"

    def value(**policies):
        return settled(metric, truth=truth, rankings=SHOWN, threshold=3.0, **policies)[0]

    assert value(unknown_users="skip") == 3.0
    assert value(negative_relevance="subtract") == pytest.approx(3 + 2.0**-3 - 1)


@pytest.mark.parametrize("slow", [{}, {"duplicates": "once"}])
def test_gains_below_the_threshold_stay_where_no_relevant_items_count_0(slow):
    # user 2 has gains of 2.5 and 1.0, and nothing at the threshold of 3
    second = 1 / math.log2(3)
    part = (1.0 + 2.5 * second) / (2.5 + second)

    def value(metric, **policies):
        return settled(metric, truth=BELOW, rankings=SHOWN, threshold=3.0, **policies, **slow)[2][1]

    assert value("nDCG", no_relevant="zero") == pytest.approx(part)
    assert value("nDCG(below_threshold='ignore')", no_relevant="zero") == 0.0
    assert value("recall", no_relevant="zero") == 0.0
    assert value("nDCG", no_relevant="one") == 1.0
    assert math.isnan(value("nDCG", no_relevant="skip"))


# ---------------------------------------------------------------- lists of which nothing is left


@pytest.mark.parametrize("slow", [{}, {"duplicates": "once"}])
@pytest.mark.parametrize("form", ["lists", "ranks", "rows"])
def test_a_list_whose_rows_were_all_dropped_is_missing(form, slow):
    """Of seen items, of items without a score: only a list that is given as empty is empty."""
    train = pl.DataFrame({"user": [1, 1], "item": [HIT, MISS]})
    lists = pl.DataFrame({"user": [1, 3], "item": [[HIT, MISS], [HIT]]})
    rows = lists.explode("item")
    given = {
        "lists": lists,
        "rows": rows,
        "ranks": rows.with_columns(rank=pl.Series([1, 2, 1])),
    }[form]

    report = evalkit.evaluate(
        TRUTH,
        {"als": given},
        metrics=["recall"],
        policies={"missing_ranking": "skip", **slow},
        train=train,
        drop_seen=True,
        per_user=True,
    )

    assert report.counts.models["als"].users_without_ranking == 5
    values = report.per_user("recall")["value"].to_list()
    assert values == pytest.approx([nan, nan, 1.0, nan, nan, nan], nan_ok=True)


# ---------------------------------------------------------------- copies

COPIES = pl.DataFrame({"user": [1] * 4, "item": [HIT, MISS, HIT, 11], "rank": [1, 2, 3, 4]})
OF_COPIES = pl.DataFrame({"user": [1, 1], "item": [HIT, 12], "relevance": [1.0, 2.0]})


def test_copies_that_multiply_have_their_own_number_of_relevant_items():
    # of the two shown copies of one item each hits twice; 12 is missed: 4 of 5
    for rel_size in ("items", "rows"):
        policies = {"duplicates": "multiply", "rel_size": rel_size}
        found = settled("recall", truth=OF_COPIES, rankings=COPIES, **policies)
        assert found[0] == pytest.approx(4 / 5)
    assert settled("recall", truth=OF_COPIES, rankings=COPIES, duplicates="count")[0] == 2 / 2
    rows = {"duplicates": "count", "rel_size": "rows"}
    assert settled("recall", truth=OF_COPIES, rankings=COPIES, **rows)[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("duplicates", "shown", "best"),
    [
        ("count", 1 + 1 / 2, 1 + 1 / math.log2(3)),
        ("once", 1.0, 1.0),
        ("best", 1.0, 1.0),
        ("multiply", 2 * 1 + 2 / 2, 1 + 1 / math.log2(3) + 1 / 2 + 1 / math.log2(5)),
    ],
)
def test_an_ideal_list_of_what_is_shown_holds_every_row_that_hits(duplicates, shown, best):
    # the item of gain 1 stands at ranks 1 and 3; that of gain 2 is not shown
    metric = "nDCG(idcg='shown')"

    found = settled(metric, truth=OF_COPIES, rankings=COPIES, duplicates=duplicates)

    assert found[0] == pytest.approx(shown / best)


def test_copies_that_multiply_have_no_value_over_all_orders():
    # how many relevant items there are would depend on the order
    with pytest.raises(evalkit.EvalkitError) as caught:
        settled(
            "recall@1",
            truth=OF_COPIES,
            rankings=COPIES.with_columns(score=1.0).drop("rank"),
            duplicates="multiply",
            ties="expected",
        )

    assert caught.value.code == "no-tie-bounds"


def test_a_row_that_hits_twice_is_one_last_row():
    # ranks 1, 2, 3: of the rows up to each the last one is a hit at 1 and at 3
    rows = COPIES.head(3)

    found = settled("AP(terms='last_row')@3", rankings=rows, duplicates="multiply")

    assert found[2][0] == pytest.approx((2 / 1 + 4 / 3) / 3)


# ---------------------------------------------------------------- users whom the truth lacks


def test_a_user_whom_the_truth_lacks_counts_with_an_empty_list_too():
    lists = pl.concat([LISTS, pl.DataFrame({"user": [7, 8], "item": [[HIT], []]}, LISTS.schema)])
    policies = {"unknown_users": "count", "no_relevant": "zero"}

    values = settled("precision@2", rankings=lists, **policies)[2]
    skipped = settled("precision@2", rankings=lists, empty_ranking="skip", **policies)[2]

    assert values == [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert skipped == pytest.approx([0.5, 0.0, nan, 0.0, 0.0, nan, 0.0, nan], nan_ok=True)
