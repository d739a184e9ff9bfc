"""Items and times of impressions: sessions of a span, copies of rows."""

import ast
from datetime import datetime

import polars as pl
import pytest

import evalkit
from evalkit.config import parse_config
from evalkit.errors import EvalkitError
from evalkit.jobs.check import check_config

# user 1: a day of one pair won, a day of one pair lost; user 2: a day of one label
ROWS = pl.DataFrame(
    {
        "user": [1, 1, 1, 1, 2, 2],
        "item": ["a", "b", "a", "b", "a", "b"],
        "time": [
            datetime(2026, 3, 1, 0, 0),
            datetime(2026, 3, 1, 23, 59, 59),
            datetime(2026, 3, 2, 0, 0),
            datetime(2026, 3, 2, 12, 0),
            datetime(2026, 3, 1, 8, 0),
            datetime(2026, 3, 1, 9, 0),
        ],
        "score": [0.9, 0.1, 0.2, 0.8, 0.5, 0.5],
        "label": [1, 0, 1, 0, 1, 1],
    }
)
TIMES = {
    "datetimes": ROWS["time"],
    "with a zone": ROWS["time"].dt.replace_time_zone("UTC"),
    "nanoseconds": ROWS["time"].cast(pl.Datetime("ns")),
    "dates": ROWS["time"].dt.date(),
    "seconds": ROWS["time"].dt.epoch("s"),
    "small seconds": ROWS["time"].dt.epoch("s").cast(pl.UInt32),
}


def measure(frame, every, metrics=("AUC(over='sessions')",), **more):
    return evalkit.evaluate_labels(
        frame, metrics=list(metrics), session_every=every, columns={"time": "time"}, **more
    )


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_a_session_is_a_users_day(times):
    report = measure(ROWS.with_columns(time=times), "1d")

    (estimate,) = report.estimates
    assert estimate.value == (1 + 0) / 2
    assert (estimate.n_users, estimate.n_undefined) == (2, 1)


def test_shorter_spans_cut_a_day():
    (estimate,) = measure(ROWS, "12h").estimates

    assert (estimate.n_users, estimate.n_undefined) == (0, 5)


def test_times_before_1970_have_spans_too():
    times = [datetime(1969, 12, 31, 23), datetime(1969, 12, 31, 1), datetime(1970, 1, 1, 1)]
    frame = pl.DataFrame({"user": 1, "time": times, "score": [0.9, 0.1, 0.5], "label": [1, 0, 0]})

    (estimate,) = measure(frame, "1d").estimates

    assert (estimate.value, estimate.n_users, estimate.n_undefined) == (1.0, 1, 1)


def test_sessions_of_a_span_are_those_of_a_column():
    named = ROWS.with_columns(session=pl.format("{}-{}", "user", pl.col("time").dt.date()))
    names = ["AUC(over='sessions')", "log-loss(over='sessions', weighting='impressions')"]

    by_column = evalkit.evaluate_labels(named, metrics=names, columns={"session": "session"})
    by_span = measure(ROWS, "1d", names)

    assert by_span.estimates == by_column.estimates


def test_a_row_without_time_has_no_session():
    frame = ROWS.with_columns(time=pl.when(pl.col("score") != 0.5).then("time"))
    with pytest.raises(EvalkitError) as caught:
        measure(frame, "1d")

    report = measure(frame, "1d", policies={"null_ids": "drop"})

    assert caught.value.code == "null-id"
    assert report.counts.models["model"].rows_dropped["null_id"] == 2


def test_times_that_are_text_are_parsed_by_sql_as_the_error_says():
    frame = ROWS.with_columns(time=pl.col("time").dt.to_string("%Y-%m-%d %H:%M:%S"))
    with pytest.raises(EvalkitError) as caught:
        measure(frame, "1d")
    columns = ast.literal_eval(caught.value.hint.partition("columns=")[2].partition(", if")[0])

    report = evalkit.evaluate_labels(
        frame, metrics=["AUC(over='sessions')"], session_every="1d", columns=columns
    )

    assert caught.value.code == "bad-time"
    assert report.estimates[0].value == 1 / 2


COPIES = {"item": "item", "time": "time"}


def test_copies_of_a_user_an_item_and_a_time_are_refused_or_counted():
    twice = pl.concat([ROWS, ROWS.head(2)])
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_labels(twice, metrics=["AUC"], columns=COPIES)

    report = evalkit.evaluate_labels(
        twice, metrics=["AUC"], columns=COPIES, policies={"duplicates": "count"}
    )

    assert caught.value.code == "duplicate-row"
    counts = report.counts.models["model"]
    assert (counts.duplicates, counts.duplicates_searched, counts.rows_used) == (2, "all", 8)
    assert "duplicate-row" in [each.code for each in report.warnings]


def test_an_item_that_is_shown_again_later_is_no_copy():
    report = evalkit.evaluate_labels(ROWS, metrics=["AUC"], columns=COPIES)

    assert report.counts.models["model"].duplicates == 0


def test_copies_are_counted_model_by_model():
    twice = pl.concat([ROWS, ROWS])
    both = pl.concat([t.with_columns(model=pl.lit(m)) for m, t in (("a", ROWS), ("b", twice))])

    report = evalkit.evaluate_labels(
        both,
        metrics=["AUC"],
        columns={**COPIES, "model": "model"},
        policies={"duplicates": "count"},
    )

    found = {name: each.duplicates for name, each in report.counts.models.items()}
    assert found == {"a": 0, "b": 6}


@pytest.mark.parametrize(("policy", "is_error"), [("error", True), ("count", False)])
def test_a_check_finds_copies_whatever_the_policy(tmp_path, policy, is_error):
    pl.concat([ROWS, ROWS.head(2)]).write_parquet(tmp_path / "rows.parquet")
    text = f"""
    [labels]
    model = "ctr"
    path = "rows.parquet"
    columns = {{ item = "item", time = "time" }}
    [metrics]
    names = ["AUC"]
    [policies]
    duplicates = "{policy}"
    """

    found = check_config(parse_config(text, source="job.toml", base=tmp_path))

    assert ("duplicate-row", is_error) in [(each.code, each.is_error) for each in found]


WRONG = [
    # arguments, code
    ({"columns": {"time": "time"}}, "missing-key"),
    ({"columns": {"item": "item"}}, "missing-key"),
    ({"session_every": "1d"}, "missing-key"),
    ({"session_every": "1 day", "columns": {"time": "time"}}, "out-of-range"),
    ({"session_every": "0d", "columns": {"time": "time"}}, "out-of-range"),
    ({"session_every": "1d", "columns": {"time": "time", "session": "item"}}, "conflicting-keys"),
    ({"session_every": "1d", "columns": {"time": "score"}}, "bad-time"),
    ({"policies": {"duplicates": "best"}}, "bad-policy"),
]


@pytest.mark.parametrize(("arguments", "code"), WRONG)
def test_what_is_wrong_is_told(arguments, code):
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_labels(ROWS, metrics=["AUC"], **arguments)

    assert caught.value.code == code


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_are_told_apart_by_the_unit_that_they_have(unit):
    start = pl.Series([0, 1, 2, 2]) + 1_700_000_000_000
    log = pl.DataFrame({"user": 1, "score": [0.1, 0.2, 0.3, 0.4], "label": [0, 1, 0, 1]})
    log = log.with_columns(item=1, time=start.cast(pl.Datetime(unit)))

    report = evalkit.evaluate_labels(
        log, metrics=["AUC"], columns=COPIES, policies={"duplicates": "count"}
    )

    assert report.counts.models["model"].duplicates == 1


def test_milliseconds_make_no_sessions_of_seconds_and_the_hint_makes_them_such():
    rows = [(n % 5, n / 60, n % 2, 1_700_000_000 + n * 7_000) for n in range(60)]
    seconds = pl.DataFrame(rows, schema=["user", "score", "label", "time"], orient="row")
    finer = seconds.with_columns(pl.col("time") * 1000)

    def measured(frame, time):
        asked = {"metrics": ["AUC(over='sessions')"], "session_every": "1d"}
        (found,) = evalkit.evaluate_labels(frame, columns={"time": time}, **asked).estimates
        return found.value, found.n_users

    with pytest.raises(EvalkitError, match="no seconds of any year") as refused:
        measured(finer, "time")

    hinted = refused.value.hint.partition(': "')[2].partition('"}')[0]
    assert measured(finer, hinted) == measured(seconds, "time")


def test_dates_as_numbers_make_no_sessions_of_seconds_and_the_hint_makes_them_such():
    rows = [(n % 5, n / 60, n % 2, 20250101 + n // 4) for n in range(60)]
    frame = pl.DataFrame(rows, schema=["user", "score", "label", "time"], orient="row")
    asked = {"metrics": ["AUC(over='sessions')"], "session_every": "1d"}

    with pytest.raises(EvalkitError, match="20250101 are dates, not seconds") as refused:
        evalkit.evaluate_labels(frame, columns={"time": "time"}, **asked)

    hinted = refused.value.hint.partition(': "')[2].partition('"}')[0]
    evalkit.evaluate_labels(frame, columns={"time": hinted}, **asked)
