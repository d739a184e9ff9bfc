"""A log and rankings in one config: one night, one report, one table by segment."""

from pathlib import Path

import polars as pl
import pytest
from program import run_here

import evalkit

LOG = pl.DataFrame(
    {
        "user": [1, 1, 2, 3],
        "item": ["a", "b", "a", "c"],
        "click": [1.0, 0.0, 1.0, 1.0],
        "p": [0.5, 0.5, 0.25, 0.5],
        "country": ["x", "x", "y", "y"],
    }
)
LISTS = pl.DataFrame(
    {
        "user": [1, 1, 2, 2, 3, 3],
        "item": ["a", "b", "a", "c", "b", "c"],
        "rank": [1, 2, 1, 2, 1, 2],
    }
)
CONFIG = """
name = "night"
[logged]
path = "log.parquet"
columns = { user = "user", item = "item", reward = "click", propensity = "p" }
[truth]
path = "log.parquet"
columns = { user = "user", item = "item", relevance = "click", propensity = "p" }
[[rankings]]
model = "b"
path = "b.parquet"
[[rankings]]
model = "c"
path = "c.parquet"
[metrics]
names = ["SNIPS", "nDCG@2", "recall@2"]
[segments]
country = { by = "country" }
[statistics]
over_nights = "overlapping"
[[gates]]
metric = "SNIPS"
model = "b"
max_drop = 10.0
baseline = "(logging)"
[[gates]]
metric = "nDCG@2"
min = 0.0
min_users = 3
"""


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    LOG.write_parquet("log.parquet")
    LISTS.write_parquet("b.parquet")
    LISTS.with_columns(rank=3 - pl.col("rank")).write_parquet("c.parquet")
    Path("night.toml").write_text(CONFIG)
    return tmp_path


def test_a_night_has_both_numbers_of_each_model(night: Path) -> None:
    """b shows a to users 1 and 2: weights 2, 0, 4, 0 (c is at rank 2 for user 3)."""
    assert run_here(["check", "night.toml"], night).status == 0
    ran = run_here(["run", "night.toml", "--quiet"], night)
    report = evalkit.load("runs/latest")

    assert ran.status in (0, 1), ran.err
    assert report.value("SNIPS", model="b") == pytest.approx((2 + 4) / 6)
    assert report.value("SNIPS", model="(logging)") == pytest.approx(3 / 4)
    clicks = LOG.filter(pl.col("click") > 0).select("user", "item", "p")
    alone = evalkit.evaluate(
        clicks, {"b": LISTS}, metrics=["nDCG@2", "recall@2"],
        columns={"truth": {"propensity": "p"}},
    )  # fmt: skip
    for metric in ("nDCG@2", "recall@2"):
        assert report.value(metric, model="b") == alone.value(metric)
    outcomes = {each.metric: each.outcome for each in report.gates if each.model == "b"}
    assert outcomes["SNIPS"] == "cannot tell"  # on so few effective rounds
    assert outcomes["nDCG(propensity='snips')@2"] == "pass"
    assert "(logging)" not in {each.model for each in report.gates}
    assert [each.metric for each in report.nights] == ["SNIPS", "SNIPS"]


def test_a_number_on_too_few_rounds_is_no_number_to_compare_with(night: Path) -> None:
    text = CONFIG.replace('"(logging)"', '"last-passed"')
    Path("night.toml").write_text(text)

    ran = [run_here(["run", "night.toml", "--quiet"], night) for _ in range(2)]

    (gate,) = [each for each in evalkit.load("runs/latest").gates if each.metric == "SNIPS"]
    assert [each.status for each in ran] == [1, 1]
    assert (gate.outcome, gate.baseline_run) == ("cannot tell", None)
    assert run_here(["gate", "last", "--baseline", "last-passed"], night).status != 0


def test_one_table_by_segment_holds_both_and_one_effective_size(night: Path) -> None:
    run_here(["run", "night.toml", "--quiet"], night)
    text = evalkit.load("runs/latest").to_markdown()

    table = text.partition("## country = x")[2].partition("##")[0]
    head = next(line for line in table.splitlines() if line.startswith("| model"))
    assert [each.strip() for each in head.strip("| ").split("|")] == [
        *("model", "SNIPS", "nDCG@2", "recall@2"),
        "effective rounds",
    ]


def test_shares_of_both_merge_to_the_same(night: Path) -> None:
    run_here(["run", "night.toml", "--quiet"], night)
    whole = evalkit.load("runs/latest")
    for share in (3, 1, 2):
        part = ["partial", "night.toml", "--share", f"{share}/3", "--out", f"{share}.partial"]
        ran = run_here(part, night)
        assert ran.status == 0, ran.err
    merged = evalkit.merge(["2.partial", "3.partial", "1.partial"])

    assert merged.metrics.equals(whole.metrics)
    for kept in ("comparisons", "checks", "graphs", "run_key"):
        assert getattr(merged, kept) == getattr(whole, kept), kept


@pytest.mark.parametrize("in_memory", [True, False])
def test_python_says_the_same(night: Path, in_memory: bool) -> None:
    run_here(["run", "night.toml", "--quiet"], night)
    whole = evalkit.load("runs/latest")
    of = {"user": "user", "item": "item", "propensity": "p"}

    found = evalkit.evaluate_logged(
        LOG if in_memory else "log.parquet",
        {},
        metrics=["SNIPS", "nDCG@2", "recall@2"],
        columns={**of, "reward": "click", "truth": {**of, "relevance": "click"}},
        rankings={each: pl.read_parquet(f"{each}.parquet") if in_memory else f"{each}.parquet"
                  for each in ("b", "c")},
        truth=LOG if in_memory else "log.parquet",
        segments={"country": {"by": "country"}},
    )  # fmt: skip

    assert found.metrics.equals(whole.metrics)
    assert found.comparisons == whole.comparisons


@pytest.mark.parametrize("alone", [False, True])
def test_columns_of_rankings_are_guessed_as_without_a_log(night: Path, alone: bool) -> None:
    named = LISTS.rename({"user": "user_id", "item": "item_id"})
    named.write_parquet("b.parquet")
    metrics, truth = (["SNIPS"], None) if alone else (["SNIPS", "nDCG@2"], LOG)
    wanted, found = (
        evalkit.evaluate_logged(
            LOG, {}, metrics=metrics, rankings={"b": each}, truth=truth,
            columns={"user": "user", "reward": "click", "propensity": "p"},
        )
        for each in (LISTS, named)
    )  # fmt: skip

    assert found.metrics.equals(wanted.metrics)
    assert run_here(["run", "night.toml", "--quiet"], night).status in (0, 1)
    assert evalkit.load("runs/latest").value("SNIPS", model="b") == pytest.approx((2 + 4) / 6)


def test_rankings_alone_are_targets(night: Path) -> None:
    text = CONFIG.partition("[statistics]")[0].replace(', "nDCG@2", "recall@2"', "")
    start, end = text.index("[truth]"), text.index("[[rankings]]")
    Path("night.toml").write_text(text[:start] + text[end:])
    ran = run_here(["run", "night.toml", "--quiet"], night)

    assert ran.status == 0, ran.err
    assert evalkit.load("runs/latest").value("SNIPS", model="b") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('model = "c"\npath', "path", "missing-key"),
        ('names = ["SNIPS", ', 'names = ["SNIPS", "nDCGG@2", ', "unknown-metric"),
        ('names = ["SNIPS"', 'names = ["DR"', "missing-key"),
        ('model = "c"', 'model = "b"', "duplicate-model"),
        (
            '[truth]\npath = "log.parquet"\ncolumns',
            "[train]\npath = 'log.parquet'\ncolumns", "missing-key",
        ),
        ('columns = { user = "user", item = "item", reward', 'columns = { reward', "missing-key"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(night: Path, old: str, new: str, code: str) -> None:
    assert old in CONFIG
    Path("night.toml").write_text(CONFIG.replace(old, new, 1).partition("[[gates]]")[0])
    ran = run_here(["run", "night.toml", "--quiet"], night)

    assert ran.status == 2
    assert code in ran.err
    assert "Traceback" not in ran.err
