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
EXPOSURES = UNITS.with_columns(time=START)
EVENTS = UNITS.select("unit", "y", "d", kind=pl.lit("buy"), time=START + dt.timedelta(hours=1))
OF_VALUES = {"y": {"kind": "buy", "of": "y"}}


def read(*, logs: bool = False, metrics: object = ("mean(y)",), **asked: object) -> evalkit.Report:
    shares = {"a": 1, "b": 1}
    tables = (EXPOSURES, EVENTS) if logs else (UNITS,)
    return evalkit.evaluate_experiment(*tables, variants=shares, metrics=metrics, **asked)


READY = [
    ("conflicting-keys", {"window": "7d"}),
    ("conflicting-keys", {"metrics": ["mean(y, window='1d')"]}),
    ("conflicting-keys", {"metrics": ["ratio(y, d)"], "before": {"y": ["x", "d"], "d": "x"}}),
    ("no-cluster", {"statistics": {"cluster": "team"}}),
    ("bad-type", {"columns": {"triggered": "told"}}),
    ("unknown-key", {"columns": {"tirggered": "bot"}}),
    ("wrong-type", {"statistics": {"search": "no"}}),
    ("wrong-type", {"statistics": {"level": "95"}}),
    ("wrong-type", {"statistics": {"strata": 3}}),
    ("wrong-type", {"statistics": {"cluster": 3}}),
    ("bad-parameter-value", {"metrics": ["mean(y, winsor=2)"]}),
    ("bad-parameter-value", {"metrics": ["mean(y, winsor=x)"]}),
    ("unknown-policy", {"policies": {"unexposed": "drop"}}),
    ("unknown-policy", {"policies": {"unexposed_events": "count"}}),
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
    *(("out-of-range", {"covariate_days": days}) for days in (-1, float("inf"), 1e9)),
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
    with pytest.raises(EvalkitError) as refused:
        read(logs=True, **{"sums": OF_VALUES, **asked})

    assert refused.value.code == code


ONE = UNITS.with_columns(variant=pl.lit("c"))
SAID = [
    *(
        (code, {"metrics": [metric]}, told)
        for code, metric, told in [
            ("unknown-metric", "men(y)", "did you mean 'mean'?"),
            ("bad-metric-syntax", "mean y", "write mean(clicks)"),
            ("bad-metric-syntax", "mean(cap=3, y)", "columns come first"),
            ("bad-metric-syntax", "ratio(y)", "ratio takes 2 columns, not 1"),
            ("bad-parameter-value", "quantile(y)", "write quantile(y, q=0.9)"),
            ("bad-parameter-value", "mean(y, winsor=0.9, cap=3)", "leave winsor or cap out"),
            ("bad-parameter-value", "mean(y, cuped='x')", "one of 'auto', 'off'"),
            ("unknown-parameter", "mean(y, wnsor=1)", "did you mean 'winsor'?"),
            ("missing-column", "mean(z)", "needs the columns ['z']"),
            ("not-a-number", "mean(told)", "told is String, no number"),
            ("conflicting-keys", "quantile(y, q=0.5, over='events')", "give exposures and events"),
        ]
    ),
    ("missing-key", {"metrics": []}, "no metric is asked for"),
    ("bad-share", {"variants": {"a": 0, "b": 1}}, "the share of variant 'a' is 0"),
    ("bad-share", {"variants": {"a": 1}}, "two variants or more, not 1"),
    ("unknown-profile", {"profile": "x"}, "one of evalkit, tea-tasting"),
    ("unknown-model", {"statistics": {"baseline": "c"}}, "one of a, b"),
    ("wrong-type", {"statistics": {"variance": "x"}}, "one of 'welch', 'pooled'"),
    ("conflicting-keys", {"statistics": {"margin": 1, "margin_relative": 0.1}}, "keep one of"),
    ("metric-not-measured", {"primary": "mean(d)"}, "did you mean 'mean(y)'?"),
    ("wrong-type", {"columns": {"exposures": 3}}, "columns of exposures are 3"),
    ("duplicate-unit", {"exposures": UNITS.vstack(UNITS)}, "80 rows share their unit"),
    ("unknown-variant", {"exposures": ONE}, 'policies={"unknown_variants": "drop"}'),
    *(
        (code, {"exposures": EXPOSURES, "events": EVENTS, "sums": {"y": "buy"}, **asked}, told)
        for code, asked, told in [
            ("bad-span", {"window": "7"}, '"30m", "12h"'),
            ("bad-time", {"until": "soon"}, "until is 'soon', no moment"),
            ("wrong-type", {"sums": {"y": 3}}, '{"kind": "purchase", "of": "value"}'),
            ("no-event-in-window", {"sums": {"y": "sell"}}, "there? Events have buy"),
            ("no-event-in-window", {"events": EVENTS[:0]}, "there are no events"),
            ("missing-column", {"metrics": ["mean(z)"]}, "there is y"),
            ("open-windows", {"window": "7d"}, 'pass policies={"open_windows": "keep"}'),
        ]
    ),
]


@pytest.mark.parametrize(("code", "asked", "told"), SAID)
def test_what_is_refused_says_what_to_write_in_python(
    code: str, asked: dict[str, object], told: str
) -> None:
    given = {"exposures": UNITS, "variants": {"a": 1, "b": 1}, "metrics": ["mean(y)"], **asked}
    with pytest.raises(EvalkitError) as refused:
        evalkit.evaluate_experiment(**given)

    assert refused.value.code == code
    assert told in str(refused.value)


SEEN = pl.DataFrame({"user": [1, None], "credit_a": [1.0, 0.0], "credit_b": [0.0, 1.0]})


@pytest.mark.parametrize(
    ("code", "asked", "told"),
    [
        ("unknown-key", {"columns": {"usr": "user"}}, "did you mean 'user'?"),
        ("wrong-type", {"models": "ab"}, "models is 'ab', not a list"),
        ("unknown-key", {"method": "draft"}, "one of team-draft"),
        ("null-id", {}, "1 impressions have no user"),
        ("missing-column", {"impressions": SEEN.drop("user")}, 'columns={"unit": "..."}'),
        ("bad-values", {"impressions": SEEN[:0]}, "there are no impressions"),
    ],
)
def test_what_no_list_was_interleaved_of_is_refused(
    code: str, asked: dict[str, object], told: str
) -> None:
    with pytest.raises(EvalkitError) as refused:
        evalkit.evaluate_interleaving(**{"impressions": SEEN, "models": ["a", "b"], **asked})

    assert refused.value.code == code
    assert told in str(refused.value)


POCOCK = {"sequential": {"spending": "pocock", "final": 40}}
PLANS = [
    *(
        ("bad-fractions", {"looks": looks, "statistics": POCOCK}, "do not rise")
        for looks in ([], 0, [0.5, 0.5], [2.0, 3.0])
    ),
    *(
        ("unknown-spending", {"statistics": {"sequential": {"spending": name, "final": 40}}}, name)
        for name in ("pocok", "power(rho=0)", "power(rho=x)")
    ),
    *(
        ("bad-option", {name: size}, f"hint: {name}=0.01")
        for name in ("relative", "delta")
        for size in (0, math.inf)
    ),
    ("conflicting-keys", {"relative": 0.1, "delta": 1}, "give one of them"),
    ("missing-key", {"looks": 3}, 'statistics={"sequential": {"spending": "obrien-fleming"'),
    ("empty-input", {"units": UNITS[:0], "relative": 0.1}, "there are no units"),
    ("wrong-type", {"before": {"y": 3}}, 'hint: pass before={"clicks": "COLUMN"}'),
    ("unknown-key", {"statistics": {"looks": 3}}, "search, sequential"),
    ("wrong-type", {"variants": ["a", "b"]}, 'variants={"control": 50, "b": 50}'),
]


@pytest.mark.parametrize(("code", "asked", "told"), PLANS)
def test_what_no_plan_is_made_of_is_refused(code: str, asked: dict[str, object], told: str) -> None:
    with pytest.raises(EvalkitError) as refused:
        evalkit.plan_experiment(**{"units": UNITS, "metrics": ["mean(y)"], **asked})

    assert refused.value.code == code
    assert told in str(refused.value)


def test_shares_of_rows_without_a_unit_are_refused(tmp_path: Path) -> None:
    UNITS.drop("unit").write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.toml").write_text(
        '[experiment]\nvariants = { a = 1, b = 1 }\n[exposures]\npath = "rows.parquet"\n'
        '[metrics]\nnames = ["mean(y)"]\n'
    )
    with pytest.raises(EvalkitError, match="shares are made of units") as refused:
        evalkit.partial(tmp_path / "job.toml", share=(1, 2), out=tmp_path / "part")

    assert refused.value.code == "missing-column"
    assert not (tmp_path / "part").exists()


def test_an_effect_on_what_does_not_vary_takes_two_units() -> None:
    same = UNITS.with_columns(y=pl.lit(1.0))

    assert evalkit.plan_experiment(same, metrics=["mean(y)"], relative=0.1).sizes["units"][0] == 2


MOST = pl.col("unit") >= 3
TIME, VALUE = pl.when(MOST).then("time"), pl.when(MOST).then("y")
ROWS = [
    ("unknown-variant", EXPOSURES.with_columns(variant=pl.lit("c")), EVENTS),
    ("unknown-variant", EXPOSURES.with_columns(variant=pl.when(MOST).then("variant")), EVENTS),
    ("empty-variant", EXPOSURES.with_columns(variant=pl.lit("a")), EVENTS),
    ("crossed-units", EXPOSURES.vstack(EXPOSURES.with_columns(variant=pl.lit("a"))), EVENTS),
    ("null-time", EXPOSURES.with_columns(time=TIME), EVENTS),
    ("null-time", EXPOSURES, EVENTS.with_columns(time=TIME)),
    ("bad-time", EXPOSURES.with_columns(time=pl.lit("today")), EVENTS),
    ("time-zone", EXPOSURES.with_columns(pl.col("time").dt.replace_time_zone("UTC")), EVENTS),
    ("unexposed-events", EXPOSURES[:20], EVENTS),
    ("bad-values", EXPOSURES, EVENTS.with_columns(y=VALUE)),
    ("bad-values", EXPOSURES, EVENTS.with_columns(y=VALUE.otherwise(math.nan))),
]


@pytest.mark.parametrize(("code", "exposures", "events"), ROWS)
def test_rows_that_no_effect_can_be_read_of_are_refused(
    code: str, exposures: pl.DataFrame, events: pl.DataFrame
) -> None:
    with pytest.raises(EvalkitError) as refused:
        evalkit.evaluate_experiment(
            exposures, events, variants={"a": 1, "b": 1}, metrics=["mean(y)"], sums=OF_VALUES,
            policies={"unexposed_events": "error"},
        )  # fmt: skip

    assert refused.value.code == code


def test_credits_and_past_effects_that_are_no_numbers_are_refused() -> None:
    seen = pl.DataFrame({"user": [1, 2], "credit_a": [1.0, None], "credit_b": [0.0, 1.0]})
    past = {"offline": [0.1], "offline_error": [0.0], "online": [1.0], "online_error": [0.1]}

    with pytest.raises(EvalkitError, match="1 credits are no numbers"):
        evalkit.evaluate_interleaving(seen, models=["a", "b"])
    with pytest.raises(EvalkitError, match="no offline_error that is a number above 0"):
        evalkit.surrogates(pl.DataFrame(past))


@pytest.mark.parametrize("logs", [False, True])
def test_excluded_units_are_left_out_of_rows_and_logs(logs: bool) -> None:
    asked = {"sums": OF_VALUES} if logs else {}
    report = read(logs=logs, columns={"exposures": {"exclude": "bot"}}, **asked)

    assert [each.n_users for each in report.estimates] == [10, 20]
    assert dict(report.counts_frame.iter_rows())["units_excluded"] == 10
    assert any(each.segment == "excluded units" for each in report.checks)


def test_events_of_nobody_are_counted() -> None:
    events = EVENTS.with_columns(unit=pl.when(pl.col("unit") < 3).then(None).otherwise("unit"))
    report = evalkit.evaluate_experiment(
        EXPOSURES, events, variants={"a": 1, "b": 1}, metrics=["mean(buy)"]
    )

    assert dict(report.counts_frame.iter_rows())["event_null_unit"] == 3


def test_time_of_a_file_may_be_an_expression_and_a_slip_is_told(tmp_path: Path) -> None:
    events = str(tmp_path / "events.parquet")
    EVENTS.with_columns(ts=pl.col("time").dt.to_string("%Y/%m/%d %H:%M")).write_parquet(events)

    def value(time: str) -> float:
        report = evalkit.evaluate_experiment(
            EXPOSURES, events, variants={"a": 1, "b": 1},
            metrics=["mean(buy)"], columns={"events": {"time": time}},
        )  # fmt: skip
        return report.value("mean(buy)", model="b")

    assert value("strptime(ts, '%Y/%m/%d %H:%M')") == value("time") == 1.0
    with pytest.raises(EvalkitError, match="'tme'"):
        value("tme")
