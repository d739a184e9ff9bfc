"""A small report with everything that is hard to show, for the tests of its renderings."""

import math

import pytest

from evalkit.report import Counts, Estimate, Input, Meta, ModelCounts, Report, TruthCounts, Warning_


def estimate(model: str, metric: str, value: float, **more: object) -> Estimate:
    name, _, cutoff = metric.partition("@")
    fields = {
        "name": name.partition("(")[0],
        "cutoff": int(cutoff) if cutoff else None,
        "parameters": {},
        "n_users": 90,
        "n_undefined": 10,
        "higher_is_better": name != "first_hit_rank",
    }
    return Estimate(model=model, metric=metric, value=value, **{**fields, **more})


def build(estimates: list[Estimate], **more: object) -> Report:
    models = dict.fromkeys(each.model for each in estimates)
    counts = ModelCounts(
        rows=5000,
        rows_used=4900,
        rows_dropped={"null_ids": 100, "bad_scores": 0},
        users=100,
        users_without_ranking=3,
        users_without_truth=0,
        duplicates=2,
        duplicates_searched="relevant",
        seen_in_train=None,
        bad_ranks=1,
        ties=0,
        depth=50,
    )
    fields = {
        "evalkit": "0.1.0",
        "run_id": "20260102-030405-678-abcdef",
        "run_key": "k",
        "name": "nightly",
        "profile": "evalkit",
        "inputs": (Input("truth", None, ("truth.parquet",), 1000, "f"),),
        "counts": Counts(
            TruthCounts(1000, 990, {"null_ids": 10}, 100, 10, 900),
            dict.fromkeys(models, counts),
        ),
        "meta": Meta("2026-01-02T03:04:05Z", 1.5, 2.5, 1000, 1e6, 2, {"truth": 0.5}, {"a": "1"}),
    }
    return Report(estimates=tuple(estimates), **{**fields, **more})


@pytest.fixture
def report() -> Report:
    return build(
        [
            estimate("als", "nDCG@10", 0.25),
            estimate("als", "recall@20", 0.5),
            estimate("als", "first_hit_rank", 3.5, n_users=60, n_undefined=40),
            estimate("popularity", "nDCG@10", 0.125),
            estimate("popularity", "recall@20", math.nan),
            estimate("popularity", "first_hit_rank", 7.25, n_users=50, n_undefined=50),
        ],
        warnings=(Warning_("cutoff-beyond-depth", "recall@20 needs 20 ranks", "als"),),
    )


@pytest.fixture
def make_report():
    return build


@pytest.fixture
def make_estimate():
    return estimate
