"""What was asked for and an experiment cannot do is refused by name, not left out silently."""

import datetime as dt
import math
from pathlib import Path

import polars as pl
import pytest

import evalkit
from evalkit.errors import EvalkitError

START = dt.datetime(2026, 1, 1)
UNITS = pl.DataFrame(
    {
        "unit": range(40), "variant": ["a", "b"] * 20, "y": [1.0, 2.0, 3.0, 5.0] * 10,
        "d": [2, 3, 4, 5] * 10, "x": [0, 1, 3, 2] * 10, "bot": [True, *[False] * 3] * 10,
        "team": [None, *range(19)] * 2, "told": ["yes", "no"] * 20,
    }
)  # fmt: skip
EVENTS = UNITS.select("unit", "y", "d", kind=pl.lit("buy"), time=START + dt.timedelta(hours=1))


def read(*, logs: bool = False, metrics: object = ("mean(y)",), **asked: object) -> evalkit.Report:
    shares = {"a": 1, "b": 1}
    tables = (UNITS.with_columns(time=START), EVENTS) if logs else (UNITS,)
    return evalkit.evaluate_experiment(*tables, variants=shares, metrics=metrics, **asked)


READY = [
    ("conflicting-keys", {"window": "7d"}),
    ("conflicting-keys", {"metrics": ["mean(y, window='1d')"]}),
    ("conflicting-keys", {"metrics": ["ratio(y, d)"], "before": {"y": ["x", "d"], "d": "x"}}),
    ("no-cluster", {"statistics": {"cluster": "team"}}),
    ("bad-type", {"columns": {"triggered": "told"}}),
    ("unknown-key", {"columns": {"tirggered": "bot"}}),
    ("wrong-type", {"statistics": {"search": "no"}}),
    *(
        (
            "bad-sequential",
            {"statistics": {"sequential": {"spending": "pocock", "final": 40, **own}}},
        )
        for own in ({"looks": [25]}, {"looks": ["a"]}, {"looks": [math.nan]}, {"final": math.inf})
    ),
]


@pytest.mark.parametrize(("code", "asked"), READY)
def test_what_rows_cannot_say_is_refused(code: str, asked: dict[str, object]) -> None:
    with pytest.raises(EvalkitError) as refused:
        read(**asked)

    assert refused.value.code == code


LOGS = [
    *(("out-of-range", {"covariate_days": days}) for days in (-1, "14", float("inf"), 1e9)),
    ("bad-span", {"window": "99999999w"}),
    ("no-cluster", {"statistics": {"cluster": "team"}}),
    ("bad-type", {"columns": {"exposures": {"exclude": "told"}}}),
    (
        "conflicting-keys",
        {"sums": {name: {"kind": "buy", "of": name} for name in "yd"}, "metrics": ["mean(d)"]},
    ),
]


@pytest.mark.parametrize(("code", "asked"), LOGS)
def test_what_logs_cannot_say_is_refused(code: str, asked: dict[str, object]) -> None:
    sums = {"y": {"kind": "buy", "of": "y"}}
    with pytest.raises(EvalkitError) as refused:
        read(logs=True, **{"sums": sums, **asked})

    assert refused.value.code == code


@pytest.mark.parametrize("logs", [False, True])
def test_excluded_units_are_left_out_of_rows_and_logs(logs: bool) -> None:
    asked = {"sums": {"y": {"kind": "buy", "of": "y"}}} if logs else {}
    report = read(logs=logs, columns={"exposures": {"exclude": "bot"}}, **asked)

    assert [each.n_users for each in report.estimates] == [10, 20]
    assert dict(report.counts_frame.iter_rows())["units_excluded"] == 10
    assert any(each.segment == "excluded units" for each in report.checks)


def test_events_of_nobody_are_counted() -> None:
    events = EVENTS.with_columns(unit=pl.when(pl.col("unit") < 3).then(None).otherwise("unit"))
    report = evalkit.evaluate_experiment(
        UNITS.with_columns(time=START), events, variants={"a": 1, "b": 1}, metrics=["mean(buy)"]
    )

    assert dict(report.counts_frame.iter_rows())["event_null_unit"] == 3


def test_time_of_a_file_may_be_an_expression_and_a_slip_is_told(tmp_path: Path) -> None:
    events = str(tmp_path / "events.parquet")
    EVENTS.with_columns(ts=pl.col("time").dt.to_string("%Y/%m/%d %H:%M")).write_parquet(events)

    def value(time: str) -> float:
        report = evalkit.evaluate_experiment(
            UNITS.with_columns(time=START), events, variants={"a": 1, "b": 1},
            metrics=["mean(buy)"], columns={"events": {"time": time}},
        )  # fmt: skip
        return report.value("mean(buy)", model="b")

    assert value("strptime(ts, '%Y/%m/%d %H:%M')") == value("time") == 1.0
    with pytest.raises(EvalkitError, match="'tme'"):
        value("tme")
