"""Past runs are found, indexed, tagged and pruned; the directories are the truth."""

import errno
import json
import os
import sqlite3
from dataclasses import asdict, replace

import pytest
from example_runs import report

from evalkit.cli.app import run_command
from evalkit.errors import BusyError, MachineError, RequestError
from evalkit.report import Gate
from evalkit.report.html import render_trends
from evalkit.report.trend import Point, Trend, order_of, tell_signals
from evalkit.runs import history, hold, publish, verify

FAILED = Gate(
    metric="nDCG@10", model="als", segmentation=None, segment=None, kind="min", bound=0.6,
    value=0.5, delta=None, low=0.4, high=0.55, baseline=None, baseline_run=None,
    judged_by="bound", n_users=2, outcome="fail", fails=True, message="too low",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Runs a, b, c of nightly, of which b failed, and w of weekly."""
    publish(report("a"), tmp_path, formats=())
    publish(report("b", gates=(FAILED,)), tmp_path, formats=())
    publish(report("c", gates=(FAILED,)), tmp_path, formats=())
    publish(report("w", name="weekly"), tmp_path, formats=())
    return tmp_path


def index_of(folder):
    with history.open_index(folder) as (connection, damaged):
        return [run for (run,) in connection.execute("SELECT run_id FROM runs ORDER BY 1")], damaged


@pytest.mark.parametrize(
    ("reference", "name", "found"),
    [
        ("last", "nightly", "c"),
        ("last", None, "w"),
        ("last~1", "nightly", "b"),
        ("last~2", "nightly", "a"),
        ("last-passed", "nightly", "a"),
        ("last-passed", None, "w"),
        ("b", None, "b"),
        ("prod", "nightly", "b"),
        ("latest", None, "w"),
    ],
)
def test_run_is_found(folder, reference, name, found):
    history.tag_run(folder, folder / "b", "prod")

    assert history.find_run(folder, reference, name=name).name == found


def test_without_a_job_last_counts_the_runs_of_one(folder):
    assert history.find_run(folder, "last~1") is None  # w is the only run of weekly


@pytest.mark.parametrize(
    ("references", "name", "found"),
    [
        (("last~1", "last"), "nightly", ["b", "c"]),
        (("a", "last"), None, ["a", "c"]),
        (("prod", "last~1", "last"), None, ["b", "b", "c"]),
        (("a", "w"), None, ["a", "w"]),
        (("last-passed", "c"), None, ["a", "c"]),
    ],
)
def test_runs_named_together_are_of_one_job(folder, references, name, found):
    history.tag_run(folder, folder / "b", "prod")

    reports = history.load_together(folder, references, name=name)

    assert [report.run_id for report in reports] == found


def test_a_time_in_one_of_several_jobs_is_refused(folder):
    with pytest.raises(RequestError) as caught:
        history.load_together(folder, ("a", "w", "last"))

    assert (caught.value.code, caught.value.hint) == ("ambiguous-job", "--name nightly")


def test_path_is_found(folder):
    assert history.find_run("nowhere", str(folder / "a")) == folder / "a"


def test_there_may_be_no_run_so_long_ago(folder):
    assert history.find_run(folder, "last~3", name="nightly") is None
    assert history.find_run(folder / "new", "last", name="nightly") is None


def test_unknown_run_is_told(folder):
    history.tag_run(folder, folder / "b", "prod")

    with pytest.raises(RequestError) as caught:
        history.find_run(folder, "prd")

    assert (caught.value.code, caught.value.hint) == ("unknown-run", "did you mean 'prod'?")


def test_tag_moves_and_goes(folder):
    history.tag_run(folder, folder / "a", "prod")
    history.tag_run(folder, folder / "b", "prod")

    assert history.read_tags(folder) == {"prod": "b"}
    assert verify(folder / "tags" / "prod") == []
    history.untag(folder, "prod")
    assert history.read_tags(folder) == {}


@pytest.mark.parametrize("tag", ["", "last", "last~1", "../x", "a/b", ".x", "latest", "x" * 65])
def test_tag_cannot_be_anything(folder, tag):
    with pytest.raises(RequestError) as caught:
        history.tag_run(folder, folder / "a", tag)

    assert caught.value.code == "bad-tag"


def test_tag_that_points_elsewhere_is_no_tag(folder):
    (folder / "tags").mkdir()
    (folder / "tags" / "evil").symlink_to("/etc")

    assert history.read_tags(folder) == {}


def test_index_follows_the_directories(folder):
    assert index_of(folder) == (["a", "b", "c", "w"], 0)
    for file in (folder / "b").iterdir():
        file.unlink()
    publish(report("d"), folder, formats=())

    assert index_of(folder) == (["a", "c", "d", "w"], 0)
    assert history.query(folder, "SELECT count(*) FROM gates").rows == ((1,),)


@pytest.mark.parametrize("content", [b"", b"no database at all, but as long as one may be" * 99])
def test_lost_or_damaged_index_is_made_anew(folder, content):
    index_of(folder)
    (folder / history.INDEX).write_bytes(content)

    assert index_of(folder) == (["a", "b", "c", "w"], 0)


def test_a_damaged_index_that_cannot_be_removed_is_made_in_memory(folder, monkeypatch):
    def read_only(path):
        raise OSError(errno.EROFS, "read-only file system")

    (folder / history.INDEX).write_bytes(b"no database at all, but as long as one may be" * 99)
    monkeypatch.setattr("evalkit.runs.history._index._remove", read_only)

    assert index_of(folder) == (["a", "b", "c", "w"], 0)


def test_index_of_another_version_is_made_anew(folder):
    index_of(folder)
    with sqlite3.connect(folder / history.INDEX) as connection:
        connection.execute("DROP TABLE gates")
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    assert index_of(folder) == (["a", "b", "c", "w"], 0)


def test_damaged_run_is_left_out_and_counted(folder):
    text = (folder / "b" / "report.json").read_text()
    (folder / "b" / "report.json").write_text(text.replace("0.5", "0.9"))

    assert index_of(folder) == (["a", "c", "w"], 1)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM runs",
        "SELECT 1; DROP TABLE runs",
        "ATTACH 'x.sqlite' AS x",
        "PRAGMA journal_mode = WAL",
        "SELECT load_extension('x')",
        "VACUUM INTO 'x.sqlite'",
        "SELEC",
        "",
        "\ud800",
    ],
)
def test_query_only_reads(folder, sql, monkeypatch):
    monkeypatch.chdir(folder)
    if sql == "":
        assert history.query(folder, sql).rows == ()
        return
    with pytest.raises(RequestError) as caught:
        history.query(folder, sql)

    assert caught.value.code == "bad-sql"
    assert not (folder / "x.sqlite").exists()
    assert index_of(folder) == (["a", "b", "c", "w"], 0)


def test_query_gives_columns_and_rows(folder):
    found = history.query(folder, "SELECT name, count(*) AS n FROM runs GROUP BY name ORDER BY 1")

    assert (found.columns, found.rows) == (("name", "n"), (("nightly", 3), ("weekly", 1)))


def test_trends_are_ordered_by_run(folder):
    history.tag_run(folder, folder / "b", "prod")

    trends, damaged = history.read_trends(folder, "ndcg@10", name="nightly")

    (trend,) = trends
    assert damaged == 0
    assert [(each.run_id, each.is_fine, each.tags) for each in trend.points] == [
        *(("a", True, ()), ("b", False, ("prod",)), ("c", False, ())),
    ]


def test_trends_are_ordered_by_a_variable_and_know_their_gates(tmp_path):
    days = {"a": "2026-11-21", "b": "2026-11-19", "c": "2026-11-21", "d": None, "e": ["x"]}
    for run_id, day in days.items():
        config = {"variables": {"day": day}} if day else {}
        gates = (replace(FAILED, bound=0.4), replace(FAILED, kind="max_drop", baseline="last"))
        publish(report(run_id, config=config, gates=gates), tmp_path, formats=("json", "html"))

    (trend,), damaged = history.read_trends(tmp_path, "nDCG@10", by="day", beside=tmp_path / "x")

    assert damaged == 0
    assert [(each.run_id, each.at, each.page) for each in trend.points] == [
        ("b", "2026-11-19", "../b/report.html"),
        ("c", "2026-11-21", "../c/report.html"),
    ]
    assert [each.replaced for each in trend.points] == [(), (trend.points[0].value,)]
    assert (trend.by, trend.bounds) == ("day", (("min", 0.4),))
    page = render_trends([trend])
    assert all(each in page for each in ("2026-11-19", "min 0.4", 'href="../c/report.html"'))
    with pytest.raises(RequestError) as caught:
        history.read_trends(tmp_path, "nDCG@10", by="night")
    assert caught.value.code == "no-values"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"metric": "nDCG@11"}, "metric-not-in-report"),
        ({"metric": "nDCG@10", "model": "x"}, "no-values"),
        ({"metric": "nDCG@10", "segment": "a=b"}, "no-values"),
    ],
)
def test_trend_of_nothing_is_told(folder, asked, code):
    with pytest.raises(RequestError) as caught:
        history.read_trends(folder, **asked)

    assert caught.value.code == code


def test_an_index_that_cannot_be_written_is_read_and_not_said_to_be_made(folder, monkeypatch):
    connect = sqlite3.connect

    def in_memory_alone(path, **more):
        if str(path) != ":memory:":
            raise sqlite3.OperationalError("database or disk is full")
        return connect(path, **more)

    monkeypatch.setattr(sqlite3, "connect", in_memory_alone)

    assert index_of(folder) == (["a", "b", "c", "w"], 0)
    with pytest.raises(MachineError) as error:
        run_command(["history", "rebuild", "--out", str(folder)])
    assert error.value.code == "not-writable"


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"name": "nightl"}, "did you mean 'nightly'?"),
        ({"model": "alz"}, "did you mean 'als'?"),
        ({"model": "quite another"}, "there are the models als"),
        ({"name": "nightly", "by": "day"}, "shows the runs"),
    ],
)
def test_what_no_run_has_is_hinted_at_by_what_they_have(folder, asked, hint):
    with pytest.raises(RequestError) as caught:
        history.read_trends(folder, "nDCG@10", **asked)

    assert hint in caught.value.hint


def test_trend_where_no_run_is_says_so(tmp_path):
    with pytest.raises(RequestError) as caught:
        history.read_trends(tmp_path, "RR")

    assert caught.value.hint == "there is no whole run yet"


def test_prune_keeps_the_last_of_every_job_and_tagged_ones(folder):
    publish(report("d"), folder, formats=())
    history.tag_run(folder, folder / "a", "prod")

    would = history.prune(folder, keep=1, dry=True)
    removed = history.prune(folder, keep=1, dry=False)

    assert would == removed == [folder / "b", folder / "c"]
    assert index_of(folder) == (["a", "d", "w"], 0)
    assert not [each for each in os.listdir(folder) if each.startswith(".tmp")]


def test_prune_keeps_what_the_gates_of_the_next_night_compare_with(tmp_path):
    for name in ("a", "b", "c"):
        publish(report(name, gates=() if name == "a" else (FAILED,)), tmp_path, formats=())

    removed = history.prune(tmp_path, keep=1, dry=False)

    assert removed == [tmp_path / "b"]
    assert history.find_run(tmp_path, "last-passed") == tmp_path / "a"


def test_a_run_that_began_earlier_and_was_published_later_is_not_the_last(tmp_path, caplog):
    publish(report("20260102-030405-000-b"), tmp_path, formats=())
    publish(report("20260101-030405-000-a"), tmp_path, formats=())

    assert "warning[run-not-last]" in caplog.text
    last = tmp_path / "20260102-030405-000-b"
    found = [history.find_run(tmp_path, reference) for reference in ("last", "latest")]
    assert found == [last, last]
    assert history.prune(tmp_path, keep=1, dry=False) == [tmp_path / "20260101-030405-000-a"]


def test_latest_leaves_a_run_of_the_future(tmp_path):
    publish(report("20990101-030405-000-a"), tmp_path, formats=())
    last = publish(report("20260101-030405-000-b"), tmp_path, formats=())

    assert history.find_run(tmp_path, "last") == history.find_run(tmp_path, "latest") == last


def test_prune_waits_for_nobody(folder):
    with hold(folder, "nightly"), pytest.raises(BusyError):
        history.prune(folder, keep=1, dry=False)

    assert index_of(folder) == (["a", "b", "c", "w"], 0)


def nightly_runs(folder, values, errors=None):
    """Runs n00, n01, ... of a model; those whose value is None lack the metric."""
    (estimate,) = report().estimates
    errors = errors or [0.02] * len(values)
    for number, (value, error) in enumerate(zip(values, errors, strict=True)):
        name = "nDCG@10" if value is not None else "RR"
        found = replace(estimate, metric=name, value=value or 0.0, std_error=error, n_users=900)
        meta = replace(report().meta, started=f"2026-10-{number + 1:02d}T03:00:00Z")
        publish(report(f"n{number:02d}", estimates=(found,), meta=meta), folder, formats=())


STEADY = [0.50, 0.52, 0.48, 0.51, 0.49, 0.50, 0.53, 0.47, 0.50, 0.51]


def test_what_was_expected_of_a_run_does_not_depend_on_how_many_are_shown(tmp_path):
    nightly_runs(tmp_path, [*STEADY[:4], None, *STEADY[4:], 0.2])

    (whole,), _ = history.read_trends(tmp_path, "nDCG@10")
    (part,), _ = history.read_trends(tmp_path, "nDCG@10", limit=2)

    assert part.points == whole.points[-2:]
    last = whole.points[-1]
    assert (last.run_id, last.signals) == ("n11", ("outside",))
    assert last.value < last.expected_low < last.level < last.expected_high
    assert "n04" not in [each.run_id for each in whole.points]


def test_all_forms_of_a_trend_tell_the_same(tmp_path, capsys):
    nightly_runs(tmp_path, [*STEADY, *[0.45, 0.46] * 5])
    (trend,), _ = history.read_trends(tmp_path, "nDCG@10")
    (night,) = [each for each in trend.points if each.signals]

    text, document = said(capsys, tmp_path), json.loads(said(capsys, tmp_path, "--json"))
    page = render_trends([trend])

    assert (night.run_id, night.signals, night.shifted) == ("n18", ("shift",), "n10")
    assert text.splitlines()[2:] == ["als, 2026-10-19 03:00:00: shift of the level since run n10"]
    assert document[0]["points"] == [
        asdict(each) | {"signals": [*each.signals], "tags": [], "replaced": []}
        for each in trend.points
    ]
    assert page.count('class="unclear">shift<') == page.count('class="flag"') == 1


def test_limits_do_not_leave_what_a_metric_can_be(tmp_path):
    nightly_runs(tmp_path, [0.02, 0.01, 0.03, 0.02])

    (trend,), _ = history.read_trends(tmp_path, "nDCG@10")

    first, second, third, fourth = [(e.expected_low, e.expected_high) for e in trend.points]
    assert first == second == third == (None, None)  # of two nights all of 0 to 1 may be expected
    assert (fourth[0], fourth[1] is not None and fourth[1] < 1.0) == (0.0, True)


def test_runs_without_standard_errors_are_told(tmp_path, capsys):
    nightly_runs(tmp_path, STEADY, [None, 0.0] * 5)

    out = said(capsys, tmp_path)

    assert out.splitlines()[-1] == "als: no standard errors, so nothing is expected of a run"


def said(capsys, folder, *options):
    capsys.readouterr()
    run_command(["history", "show", "nDCG@10", "--out", str(folder), *options])
    return capsys.readouterr().out


def test_values_of_a_variable_stand_as_they_are_and_numbers_by_size():
    stamps = ["1764111223344", "1763999999999", "1764200000000"]  # of which one is a date of 1764
    said = "THE TWENTIETH OF A MONTH"
    point = Point("a", "", 0.5, None, None, 2, True, at=said, signals=("trend",))

    (told,) = tell_signals(Trend("job", "RR", "als", None, None, (point,), by="day"))

    assert sorted(stamps, key=order_of) == sorted(stamps)
    assert told == f"als, {said}: trend"
