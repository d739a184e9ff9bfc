"""Few judges may all say the same by chance."""

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import GateRule
from evalkit.runs.gates import Baselines, judge


@pytest.mark.parametrize(("n_judges", "verdict"), [(4, "cannot tell"), (6, "better")])
def test_so_few_judges_give_no_verdict(n_judges: int, verdict: str) -> None:
    """Of four who all prefer one, so many would in one of eight draws by chance."""
    judges = np.repeat(np.arange(n_judges), 20)
    preferred = np.where(np.arange(judges.size) % 20 < 4 + judges % 2, "a", "b")
    table = pl.DataFrame({"judge": judges, "preferred": preferred})
    table = table.with_columns(first=pl.lit("a"), second=pl.lit("b"))
    report = evalkit.evaluate_preferences(table)
    rules = [GateRule(metric="win-rate", model="b", min=0.5)]
    rules += [GateRule(metric="win-rate", model="b", baseline="a", max_drop=0.1)]
    gates = judge(rules, report, Baselines({}), level=0.95)

    assert [each.verdict for each in report.comparisons] == [verdict] * 2
    assert all(each.p_value < 1e-3 for each in report.comparisons)
    assert {each.outcome for each in gates} == {"pass" if verdict == "better" else verdict}
