"""Covariates in a table of their own; what `evalkit check` says of an experiment."""

import datetime as dt
import json

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.config import load_config
from evalkit.errors import DataError, RequestError
from evalkit.jobs.check import check_config
from evalkit.kinds.experiments import measure
from evalkit.kinds.pointwise import passes
from evalkit.pipeline import run_config

START = dt.datetime(2026, 1, 1)
VARIANTS = {"control": 50, "b": 50}
JOB = """
[experiment]
variants = { control = 50, b = 50 }
sums = { clicks = "click", shown = "show" }
before = { clicks = ["predicted"] }
[exposures]
path = "exposures.parquet"
[events]
path = "events.parquet"
[covariates]
path = "covariates.parquet"
columns = { unit = "who" }
[metrics]
names = ["mean(clicks)", "mean(shown)", "ratio(clicks, shown)", "fraction(clicks)"]
"""


@pytest.fixture(scope="module")
def tables():
    """500 units; the covariate of every tenth is missing."""
    draw = np.random.default_rng(4)
    units, n = np.arange(500), 6000
    names = [f"unit-{number}" for number in units]
    taste = draw.gamma(2.0, 1.0, 500)
    of = draw.choice(500, n, p=taste / taste.sum())
    exposures = pl.DataFrame(
        {"unit": names, "variant": np.where(draw.random(500) < 0.5, "b", "control"),
         "time": [START] * 500}
    )  # fmt: skip
    events = pl.DataFrame(
        {"unit": [names[each] for each in of],
         "time": [START + dt.timedelta(minutes=int(m)) for m in draw.integers(-5000, 9000, n)],
         "kind": draw.choice(["show", "click"], n)}
    )  # fmt: skip
    known = pl.DataFrame({"who": [*names, "stranger"], "predicted": [*taste, 99.0]})
    return exposures, events, known.gather_every(10, 1).vstack(known.filter(
        pl.int_range(pl.len()) % 10 > 1)).sample(fraction=1.0, shuffle=True, seed=1)  # fmt: skip


@pytest.fixture
def job(tmp_path, monkeypatch, tables):
    for name, frame in zip(("exposures", "events", "covariates"), tables, strict=True):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def numbers(report) -> str:
    found = json.loads(report.to_json())
    for name in ("meta", "run_id", "inputs", "run_key"):
        found.pop(name)
    return json.dumps(found)


def asked(tables, **options):
    exposures, events, covariates = tables
    return evalkit.evaluate_experiment(
        exposures, events, variants=VARIANTS, covariates=covariates,
        columns={"covariates": {"unit": "who"}}, sums={"clicks": "click", "shown": "show"},
        **{"before": {"clicks": ["predicted"]},
           "metrics": list(load_config("job.toml").metrics.names), **options},
    )  # fmt: skip


def test_a_table_of_covariates_is_what_the_same_columns_of_ready_made_rows_are(job, tables):
    exposures, events, covariates = tables
    clicks = events.filter((pl.col("kind") == "click") & (pl.col("time") >= START))
    rows = (
        exposures.join(clicks.group_by("unit").agg(pl.len().alias("clicks")), on="unit", how="left")
        .join(covariates.rename({"who": "unit"}), on="unit", how="left")
        .with_columns(pl.col("clicks").fill_null(0))
    )
    ready = evalkit.evaluate_experiment(
        rows.drop("time"), variants=VARIANTS, metrics=["mean(clicks)", "fraction(clicks)"],
        before={"clicks": "predicted"},
    )  # fmt: skip

    found = run_config(load_config("job.toml"))

    def said(report):
        both = [e for e in report.comparisons if e.metric in ("mean(clicks)", "fraction(clicks)")]
        return [(e.metric, e.delta, e.std_error, e.p_value, e.theta) for e in both]

    assert said(found) == said(ready)
    assert len(said(found)) == 2
    assert found.row_counts["units_without_covariates"] == 50
    assert [each.role for each in found.inputs] == ["experiment", "events", "covariates"]


def test_columns_that_before_does_not_name_take_events_before_exposure(job, tables):
    without = evalkit.evaluate_experiment(
        *tables[:2], variants=VARIANTS, sums={"clicks": "click", "shown": "show"},
        metrics=["mean(shown)"],
    )  # fmt: skip

    found = run_config(load_config("job.toml"))

    thetas = {each.metric: each.theta for each in found.comparisons}
    assert thetas["mean(shown)"] == without.comparisons[0].theta
    assert thetas["ratio(clicks, shown)"] is not None


def test_every_entry_point_says_the_same(job, tables, monkeypatch):
    monkeypatch.setattr(passes, "BYTES_AT_REST", 0)
    monkeypatch.setattr(measure, "BYTES_ON_THE_WAY", 0)
    whole = run_config(load_config("job.toml"))
    for share in (2, 1):
        args = ["partial", "job.toml", "--share", f"{share}/2", "--out", f"{share}.partial"]
        assert not run_command(args)

    assert numbers(evalkit.merge(["1.partial", "2.partial"])) == numbers(whole)
    assert numbers(run_config(load_config("job.toml"), memory_limit=120_000)) == numbers(whole)
    assert asked(tables).comparisons == whole.comparisons


def test_covariates_that_could_mean_two_things_are_refused(job, tables):
    exposures, events, covariates = tables
    with pytest.raises(DataError, match="more than one row") as raised:
        asked((exposures, events, pl.concat([covariates, covariates])))
    assert raised.value.code == "duplicate-unit"
    with pytest.raises(RequestError, match="no column takes"):
        asked(tables, before={})
    with pytest.raises(RequestError, match="in no metric"):
        asked(tables, before={"clics": "predicted"})
    (job / "job.toml").write_text(JOB.replace("[covariates]", "[segments]").replace(
        'path = "covariates.parquet"\ncolumns = { unit = "who" }', ""))  # fmt: skip
    with pytest.raises(RequestError, match="no table of them"):
        load_config("job.toml")


def test_check_tells_every_fault_and_every_count_at_once(job, tables, capsys):
    exposures, events, _ = tables
    other = pl.col("variant").replace({"b": "control", "control": "b"})
    rows = [exposures, exposures.head(20).with_columns(other)]
    rows.append(exposures.head(3).with_columns(
        pl.Series("variant", ["c", None, "b"]), pl.Series("unit", ["x", "y", None])))  # fmt: skip
    pl.concat(rows).write_parquet("exposures.parquet")
    stranger = events.head(7).with_columns(pl.lit("nobody").alias("unit"))
    pl.concat([events, stranger]).write_parquet("events.parquet")

    found = check_config(load_config("job.toml"))

    told = [(each.code, each.is_error, each.message) for each in found]
    assert [(c, m) for c, wrong, m in told if wrong] == [
        ("unknown-variant", "1 are left out: unknown variant"),
        ("unknown-variant", "1 are left out: null variant"),
        ("crossed-units", "20 units are in two variants and count in their first"),
    ]
    odd = [message for _, wrong, message in told if not wrong]
    assert "7 are left out: event never exposed" in odd
    assert "1 are left out: null unit" in odd
    assert run_command(["check", "job.toml"]) == 3
    assert "Declare it with its share" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("switchback", {"statistics": {"switchback": "1h"}}),
        ("interference", {"statistics": {"interference": True}}),
        ("difference in differences", {"metrics": ["did(clicks)"]}),
        ("Bayesian", {"profile": "bayesian"}),
        ("fitted", {"statistics": {"cupac": True}}),
        ("regression", {"statistics": {"adjustment": "lin"}}),
    ],
)
def test_what_is_not_built_is_refused_by_name_with_where_to_go(job, tables, what, options):
    with pytest.raises(RequestError, match=what) as raised:
        asked(tables, **options)
    assert raised.value.code == "not-built"
    assert raised.value.hint


def test_windows_that_are_all_open_are_told_and_of_one_metric_undefined(job, tables):
    exposures, events, _ = tables
    early = events.filter(pl.col("time") < START + dt.timedelta(days=1))
    options = {"variants": VARIANTS, "sums": {"clicks": "click"}}
    with pytest.raises(DataError, match="still open") as raised:
        evalkit.evaluate_experiment(
            exposures, early, metrics=["mean(clicks)"], window="7d", **options
        )
    assert raised.value.code == "open-windows"

    found = evalkit.evaluate_experiment(
        exposures, early, metrics=["mean(clicks)", "mean(clicks, window='7d')"], **options
    )
    assert found.comparisons[0].p_value is not None
    assert {each.code for each in found.warnings} >= {"no-interval"}


def test_shares_in_files_of_their_own_end_where_all_logs_do(job, tables):
    """The last event of one share is days before that of the other, and windows are open."""
    exposures, events, _ = tables
    odd = pl.col(exposures.columns[0]).str.slice(-1).is_in(["1", "3", "5", "7", "9"])
    late = pl.col("time") < START + dt.timedelta(days=3)
    events = events.filter(~odd | late)
    logs = {"exposures": exposures, "events": events}
    text = JOB.replace("[covariates]", "").replace('path = "covariates.parquet"', "")
    text = text.replace('columns = { unit = "who" }', "").replace(
        'before = { clicks = ["predicted"] }', 'window = "4d"'
    )
    text = text.replace("[metrics]", '[metrics]\nprimary = ["mean(clicks)"]')
    for name, frame in logs.items():
        frame.write_parquet(f"{name}.parquet")
        for share, own in ((1, ~odd), (2, odd)):
            (job / str(share)).mkdir(exist_ok=True)
            frame.filter(own).write_parquet(f"{share}/{name}.parquet")
    (job / "job.toml").write_text(text)
    (job / "laid.toml").write_text(text.replace('path = "', 'path = "{share}/'))

    whole = run_config(load_config("job.toml"))
    for share in (1, 2):
        args = ["partial", "laid.toml", "--share", f"{share}/2", "--out", f"{share}.partial"]
        assert not run_command(args)
    merged = evalkit.merge(["1.partial", "2.partial"])

    assert whole.graphs
    assert merged.comparisons == whole.comparisons
    assert merged.graphs == whole.graphs
    assert merged.row_counts == whole.row_counts
