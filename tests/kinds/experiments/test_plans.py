"""Sizes, surrogates and interleaving against records, and by hand."""

import datetime as dt
import json
import math
import os
from pathlib import Path

import polars as pl
import pytest

import evalkit
from evalkit.errors import RequestError
from evalkit.kinds.experiments._statistics import read_statistics

FOLDER = Path(os.environ.get("EVALKIT_TEST_DATA", "nowhere")) / "conformance" / "online"
with_records = pytest.mark.skipif(not FOLDER.exists(), reason="EVALKIT_TEST_DATA has no records")


def fixture(name):
    return json.loads((FOLDER / "fixtures" / f"{name}.json").read_text())


@pytest.fixture
def control():
    return pl.DataFrame(fixture("medium")["units"]).filter(pl.col("variant") == "control")


@with_records
@pytest.mark.parametrize(
    ("relative", "distribution", "units"),
    [(0.02, "t", 39112), (0.02, "normal", 39111), (0.05, "t", 6259), (0.05, "normal", 6258)],
)
def test_sizes_are_those_of_statsmodels(control, relative, distribution, units):
    found = evalkit.plan_experiment(
        control,
        metrics=["mean(clicks)"],
        relative=relative,
        statistics={"distribution": distribution},
    )

    assert found.sizes["units"].to_list() == [units, units]


@with_records
def test_what_so_many_units_show_is_that_of_tea_tasting(control):
    (delta, _) = evalkit.plan_experiment(control, metrics=["mean(clicks)"]).sizes["delta"]

    assert delta == pytest.approx(0.4067232618923156, rel=1e-6)


def test_bounds_of_five_looks_are_those_published():
    spending = {"sequential": {"spending": "obrien-fleming", "final": 1000}}

    found = evalkit.plan_experiment(looks=5, statistics=spending).bounds

    assert found["bound"].round(4).to_list() == [4.8769, 3.3570, 2.6803, 2.2898, 2.0310]
    assert found["spent"].to_list()[-1] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("looks", "sizes", "bounds"),
    [
        ([], [300, 600, 600, 900], [2.9626, 1.9686, 1.9686, math.inf]),
        ([0.5, 1.0], [900, 1200], [math.inf, math.inf]),
        ([0.5, 1.0], [300, 600, 700], [2.9626, 1.9686, math.inf]),
        ([], [700, 800], [1.96, math.inf]),
    ],
)
def test_no_look_after_the_final_size_has_a_bound(looks, sizes, bounds):
    plan = {"spending": "obrien-fleming", "final": 600, "looks": looks}
    statistics = read_statistics({"sequential": plan})

    assert statistics.bounds([(n, n) for n in sizes]) == pytest.approx(bounds, abs=1e-4)
    own = statistics.rules(sizes[-1], sizes[:-1])
    assert own.reach(math.inf, sizes[-1]) == pytest.approx(bounds[-1], abs=1e-4)


def test_dates_say_as_many_units_a_day_as_there_are_of_each():
    """By hand: 8 units on each of 5 days."""
    dates = pl.Series([dt.date(2026, 1, 1 + n // 8) for n in range(40)])
    units = pl.DataFrame({"y": [1.0, 2.0, 3.0, 4.0] * 10, "time": dates})
    noons = units.with_columns(time=dates.cast(pl.Datetime("us")).dt.offset_by("12h"))

    plans = [evalkit.plan_experiment(e, metrics="mean(y)", delta=0.7) for e in (units, noons)]

    (n,) = plans[0].sizes["units"].unique()
    assert plans[0].sizes["days"][0] == 2 * n / 8
    assert plans[1].sizes["days"][0] == 2 * n / 10  # of moments, from the first to the last


@with_records
def test_surrogates_take_errors_out_of_the_correlation():
    found = evalkit.surrogates(pl.DataFrame(fixture("past")["experiments"]))

    numbers = {name: value for name, value, *_ in found.numbers.iter_rows()}
    assert numbers["true_correlation"] == pytest.approx(0.9791402619951997)
    assert numbers["slope"] == pytest.approx(1.40905727246051)
    assert numbers["slope_naive"] == pytest.approx(1.2090266853487635)
    assert numbers["pearson"] == pytest.approx(0.7837010376242936)
    assert numbers["kendall"] == pytest.approx(0.5)
    assert numbers["sign_agreement_clear"] == 1.0
    assert found.decisions["n"].to_list() == [4, 4, 0, 1, 9, 0, 0, 2, 4]


def test_a_gate_is_replayed_over_past_experiments():
    """By hand: at max_drop 0 it stops the second; its online loss of 2 is so avoided."""
    past = pl.DataFrame(
        {
            "offline": [1.0, -1.0, 2.0],
            "offline_error": [0.1, 0.1, 0.1],
            "online": [3.0, -2.0, 1.0],
            "online_error": [0.1, 0.1, 0.1],
        }
    )

    first = evalkit.surrogates(past).gates.row(0, named=True)
    assert first["max_drop"] == 0.0
    assert (first["stopped_winners"], first["passed_losers"], first["cost"]) == (0, 0, 0.0)
    last = evalkit.surrogates(past).gates.row(-1, named=True)
    assert (last["passed_losers"], last["cost"]) == (1, 2.0)


@with_records
def test_interleaved_credits_are_read_out_by_user():
    report = evalkit.evaluate_interleaving(
        pl.DataFrame(fixture("interleaved")["impressions"]),
        models=["a", "b"],
        columns={"credit_a": "clicks_a", "credit_b": "clicks_b"},
        method="team-draft",
    )

    found = report.comparisons[0]
    assert found.delta == pytest.approx(0.09)
    assert (found.wins, found.ties, found.losses) == (42, 12, 21)
    assert found.p_value == pytest.approx(0.011141407415305075, rel=1e-12)


@pytest.mark.parametrize("models", [["a"], ["a", "a"]])
def test_what_is_not_two_names_is_not_interleaved(models):
    seen = pl.DataFrame({"user": [1], "credit_a": [0], "credit_b": [1]})

    with pytest.raises(RequestError, match="not two names"):
        evalkit.evaluate_interleaving(seen, models=models)
