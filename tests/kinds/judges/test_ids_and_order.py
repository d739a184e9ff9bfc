"""Reports of judges are the same bytes in any order of rows, and whatever type ids have."""

import json

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError
from evalkit.statistics import agreement

N_JUDGES = 12
RATED = ("alpha", "AC(weights='quadratic')", "fleiss", "conger", "agreement", "ICC")
PREFERRED = (
    "win-rate", "bradley-terry", "bradley-terry(ties='drop')", "bradley-terry(ties='davidson')",
)  # fmt: skip


def draw_ratings(rng: np.random.Generator) -> pl.DataFrame:
    """Of 23 units by four judges, one in five missing; ids of one digit and of two."""
    true, place = rng.integers(0, 3, 23), np.arange(92)
    rated = np.where(rng.random(92) < 0.6, true[place // 4], rng.integers(0, 3, 92))
    table = pl.DataFrame(
        {
            "unit": place // 4 + 1, "judge": place % 4 + 9, "rating": rated,
            "time": rng.gamma(2.0, 5.0, 92), "part": (place // 4) % 2,
        }
    )  # fmt: skip
    return table.filter(pl.Series(rng.random(92) < 0.8))


def draw_preferences(rng: np.random.Generator) -> pl.DataFrame:
    """150 comparisons of four models by twelve judges, each with a taste of their own."""
    judge, first = rng.integers(0, N_JUDGES, 150), rng.integers(0, 4, 150)
    second = (first + rng.integers(1, 4, 150)) % 4
    own = rng.normal(0.0, 0.7, (N_JUDGES, 4))
    chance = 1.0 / (1.0 + np.exp(own[judge, second] - own[judge, first]))
    won = np.where(rng.random(150) < chance, "first", "second")
    won[rng.random(150) < 0.2] = "tie"
    return pl.DataFrame(
        {"judge": judge + 1, "first": first + 8, "second": second + 8, "preferred": won}
    )


def bytes_of(report: evalkit.Report) -> str:
    """A report without what tells runs apart, and the truth of the judges."""
    tree = json.loads(report.to_json())
    for name in ("meta", "run_id", "run_key", "inputs", "config"):
        tree.pop(name, None)
    truth = None if report.truth is None else report.truth.cast({"unit": pl.String}).rows()
    errors = None if report.judge_errors is None else report.judge_errors.rows()
    return json.dumps([tree, truth, errors])


def other_forms(table: pl.DataFrame, ids: list[str]) -> list[pl.DataFrame]:
    """The same rows in another order, and with ids of other types."""
    texts = table.with_columns(pl.col(ids).cast(pl.String))
    return [
        table.sample(fraction=1.0, shuffle=True, seed=1),
        texts.sample(fraction=1.0, shuffle=True, seed=2),
        texts.with_columns(pl.col(ids).cast(pl.Categorical)),
        table.with_columns(pl.col(ids).cast(pl.UInt8)),
    ]


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"judges": "others"},
        {"models": ["9"], "kind": "interval"},
        {"truth": {"method": "dawid-skene"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(3))
def test_ratings_have_no_order_and_no_type_of_ids(asked: dict[str, object], seed: int) -> None:
    table = draw_ratings(np.random.default_rng(seed))

    whole, *others = (
        bytes_of(
            evalkit.evaluate_judges(
                each, levels=[0, 1, 2], metrics=RATED, columns={"time": "time"},
                segments={"part": {"by": "part"}}, statistics={"replicates": 100}, **asked,
            )
        )
        for each in [table, *other_forms(table, ["unit", "judge"])]
    )  # fmt: skip

    assert [each == whole for each in others] == [True] * len(others)


@pytest.mark.parametrize("seed", range(6))
def test_preferences_have_no_order_no_type_of_ids_and_no_names_of_judges(seed: int) -> None:
    table = draw_preferences(rng := np.random.default_rng(seed))
    renamed = pl.col("judge").replace_strict(np.arange(N_JUDGES) + 1, rng.permutation(N_JUDGES))

    whole, *others = (
        bytes_of(evalkit.evaluate_preferences(each, metrics=PREFERRED))
        for each in [
            table,
            *other_forms(table, ["judge", "first", "second"]),
            table.with_columns(renamed),
        ]
    )

    assert [each == whole for each in others] == [True] * len(others)


@pytest.mark.parametrize("name", RATED)
def test_sums_over_units_are_rounded_once(name: str) -> None:
    """So that no other names of units, which sort them in another way, move a value."""
    rng = np.random.default_rng(3)
    table = draw_ratings(rng)
    names = {unit + 1: f"{key:x}" for unit, key in enumerate(rng.permutation(23).tolist())}
    renamed = table.with_columns(pl.col("unit").replace_strict(names))

    one, other = (
        evalkit.evaluate_judges(each, levels=[0, 1, 2], metrics=[name]) for each in (table, renamed)
    )

    assert one.value(name) == other.value(name)


def test_draws_that_equal_the_estimate_count_half() -> None:
    """Of eleven units a third of the pairs agree, of one all: sums of thirds round as they like."""
    codes = np.array([[0, 0, 1]] * 11 + [[1, 1, 1]])
    own = agreement.chance_corrected("agreement", np.arange(2.0))
    draws = agreement.resample(lambda _: own, codes, n_draws=1000, seed=1)
    counted = agreement.AgreementDraws(np.rint(36 * draws.values) / 36, draws.without)

    one = agreement.bca_interval(float(own.read(own.features(codes).sum(axis=0))), draws, level=0.9)
    other = agreement.bca_interval(14 / 36, counted, level=0.9)

    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-9)


def draw_lists(rng: np.random.Generator) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Two lists of six of 15 items for each of twelve users, with equal scores; half is judged."""
    lists = {
        model: pl.DataFrame(
            {
                "user": np.repeat(np.arange(12), 6) + 1,
                "item": np.concatenate([rng.permutation(15)[:6] for _ in range(12)]) + 1,
                "score": rng.integers(0, 4, 72) / 4,
            }
        )
        for model in ("old", "new")
    }
    shown = pl.concat([each.select("user", "item") for each in lists.values()]).unique()
    judged = shown.sort("user", "item")[::2]
    return judged.with_columns(relevance=pl.Series(rng.integers(0, 2, judged.height))), lists


@pytest.mark.parametrize(
    "metric", ["precision@4", pytest.param("nDCG@4", marks=pytest.mark.campaign)]
)
def test_plans_have_no_order_and_no_type_of_users(metric: str) -> None:
    truth, lists = draw_lists(np.random.default_rng(2))
    ranked = {
        model: each.sort("score", "item", descending=[True, False])
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
        .drop("score")
        .cast({"user": pl.String, "item": pl.String})
        for model, each in lists.items()
    }

    backwards = {model: each[::-1] for model, each in ranked.items()}
    numbers, texts = (
        evalkit.judge_plan(own, tables, metric=metric, n=9)
        for own, tables in (
            (truth, lists),
            (truth.cast({"user": pl.String, "item": pl.String})[::-1], backwards),
        )
    )

    assert numbers.frame.cast({"user": pl.String, "item": pl.String}).equals(texts.frame)
    assert numbers.bounds.equals(texts.bounds)


def test_a_plan_of_scores_that_are_none_is_refused() -> None:
    truth, lists = draw_lists(np.random.default_rng(1))
    bad = lists["old"].with_columns(score=pl.Series([float("nan"), *[0.5] * 71]))

    with pytest.raises(DataError, match="1 scores are null or NaN"):
        evalkit.judge_plan(truth, lists | {"old": bad}, metric="precision@4", n=9)
