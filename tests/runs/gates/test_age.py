"""A gate of age: truth of another day fails, whatever its numbers."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from evalkit.config import build_config
from evalkit.errors import DataError, Errors, RequestError
from evalkit.jobs.job import Job
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import open_partials

DAY = datetime(2026, 11, 27)
FORMS = {
    "datetime": pl.col("ts"),
    "date": pl.col("ts").cast(pl.Date),
    "seconds": pl.col("ts").dt.epoch("s"),
    "zone": pl.col("ts").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kolkata"),
}


def tree_at(folder, newest, *, form="datetime", gate=None, section="truth"):
    """A truth of three rows, the newest of them at `newest`, and one model."""
    times = [newest - timedelta(hours=10), newest, None]
    log = pl.DataFrame({"user": [1, 2, 3], "item": [1, 2, 3], "ts": times})
    log = log.with_columns(FORMS[form])
    own = {"path": str(folder / "log.parquet")}
    gates = [{"data": "age", **(gate or {"max": "2d"})}]
    tree = {"metrics": {"names": ["hit@1"]}, "gates": gates}
    if section == "log":
        log.with_columns(label=1, rank=1).write_parquet(own["path"])
        return {**tree, "log": {**own, "model": "als"}}
    log.write_parquet(own["path"])
    ranked = pl.DataFrame({"user": [1, 2, 3], "item": [1, 9, 3], "rank": 1})
    ranked.write_parquet(folder / "2026-11-27.parquet")
    rankings = [{"model": "als", "path": str(folder / "{day}.parquet")}]
    return {**tree, "truth": own, "rankings": rankings}


def judged(folder, newest, **more):
    tree = tree_at(folder, newest, **more)
    config = build_config(tree, name="night", variables={"day": "2026-11-27"})
    (gate,) = Job(config, folder / "runs").run().report.gates
    return gate


# 2d from {day}: whole days between dates, either way


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("days", "outcome"),
    [
        (0, "pass"),
        (-1, "pass"),
        (-2, "pass"),
        (-3, "fail"),
        (2, "pass"),
        (3, "fail"),
        (-30, "fail"),
    ],
)
def test_truth_of_another_day_fails(tmp_path, form, days, outcome):
    gate = judged(tmp_path, DAY + timedelta(days=days, hours=23), form=form)

    assert (gate.outcome, gate.value, gate.bound) == (outcome, abs(days), 2.0)


def test_age_from_the_start_is_of_hours(tmp_path):
    tree = tree_at(tmp_path, datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=30))
    tree["rankings"][0]["path"] = str(tmp_path / "2026-11-27.parquet")
    tree["gates"] = [{"data": "age", "max": each} for each in ("1d", "36h", "29h")]

    gates = Job(build_config(tree, name="night"), tmp_path / "runs").run().report.gates

    assert [each.outcome for each in gates] == ["fail", "pass", "fail"]
    assert gates[0].value == pytest.approx(30 / 24, abs=0.1)


def test_age_of_a_joined_log_is_judged(tmp_path):
    tree = tree_at(tmp_path, datetime(2020, 1, 1), section="log")

    report = run_config(build_config(tree, name="night"))

    assert report.counts.truth.newest == "2020-01-01T00:00:00Z"


def test_shares_find_the_same_newest_row(tmp_path):
    tree = tree_at(tmp_path, DAY)
    config = build_config(tree, name="night", variables={"day": "2026-11-27"})

    files = [tmp_path / f"{number}.partial" for number in (1, 2, 3)]
    for number, file in enumerate(files, 1):
        measure_partial(config, (number, 3)).write(file)

    counts = conclude_partials(open_partials(files)).counts
    assert counts == run_config(config).counts
    assert counts.truth.newest == "2026-11-27T00:00:00Z"


def test_no_row_with_a_time_cannot_tell(tmp_path):
    tree = tree_at(tmp_path, DAY)
    tree["truth"]["where"] = "ts is null"

    config = build_config(tree, name="night", variables={"day": "2026-11-27"})
    (gate,) = Job(config, tmp_path / "runs").run().report.gates

    assert (gate.outcome, gate.fails) == ("cannot tell", True)


def test_truth_without_a_time_is_refused_with_its_name(tmp_path):
    tree = tree_at(tmp_path, DAY)
    tree["truth"]["columns"] = {"user": "user", "item": "item"}
    config = build_config(tree, name="night", variables={"day": "2026-11-27"})

    with pytest.raises(DataError) as caught:
        run_config(config)
    error = caught.value

    assert error.code == "missing-column"
    assert error.hint == 'time = "ts" under [truth.columns]'


def test_milliseconds_are_no_seconds(tmp_path):
    def config_of(column):
        tree = tree_at(tmp_path, DAY)
        frame = pl.read_parquet(tree["truth"]["path"])
        frame.with_columns(pl.col("ts").dt.epoch("ms")).write_parquet(tree["truth"]["path"])
        tree["truth"]["columns"] = {"user": "user", "item": "item", "time": column}
        return build_config(tree, name="night", variables={"day": "2026-11-27"})

    with pytest.raises(DataError) as caught:
        run_config(config_of("ts"))
    hinted = caught.value.hint.partition('time = "')[2].rstrip('"')
    followed = run_config(config_of(hinted))

    assert caught.value.code == "bad-time"
    assert followed.counts.truth.newest == "2026-11-27T00:00:00Z"


def test_day_may_stand_in_no_path(tmp_path):
    tree = tree_at(tmp_path, DAY)
    tree["rankings"][0]["path"] = str(tmp_path / "2026-11-27.parquet")
    config = build_config(tree, name="night", variables={"day": "2026-11-20"})

    (gate,) = Job(config, tmp_path / "runs").run().report.gates

    assert (gate.outcome, gate.value) == ("fail", 7.0)


@pytest.mark.parametrize(
    ("gate", "day", "code"),
    [
        ({"max": 2}, "2026-11-27", "out-of-range"),  # of what?
        ({"max": "2 days"}, "2026-11-27", "wrong-type"),
        ({"max_change": 0.1, "baseline": "last"}, "2026-11-27", "out-of-range"),
        ({"max": "2d", "model": "als"}, "2026-11-27", "conflicting-keys"),
        ({"max": "2d"}, "friday", "bad-var"),
        ({"data": "users", "max": "2d"}, "2026-11-27", "wrong-type"),
        ({"data": "pairs", "min": 3, "model": "als"}, "2026-11-27", "conflicting-keys"),
    ],
)
def test_what_is_no_age_is_refused(tmp_path, gate, day, code):
    tree = tree_at(tmp_path, DAY, gate=gate)

    with pytest.raises((Errors, RequestError)) as caught:
        build_config(tree, name="n", variables={"day": day})
    error = caught.value

    assert code in [each.code for each in getattr(error, "errors", [error])]


def test_defaults_say_nothing_of_time(tmp_path):
    tree = tree_at(tmp_path, DAY)
    del tree["gates"]
    config = build_config(tree, name="night", variables={"day": "2026-11-27"})

    text = run_config(config).to_json()

    assert "newest" not in text
    assert '"time"' not in text
