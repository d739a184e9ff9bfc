"""Dates that are written as whole numbers, 20260131, are not taken for seconds of 1970."""

import json
from datetime import date, datetime, timedelta

import polars as pl
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.errors import EvalkitError

FIRST = datetime(2025, 1, 5, 4, 7, 9)
FORMS = ["%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"]


def log_of(form):
    moments = [FIRST + timedelta(days=7 * n) for n in range(80)]
    rows = [(n % 9, n % 13, int(moment.strftime(form))) for n, moment in enumerate(moments)]
    return pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")


def parts(log, **rule):
    made = evalkit.split(log, columns={"time": rule.pop("time", "time")}, empty="keep", **rule)
    frames = {name: made.part(name).collect() for name in ("train", "test")}
    return {name: frame.select("user", "item").rows() for name, frame in frames.items()}


@pytest.mark.parametrize("form", FORMS)
def test_a_span_over_dates_as_numbers_is_refused_and_the_hint_is_what_dates_give(form):
    log = log_of(form)

    with pytest.raises(EvalkitError, match="are dates, not seconds since 1970") as refused:
        parts(log, test="35d")

    assert refused.value.code == "bad-time"
    hinted = json.loads(refused.value.hint.partition("columns=")[2])["time"]
    as_dates = log.with_columns(pl.col("time").cast(pl.String).str.to_datetime(form))
    assert parts(log, test="35d", time=hinted) == parts(as_dates, test="35d")


@pytest.mark.parametrize("rule", [{"test": 0.1}, {"test": 20260101}, {"by": "user", "test": 1}])
def test_what_asks_for_their_order_alone_takes_dates_as_numbers(rule):
    log = log_of("%Y%m%d")
    as_dates = log.with_columns(pl.col("time").cast(pl.String).str.to_date("%Y%m%d"))
    if rule["test"] == 20260101:
        dated = parts(as_dates, test="2026-01-01")
    else:
        dated = parts(as_dates, **rule)

    assert parts(log, **rule) == dated


def test_numbers_that_are_no_dates_stay_seconds():
    log = log_of("%Y%m%d").with_columns(pl.col("time") + 60)  # no month has 60 days more

    assert parts(log, test="1d")["test"]
    assert parts(log_of("%Y%m%d"), test="1d", time_unit="s")["test"]


def test_the_command_guesses_such_dates_and_says_so(tmp_path, capsys):
    log_of("%Y%m%d").write_csv(tmp_path / "log.csv")

    asked = ["split", str(tmp_path / "log.csv"), "--test", "35d", "--out", str(tmp_path / "parts")]
    status = run_command(asked)

    assert status == 0
    assert "time = strptime(cast(time as varchar), '%Y%m%d')" in capsys.readouterr().err


def test_an_empty_part_is_told_with_dates():
    log = log_of("%Y%m%d").with_columns(time=pl.lit(date(2025, 3, 1)))

    with pytest.raises(EvalkitError, match="times go from 2025-03-01 to 2025-03-01"):
        evalkit.split(log, test="7d")
