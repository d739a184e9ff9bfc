"""Times of logs: of which unit whole numbers are, in which zone, and which cannot be."""

import datetime as dt

import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError

START = dt.datetime(2026, 1, 1)
DAY = dt.timedelta(days=1)
EXPOSURES = pl.DataFrame({"unit": range(40), "variant": ["a", "b"] * 20, "time": [START] * 40})
HOURS = [pl.lit(START + dt.timedelta(hours=hours)) for hours in (-9, 1)]
EVENTS = pl.concat(EXPOSURES.select("unit", kind=pl.lit("buy"), time=each) for each in HOURS)


def read(exposures: pl.DataFrame, events: pl.DataFrame, **asked: object) -> evalkit.Report:
    return evalkit.evaluate_experiment(
        exposures, events, variants={"a": 1, "b": 1}, metrics=["mean(buy, cuped='off')"], **asked
    )


def values(report: evalkit.Report) -> list[float]:
    return report.frame["value"].to_list()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_that_was_never_set_changes_the_unit_of_no_other(unit: str) -> None:
    epoch = pl.col("time").dt.epoch(unit)  # type: ignore[arg-type]
    unset = pl.DataFrame({"unit": [0], "kind": ["buy"], "time": [0]})
    events = pl.concat([unset, EVENTS.with_columns(epoch)])

    assert values(read(EXPOSURES.with_columns(epoch), events)) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("code", "time", "sql"),
    [
        ("bad-time", pl.col("time").dt.epoch("ms") / 1000, "cast(time * 1000 as bigint)"),
        ("time-zone", pl.col("time").dt.replace_time_zone("UTC"), "cast(time as timestamp)"),
    ],
)
def test_a_refused_time_says_what_reads_it(code: str, time: pl.Expr, sql: str) -> None:
    exposures = EXPOSURES.with_columns(time)

    with pytest.raises(DataError) as refused:
        read(exposures, EVENTS)

    assert refused.value.code == code
    assert f'"{sql}"' in refused.value.hint
    read_so = read(exposures, EVENTS, columns={"exposures": {"time": sql}})
    assert values(read_so) == [1.0, 1.0]


def test_events_of_the_day_of_an_exposure_by_date_count() -> None:
    exposures = EXPOSURES.with_columns(pl.col("time").dt.date())
    later, earlier = EVENTS.tail(40), EVENTS.head(40)

    assert values(read(exposures, later)) == [1.0, 1.0]
    assert values(read(exposures, later, window="1d", until=START.date() + DAY)) == [1.0, 1.0]
    assert values(read(exposures, pl.concat([earlier, later.head(2)]))) == [0.05, 0.05]


@pytest.mark.parametrize(
    ("section", "sql", "expected"),
    [("exposures", "cast(time as date)", 1.0), ("events", "cast(time as timestamp)", 0.05)],
)
def test_events_by_date_beside_exposures_by_moment_are_read_as_the_hint_says(
    section: str, sql: str, expected: float
) -> None:
    exposures = EXPOSURES.with_columns(pl.col("time") + pl.duration(hours=9))
    next_day = EVENTS.tail(2).with_columns(pl.col("time") + pl.duration(hours=24))
    events = pl.concat([EVENTS.slice(40, 38), next_day]).with_columns(pl.col("time").dt.date())

    with pytest.raises(DataError) as refused:
        read(exposures, events)

    assert refused.value.code == "dates-beside-moments"
    assert f'"{section}": {{"time": "{sql}"}}' in refused.value.hint
    assert values(read(exposures, events, columns={section: {"time": sql}})) == [expected] * 2


@pytest.mark.parametrize(("unset", "ahead"), [(False, False), (True, False), (False, True)])
def test_clocks_that_are_wrong_are_told(unset: bool, ahead: bool) -> None:
    last = dt.datetime(9000, 1, 1) if ahead else START + dt.timedelta(hours=3)
    late = EVENTS.head(1).with_columns(time=last)
    exposures = EXPOSURES.with_columns(
        time=pl.when(pl.col("unit").is_in([4, 5]) & unset)
        .then(dt.datetime(1970, 1, 1))
        .otherwise("time")
    )

    report = read(exposures, pl.concat([EVENTS, late]), window="2h")

    told = [each.message for each in report.warnings if each.code == "odd-times"]
    assert [each.partition(",")[0] for each in told] == [
        *["2 units were first exposed before 1973"] * unset,
        *["the last event is of 9000-01-01T00:00:00"] * ahead,
    ]
