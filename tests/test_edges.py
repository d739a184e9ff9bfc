"""Every edge of real logs: what its policy does, and where the report counts it."""

import json
import math

import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError, Errors, EvalkitError, RequestError

nan, inf = math.nan, math.inf


def truth_of(*rows, **options):
    names = ["user", "item", "relevance"][: len(rows[0])]
    return pl.DataFrame(rows, schema=names, orient="row", **options)


def ranks_of(*rows):
    return pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")


def scores_of(*rows):
    schema = {"user": pl.Int64, "item": pl.Int64, "score": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def evaluate(truth, rankings, *metrics, policies=None, **options):
    """The report of one model "als", after a look at its balance of rows."""
    report = evalkit.evaluate(
        truth,
        rankings if isinstance(rankings, dict) else {"als": rankings},
        metrics=list(metrics) or ["hits@3"],
        policies=policies,
        per_user=True,
        threads=2,
        **options,
    )
    for counts in (report.counts.truth, *report.counts.models.values()):
        assert counts.rows == counts.rows_used + sum(counts.rows_dropped.values())
    return report


def refused(*arguments, **options):
    """The error that evaluating ends in."""
    with pytest.raises(EvalkitError) as caught:
        evaluate(*arguments, **options)
    return caught.value


def codes(error):
    return [each.code for each in error.errors] if isinstance(error, Errors) else [error.code]


def values(report, metric, model="als"):
    """Value of each user."""
    return dict(report.per_user(metric, model=model).rows())


def warned(report):
    # every log here is small
    return [each.code for each in report.warnings if each.code != "few-users"]


TRUTH = truth_of((1, 10), (1, 11), (2, 20))
RANKS = ranks_of((1, 10, 1), (1, 12, 2), (2, 21, 1), (2, 20, 2))


# ---------------------------------------------------------------- users


@pytest.mark.parametrize(("policy", "mean", "n"), [("zero", 0.5, 2), ("skip", 1.0, 1)])
def test_a_user_without_a_ranking_is_zero_or_left_out(policy, mean, n):
    report = evaluate(TRUTH, ranks_of((1, 10, 1)), "hit@1", policies={"missing_ranking": policy})

    assert report.value("hit@1") == mean
    assert report.estimates[0].n_users == n
    assert report.estimates[0].n_undefined == 2 - n
    assert report.counts.models["als"].users_without_ranking == 1


def test_a_user_without_a_ranking_is_undefined_where_lower_is_better():
    report = evaluate(TRUTH, ranks_of((1, 10, 1)), "first_hit_rank")

    assert report.value("first_hit_rank") == 1.0
    assert report.estimates[0].n_undefined == 1


@pytest.mark.parametrize(("policy", "mean", "n"), [("skip", 1.0, 1), ("zero", 0.5, 2)])
def test_a_user_without_relevant_items_is_left_out_or_zero(policy, mean, n):
    truth = truth_of((1, 10, 1.0), (2, 20, 0.0))
    metrics = ["recall@1", "precision@1", "nDCG@1"]
    report = evaluate(
        truth, ranks_of((1, 10, 1), (2, 20, 1)), *metrics, policies={"no_relevant": policy}
    )

    assert [report.value(metric) for metric in metrics] == [mean] * 3
    assert [each.n_undefined for each in report.estimates] == [2 - n] * 3
    assert report.counts.truth.users == 2
    assert report.counts.truth.users_without_relevant == 1
    assert report.counts.truth.pairs == 1


def test_a_user_without_relevant_items_stays_undefined_where_lower_is_better():
    truth = truth_of((1, 10, 1.0), (2, 20, 0.0))
    report = evaluate(
        truth, ranks_of((1, 10, 1), (2, 20, 1)), "first_hit_rank", policies={"no_relevant": "zero"}
    )

    assert report.estimates[0].n_undefined == 1


def test_ranked_users_that_the_truth_lacks_are_left_out_and_counted():
    report = evaluate(TRUTH, ranks_of((1, 10, 1), (2, 20, 1), (3, 10, 1), (3, 11, 2), (4, 1, 1)))
    counts = report.counts.models["als"]

    assert counts.rows_dropped["unknown_user"] == 3
    assert counts.users_without_truth == 2
    assert counts.users == 4
    assert counts.rows_used == 2


def test_ranked_users_that_the_truth_lacks_may_be_an_error():
    error = refused(TRUTH, ranks_of((1, 10, 1), (3, 1, 1)), policies={"unknown_users": "error"})

    assert codes(error) == ["unknown-users"]


def test_unknown_users_do_not_count_where_every_relevance_is_relevant():
    policies = {"unknown_users": "count"}
    error = refused(
        truth_of(("a", "i", 1.0)), ranks_of(("b", "i", 1)), policies=policies, threshold=0
    )

    assert error.code == "unknown-users-relevant"


def test_no_user_in_common_is_an_error():
    assert codes(refused(TRUTH, ranks_of((3, 10, 1)))) == ["no-common-user"]


def test_rankings_of_which_every_row_was_dropped_say_why():
    train = pl.DataFrame({"user": [1, 2], "item": [10, 20]})
    error = refused(TRUTH, ranks_of((1, 10, 1), (2, 20, 1)), train=train, drop_seen=True)

    assert codes(error) == ["no-common-user"]
    assert error.message == "all 2 rows of 'als' were dropped: 2 seen in train"


def test_no_user_in_common_may_be_a_warning():
    report = evaluate(TRUTH, ranks_of((3, 10, 1)), policies={"no_common_user": "warn"})

    assert report.value("hits@3") == 0.0
    assert "no-common-user" in warned(report)


# ---------------------------------------------------------------- copies


COPIED = ranks_of((1, 10, 1), (1, 12, 2), (1, 11, 3), (1, 10, 4), (2, 20, 1))


def test_an_item_twice_in_a_ranking_is_an_error_that_names_users():
    error = refused(TRUTH, COPIED)

    assert codes(error) == ["duplicate-item"]
    assert "user 1" in error.at
    assert "best" in error.hint


@pytest.mark.parametrize(
    ("policy", "ranked", "searched", "dropped"),
    [
        ("best", 1 / 1 + 2 / 3, "relevant", 1),
        ("first", 1 / 1 + 2 / 3, "all", 1),
        ("last", 1 / 3 + 2 / 4, "all", 1),
        ("count", 1 / 1 + 2 / 3 + 3 / 4, "relevant", 0),
    ],
)
def test_copies_in_ranks_keep_one_or_all(policy, ranked, searched, dropped):
    report = evaluate(TRUTH, COPIED, "AP(over='relevant')", policies={"duplicates": policy})
    counts = report.counts.models["als"]

    assert values(report, "AP(over='relevant')")[1] == pytest.approx(ranked / 2)
    assert counts.duplicates == 1
    assert counts.rows_dropped["duplicate"] == dropped
    assert counts.duplicates_searched == searched
    assert "duplicate-item" in warned(report)


@pytest.mark.parametrize(
    ("policy", "rank_of_11", "dropped"),
    [("best", 3, 2), ("first", 3, 2), ("last", 1, 2), ("count", 3, 0)],
)
def test_copies_in_scores_close_the_list_up(policy, rank_of_11, dropped):
    # by score 12, 10, 11, 10, 12
    rankings = scores_of((1, 12, 9.0), (1, 10, 8.0), (1, 11, 7.0), (1, 10, 6.0), (1, 12, 5.0))
    truth = truth_of((1, 11))
    report = evaluate(truth, rankings, "first_hit_rank", policies={"duplicates": policy})
    counts = report.counts.models["als"]

    assert report.value("first_hit_rank") == rank_of_11
    assert counts.duplicates == 2
    assert counts.duplicates_searched == "all"
    assert counts.rows_dropped["duplicate"] == dropped
    assert counts.depth == 5 - dropped


@pytest.mark.parametrize(("policy", "gain"), [("max", 3.0), ("sum", 4.0), ("last", 1.0)])
def test_an_item_twice_in_the_truth_is_joined(policy, gain):
    truth = truth_of((1, 10, 3.0), (1, 10, 1.0))
    report = evaluate(truth, ranks_of((1, 10, 1)), "CG", policies={"truth_duplicates": policy})

    assert report.value("CG") == gain
    assert report.counts.truth.rows_dropped["duplicate"] == 1
    assert report.counts.truth.pairs == 1


def test_an_item_twice_in_the_truth_may_be_an_error():
    error = refused(
        truth_of((1, 10), (1, 10)), ranks_of((1, 10, 1)), policies={"truth_duplicates": "error"}
    )

    assert codes(error) == ["duplicate-truth"]
    assert "user 1" in error.at


def test_interactions_without_relevance_add_up():
    report = evaluate(
        truth_of((1, 10), (1, 10), (1, 11)),
        ranks_of((1, 10, 1)),
        "CG",
        "recall",
        policies={"truth_duplicates": "sum"},
        threshold=2.0,
    )

    assert report.value("CG") == 2.0
    assert report.value("recall") == 1.0


# ---------------------------------------------------------------- scores


@pytest.mark.parametrize(
    ("ties", "rank"),
    [("item", 2), ("item-desc", 3), ("item-text", 4), ("item-text-desc", 1), ("input", 4)],
)
def test_equal_scores_are_ordered_by_the_policy(ties, rank):
    # items 2, 9, 10, 30 of one score: as text 10, 2, 30, 9
    rows = [(1, 30, 1.0), (1, 2, 1.0), (1, 10, 1.0), (1, 9, 1.0), (1, 5, 0.0)]
    report = evaluate(truth_of((1, 9)), scores_of(*rows), "first_hit_rank", policies={"ties": ties})

    assert report.value("first_hit_rank") == rank
    assert report.counts.models["als"].ties == 1


def test_signed_zeros_are_equal_scores():
    report = evaluate(truth_of((1, 3)), scores_of((1, 3, -0.0), (1, 4, 0.0)), "first_hit_rank")

    assert report.value("first_hit_rank") == 1.0
    assert report.counts.models["als"].ties == 1


@pytest.mark.parametrize("bad", [nan, None])
def test_scores_that_are_none_are_an_error(bad):
    error = refused(TRUTH, scores_of((1, 10, bad), (2, 20, 1.0)))

    assert codes(error) == ["bad-score"]


@pytest.mark.parametrize(
    ("policy", "rank", "dropped", "depth"), [("last", 4, 0, 4), ("drop", nan, 2, 2)]
)
def test_scores_that_are_none_stand_last_or_are_dropped(policy, rank, dropped, depth):
    rows = [(1, 13, nan), (1, 11, 1.0), (1, 12, -inf), (1, 14, None)]
    truth = truth_of((1, 14))
    report = evaluate(truth, scores_of(*rows), "first_hit_rank", policies={"bad_scores": policy})
    counts = report.counts.models["als"]

    assert report.value("first_hit_rank") == pytest.approx(rank, nan_ok=True)
    assert counts.rows_dropped["bad_score"] == dropped
    assert counts.depth == depth


def test_infinite_scores_order_as_numbers():
    rows = [(1, 1, -inf), (1, 2, inf), (1, 3, 1e308), (1, 4, -1e308)]
    report = evaluate(truth_of((1, 2), (1, 1)), scores_of(*rows), "AP")

    assert report.value("AP") == pytest.approx((1 / 1 + 2 / 4) / 2)


@pytest.mark.parametrize("low", [2**53, -(2**63), 2**63])
def test_integer_scores_that_floats_cannot_tell_apart_are_told_apart(low):
    dtype = pl.UInt64 if low == 2**63 else pl.Int64
    rankings = pl.DataFrame(
        {"user": [1, 1], "item": [1, 2], "score": [low, low + 1]},
        schema_overrides={"score": dtype},
    )
    report = evaluate(truth_of((1, 2)), rankings, "first_hit_rank")

    assert report.value("first_hit_rank") == 1.0
    assert report.counts.models["als"].ties == 0


# ---------------------------------------------------------------- ids


NULL_TRUTH = truth_of((1, 10), (None, 11), (1, None), (2, 20))
NULL_RANKS = ranks_of((1, 10, 1), (None, 12, 1), (2, None, 1), (None, None, 1), (2, 20, 2))


def test_null_ids_of_the_truth_are_an_error():
    assert codes(refused(NULL_TRUTH, RANKS)) == ["null-id"]


def test_null_ids_of_rankings_are_an_error():
    error = refused(TRUTH, NULL_RANKS, policies={"bad_ranks": "keep"})

    assert codes(error) == ["null-id"]


def test_null_ids_are_dropped_and_counted():
    policies = {"null_ids": "drop", "bad_ranks": "keep"}
    report = evaluate(NULL_TRUTH, NULL_RANKS, policies=policies)

    assert report.counts.truth.rows_dropped["null_id"] == 2
    assert report.counts.truth.users == 2
    assert report.counts.models["als"].rows_dropped["null_id"] == 3
    assert values(report, "hits@3") == {1: 1.0, 2: 1.0}


def test_a_null_in_one_of_two_user_columns_is_a_null_id():
    schema = {"person": pl.Int64, "day": pl.Int64, "item": pl.Int64}
    truth = pl.DataFrame([(1, 1, 5), (1, None, 5)], schema=schema, orient="row")
    columns = {"user": ["person", "day"], "item": "item"}

    assert codes(refused(truth, truth, columns=columns)) == ["null-id"]
    report = evaluate(truth, truth, columns=columns, policies={"null_ids": "drop"})
    assert report.counts.truth.rows_dropped["null_id"] == 1
    assert report.counts.models["als"].rows_dropped["null_id"] == 1


def test_text_ids_do_not_meet_integers():
    error = refused(TRUTH, RANKS.with_columns(pl.col("user").cast(pl.String)))

    assert codes(error) == ["id-kind"]
    assert "cast(" in error.hint


def test_ids_of_other_widths_meet():
    rankings = RANKS.with_columns(pl.col("user").cast(pl.UInt8), pl.col("item").cast(pl.Int16))

    assert evaluate(TRUTH, rankings).value("hits@3") == 1.0


def test_minus_one_and_two_to_the_64_minus_one_are_two_ids():
    truth = pl.DataFrame({"user": [1], "item": [2**64 - 1]}, schema_overrides={"item": pl.UInt64})
    report = evaluate(truth, ranks_of((1, -1, 1)))

    assert report.value("hits@3") == 0.0


def test_float_ids_are_refused():
    assert codes(refused(TRUTH, RANKS.with_columns(pl.col("item") * 1.0))) == ["float-id"]


# ---------------------------------------------------------------- ranks


ZERO_BASED = ranks_of((1, 10, 0), (1, 12, 1), (2, 21, 0), (2, 20, 1))


def test_ranks_that_start_at_zero_are_an_error_that_says_so():
    error = refused(TRUTH, ZERO_BASED)

    assert codes(error) == ["bad-rank"]
    assert 'policies={"first_rank": 0}' in error.hint


def test_ranks_that_start_at_zero_are_read_as_such():
    report = evaluate(TRUTH, ZERO_BASED, "RR", policies={"first_rank": 0})

    assert values(report, "RR") == {1: 1.0, 2: 0.5}


def test_ranks_below_the_first_are_dropped_when_ranks_are_kept():
    report = evaluate(TRUTH, ZERO_BASED, "RR", policies={"bad_ranks": "keep"})

    assert values(report, "RR") == {1: 0.0, 2: 1.0}
    assert report.counts.models["als"].rows_dropped["bad_rank"] == 2


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(1, 10, 1), (1, 12, 3)], id="a gap"),
        pytest.param([(1, 10, 1), (1, 12, 1)], id="a repeat"),
        pytest.param([(1, 10, 2), (1, 12, 3)], id="no first rank"),
        pytest.param([(1, 10, 1), (1, 12, 2), (1, 13, 2), (1, 14, 4)], id="a repeat and a gap"),
    ],
)
def test_gaps_and_repeats_of_ranks_are_an_error_that_names_users(rows):
    error = refused(TRUTH, ranks_of((2, 20, 1), *rows))

    assert codes(error) == ["bad-ranks"]
    assert "user 1" in error.at
    assert "user 2" not in error.at


GAPPED = ranks_of((1, 12, 2), (1, 10, 5), (1, 11, 5), (2, 20, 1))


@pytest.mark.parametrize(
    ("policy", "ranks", "depth"), [("keep", 1 / 5 + 2 / 5, 5), ("compress", 1 / 2 + 2 / 3, 3)]
)
def test_gaps_and_repeats_are_kept_or_closed_and_counted(policy, ranks, depth):
    report = evaluate(TRUTH, GAPPED, "AP", policies={"bad_ranks": policy})
    counts = report.counts.models["als"]

    assert values(report, "AP")[1] == pytest.approx(ranks / 2)
    assert counts.bad_ranks == 1
    assert counts.depth == depth


def test_gaps_are_an_error_also_where_copies_are_looked_for_in_whole_lists():
    error = refused(TRUTH, GAPPED, policies={"duplicates": "first"})

    assert codes(error) == ["bad-ranks"]


def test_gaps_are_an_error_also_where_seen_items_are_dropped():
    train = truth_of((1, 12))

    assert codes(refused(TRUTH, GAPPED, train=train, drop_seen=True)) == ["bad-ranks"]


@pytest.mark.parametrize("rank", [None, 1.5, nan, inf])
def test_ranks_that_are_no_whole_number_are_an_error(rank):
    rankings = pl.DataFrame(
        {"user": [1, 1], "item": [10, 12], "rank": [1.0, rank]},
        schema_overrides={"rank": pl.Float64},
    )

    assert codes(refused(TRUTH, rankings)) == ["bad-rank"]
    for policy in ("keep", "compress"):
        report = evaluate(TRUTH, rankings, policies={"bad_ranks": policy})
        assert report.counts.models["als"].rows_dropped["bad_rank"] == 1


@pytest.mark.parametrize("duplicates", ["error", "best", "first"])
def test_ranks_order_before_scores_and_disagreements_are_told(duplicates):
    rankings = ranks_of((1, 10, 1), (1, 12, 2), (1, 11, 3), (2, 20, 1)).with_columns(
        score=pl.Series([0.1, 0.9, 0.5, 1.0])
    )
    columns = {"rank": "rank", "score": "score"}
    policies = {"duplicates": duplicates}
    report = evaluate(TRUTH, rankings, "RR", columns=columns, policies=policies)

    assert values(report, "RR") == {1: 1.0, 2: 1.0}
    assert warned(report) == ["score-order"]  # item 11 has a higher score than item 10
    agreeing = rankings.with_columns(score=-pl.col("rank"))
    report = evaluate(TRUTH, agreeing, "RR", columns=columns, policies=policies)
    assert not warned(report)


# ---------------------------------------------------------------- depth, relevance


def test_a_short_list_misses_its_absent_ranks():
    report = evaluate(TRUTH, ranks_of((1, 10, 1), (2, 20, 1)), "precision@4", "nDCG@4")

    assert values(report, "precision@4") == {1: 0.25, 2: 0.25}
    assert values(report, "nDCG@4")[2] == 1.0


def test_a_cutoff_beyond_every_list_is_a_warning():
    report = evaluate(TRUTH, RANKS, "hits@2", "hits@3", "recall@50")
    warning, _ = report.warnings

    assert warning.code == "cutoff-beyond-depth"
    assert "hits@3" in warning.message
    assert "recall@50" in warning.message
    assert "hits@2" not in warning.message


def test_a_cutoff_beyond_every_list_may_be_an_error():
    error = refused(TRUTH, RANKS, "hits@3", policies={"beyond_depth": "error"})

    assert codes(error) == ["cutoff-beyond-depth"]
    assert evaluate(TRUTH, RANKS, "hits@2", policies={"beyond_depth": "error"})


NEGATIVE = truth_of((1, 10, 2.0), (1, 12, -1.0))


@pytest.mark.parametrize(("policy", "gain"), [("ignore", 2.0), ("subtract", 1.0)])
def test_negative_relevance_is_ignored_or_subtracted(policy, gain):
    report = evaluate(
        NEGATIVE,
        ranks_of((1, 10, 1), (1, 12, 2)),
        "CG",
        "hits",
        policies={"negative_relevance": policy},
    )

    assert report.value("CG") == gain
    assert report.value("hits") == 1.0
    assert report.counts.truth.pairs == 1
    assert ("negative-relevance" in warned(report)) == (policy == "ignore")


def test_negative_relevance_may_be_an_error():
    error = refused(NEGATIVE, RANKS, policies={"negative_relevance": "error"})

    assert codes(error) == ["negative-relevance"]


@pytest.mark.parametrize("bad", [None, nan, inf, -inf])
def test_relevance_that_is_no_number_is_an_error(bad):
    assert codes(refused(truth_of((1, 10, 1.0), (2, 20, bad)), RANKS)) == ["bad-relevance"]


def test_a_threshold_is_no_filter():
    truth = truth_of((1, 10, 5.0), (1, 12, 2.0), (2, 20, 3.0))
    report = evaluate(truth, RANKS, "hits", "CG", "CG(below_threshold='ignore')", threshold=4.0)

    assert values(report, "hits") == {1: 1.0, 2: pytest.approx(nan, nan_ok=True)}
    assert values(report, "CG")[1] == 7.0
    assert values(report, "CG(below_threshold='ignore')")[1] == 5.0
    assert report.counts.truth.rows_used == 3
    assert report.counts.truth.pairs == 1
    assert report.counts.truth.users_without_relevant == 1


def test_a_threshold_without_relevance_is_an_error():
    error = refused(TRUTH, RANKS, threshold=4.0)

    assert codes(error) == ["threshold-without-relevance"]
    assert isinstance(error, RequestError)


def test_gains_that_overflow_are_refused():
    error = refused(truth_of((1, 10, 5000.0)), ranks_of((1, 10, 1)), "CG(gain='exp2')")

    assert isinstance(error, DataError)


# ---------------------------------------------------------------- empty tables and lists


@pytest.mark.parametrize(("truth", "rankings"), [(TRUTH[:0], RANKS), (TRUTH, RANKS[:0])])
def test_an_empty_table_is_an_error(truth, rankings):
    assert codes(refused(truth, rankings)) == ["empty-input"]


def test_two_empty_tables_are_two_errors():
    assert codes(refused(TRUTH[:0], RANKS[:0])) == ["empty-input", "empty-input"]


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("mode", ["rank", "score", "order"])
@pytest.mark.parametrize(("n_truth", "n_rows"), [(0, 0), (0, 4), (3, 0)])
def test_empty_tables_may_be_warnings(tmp_path, mode, n_truth, n_rows, is_file):
    order = {"rank": ["rank"], "score": [pl.col("rank").alias("score")], "order": []}[mode]
    tables = [TRUTH[:n_truth], RANKS[:n_rows].select("user", "item", *order)]
    if is_file:
        paths = [tmp_path / "truth.parquet", tmp_path / "rankings.parquet"]
        for path, each in zip(paths, tables, strict=True):
            each.write_parquet(path)
        tables = paths
    policies = {"empty_input": "warn", "no_common_user": "warn"}
    report = evaluate(*tables, "hits@3", "first_hit_rank", policies=policies)

    assert warned(report).count("empty-input") == (n_truth == 0) + (n_rows == 0)
    assert report.counts.truth.rows == n_truth
    assert report.counts.models["als"].rows == n_rows
    assert report.per_user("hits@3").height == (2 if n_truth else 0)
    if n_truth == 0:
        assert math.isnan(report.value("hits@3"))
        assert json.loads(report.to_json())["metrics"][0]["value"] is None


@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
def test_an_empty_truth_has_no_users_in_any_segment(tmp_path, kind):
    people = TRUTH.select("user", country=pl.lit("de")).unique()
    paths = []
    for name, table in {"truth": TRUTH.clear(), "ranks": RANKS, "people": people}.items():
        paths.append(tmp_path / f"{name}.parquet")
        table.with_columns(pl.col("user").cast(kind)).write_parquet(paths[-1])
    report = evaluate(
        *paths[:2],
        "hits@3",
        policies={"empty_input": "warn", "no_common_user": "warn"},
        segments={"country": {"path": str(paths[2]), "by": "country"}},
    )
    assert "empty-input" in warned(report)
    assert [each.n_users for each in report.estimates] == [0]
    assert report.per_user("hits@3").height == 0


def test_an_empty_list_is_a_ranking_and_a_null_list_is_none():
    lists = pl.DataFrame(
        {"user": [1, 2, 3, 9], "item": [[10, 12], [], None, []]},
        schema_overrides={"item": pl.List(pl.Int64)},
    )
    truth = truth_of((1, 10), (2, 20), (3, 30))
    report = evaluate(truth, lists, "hits@2", policies={"missing_ranking": "skip"})
    counts = report.counts.models["als"]

    assert values(report, "hits@2") == {1: 1.0, 2: 0.0, 3: pytest.approx(nan, nan_ok=True)}
    assert counts.rows == 2
    assert counts.users == 3
    assert counts.users_without_ranking == 1
    assert counts.users_without_truth == 1


def test_lists_of_scores_of_other_lengths_are_an_error():
    lists = pl.DataFrame({"user": [1], "item": [[10, 12]], "score": [[1.0]]})

    assert codes(refused(TRUTH, lists)) == ["ragged-lists"]


def test_a_null_list_of_scores_is_one_of_another_length():
    lists = pl.DataFrame(
        {"user": [1], "item": [[10, 12]], "score": [None]},
        schema_overrides={"score": pl.List(pl.Float64)},
    )

    assert codes(refused(TRUTH, lists)) == ["ragged-lists"]


def test_null_items_in_lists_are_null_ids():
    lists = pl.DataFrame({"user": [1, None], "item": [[10, None, 11], [10]]})

    assert codes(refused(TRUTH, lists)) == ["null-id"]
    report = evaluate(TRUTH, lists, "AP", policies={"null_ids": "drop"})
    assert report.counts.models["als"].rows == 4
    assert report.counts.models["als"].rows_dropped["null_id"] == 2
    assert values(report, "AP")[1] == 1.0


# ---------------------------------------------------------------- training logs, models, samples


TRAIN = truth_of((1, 12), (2, 21), (2, 20), (9, 9))


def test_items_seen_in_training_are_counted():
    report = evaluate(TRUTH, RANKS, "RR", train=TRAIN)

    assert report.counts.models["als"].seen_in_train == 3
    assert report.counts.models["als"].rows_dropped["seen_in_train"] == 0
    assert values(report, "RR") == {1: 1.0, 2: 0.5}


def test_items_seen_in_training_are_dropped_and_the_list_closes_up():
    truth = truth_of((1, 10), (2, 22))
    rankings = ranks_of((1, 10, 1), (1, 12, 2), (2, 21, 1), (2, 20, 2), (2, 22, 3))
    report = evaluate(truth, rankings, "RR", train=TRAIN, drop_seen=True)

    assert report.counts.models["als"].rows_dropped["seen_in_train"] == 3
    assert values(report, "RR") == {1: 1.0, 2: 1.0}


@pytest.mark.parametrize("duplicates", ["error", "best", "first", "multiply"])
@pytest.mark.parametrize(
    ("ranks", "seen", "first_rank", "expected", "depth"),
    [
        ((1, 5, 9), (), 1, 1 / 5, 9),  # nothing is dropped, so nothing moves
        ((1, 5, 9), (0,), 1, 1 / 4, 8),
        ((1, 5, 9), (2,), 1, 1 / 5, 5),  # what stood below moves nobody
        ((1, 5, 5), (2,), 1, 1 / 5, 5),  # nor what stood beside
        ((9, 5, 1), (0, 2), 1, 1 / 4, 4),
        ((0, 4, 8), (0,), 0, 1 / 4, 8),
        ((1, 2, 1), (0, 2), 1, 1.0, 1),  # the first rank at best
    ],
)
def test_dropping_seen_items_closes_their_gaps_alone(
    duplicates, ranks, seen, first_rank, expected, depth
):
    items = (30, 10, 31)
    rankings = ranks_of(*((1, item, rank) for item, rank in zip(items, ranks, strict=True)))
    policies = {"bad_ranks": "keep", "duplicates": duplicates, "first_rank": first_rank}
    train = truth_of(*((1, items[place]) for place in seen), (7, 7))
    options = {"train": train, "drop_seen": True, "policies": policies}
    report = evaluate(truth_of((1, 10)), rankings, "RR", **options)

    assert values(report, "RR") == {1: expected}
    assert report.counts.models["als"].depth == depth
    assert report.counts.models["als"].rows_dropped["seen_in_train"] == len(seen)


def test_seen_items_that_lead_a_user_who_comes_back_close_their_gaps():
    rankings = ranks_of((1, 30, 1), (2, 40, 1), (1, 10, 2), (2, 41, 2))
    report = evaluate(
        truth_of((1, 10), (2, 41)), rankings, "RR", train=truth_of((1, 30)), drop_seen=True
    )

    assert values(report, "RR") == {1: 1.0, 2: 0.5}


def test_without_a_training_log_nobody_knows_what_was_seen():
    assert evaluate(TRUTH, RANKS).counts.models["als"].seen_in_train is None


def test_null_ids_of_the_training_log_are_an_error():
    train = truth_of((1, 12), (None, 3))

    assert codes(refused(TRUTH, RANKS, train=train)) == ["null-id"]
    assert evaluate(TRUTH, RANKS, train=train, policies={"null_ids": "drop"})


def test_rows_without_a_model_are_an_error():
    rankings = RANKS.with_columns(model=pl.Series(["a", "a", None, "b"]))
    with pytest.raises(DataError) as caught:
        evalkit.evaluate(TRUTH, rankings, metrics=["hits"])

    assert caught.value.code == "null-model"


def test_what_is_wrong_with_several_models_is_told_at_once():
    rankings = {"a": COPIED, "b": RANKS, "c": GAPPED, "d": NULL_RANKS}
    error = refused(TRUTH, rankings)

    assert isinstance(error, Errors)
    assert codes(error) == ["duplicate-item", "bad-ranks", "bad-ranks", "null-id"]
    assert error.exit_status == 3


def test_users_outside_a_sample_are_counted():
    truth = pl.DataFrame({"user": range(400), "item": range(400)})
    rankings = truth.with_columns(rank=pl.lit(1, pl.Int64))
    report = evaluate(truth, rankings, "hits@1", sample=0.25)
    sampled = report.counts.truth.users

    assert 60 < sampled < 140
    assert report.counts.truth.rows_dropped["not_sampled"] == 400 - sampled
    assert report.counts.models["als"].rows_dropped["not_sampled"] == 400 - sampled
    assert report.counts.models["als"].users_without_truth == 0
    assert report.value("hits@1") == 1.0
    assert "sample" in warned(report)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, nan])
def test_a_sample_that_is_no_share_is_refused(share):
    error = refused(TRUTH, RANKS, sample=share)

    assert codes(error) == ["bad-sample"]
    assert error.exit_status == 2


def test_leave_one_out_needs_nothing_special():
    truth = truth_of((1, 10), (2, 20), (3, 30))
    rankings = ranks_of((1, 10, 1), (1, 11, 2), (2, 1, 1), (2, 20, 2), (3, 1, 1), (3, 2, 2))
    report = evaluate(truth, rankings, "hit@2", "RR@2", "nDCG@2")

    assert report.value("hit@2") == 2 / 3
    assert report.value("RR@2") == 0.5
    assert values(report, "nDCG@2")[2] == pytest.approx(1 / math.log2(3))


# ---------------------------------------------------------------- wrong requests and data


def test_a_misspelt_metric_names_the_nearest():
    error = refused(TRUTH, RANKS, "ndgc@10")

    assert codes(error) == ["unknown-metric"]
    assert "nDCG" in error.hint
    assert error.exit_status == 2


@pytest.mark.parametrize("policies", [{"tie": "item"}, {"ties": "itme"}, {"first_rank": "one"}])
def test_a_misspelt_policy_is_refused(policies):
    error = refused(TRUTH, RANKS, policies=policies)

    assert isinstance(error, RequestError)
    assert error.exit_status == 2


def test_a_cutoff_of_zero_is_refused():
    error = refused(TRUTH, RANKS, "hits@0")

    assert codes(error) == ["bad-cutoff"]
    assert error.exit_status == 2


def test_a_misspelt_column_names_the_nearest():
    error = refused(TRUTH, RANKS, columns={"user": "user", "item": "itm"})

    assert set(codes(error)) == {"missing-column"}
    assert error.exit_status == 3


def test_a_misspelt_path_names_the_nearest(tmp_path):
    TRUTH.write_parquet(tmp_path / "truth.parquet")
    error = refused(tmp_path / "trut.parquet", RANKS)

    assert codes(error) == ["path-not-found"]
    assert "truth.parquet" in error.hint


def test_a_folder_without_parquet_is_refused(tmp_path):
    (tmp_path / "notes.md").write_text("nothing")

    assert codes(refused(tmp_path, RANKS)) == ["no-files"]


@pytest.mark.parametrize("keep", [3, 20, 200])
def test_truncated_parquet_is_refused(tmp_path, keep):
    path = tmp_path / "truth.parquet"
    TRUTH.write_parquet(path)
    path.write_bytes(path.read_bytes()[:keep])

    assert codes(refused(path, RANKS)) == ["unreadable-file"]


@pytest.mark.parametrize("name", ["rank", "score"])
def test_text_where_numbers_belong_is_refused(name):
    rankings = RANKS.select("user", "item", pl.col("rank").cast(pl.String).alias(name))

    assert codes(refused(TRUTH, rankings)) == ["not-a-number"]


def test_what_is_no_table_is_refused():
    assert codes(refused(TRUTH, {"als": 17})) == ["unknown-format"]


@pytest.mark.parametrize("threads", [0, -1])
def test_fewer_threads_than_one_are_refused(threads):
    with pytest.raises(RequestError, match="threads is") as caught:
        evalkit.evaluate(truth_of((1, 1)), ranks_of((1, 1, 1)), metrics=["hit@1"], threads=threads)

    assert caught.value.code == "bad-threads"


@pytest.mark.parametrize("n_grades", [3, 256, 300])
def test_any_number_of_different_relevances_may_come_in_any_batch(monkeypatch, n_grades):
    grades = [1.0 + number / 64 for number in range(n_grades)]  # sums of them are exact
    rows = [
        (user, item, grades[(7 * user + item) % n_grades])
        for user in range(40)
        for item in range(9)
    ]
    rankings = ranks_of(*((user, item, item + 1) for user in range(40) for item in range(9)))
    expected = evaluate(truth_of(*rows), rankings, "CG@4", "nDCG@4").metrics
    by_hand = sum(gain for _, item, gain in rows if item < 4) / 40
    monkeypatch.setattr("evalkit.truth.BATCH_ROWS", 64)

    report = evaluate(truth_of(*rows), rankings, "CG@4", "nDCG@4")

    assert report.value("CG@4") == by_hand
    assert report.metrics.equals(expected)


def test_the_largest_score_there_is_ties_like_any_other():
    items = range(60)  # more hits than are compared one by one
    truth = truth_of(*((1, item) for item in items))
    scores = pl.DataFrame(
        {"user": [1] * 70, "item": list(range(70)), "score": [2**63 - 1] * 69 + [-(2**63)]}
    )

    report = evaluate(truth, scores, "precision@60", "AP@60", "hits@10")

    assert values(report, "hits@10") == {1: 10.0}  # the smaller item first
    assert values(report, "AP@60") == {1: 1.0}
    assert report.counts.models["als"].ties == 60


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"columns": {"usr": "user"}}, "unknown-key"),
        ({"drop_seen": True}, "missing-key"),
        ({"metrics": "RR"}, "wrong-type"),
    ],
)
def test_what_would_be_ignored_or_misread_is_refused(more, code):
    truth = pl.DataFrame({"user": [1], "item": [1]})
    ranked = truth.with_columns(rank=pl.lit(1))

    with pytest.raises(RequestError) as caught:
        evalkit.evaluate(truth, ranked, **{"metrics": ["RR"], **more})

    assert caught.value.code == code
