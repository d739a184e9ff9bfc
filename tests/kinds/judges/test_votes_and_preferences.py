"""One rating of several, and who is preferred: by hand, and against crowd-kit and choix."""

import math

import numpy as np
import pytest
from records import FOLDER, codes, fixture, records
from scipy.optimize import minimize

from evalkit.statistics import preferences, votes

needs_records = pytest.mark.skipif(not FOLDER.is_dir(), reason="EVALKIT_TEST_DATA is not set")


@pytest.mark.parametrize(
    ("ties", "expected"),
    [("lower", [0, 0, 2]), ("higher", [1, 0, 2]), ("undefined", [math.nan, 0, 2])],
)
def test_ties_of_votes_follow_their_rule(ties: str, expected: list[float]) -> None:
    ratings, levels = codes([[0, 0, 2], [1, 0, 2], [None, 1, None]])

    found = votes.majority(ratings, levels, ties=ties)

    assert np.array_equal(found.values, expected, equal_nan=True)
    assert found.tied.tolist() == [True, False, False]
    assert found.agreement == pytest.approx([1 / 2, 2 / 3, 1])


def test_a_unit_that_nobody_rated_has_no_value() -> None:
    ratings, levels = codes([[0, None], [1, None]])
    for found in (
        votes.majority(ratings, levels),
        votes.mean_rating(ratings, levels),
        votes.median_rating(ratings, levels),
        votes.likeliest(votes.dawid_skene(ratings, 2), levels),
    ):
        assert math.isnan(found.values[1])
        assert math.isnan(found.agreement[1])


@pytest.mark.parametrize(
    ("rated", "lower", "higher"),
    [([0, 2, 3], 2, 2), ([0, 1, 2, 3], 1, 2), ([1, 1, 3, 3], 1, 3), ([0, 2], 0, 2)],
)
def test_the_middle_of_an_even_number_has_two_sides(
    rated: list[int], lower: int, higher: int
) -> None:
    ratings, levels = codes([[each] for each in rated], np.arange(4.0))

    assert votes.median_rating(ratings, levels).values[0] == lower
    assert votes.median_rating(ratings, levels, ties="higher").values[0] == higher
    assert votes.mean_rating(ratings, levels).values[0] == pytest.approx(np.mean(rated))


def test_dawid_skene_finds_the_judges_error_rates() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 1500)
    right = np.array([0.95, 0.8, 0.6])
    told = np.where(rng.random((1500, 3)) < right, truth[:, None], 1 - truth[:, None])

    found = votes.dawid_skene(told, 2)

    assert found.settled
    assert found.errors[:, 0, 0] == pytest.approx(right, abs=0.04)
    assert found.errors.sum(axis=2) == pytest.approx(np.ones((3, 2)))


@needs_records
def test_crowd_kit_gives_the_same_majorities_and_posteriors() -> None:
    checked = 0
    for record in records("crowd-kit"):
        if record["metric"] not in ("majority", "dawid-skene"):
            continue
        ratings, levels = codes(fixture(record["fixture"])["ratings"])
        printed, at = record["values"], np.array(record["values"]["tasks"])
        if record["metric"] == "majority":
            found = votes.majority(ratings, levels)
        else:
            estimate = votes.dawid_skene(ratings, len(levels))
            if not estimate.settled:
                continue  # the likelihood has no single top; the report warns of it
            found = votes.likeliest(estimate, levels)
            assert found.agreement[at] == pytest.approx(printed["largest_probability"], abs=1e-4)
        assert found.values[at].tolist() == printed["label"], record["fixture"]
        checked += 1
    assert checked >= 14


def duels(rows: list[list[str]], models: list[str]):  # type: ignore[no-untyped-def]
    first = np.array([models.index(winner) for winner, _ in rows])
    second = np.array([models.index(loser) for _, loser in rows])
    return first, second, np.ones(len(rows))


def test_strengths_of_two_models_are_the_logit_of_their_duels() -> None:
    first, second, outcomes = duels([["a", "b"]] * 3 + [["b", "a"]], ["a", "b"])

    found = preferences.bradley_terry(first, second, outcomes, np.arange(4), n_models=2)

    assert found.values[0] - found.values[1] == pytest.approx(math.log(3))
    # 1 / (n p q) is the variance of a logit
    difference = found.model_covariance[0, 0] + found.model_covariance[1, 1]
    difference -= 2 * found.model_covariance[0, 1]
    assert difference == pytest.approx(1 / (4 * 0.75 * 0.25))


def test_ties_of_davidson_by_hand_and_by_search() -> None:
    # two models, three outcomes: the strengths lie log(wins / wins) apart, whatever is tied
    outcomes = np.array([1.0] * 6 + [0.0] * 2 + [0.5] * 4)
    first, second = np.zeros(12, np.int64), np.ones(12, np.int64)
    found = preferences.bradley_terry(
        first, second, outcomes, np.arange(12), n_models=2, ties="davidson"
    )
    assert found.values[0] - found.values[1] == pytest.approx(math.log(3), rel=1e-12)
    tied = preferences.bradley_terry(
        first, second, np.full(12, 0.5), np.arange(12), n_models=2, ties="davidson"
    )
    assert np.isnan(tied.values).all()

    rng = np.random.default_rng(4)
    first = rng.integers(0, 4, 200)
    second = (first + rng.integers(1, 4, 200)) % 4
    outcomes = rng.choice([0.0, 0.5, 1.0], 200, p=[0.2, 0.3, 0.5])

    def loss(values: np.ndarray) -> float:  # type: ignore[type-arg]
        one, other, log_nu = values[first], values[second], values[4]
        logits = np.stack([other, log_nu + (one + other) / 2, one])
        log_sum = np.log(np.exp(logits).sum(axis=0))
        chosen = logits[(2 * outcomes).astype(int), np.arange(200)]
        return float((log_sum - chosen).sum() + values[:4].sum() ** 2)

    best = minimize(loss, np.zeros(5), tol=1e-10).x[:4]
    found = preferences.bradley_terry(
        first, second, outcomes, np.arange(200), n_models=4, ties="davidson"
    )
    assert found.values == pytest.approx(best, abs=1e-4)


def test_an_unbeaten_model_and_groups_that_never_met_have_no_strengths() -> None:
    unbeaten = duels([["a", "b"], ["a", "c"], ["b", "c"], ["c", "b"]], ["a", "b", "c"])
    apart = duels([["a", "b"], ["b", "a"], ["c", "d"], ["d", "c"]], ["a", "b", "c", "d"])

    assert preferences.ladders(*unbeaten, n_models=3) == [[0], [1, 2]]
    assert preferences.groups_that_met(*unbeaten[:2], n_models=3) == [[0, 1, 2]]
    assert preferences.groups_that_met(*apart[:2], n_models=4) == [[0, 1], [2, 3]]
    found = preferences.bradley_terry(*unbeaten, np.arange(4), n_models=3)
    assert np.isnan(found.values).all()


def test_a_win_rate_counts_ties_as_half_and_judges_as_clusters() -> None:
    first, second = np.zeros(6, np.int64), np.ones(6, np.int64)
    outcomes = np.array([1.0, 1, 0.5, 0, 1, 0.5])
    judges = np.array([0, 0, 0, 1, 1, 2])

    found = preferences.win_rates(first, second, outcomes, judges, n_models=2)

    assert found.values == pytest.approx([4 / 6, 2 / 6])
    without = np.array([1.5 / 3, 3 / 4, 3.5 / 5])
    expected = math.sqrt(2 / 3 * ((without - 4 / 6) ** 2).sum())
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx([expected, expected])


@needs_records
def test_choix_gives_the_same_strengths() -> None:
    data = fixture("duels")
    first, second, outcomes = duels(data["duels"], data["models"])
    found = preferences.bradley_terry(
        first, second, outcomes, np.arange(len(first)), n_models=len(data["models"])
    )
    for record in records("choix"):
        if record["fixture"] == "duels" and record["variant"] in ("mm_pairwise", "opt_pairwise"):
            assert found.values == pytest.approx(record["values"]["strength"], abs=2e-5)
