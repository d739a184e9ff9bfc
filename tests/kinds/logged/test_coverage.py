"""Limits hold the known value: rare support, heavy weights, clustered users; a short campaign."""

import runpy
from pathlib import Path

import pytest

BENCH = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "logged_coverage.py"))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("name", ["clustered", "heavy", "rare", "few"])
def test_limits_of_every_estimator_hold_what_is_true(name: str) -> None:
    """25 draws: 24 hold on average, and 19 or fewer once in 3,000; bias is within 4 errors of 0."""
    found = BENCH["measure"](BENCH["POPULATIONS"][name], 25)

    assert found.pop("effective")["least"] > 100
    found.pop("DM", None)  # as good as its model, whose error no limits hold
    assert set(found) == {each for each in BENCH["METRICS"] if each != "DM"}
    for metric, numbers in found.items():
        assert numbers["covered"] >= 20 / 25, metric
        assert abs(numbers["bias_in_errors"]) < 4 / 5, metric
        assert numbers["false_verdicts"] <= 5 / 25, metric
