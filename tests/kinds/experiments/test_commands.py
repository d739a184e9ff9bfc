"""`evalkit experiment --power`, `--aa` and `evalkit surrogates`, as somebody types them."""

import datetime as dt
import json
import re

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.errors import DataError, RequestError

START = dt.datetime(2026, 1, 1)


@pytest.fixture
def before(tmp_path, monkeypatch):
    """400 units over eight days, in two CSV files."""
    draw = np.random.default_rng(6)
    exposures = pl.DataFrame(
        {
            "unit": range(400),
            "time": [START + dt.timedelta(hours=int(h)) for h in draw.integers(0, 192, 400)],
        }
    )
    owners = draw.integers(0, 400, 3000)
    events = exposures[owners].with_columns(
        pl.Series("kind", draw.choice(["view", "click"], 3000, p=[0.8, 0.2]))
    )
    exposures.write_csv(tmp_path / "exposures.csv")
    events.write_csv(tmp_path / "events.csv")
    monkeypatch.chdir(tmp_path)
    return ["experiment", "--exposures", "exposures.csv", "--events", "events.csv"]


def rows_of(out, metric):
    """Numbers of the rows of a printed table that begin with a metric."""
    rows = [line.strip("│ ").split("┆") for line in out.splitlines() if "┆" in line]
    return [[cell.strip() for cell in row[1:]] for row in rows if row[0].strip() == metric]


def test_power_says_units_days_and_what_weeks_show(before, capsys):
    assert not run_command([*before, "-m", "mean(click)", "--power", "--relative", "0.1"])

    out = capsys.readouterr().out
    rows = rows_of(out, "mean(click)")
    assert out.startswith("400 units of before; units that show it, with power 0.8")
    sizes, weeks = rows[:2], rows[2:]
    assert [row[0] for row in sizes] == ["control", "candidate"]
    assert {float(row[3]) for row in sizes} == {0.1}
    values = pl.read_csv("events.csv").filter(kind="click")["unit"].value_counts()["count"]
    counts = np.concatenate([values.to_numpy(), np.zeros(400 - len(values))])
    wanted = 2 * (1.959964 + 0.841621) ** 2 * counts.var(ddof=1) / (0.1 * counts.mean()) ** 2
    assert int(sizes[0][1].replace(",", "")) == pytest.approx(wanted, rel=0.01)
    seen = [float(row[2]) for row in weeks]
    assert len(seen) == 8
    assert seen == sorted(seen, reverse=True)


def test_power_without_an_effect_says_the_smallest(before, capsys):
    assert not run_command([*before, "-m", "ratio(click, view)", "--power"])

    assert "the smallest effect they show" in capsys.readouterr().out


def test_splits_without_an_effect_alarm_as_often_as_the_level_says(before, capsys):
    assert not run_command([*before, "-m", "mean(click)", "-m", "fraction(click)", "--aa", "100"])

    out = capsys.readouterr().out
    assert "400 units split 100 times without an effect; 5.0% false alarms" in re.sub(
        r"\s+", " ", out
    )
    for metric in ("mean(click)", "fraction(click)"):
        ((rate, low, high, *_),) = rows_of(out, metric)
        assert 0.0 <= float(rate) <= 0.13
        assert float(low) <= float(rate) <= float(high)


def test_splits_keep_strata(before, capsys):
    pl.read_csv("exposures.csv").with_columns(
        country=pl.when(pl.col("unit") % 3 == 0).then(pl.lit("de")).otherwise(pl.lit("fr"))
    ).write_csv("exposures.csv")
    args = ["-m", "mean(click)", "--aa", "5", "--set", 'statistics.strata=["country"]']

    assert not run_command([*before, *args])
    assert rows_of(capsys.readouterr().out, "mean(click)")


@pytest.fixture
def past(tmp_path):
    path = tmp_path / "past.csv"
    draw = np.random.default_rng(8)
    true = draw.normal(0.0, 0.02, 12)
    pl.DataFrame(
        {
            "gain": true + draw.normal(0.0, 0.002, 12),
            "offline_error": [0.002] * 12,
            "online": 2 * true + draw.normal(0.0, 0.004, 12),
            "online_error": [0.004] * 12,
        }
    ).write_csv(path)
    return path


def test_surrogates_are_printed_and_written(past, capsys):
    args = ["surrogates", str(past), "--column", "offline=gain"]
    assert not run_command(args)
    shown = capsys.readouterr().out
    assert not run_command([*args, "--json"])
    written = json.loads(capsys.readouterr().out)

    table = pl.read_csv(past).rename({"gain": "offline"})
    own = evalkit.surrogates(table)
    assert {each["name"]: each["value"] for each in written["numbers"]} == dict(
        own.numbers.select("name", "value").iter_rows()
    )
    assert sum(each["n"] for each in written["decisions"]) == 12
    assert written["gates"]
    assert "true" in shown


def test_surrogates_name_the_column_that_is_not_there(past):
    with pytest.raises(DataError, match="offline"):
        run_command(["surrogates", str(past)])


def test_a_newcomer_s_columns_are_guessed_or_named_as_a_command_names_them(before, capsys):
    exposures = pl.read_csv("exposures.csv").with_columns(group=pl.col("unit") % 2)
    exposures.rename({"unit": "customer_id", "time": "exposed_at"}).write_csv("exposures.csv")
    events = pl.read_csv("events.csv").rename({"unit": "customer_id", "time": "occurred_at"})
    events.write_csv("events.csv")
    args = [*before, "--variants", "0=50,1=50", "-m", "mean(click)"]
    assert not run_command([*args, "--quiet"])
    assert "cannot be told apart" in capsys.readouterr().out

    events.rename({"kind": "what"}).write_csv("events.csv")
    with pytest.raises(DataError) as raised:
        run_command(args)
    assert "--set events.columns.kind=COLUMN" in str(raised.value.hint)
    assert not run_command([*args, "--quiet", "--set", "events.columns.kind=what"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-m", "mean(click)"], "--variants control=50,b=50"),
        (["-m", "mean(click)", "--variants", "0,1"], "--variants 0=50,1=50"),
        (["-m", "clicks", "--variants", "0=50,1=50"], "mean(clicks)"),
        (["-m", "mean(clicks)", "--variants", "0=50,1=50"], "Events have click, view"),
    ],
)
def test_a_newcomer_s_stumbles_have_a_cure(before, args, said):
    exposures = pl.read_csv("exposures.csv").with_columns(variant=pl.col("unit") % 2)
    exposures.write_csv("exposures.csv")

    with pytest.raises((RequestError, DataError)) as raised:
        run_command([*before, *args, "--quiet"])
    assert said in str(raised.value.hint)


def test_sums_of_values_stand_beside_kinds(before, capsys):
    exposures = pl.read_csv("exposures.csv").with_columns(variant=pl.col("unit") % 2)
    exposures.write_csv("exposures.csv")
    pl.read_csv("events.csv").with_columns(amount=pl.lit(2.0)).write_csv("events.csv")
    args = ["--variants", "0=50,1=50", "-m", "ratio(spent, click)", "--sum", "spent=click:amount"]

    assert not run_command([*before, *args, "--json", "--quiet"])
    values = {each["value"] for each in json.loads(capsys.readouterr().out)["metrics"]}
    assert values == {2.0}


def test_an_alarm_ends_every_command_with_1_also_without_gates(before, capsys):
    units = pl.DataFrame({"unit": range(400), "variant": ["a"] * 300 + ["b"] * 100, "y": 1.0})
    units.with_columns(y=pl.col("unit") % 3).write_csv("units.csv")
    args = ["experiment", "--exposures", "units.csv", "--variants", "a=50,b=50", "-m", "mean(y)"]

    assert run_command([*args, "--quiet", "--out", "runs"]) == 1
    assert capsys.readouterr().out.startswith("experiment: b: cannot be read")
    assert run_command(["gate", "last"]) == 1
    assert "no effect can be read" in capsys.readouterr().out
    assert "\nb: cannot be read" in evalkit.load("runs/latest").to_markdown()
