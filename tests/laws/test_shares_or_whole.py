"""Users measured in shares, merged in any order and tree, say what one run says of all of them."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import polars as pl
import pytest
from campaigns import examples
from passes import first_difference, outcome_of

from evalkit.config import Config, build_config
from evalkit.errors import EvalkitError
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import Partial, open_partials
from evalkit.planning.tables import Given

METRICS = ["nDCG@5", "recall@10", "RR", "AP"]
UNBOUNDED = ["hits@3", "DCG@5(gain='exp2')"]


def pick(rng: np.random.Generator, *choices):
    return choices[int(rng.integers(len(choices)))]


def tables_of(rng: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Truth, two models, a training log, users and items; one user may have most rows."""
    n_users, n_items = int(rng.integers(1, 80)), 30
    users, items = np.arange(n_users), np.arange(n_items)
    pairs = pl.DataFrame({"user": users}).join(pl.DataFrame({"item": items}), how="cross")
    if rng.random() < 0.3:
        pairs = pairs.filter((pl.col("user") == 0) | (pl.col("item") < 4))

    def some(share: float, first: int = 0) -> pl.DataFrame:
        kept = pairs.filter(pl.Series(rng.random(pairs.height) < share))
        return kept.with_columns(user=pl.col("user") + first)[rng.permutation(kept.height)]

    found = {
        "truth": some(0.2).with_columns(relevance=(pl.int_range(pl.len()) % 4).cast(pl.Float64))
    }
    for name, first in (("als", 0), ("bpr", 3)):
        ranked = some(0.4, first).with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
        found[name] = ranked.with_columns(score=-(pl.col("rank") // 2).cast(pl.Float64))
    if rng.random() < 0.3:
        nobody = pl.when(pl.int_range(pl.len()) % 5 == 0).then(None).otherwise("user")
        found["als"] = found["als"].with_columns(user=nobody)
        found["truth"] = found["truth"].with_columns(user=nobody)
    found["train"] = some(0.1)
    found["people"] = pl.DataFrame(
        {
            "user": users,
            "country": [f"c{each}" for each in rng.integers(0, pick(rng, 2, 5, 60), n_users)],
            "age": rng.integers(10, 80, n_users),
            "weight": rng.random(n_users),
        }
    )
    genres = [f"g{each}" for each in rng.integers(0, 6, n_items)]
    found["items"] = pl.DataFrame({"item": items, "genre": genres})
    clusters = pl.col("user") % pick(rng, 3, 20)
    found["truth"] = found["truth"].with_columns(shop=clusters)
    return found


def asked(rng: np.random.Generator) -> tuple[Config, Given]:
    """Random statistics, segments and policies over random tables."""
    tables = tables_of(rng)
    if rng.random() < 0.4:
        texts = [pl.col(name).cast(pl.String) for name in ("user", "item")]
        tables = {
            name: each.with_columns(id for id in texts if id.meta.output_name() in each.columns)
            for name, each in tables.items()
        }
    columns = pick(rng, {"rank": "rank"}, {"score": "score"}, {"rank": "rank", "score": "score"})
    named = {"user": "user", "item": "item", **columns}
    if rng.random() < 0.4:
        both = [tables[name].with_columns(model=pl.lit(name)) for name in ("bpr", "als")]
        rankings = [pl.concat(both)]
        listed = [{"path": ["memory"], "columns": {**named, "model": "model"}}]
    else:
        rankings = [tables["bpr"], tables["als"]]
        listed = [{"path": ["memory"], "columns": named, "model": m} for m in ("bpr", "als")]
    people = {"path": ["memory"], "user": "user"}
    segments: dict[str, object] = {"min_users": int(rng.integers(1, 8))}
    if rng.random() < 0.7:
        segments |= {
            "activity": {"by": "n_relevant", "quantiles": 3},
            "country": {**people, "by": "country"},
            "genre": {"path": ["memory"], "item": "item", "by": "genre"},
            "age": {**people, "by": "age", "quantiles": 4},
            "cross": pick(rng, [], [["country", "age"]]),
        }
    statistics = {
        **pick(rng, {}, {"baseline": "als"}, {"pairs": "all"}, {"baseline": "nobody"}),
        **pick(rng, {}, {"method": "bootstrap", "replicates": 100}),
        **pick(rng, {}, {"curves": True}, {"distributions": True}),
        **pick(rng, {}, {}, {"cluster": "shop"}, {"weight": {**people, "by": "weight"}}),
    }
    metrics = METRICS + pick(rng, [], UNBOUNDED)
    if rng.random() < 0.1:
        statistics, metrics = {"two_way": "item", "pairs": "all"}, ["recall@5", *UNBOUNDED]
        segments.pop("genre", None)
    if "baseline" in statistics or "pairs" in statistics:
        test = pick(rng, "t", "t", "wilcoxon", "permutation", "bootstrap")
        statistics |= {} if "cluster" in statistics else {"test": test, "replicates": 100}
    tree = {
        "truth": {"path": ["memory"], "columns": {**named, "relevance": "relevance"}},
        "rankings": listed,
        "metrics": {"names": metrics},
        "policies": {
            "duplicates": pick(rng, "error", "best", "count"),
            "bad_ranks": pick(rng, "error", "keep", "keep"),
            "null_ids": pick(rng, "error", "drop", "drop"),
            "unknown_users": pick(rng, "skip", "skip", "count", "error"),
            "no_relevant": pick(rng, "skip", "zero"),
            "missing_ranking": pick(rng, "zero", "skip"),
            "beyond_depth": pick(rng, "warn", "warn", "error"),
            "empty_input": "warn",
        },
        "segments": segments,
        "statistics": statistics,
    }
    for key in ("rank", "score"):
        tree["truth"]["columns"].pop(key, None)
    if rng.random() < 0.5:
        ids = {"user": "user", "item": "item"}
        tree["train"] = {"path": ["memory"], "drop_seen": pick(rng, True, False), "columns": ids}
    given = Given(
        tables["truth"],
        rankings,
        tables["train"] if "train" in tree else None,
        {"country": tables["people"], "age": tables["people"], "genre": tables["items"]},
        tables["people"] if "weight" in statistics else None,
    )
    return build_config(tree, name="law"), given


def in_shares(
    rng: np.random.Generator, n_shares: int, measure: Callable[[tuple[int, int]], Partial]
) -> Partial:
    """The partials of all shares, merged in a random tree."""
    partials = [measure((number, n_shares)) for number in range(1, n_shares + 1)]
    while len(partials) > 1:
        one = partials.pop(int(rng.integers(len(partials))))
        partials[int(rng.integers(len(partials)))].merge(one)
    return partials[0]


def any_asked(rng: np.random.Generator) -> tuple[Config, Given]:
    """What is asked, of what a config may ask together."""
    while True:
        with suppress(EvalkitError):
            return asked(rng)


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("seed", range(examples(6)))
@pytest.mark.parametrize("n_shares", [1, 3, 16])
def test_any_shares_in_any_order_say_what_one_run_says(seed, n_shares, tmp_path):
    rng = np.random.default_rng(seed)
    config, given = any_asked(rng)
    keeps = bool(rng.random() < 0.5)

    def measure(share: tuple[int, int]) -> Partial:
        partial = measure_partial(config, share, given=given, threads=1, per_user=keeps)
        if rng.random() < 0.5:
            return partial
        path = tmp_path / f"{share[0]}-{share[1]}"
        partial.write(path)
        return open_partials([path], allow_missing=True).merged(type(partial.body))

    one = outcome_of(
        lambda: run_config(config, given=given, threads=1, per_user=keeps, keep_parts=True)
    )
    many = outcome_of(
        lambda: conclude_partials(in_shares(rng, n_shares, measure), threads=1, per_user=keeps)
    )

    assert first_difference(one, many) == "", config.dump()


def test_a_share_has_the_same_bytes_whatever_the_threads(tmp_path):
    config, given = any_asked(np.random.default_rng(41))
    written = []
    for threads in (1, 2, 2):
        measure_partial(config, (2, 3), given=given, threads=threads).write(tmp_path / "part")
        written.append((tmp_path / "part").read_bytes())

    assert written[0] == written[1] == written[2]
