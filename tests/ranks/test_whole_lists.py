"""Lists that are looked at whole: batch by batch or held, the report is the same."""

import numpy as np
import polars as pl
import pytest
from logs import body, run

from evalkit.ranks import _scan, _whole_lists

FORMS = {
    "rank": ["rank"],
    "score": ["score"],
    "order": [],
    "lists": [],
    "lists with scores": ["score"],
}
TIES = {"best": "item-text", "first": "numba", "last": "item", "multiply": "input"}


def make_logs(form, *, is_text):
    """A truth, and lists with copies, equal scores and scores that are null."""
    draw = np.random.default_rng(7)
    n = 900
    rows = pl.DataFrame(
        {
            "user": np.sort(draw.integers(42, size=n)),
            "item": draw.integers(15, size=n),
            "score": pl.Series(draw.integers(-1, 6, size=n), dtype=pl.Float64),
        }
    )
    if is_text:
        ids = pl.format("an id of many letters {}", pl.col("user", "item")).name.keep()
        rows = rows.with_columns(ids)
    rows = rows.with_columns(
        pl.when(pl.int_range(pl.len()) % 50 != 9).then("score").alias("score"),
        rank=pl.int_range(1, pl.len() + 1).over("user"),
    )
    truth = rows.sample(150, seed=1).select("user", "item", relevance=1.0).unique(["user", "item"])
    lists = rows.select("user", "item", *FORMS[form])
    if "lists" in form:
        lists = lists.group_by("user", maintain_order=True).agg(pl.all())
    return truth, lists


def report_of(logs, duplicates, form):
    ties = TIES[duplicates] if "score" in form else "item"
    bad_ranks = "compress" if duplicates == "best" else "keep"
    policies = {"duplicates": duplicates, "ties": ties, "bad_ranks": bad_ranks}
    policies["bad_scores"] = "last"
    columns = {name: name for name in logs[1].columns}
    given = {"columns": columns, "policies": policies, "metrics": ["nDCG@3", "AP", "hits@5"]}
    report = run(logs[0], {"m": logs[1]}, **given)
    values = [frame.rows() for frame in report.per_user_values.frames.values()]
    return body(report), report.warnings, values


@pytest.fixture
def held(monkeypatch):
    """Which tables had their lists held; batches are small."""
    for name in ("BATCH_ROWS", "BATCH_LISTS"):
        monkeypatch.setattr(_scan, name, 7)
    calls, scan_held = [], _whole_lists._scan_held
    monkeypatch.setattr(_whole_lists, "_scan_held", lambda x: [calls.append(x), scan_held(x)])
    return calls


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("duplicates", list(TIES))
@pytest.mark.parametrize("form", list(FORMS))
def test_lists_are_held_only_where_a_user_comes_back(form, duplicates, is_text, held, monkeypatch):
    logs = truth, lists = make_logs(form, is_text=is_text)
    by_batches, was_held = report_of(logs, duplicates, form), bool(held)
    at_the_end = report_of((truth, pl.concat([lists[1:], lists[:1]])), duplicates, form)
    assert not was_held
    assert bool(held) == ("lists" not in form)

    def refuse(scans):
        raise _scan.ReappearedError

    monkeypatch.setattr(_whole_lists, "_scan_by_user", refuse)
    assert by_batches == report_of(logs, duplicates, form)
    monkeypatch.setattr(_scan, "BATCH_ROWS", 1 << 20)
    assert at_the_end == report_of((truth, pl.concat([lists[1:], lists[:1]])), duplicates, form)
