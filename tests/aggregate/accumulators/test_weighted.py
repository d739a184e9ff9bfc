"""Differences over clusters and with weights are shares of what the same users have."""

import numpy as np
import polars as pl
import pytest

from evalkit.config import build_config
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import open_partials

N_USERS = 80


@pytest.fixture
def tree(tmp_path):
    """Two models that leave out users of their own; each user is a cluster of one."""
    rng = np.random.default_rng(3)
    users = np.arange(N_USERS)
    truth = {"user": users, "item": rng.integers(0, 8, N_USERS), "shop": users}
    truth |= {"part": users % 2, "orders": 1.0 + users % 3}
    pl.DataFrame(truth).write_parquet(tmp_path / "truth.parquet")
    for model, first in (("old", 0), ("new", 15)):
        kept = users[first : first + 60]
        items = np.concatenate([rng.permutation(8)[:5] for _ in kept])
        rows = {"user": np.repeat(kept, 5), "item": items, "rank": np.tile(np.arange(1, 6), 60)}
        pl.DataFrame(rows).write_parquet(tmp_path / f"{model}.parquet")
    return {
        "truth": {"path": str(tmp_path / "truth.parquet")},
        "rankings": [
            {"model": model, "path": str(tmp_path / f"{model}.parquet")} for model in ("old", "new")
        ],
        "metrics": {"names": ["first_hit_rank", "nDCG@5"]},
        "segments": {"part": {"by": "part"}, "min_users": 1},
        "policies": {"missing_ranking": "skip"},
    }


def pairs_of(tree, **statistics):
    chosen = {"baseline": "old", "test": "t", **statistics}
    return run_config(build_config({**tree, "statistics": chosen}, name="job")).comparisons


def test_clusters_of_one_user_give_the_shares_that_users_give(tree):
    plain, clustered = pairs_of(tree), pairs_of(tree, cluster="shop", skewness=False)

    for one, other in zip(plain, clustered, strict=True):
        assert (one.metric, one.segment, one.n_users) == (
            other.metric,
            other.segment,
            other.n_users,
        )
        for name in ("relative", "relative_low", "relative_high"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9, nan_ok=True)


ERRORS = [{"weight": {"by": "orders"}}, {"two_way": "item"}]


@pytest.mark.parametrize("statistics", ERRORS)
def test_a_difference_is_a_share_of_the_mean_of_the_same_users(tree, statistics):
    config = {**tree, "metrics": {"names": ["recall@3"]}}
    config["statistics"] = {"baseline": "old", **statistics}
    report = run_config(build_config(config, name="job"), per_user=True)
    metric = "recall@3"
    kept = [report.per_user_values.read(model, [metric]) for model in ("old", "new")]
    old, new = (each[metric].to_numpy() for each in kept)
    orders = 1.0 + kept[0]["user"].to_numpy() % 3 * ("weight" in statistics)
    weights = np.where(np.isnan(new - old), 0.0, orders)
    before, after = (np.nansum(each * weights) / weights.sum() for each in (old, new))

    (pair,) = (each for each in report.comparisons if (each.metric, each.segment) == (metric, None))

    assert pair.relative == pytest.approx(after / before - 1.0, rel=1e-12)


@pytest.mark.parametrize("errors", ERRORS)
def test_shares_of_which_one_alone_leaves_users_out_merge(tree, tmp_path, errors):
    new = pl.read_parquet(tmp_path / "new.parquet")
    old = pl.read_parquet(tmp_path / "old.parquet")
    pl.concat([old, new.filter(pl.col("user") == 79)]).write_parquet(tmp_path / "old.parquet")
    pl.concat([new, old.filter(pl.col("user") < 15)]).write_parquet(tmp_path / "new.parquet")
    tree |= {"metrics": {"names": ["recall@3"]}, "statistics": {"baseline": "old", **errors}}
    config = build_config(tree, name="job")
    paths = [tmp_path / f"{n}.part" for n in range(1, 8)]
    for n, path in enumerate(paths, 1):
        measure_partial(config, (n, 7)).write(path)

    merged = conclude_partials(open_partials(paths))

    assert list(merged.comparisons) == list(run_config(config).comparisons)
