"""Shares that changed midway: strata by first exposure, and a sample ratio of each."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.errors import RequestError

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PHASES = [{"start": "2026-01-08", "variants": {"a": 20, "b": 80}}]
VARIANTS = {"a": 80, "b": 20}


@pytest.fixture(scope="module")
def logs():
    """No effect; b comes late, when everybody clicks more: read as one, it would win."""
    draw = np.random.default_rng(4)
    n = 4000
    day = draw.integers(0, 14, n)
    is_b = draw.random(n) < np.where(day < 7, 0.2, 0.8)
    exposures = pl.DataFrame(
        {
            "unit": range(n),
            "variant": np.where(is_b, "b", "a"),
            "time": [START + dt.timedelta(days=int(each)) for each in day],
        }
    )
    clicks = draw.poisson(np.where(day < 7, 1.0, 2.0))
    events = exposures.select("unit", "time", kind=pl.lit("click")).select(
        pl.all().repeat_by(pl.Series(clicks)).explode()
    )
    return exposures, events.drop_nulls()


def read(logs, phases, **more):
    return evalkit.evaluate_experiment(
        *logs, variants=VARIANTS, metrics=["mean(click)"], phases=phases, covariate_days=0, **more
    )


def test_phases_are_strata_with_sample_ratios_of_their_own(logs):
    exposures, events = logs
    report = read(logs, PHASES)
    (own,) = report.comparisons
    means = (
        exposures.join(events.group_by("unit").len("clicks"), on="unit", how="left")
        .with_columns(pl.col("clicks").fill_null(0), late=pl.col("time").dt.day() >= 8)
        .group_by("late", "variant")
        .agg(pl.col("clicks").mean(), pl.len())
    )
    rows = {(late, variant): (mean, n) for late, variant, mean, n in means.iter_rows()}
    by_hand = sum(
        (rows[late, "b"][0] - rows[late, "a"][0])
        * (rows[late, "a"][1] + rows[late, "b"][1]) / 4000
        for late in (False, True)
    )  # fmt: skip

    assert own.delta == pytest.approx(by_hand)
    assert abs(own.delta) < 3 * own.std_error
    ratios = {each.segment: each for each in report.checks if each.check == "sample-ratio"}
    assert list(ratios) == [None, "phase first", "phase 2026-01-08"]
    assert {each.verdict for each in ratios.values()} == {"ok"}
    assert ratios["phase first"].expected == 0.2


def test_shares_that_changed_without_phases_are_an_alarm(logs):
    report = read(logs, ())

    assert report.checks[0].verdict == "fail"
    assert report.comparisons[0].delta > 0.2
    assert "cannot be read" in report.verdict


def test_a_config_says_the_same(logs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, frame in zip(("exposures", "events"), logs, strict=True):
        frame.write_parquet(f"{name}.parquet")
    (tmp_path / "job.toml").write_text(
        """
name = "job"
[experiment]
variants = { a = 80, b = 20 }
phases = [{ start = "2026-01-08", variants = { a = 20, b = 80 } }]
covariate_days = 0
[exposures]
path = "exposures.parquet"
[events]
path = "events.parquet"
[metrics]
names = ["mean(click)"]
"""
    )
    assert not run_command(["run", "job.toml", "--quiet"])
    whole = evalkit.load("runs/latest")
    assert whole.comparisons[0].delta == read(logs, PHASES).comparisons[0].delta
    for share in (1, 2):
        args = ["partial", "job.toml", "--share", f"{share}/2", "--out", f"{share}.partial"]
        assert not run_command(args)
    merged = evalkit.merge(sorted(tmp_path.glob("*.partial")), again=True)
    assert merged.comparisons == whole.comparisons
    assert merged.checks == whole.checks


@pytest.mark.parametrize(
    ("phases", "code"),
    [
        ([{"start": "2026-01-08", "variants": {"a": 20}}], "bad-share"),
        ([{"start": "2026-01-08", "variants": {"a": 20, "b": 0}}], "bad-share"),
        ([{"start": "soon", "variants": {"a": 20, "b": 80}}], "bad-time"),
        ([{"variants": {"a": 20, "b": 80}}], "wrong-type"),
        (PHASES * 2, "bad-time"),
    ],
)
def test_phases_that_say_nothing_are_refused(logs, phases, code):
    with pytest.raises(RequestError) as raised:
        read(logs, phases)
    assert raised.value.code == code


def test_ready_made_rows_and_quantiles_have_no_phases(logs):
    units = pl.DataFrame({"unit": range(4), "variant": ["a", "b"] * 2, "click": [1, 2, 3, 4]})
    with pytest.raises(RequestError, match="rows have no phases"):
        read((units, None), PHASES)
    with pytest.raises(RequestError, match="cannot be stratified"):
        evalkit.evaluate_experiment(
            *logs, variants=VARIANTS, metrics=["quantile(click, q=0.5)"], phases=PHASES
        )
