"""Equal scores: the best, the worst and the mean value over every order of them."""

import itertools
import math
from statistics import fmean

import numpy as np
import polars as pl
import pytest
from naive import NAIVE

import evalkit
from evalkit.errors import RequestError
from evalkit.metrics import parse_metrics, registry

CUTOFFS = (1, 2, 3, 5, None)
KNOWN = [
    "hit",
    "hits",
    "precision",
    "precision(over='length')",
    "recall",
    "recall(over='min_k')",
    "F1",
    "F2",
    "RR",
    "AP(over='relevant')",
    "AP",
    "AP(over='min_length')",
    "DCG",
    "DCG(gain='exp2', discount='jarvelin')",
    "nDCG",
    "nDCG(gain='binary')",
    "nDCG(gain='exp2', log_base=3)",
    "nDCG(idcg='full_k')",
    "nDCG(idcg='shown')",
]
UNKNOWN = [
    "RBP",
    "first_hit_rank",
    "R-precision",
    "CG",
    "AP(over='hits')",
    "AP(terms='every_rank')",
]

# a user's rows by score, from the best on, and the relevance of each; what the list lacks
USERS = [
    ([[0, 2]], [1]),
    ([[0, 0, 1], [3]], []),
    ([[1], [0, 3, 0, 2], [0, 1]], [2]),
    ([[0, 0, 0], [0, 1]], [1, 1]),
    ([[2, 1, 0, 0, 0]], [3, 3]),
    ([[1, 1], [2, 2], [0, 0]], []),
    ([[0], [0, 0, 0, 5], [1]], []),
    ([[0, 0, 0, 0]], [1]),
]


def tables():
    truth, rankings = [], []
    for user, (ties, missed) in enumerate(USERS):
        rows = [(grade, -place) for place, tie in enumerate(ties) for grade in tie]
        for number, (grade, score) in enumerate(rows):
            rankings.append((user, number, float(score)))
            if grade:
                truth.append((user, number, float(grade)))
        truth += [(user, 100 + number, float(grade)) for number, grade in enumerate(missed)]
    return (
        pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        pl.DataFrame(rankings, schema=["user", "item", "score"], orient="row"),
    )


def orders(ties):
    """The relevance at each rank, for every order of equal scores."""
    for chosen in itertools.product(*(itertools.permutations(tie) for tie in ties)):
        yield [float(grade) for tie in chosen for grade in tie]


def by_brute_force(name, cutoff):
    request = parse_metrics([name])[0]
    for ties, missed in USERS:
        relevant = [float(grade) for tie in ties for grade in tie if grade] + [
            float(grade) for grade in missed
        ]
        yield [
            NAIVE[request.metric.name](ranked, relevant, cutoff, **dict(request.parameters))
            for ranked in orders(ties)
        ]


@pytest.mark.some_cases(19)
@pytest.mark.parametrize(("ties", "of"), [("expected", fmean), ("best", max), ("worst", min)])
@pytest.mark.parametrize("name", KNOWN)
def test_bounds_and_mean_are_those_of_all_orders(name, ties, of):
    truth, rankings = tables()
    labels = {k: name if k is None else f"{name}@{k}" for k in CUTOFFS}

    report = evalkit.evaluate(
        truth,
        {"model": rankings},
        metrics=list(labels.values()),
        policies={"ties": ties},
        per_user=True,
    )

    for cutoff, label in labels.items():
        expected = [of(values) for values in by_brute_force(name, cutoff)]
        values = report.per_user(label)["value"].to_list()
        assert values == pytest.approx(expected, abs=1e-12), cutoff
        assert report.value(label) == pytest.approx(fmean(expected), abs=1e-12)


@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_metrics_without_a_closed_form_are_refused_by_name(name, ties):
    truth, rankings = tables()

    with pytest.raises(RequestError) as caught:
        evalkit.evaluate(truth, rankings, metrics=[f"{name}@3"], policies={"ties": ties})

    assert caught.value.code == "no-tie-bounds"
    assert parse_metrics([name])[0].metric.name in str(caught.value)


def test_a_metric_may_have_its_own_rule_beside_bounds():
    truth, rankings = tables()

    report = evalkit.evaluate(
        truth, rankings, metrics=["RBP(ties='item')@3", "RR@3"], policies={"ties": "expected"}
    )

    assert report.labels == ("RBP(ties='item')@3", "RR@3")


def test_negative_gains_stand_last_in_the_best_order_and_first_in_the_worst():
    truth = pl.DataFrame({"user": [1, 1], "item": [1, 2], "relevance": [1.0, -1.0]})
    rankings = pl.DataFrame({"user": [1, 1, 1], "item": [1, 2, 3], "score": [0.5, 0.5, 0.5]})
    second, third = 1 / math.log2(3), 1 / math.log2(4)

    found = {
        ties: evalkit.evaluate(
            truth,
            rankings,
            metrics=["DCG"],
            policies={"ties": ties, "negative_relevance": "subtract"},
        ).value("DCG")
        for ties in ("best", "worst", "expected")
    }

    assert found["best"] == pytest.approx(1 - third)
    assert found["worst"] == pytest.approx(-1 + third)
    assert found["expected"] == pytest.approx(0.0, abs=1e-15)
    assert second < 1


@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
def test_ranks_order_and_scores_say_which_rows_tie(ties):
    truth, rankings = tables()
    ranked = rankings.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))

    by_score = evalkit.evaluate(truth, rankings, metrics=["nDCG@3"], policies={"ties": ties})
    by_rank = evalkit.evaluate(truth, ranked, metrics=["nDCG@3"], policies={"ties": ties})

    assert by_rank.value("nDCG@3") == by_score.value("nDCG@3")


def test_a_rule_for_equal_scores_needs_scores():
    truth, rankings = tables()
    ranked = rankings.select("user", "item", rank=pl.int_range(1, pl.len() + 1).over("user"))

    with pytest.raises(RequestError) as caught:
        evalkit.evaluate(truth, ranked, metrics=["nDCG@3"], policies={"ties": "expected"})
    by_profile = evalkit.evaluate(truth, ranked, metrics=["nDCG@3"], profile="sklearn")

    assert caught.value.code == "policy-without-scores"
    assert "policy-without-scores" in [each.code for each in by_profile.warnings]


def test_a_warning_tells_how_far_ties_move_a_number():
    truth, rankings = tables()

    policies = {"ties": "expected", "tie_share": 0.01}
    report = evalkit.evaluate(truth, rankings, metrics=["RR", "hits"], policies=policies)

    (warning,) = [each for each in report.warnings if each.code == "ties-move-number"]
    worst = evalkit.evaluate(truth, rankings, metrics=["RR"], policies={"ties": "worst"})
    assert "move RR" in warning.message  # every order shows as many hits
    assert f"from {worst.value('RR'):.6f} to" in warning.message
    assert "more than 1.0% of it" in warning.message


def test_long_ties_are_summed_up_in_closed_form():
    # 50,000 rows of one score, 10 of them relevant
    n, m = 50_000, 10
    truth = pl.DataFrame({"user": [1] * m, "item": list(range(m))})
    rankings = pl.DataFrame({"user": [1] * n, "item": list(range(n)), "score": [1.0] * n})

    report = evalkit.evaluate(
        truth, rankings, metrics=["precision@100", "hit@100"], policies={"ties": "expected"}
    )

    assert report.value("precision@100") == pytest.approx(m / n)
    none = np.prod([(n - 100 - hit) / (n - hit) for hit in range(m)])
    assert report.value("hit@100") == pytest.approx(1 - none)


def test_every_tied_kernel_of_rows_without_ties_is_the_plain_one():
    truth, rankings = tables()
    apart = rankings.with_columns(score=-pl.int_range(pl.len()).over("user").cast(pl.Float64))
    names = [name for name in KNOWN if registry()]

    plain = evalkit.evaluate(truth, apart, metrics=names)
    tied = evalkit.evaluate(truth, apart, metrics=names, policies={"ties": "expected"})

    for name in names:
        assert tied.value(name) == pytest.approx(plain.value(name), rel=1e-14), name
