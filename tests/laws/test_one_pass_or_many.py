"""One pass and several say the same: numbers, warnings, and what is wrong with the data."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from campaigns import examples
from passes import first_difference, in_passes

from evalkit.config import build_config
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given
from evalkit.report import Report

N_USERS, N_ITEMS = 60, 25
METRICS = ["nDCG@5", "recall@10", "RR", "AP", "hits"]

Tables = dict[str, pl.DataFrame]


def log(rng: np.random.Generator) -> Tables:
    """Truth, two models, a training log, users and items."""
    n_users = int(rng.integers(1, N_USERS))
    users, items = np.arange(n_users), np.arange(N_ITEMS)
    pairs = pl.DataFrame({"user": users}).join(pl.DataFrame({"item": items}), how="cross")
    truth = pairs.filter(pl.Series(rng.random(pairs.height) < 0.15)).with_columns(
        relevance=(pl.int_range(pl.len()) % 4).cast(pl.Float64)
    )
    found = {"truth": truth}
    for name, first in (("rankings", 0), ("others", 3)):
        chosen = pairs.with_columns(user=pl.col("user") + first).filter(
            pl.Series(rng.random(pairs.height) < 0.4)
        )
        shuffled = chosen[rng.permutation(chosen.height)]
        ranked = shuffled.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
        scored = ranked.with_columns(score=-(pl.col("rank") // 2).cast(pl.Float64))
        found[name] = scored if rng.random() < 0.5 else scored.sort("user", maintain_order=True)
    found["train"] = pairs.filter(pl.Series(rng.random(pairs.height) < 0.1))
    n_countries = int(rng.choice([2, 5, 300]))
    found["users"] = pl.DataFrame(
        {
            "user": users,
            "country": [f"c{each}" for each in rng.integers(0, n_countries, n_users)],
            "age": rng.integers(10, 80, n_users),
            "weight": rng.random(n_users),
        }
    ).filter(pl.Series(rng.random(n_users) < 0.9))
    found["items"] = pl.DataFrame(
        {"item": items, "genre": [f"g{each}" for each in rng.integers(0, 4, N_ITEMS)]}
    )
    return found


def some(rng: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
    return frame[np.sort(rng.choice(frame.height, min(frame.height, 40), replace=False))]


def nulled(rng, frame: pl.DataFrame, column: str, value: object = None) -> pl.DataFrame:
    bad = pl.Series(rng.random(frame.height) < 0.3)
    return frame.with_columns(pl.when(bad).then(value).otherwise(pl.col(column)).alias(column))


Fault = Callable[[np.random.Generator, Tables], dict[str, pl.DataFrame]]
FAULTS: dict[str, Fault] = {
    "nothing": lambda rng, t: {},
    "truth repeats": lambda rng, t: {"truth": pl.concat([t["truth"], some(rng, t["truth"])])},
    "truth without users": lambda rng, t: {"truth": nulled(rng, t["truth"], "user")},
    "truth below 0": lambda rng, t: {"truth": nulled(rng, t["truth"], "relevance", -1.0)},
    "truth that is NaN": lambda rng, t: {"truth": nulled(rng, t["truth"], "relevance", np.nan)},
    "truth that is null": lambda rng, t: {"truth": nulled(rng, t["truth"], "relevance")},
    "huge gains": lambda rng, t: {
        "truth": t["truth"].with_columns(
            relevance=pl.when(pl.col("user") % 7 == 0)
            .then(pl.lit(10.0) ** (140 + pl.col("user") % 30))
            .otherwise("relevance")
        )
    },
    "copies": lambda rng, t: {"rankings": pl.concat([t["rankings"], some(rng, t["rankings"])])},
    "gaps": lambda rng, t: {"others": nulled(rng, t["others"], "rank", 77)},
    "ranks below the first": lambda rng, t: {"rankings": nulled(rng, t["rankings"], "rank", -1)},
    "low ranks and gaps": lambda rng, t: {
        "rankings": t["rankings"].with_columns(
            rank=pl.when(pl.col("user") == 5).then(-1).otherwise(pl.col("rank") * 2)
        )
    },
    "bad scores": lambda rng, t: {"rankings": nulled(rng, t["rankings"], "score", np.nan)},
    "rows without items": lambda rng, t: {"rankings": nulled(rng, t["rankings"], "item")},
    "training without users": lambda rng, t: {"train": nulled(rng, t["train"], "user")},
    "two countries": lambda rng, t: {
        "users": pl.concat([t["users"], t["users"].with_columns(country=pl.lit("c0"))])
    },
    "two ages": lambda rng, t: {
        "users": pl.concat([t["users"], t["users"].with_columns(age=pl.col("age") + 1)])
    },
    "two of both": lambda rng, t: {
        "users": pl.concat(
            [
                t["users"],
                t["users"].with_columns(
                    country=pl.when(pl.col("user") % 9 == 4).then(pl.lit("z")).otherwise("country"),
                    age=pl.when(pl.col("user") % 9 == 7).then(1).otherwise("age"),
                ),
            ]
        )
    },
    "no weights": lambda rng, t: {"users": nulled(rng, t["users"], "weight", -1.0)},
    "two genres": lambda rng, t: {
        "items": pl.concat([t["items"], t["items"].with_columns(genre=pl.lit("g9"))])
    },
    "nobody in common": lambda rng, t: {
        "others": t["others"].with_columns(user=pl.col("user") + 999)
    },
    "no truth": lambda rng, t: {"truth": t["truth"].clear()},
    "no rankings": lambda rng, t: {"rankings": t["rankings"].clear()},
}


def cell(rng: np.random.Generator, *choices: object) -> object:
    return choices[int(rng.integers(len(choices)))]


def asked(rng: np.random.Generator, tables: Tables) -> tuple[Callable[[], Report], object]:
    """A run of random policies over the tables."""
    as_text = rng.random() < 0.3
    ids = [pl.col(name).cast(pl.String) for name in ("user", "item")]
    given = {
        name: each.with_columns(id for id in ids if id.meta.output_name() in each.columns)
        if as_text
        else each
        for name, each in tables.items()
    }
    mode = cell(rng, "rank", "score", "both", "order")
    columns = {"rank": ["rank"], "score": ["score"], "both": ["rank", "score"], "order": []}[mode]
    named = {"user": "user", "item": "item", **{name: name for name in columns}}
    together = rng.random() < 0.4
    if together:
        both = [given[name].with_columns(model=pl.lit(name)) for name in ("others", "rankings")]
        rankings = [pl.concat(both)]
        listed = [{"path": ["memory"], "columns": {**named, "model": "model"}}]
    else:
        rankings = [given["rankings"], given["others"]]
        listed = [{"path": ["memory"], "columns": named, "model": name} for name in ("a", "b")]
    segments: dict[str, object] = {"min_users": int(rng.integers(1, 8))}
    named_segments = {
        "activity": {"by": "n_relevant", "quantiles": 3},
        "country": {"path": ["memory"], "user": "user", "by": "country"},
        "age": {"path": ["memory"], "user": "user", "by": "age", "quantiles": 4},
        "genre": {"path": ["memory"], "item": "item", "by": "genre"},
    }
    if rng.random() < 0.7:
        segments |= named_segments
        if rng.random() < 0.5:
            segments["cross"] = [["country", "age"]]
    policies = {
        "truth_duplicates": cell(rng, "error", "max", "sum"),
        "duplicates": cell(rng, "error", "error", "best", "first", "count"),
        "bad_ranks": cell(rng, "error", "keep", "compress"),
        "bad_scores": cell(rng, "error", "last", "drop"),
        "null_ids": cell(rng, "error", "drop", "drop"),
        "unknown_users": cell(rng, "skip", "skip", "error", "count"),
        "no_relevant": cell(rng, "skip", "zero", "one"),
        "missing_ranking": cell(rng, "zero", "skip"),
        "negative_relevance": cell(rng, "error", "ignore", "subtract"),
        "empty_input": cell(rng, "error", "warn"),
        "no_common_user": cell(rng, "error", "warn"),
        "beyond_depth": "warn",
        "ties": cell(rng, "item", "input", "expected", "mean-rank") if mode == "score" else "item",
    }
    statistics = cell(
        rng,
        {},
        {"baseline": "rankings" if together else "a", "curves": True},
        {"pairs": "all", "distributions": True},
        {"baseline": "nobody" if together else "b"},
    )
    tree = {
        "truth": {
            "path": ["memory"],
            "columns": {"user": "user", "item": "item", "relevance": "relevance"},
        },
        "rankings": listed,
        "metrics": {"names": METRICS},
        "policies": policies,
        "segments": segments,
        "statistics": statistics,
    }
    if rng.random() < 0.5:
        tree["train"] = {
            "path": ["memory"],
            "drop_seen": bool(rng.random() < 0.5),
            "columns": {"user": "user", "item": "item"},
        }
    memory = Given(
        given["truth"],
        rankings,
        given["train"] if "train" in tree else None,
        {"country": given["users"], "age": given["users"], "genre": given["items"]},
    )
    config = build_config(tree, name="law")

    def run() -> Report:
        return run_config(config, given=memory, threads=1, per_user=True, keep_parts=True)

    return run, tree


@pytest.mark.some_cases(len(FAULTS) // 3)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", range(examples(2)))
def test_any_number_of_passes_says_the_same(fault, seed):
    rng = np.random.default_rng([seed, list(FAULTS).index(fault)])
    tables = log(rng)
    tables |= FAULTS[fault](rng, tables)
    if rng.random() < 0.3:
        tables |= FAULTS[str(rng.choice(list(FAULTS)))](rng, tables)
    run, tree = asked(rng, tables)

    one = in_passes(1, run)

    many = in_passes([2, 5][(list(FAULTS).index(fault) + seed) % 2], run)
    assert first_difference(one, many) == "", tree


def run_of(truth: pl.DataFrame, rankings: pl.DataFrame, users: pl.DataFrame | None = None):
    """A run of one model, by country where users are given."""
    ids = {"user": "user", "item": "item"}
    tree: dict[str, object] = {
        "truth": {"path": ["memory"], "columns": ids},
        "rankings": [{"path": ["memory"], "columns": {**ids, "rank": "rank"}, "model": "als"}],
        "metrics": {"names": ["recall@2"]},
        "policies": {"truth_duplicates": "error", "beyond_depth": "warn"},
    }
    if users is not None:
        country = {"path": ["memory"], "user": "user", "by": "country"}
        tree["segments"] = {"country": country, "min_users": 1}
    given = Given(truth, [rankings], segments={} if users is None else {"country": users})
    config = build_config(tree, name="law")
    return lambda: run_config(config, given=given, threads=1, keep_parts=True)


def one_item_each(n_users: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    truth = pl.DataFrame({"user": range(n_users), "item": [1] * n_users})
    return truth, truth.with_columns(rank=pl.lit(1))


@pytest.mark.parametrize(("n_labels", "n_parts"), [(200, 200), (300, 0)])
def test_parts_leave_out_what_has_too_many_segments_over_all_shares(n_labels, n_parts):
    truth, rankings = one_item_each(900)
    users = pl.DataFrame({"user": range(900), "country": [f"c{n % n_labels}" for n in range(900)]})
    run = run_of(truth, rankings, users)

    one = in_passes(1, run)

    assert sum("country" in row for row in one.beside) == n_parts
    assert in_passes(2, run) == in_passes(7, run) == one


def test_too_many_segments_are_counted_over_all_shares():
    n = 10_050
    truth, rankings = one_item_each(2 * n)
    users = pl.DataFrame({"user": range(2 * n), "country": [f"c{k % n}" for k in range(2 * n)]})
    run = run_of(truth, rankings, users)

    one = in_passes(1, run)

    assert "too-many-segments: 10,050 different values" in one.said
    assert in_passes(2, run) == in_passes(3, run) == one


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("truth", "duplicate-truth: 300 rows of the truth repeat a user's item at truth"),
        ("rankings", "bad-ranks: the ranks of 300 users have gaps or repeats at rankings"),
        ("users", "segment-conflict: 300 users have several values of 'country' at segments"),
    ],
)
def test_faults_of_all_shares_add_up_and_name_the_smallest_users(which, message):
    truth, rankings = one_item_each(300)
    users = pl.DataFrame({"user": range(300), "country": ["a"] * 300})
    if which == "truth":
        truth = pl.concat([truth, truth, truth[7:8]])
        message = message.replace("300 rows", "301 rows")
    elif which == "rankings":
        rankings = rankings.with_columns(rank=pl.lit(2))
    else:
        users = pl.concat([users, users.with_columns(country=pl.lit("b"))])
    run = run_of(truth, rankings, users)

    one = in_passes(1, run)

    assert one.status == 3
    assert message in one.said
    assert which == "users" or "user 0, user 1, user 2" in one.said
    assert in_passes(2, run) == in_passes(9, run) == one


def test_a_fault_of_an_early_step_hides_those_of_later_ones_whatever_its_share():
    truth, rankings = one_item_each(300)
    truth = pl.concat([truth, truth[299:]])  # one user, in one share
    run = run_of(truth, rankings.with_columns(rank=pl.lit(2)))

    one = in_passes(1, run)

    assert one.said.startswith("duplicate-truth: 1 rows")
    assert "bad-ranks" not in one.said
    assert [in_passes(n, run) for n in (2, 3, 8)] == [one, one, one]
