"""p-values of the demo's models, all pairs: those that `ranx.compare` printed on the same rows."""

import numpy as np
import pytest
from scipy import stats

from evalkit.cli import demo_files
from evalkit.config import build_config
from evalkit.pipeline import run_config
from evalkit.report import Report

DEMO = demo_files.FOLDER
MODELS = ("popularity", "item-knn", "als", "ease")
OURS = {"ndcg@10": "nDCG@10", "mrr": "RR", "recall@10": "recall@10"}

# ranx 0.3.21, compare(..., stat_test="student"); qrels: ratings of four stars and more, gain 1
STUDENT = {
    ("popularity", "item-knn"): (9.1316486386e-06, 7.2568888592e-05, 7.3690987877e-05),
    ("popularity", "als"): (1.657745282977085e-10, 2.492179763268949e-07, 2.773113755743925e-09),
    ("popularity", "ease"): (1.106466099349469e-15, 9.918482612679574e-14, 1.830123543699323e-11),
    ("item-knn", "als"): (0.08408986722665508, 0.35681447234510605, 0.0602413413153804),
    ("item-knn", "ease"): (4.369273173465478e-06, 2.886259888472249e-05, 0.0032129123941747506),
    ("als", "ease"): (0.0008020248314693639, 0.00015972932173405143, 0.3231908367491155),
}  # fmt: skip

# the same with stat_test="tukey"
TUKEY = {
    ("popularity", "item-knn"): (0.0029435379720, 0.0111100870166, 0.0034298958912),
    ("popularity", "als"): (3.481588749087994e-05, 0.0011536425932017202, 1.8040340836300572e-05),
    ("item-knn", "als"): (0.7094070204881315, 0.9194354010589023, 0.5960116863227979),
    ("item-knn", "ease"): (0.059718659046934186, 0.04287610925941843, 0.3051193440567881),
    ("als", "ease"): (0.4774131142489543, 0.1922650331806428, 0.9618577190169436),
}  # fmt: skip


def compare(*, per_user: bool = False, **statistics) -> Report:
    config = build_config(
        {
            "truth": {
                "path": str(DEMO / "test.parquet"),
                "columns": {"user": "user", "item": "item"},
                "where": "rating >= 4",
            },
            "rankings": [
                {
                    "model": model,
                    "path": str(DEMO / "rankings" / f"{model}.parquet"),
                    "columns": {"user": "user", "item": "item", "rank": "rank"},
                }
                for model in MODELS
            ],
            "metrics": {"names": list(OURS.values())},
            "statistics": {"pairs": "all", **statistics},
        },
        name="demo",
    )
    return run_config(config, per_user=per_user)


def p_values(report: Report):
    return {
        (each.baseline, each.candidate, each.metric): each.p_value for each in report.comparisons
    }


@pytest.fixture(scope="module")
def plain() -> Report:
    return compare(per_user=True, skewness=False)


def test_paired_t_tests_are_those_of_ranx(plain):
    found = p_values(plain)

    for pair, expected in STUDENT.items():
        ours = [found[*pair, metric] for metric in OURS.values()]
        assert ours == pytest.approx(expected, rel=1e-8)


def test_sign_flips_say_what_the_t_tests_of_ranx_say():
    found = p_values(compare(test="permutation", replicates=4000))

    for pair, expected in STUDENT.items():
        for metric, p in zip(OURS.values(), expected, strict=True):
            error = max(1 / 4001, 4 * np.sqrt(p * (1 - p) / 4000))
            assert found[*pair, metric] == pytest.approx(p, abs=error + 0.1 * p)


def test_tukey_in_ranx_takes_the_models_for_strangers(plain):
    # ranx gives the models' scores to a test of independent groups, as if each had its own users.
    # evalkit takes the users' effects out first, which finds more; here are both, on one layout
    values = [plain.per_user("nDCG@10", model=model)["value"].to_numpy() for model in MODELS]
    strangers = stats.tukey_hsd(*values).pvalue
    found = p_values(compare(correction="tukey"))

    for (one, other), expected in TUKEY.items():
        place = MODELS.index(one), MODELS.index(other)
        assert strangers[place] == pytest.approx(expected[0], rel=1e-8)
        assert found[one, other, "nDCG@10"] < expected[0]
