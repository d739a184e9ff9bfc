"""Real models compared on real logs: SciPy's tests on the same values of users."""

from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from split_logs import IDS, models_of

from evalkit.config import build_config
from evalkit.pipeline import run_config
from evalkit.report import Report

stats = pytest.importorskip("scipy.stats")

METRICS = ["nDCG@10", "recall@20", "RR", "hit@10"]


def compare(folder: Path, segments: dict[str, object], **statistics: object) -> Report:
    """All pairs of models of a data set on its test rows."""
    tree = {
        "truth": {"path": "interactions.parquet", "where": "split = 'test'", "columns": IDS},
        "rankings": [
            {
                "model": model,
                "path": f"rankings/{model}.parquet",
                "columns": {**IDS, "rank": "rank"},
            }
            for model in models_of(folder)
        ],
        "metrics": {"names": METRICS},
        "segments": segments,
        "statistics": {"pairs": "all", "correction": "bh", **statistics},
    }
    config = build_config(tree, name="comparisons", base=folder)
    return run_config(config, per_user=True)


def check_pairs(report: Report, groups: dict[tuple[str, str], pl.DataFrame]) -> int:
    """Hold every comparison to SciPy's paired t test; how many there were.

    Args:
        groups: the users of each segment.
    """
    values = {
        (model, metric): report.per_user(metric, model=model)
        for model in report.models
        for metric in METRICS
    }
    n_checked = 0
    for comparison in report.comparisons:
        one, other = (
            values[name, comparison.metric] for name in (comparison.baseline, comparison.candidate)
        )
        if comparison.segment is not None:
            if (comparison.segmentation, comparison.segment) not in groups:
                continue
            chosen = groups[comparison.segmentation, comparison.segment]
            one, other = (frame.join(chosen, on="user_id", how="semi") for frame in (one, other))
        old, new = one["value"].to_numpy(), other["value"].to_numpy()
        known = ~np.isnan(old)
        old, new = old[known], new[known]
        expected = stats.ttest_rel(new, old)
        assert comparison.n_users == old.size
        assert comparison.delta == pytest.approx((new - old).mean(), rel=1e-10, abs=1e-15)
        assert (comparison.wins, comparison.losses) == ((new > old).sum(), (new < old).sum())
        if comparison.test == "mcnemar":  # values are 0 or 1
            fewer, more = sorted((comparison.wins, comparison.losses))
            coins = stats.binom(fewer + more, 0.5)
            mid_p = 2 * coins.cdf(fewer - 1) + coins.pmf(fewer) if fewer < more else 1.0
            assert comparison.p_value == pytest.approx(mid_p, rel=1e-8, abs=1e-300)
        elif comparison.test == "t" and comparison.std_error:
            assert comparison.p_value == pytest.approx(expected.pvalue, rel=1e-8, abs=1e-300)
        elif comparison.std_error:
            assert comparison.p_value >= expected.pvalue * (1.0 - 1e-8)
        n_checked += 1
    return n_checked


def users_of(folder: Path, column: str) -> dict[tuple[str, str], pl.DataFrame]:
    users = pl.read_parquet(folder / "users.parquet").with_columns(
        pl.col("user_id").cast(pl.Int64), pl.col(column).cast(pl.String)
    )
    return {
        (column, name): users.filter(pl.col(column) == name).select("user_id")
        for name in users[column].unique()
    }


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("test", ["t", "auto"])
def test_five_models_of_ml_100k_are_compared_by_user_and_by_segment(ml_100k, test):
    users = str(ml_100k / "users.parquet")
    rules = {
        name: {"path": users, "user": "user_id", "by": name} for name in ("gender", "occupation")
    }
    rules["age"] = {"path": users, "user": "user_id", "by": "age", "quantiles": 4}
    rules["genre"] = {
        "path": str(ml_100k / "items.parquet"),
        "item": "item_id",
        "by": "genres",
    }

    report = compare(ml_100k, rules, test=test)

    pairs = list(combinations(models_of(ml_100k), 2))
    groups = {**users_of(ml_100k, "gender"), **users_of(ml_100k, "occupation")}
    n_checked = check_pairs(report, groups)
    assert len(pairs) == 10
    assert n_checked == len(pairs) * len(METRICS) * (1 + 2 + 21)
    ages = [each for each in report.estimates if each.segmentation == "age"]
    assert len({each.segment for each in ages}) == 4
    genres = {each.segment for each in report.estimates if each.segmentation == "genre"}
    assert {"Drama", "Comedy"} < genres
    assert [name for name, _, _ in report.standings[0].models][-1] == "popularity"


def test_six_models_of_gowalla_are_told_apart(gowalla):
    report = compare(gowalla, {"n": {"by": "n_relevant", "quantiles": 4}})

    n_checked = check_pairs(report, {})
    assert n_checked == 15 * len(METRICS)
    for standing in report.standings:
        values = [value for _, value, _ in standing.models]
        letters = {name: set(letters) for name, _, letters in standing.models}
        best = standing.models[0][0]
        assert values == sorted(values, reverse=True)
        assert not letters[best] & letters["popularity"]
