"""Runs are published whole or not at all: at every fault, every kill, every damaged byte."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import polars as pl
import pytest
from example_runs import CALLS, TEXT, failing, left_over, report, with_users

from evalkit import runs
from evalkit.config.form_names import FILES
from evalkit.errors import BusyError, DataError, MachineError, RequestError
from evalkit.report import PerUser, Report
from evalkit.runs import hold, load_run, new_run_id, publish, run_key, verify
from evalkit.runs._keys import digest

MODELS = (("z", 0), ("a", 1))


def test_run_is_a_directory_with_every_file_and_latest_points_to_it(tmp_path):
    path = publish(report(), tmp_path / "new" / "runs", formats=FILES, config={"a": 1})

    assert path == tmp_path / "new" / "runs" / "first"
    assert sorted(each.name for each in path.iterdir()) == [
        *("manifest.json", "metrics.csv", "metrics.parquet", "report.html", "report.json"),
        *("report.md", "report.tex"),
    ]
    assert (path.parent / "latest").resolve() == path
    assert verify(path) == verify(path.parent / "latest") == []
    assert left_over(path.parent) == []


def test_report_writes_itself(tmp_path):
    path = report().write(tmp_path)

    assert (path / "report.json").read_text() == report().to_json()
    assert {"metrics.parquet", "report.md"} <= {each.name for each in path.iterdir()}


def test_report_json_is_written_whatever_the_formats(tmp_path):
    path = publish(report(), tmp_path, formats=())

    assert sorted(each.name for each in path.iterdir()) == ["manifest.json", "report.json"]


def test_manifest_says_what_the_run_rests_on(tmp_path):
    path = publish(report(), tmp_path, config={"day": datetime(2026, 1, 2), "x": float("nan")})

    manifest = json.loads((path / "manifest.json").read_text(), parse_constant=pytest.fail)

    assert manifest["run_id"] == "first"
    assert manifest["inputs"][0]["fingerprint"] == "f"
    assert manifest["config"] == {"day": "2026-01-02 00:00:00", "x": None}
    assert set(manifest["files"]) == {"report.json", "report.md", "report.html", "metrics.parquet"}


def test_latest_moves_to_the_next_run_and_the_first_stays(tmp_path):
    first = publish(report("first"), tmp_path)
    second = publish(report("second"), tmp_path)

    assert (tmp_path / "latest").resolve() == second
    assert verify(first) == verify(second) == []


def test_run_is_as_open_to_others_as_its_folder(tmp_path):
    tmp_path.chmod(0o750)

    path = publish(report(), tmp_path)

    assert path.stat().st_mode & 0o777 == 0o750


def test_run_is_written_once(tmp_path):
    path = publish(report(), tmp_path)
    before = (path / "manifest.json").read_bytes()

    with pytest.raises(RequestError) as caught:
        publish(report(), tmp_path)

    assert caught.value.code == "run-exists"
    assert (path / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("run_id", ["", "..", "../up", "a/b", ".hidden", "latest", "x" * 101, "\n"])
def test_run_id_cannot_leave_the_folder(tmp_path, run_id):
    with pytest.raises(RequestError) as caught:
        publish(report(run_id), tmp_path / "runs")

    assert caught.value.code == "bad-run-id"
    assert list(tmp_path.iterdir()) == []


def test_unknown_format_writes_nothing(tmp_path):
    with pytest.raises(RequestError, match="'jsn'") as caught:
        publish(report(), tmp_path / "runs", formats=["jsn"])

    assert caught.value.code == "unknown-format"
    assert list(tmp_path.iterdir()) == []


def test_values_of_users_are_one_file_ordered_by_user_then_model(tmp_path):
    path = publish(with_users(), tmp_path)

    frame = pl.read_parquet(path / "per_user.parquet")

    assert frame.columns == ["user", "model", "nDCG@10"]
    assert frame["user"].to_list() == [1, 2, 2, 3]
    assert frame["model"].to_list() == ["b", "b", "als", "als"]
    assert frame["nDCG@10"].to_list()[:3] == [0.5, 1.0, 0.25]


@pytest.mark.parametrize("n_files", [1, 2])
def test_finished_files_of_users_are_taken_in(tmp_path, n_files):
    with hold(tmp_path / "runs", "nightly") as job, job.scratch("first") as scratch:
        for number in range(n_files):
            frame = pl.DataFrame({"user": [number], "model": ["als"], "nDCG@10": [number / 4]})
            frame.write_parquet(scratch / f"{number}.parquet")
        kept = PerUser(("user",), ("nDCG@10",), path=scratch)
        path = publish(report(), tmp_path / "runs", per_user=kept, job=job)

    assert left_over(tmp_path / "runs") == []
    assert verify(path) == []
    found = load_run(path).per_user("nDCG@10")
    assert found["value"].to_list() == [0.0, 0.25][:n_files]


def test_files_with_users_of_their_own_are_read_as_one_file_is(tmp_path):
    frames = {name: pl.DataFrame({"user": [*"abc"], "RR": [n / 4, 0.5, 1]}) for name, n in MODELS}
    whole = PerUser(("user",), ("RR",), frames)
    for name, users in (("0", ["b"]), ("1", ["a", "c"])):
        own = whole.table().filter(pl.col("user").is_in(users))
        own.sink_parquet(tmp_path / f"{name}.parquet")
    kept = PerUser(("user",), ("RR",), path=tmp_path)

    assert kept.table().collect().equals(whole.table().collect())
    for name, _ in MODELS:
        assert kept.read(name, ["RR"]).equals(whole.read(name, ["RR"]))


def test_finished_file_is_copied_where_it_cannot_be_linked(tmp_path, monkeypatch):
    source = tmp_path / "users.parquet"
    pl.DataFrame({"user": [1], "model": ["als"], "nDCG@10": [0.5]}).write_parquet(source)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "other file system")

    monkeypatch.setattr(os, "link", refuse)
    kept = PerUser(("user",), ("nDCG@10",), path=source)
    path = publish(report(), tmp_path / "runs", per_user=kept)

    assert (path / "per_user.parquet").read_bytes() == source.read_bytes()


def test_loaded_run_is_the_report_that_was_published(tmp_path):
    ours = replace(Report.from_json(TEXT).estimates[0], name="mine", higher_is_better=False)
    published = replace(with_users(), estimates=(ours,), config={"a": [1]})
    path = publish(published, tmp_path)

    loaded = load_run(tmp_path / "latest")

    assert loaded == published
    assert loaded.per_user("nDCG@10", model="als")["user"].to_list() == [2, 3]
    assert loaded.to_json() == (path / "report.json").read_text()


# The lock.


def test_second_writer_of_one_name_is_told_to_come_again(tmp_path):
    with hold(tmp_path, "nightly"), pytest.raises(BusyError) as caught:
        publish(report(), tmp_path)

    assert (caught.value.code, caught.value.exit_status) == ("run-locked", 75)
    assert not (tmp_path / "first").exists()


def test_jobs_of_other_names_do_not_wait(tmp_path):
    with hold(tmp_path, "weekly"):
        publish(report(), tmp_path)

    assert verify(tmp_path / "first") == []


def test_lock_ends_with_the_job_even_when_it_fails(tmp_path):
    with pytest.raises(KeyError), hold(tmp_path, "nightly"):
        raise KeyError

    publish(report(), tmp_path)


def test_stale_directories_of_this_name_are_swept_and_no_others(tmp_path):
    with hold(tmp_path, "nightly") as job, hold(tmp_path, "weekly") as other:
        ours, theirs = (tmp_path / f".tmp-old-{each.key}-x1y2" for each in (job, other))
    for stale in (ours, theirs):
        (stale / "inner").mkdir(parents=True)
    (tmp_path / f".tmp-old-{job.key}-latest").symlink_to("old")
    (tmp_path / ".tmp-something-else").mkdir()

    publish(report(), tmp_path)

    assert left_over(tmp_path) == [theirs.name, ".tmp-something-else"]


def test_latest_that_is_no_link_is_left_alone(tmp_path):
    (tmp_path / "latest").mkdir()

    with pytest.raises(MachineError) as caught:
        publish(report(), tmp_path)

    assert caught.value.code == "latest-not-moved"
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["latest"]


def test_file_system_without_links_goes_without_latest(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "symlink", refuse)

    assert verify(publish(report(), tmp_path)) == []


def test_folder_that_is_a_file_is_the_machines_fault(tmp_path):
    (tmp_path / "runs").write_text("mine")

    with pytest.raises(MachineError) as caught:
        publish(report(), tmp_path / "runs")

    assert caught.value.code == "not-writable"
    assert (tmp_path / "runs").read_text() == "mine"


# Faults: the n-th call of the system fails, for every n.


@pytest.mark.some_cases(1)  # whichever code, runs are left alike
@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "disk-full"), (errno.EACCES, "not-writable")]
)
def test_any_failing_call_leaves_the_old_run_or_the_new_one(tmp_path, monkeypatch, number, code):
    source = tmp_path / "users"
    source.mkdir()
    for part in "ab":
        pl.DataFrame({"user": [1], "model": ["als"], "nDCG@10": [0.5]}).write_parquet(
            source / f"{part}.parquet"
        )
    kept = PerUser(("user",), ("nDCG@10",), path=source)
    seen = set()
    for n in count(1):
        folder = tmp_path / f"runs-{n}"
        publish(report("first"), folder, formats=())
        error = None
        with failing(monkeypatch, n, number) as fired:
            try:
                publish(report("second"), folder, formats=FILES, per_user=kept)
            except MachineError as caught:
                error = caught
        if not fired:
            break
        seen.update(fired)

        assert verify(folder / "first") == [], (n, fired)
        assert verify(folder / "latest") == [], (n, fired)
        assert left_over(folder) == [], (n, fired)
        if (folder / "second").exists():
            assert verify(folder / "second") == [], (n, fired)
            assert error is None or error.code == "latest-not-moved", (n, fired, error)
        else:
            assert error is not None, (n, fired)
            # "write-failed": what was written could not be read back
            assert error.code in (code, "write-failed"), (n, fired, error)
    assert error is None
    assert n > 40
    assert seen == set(CALLS)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_every_failing_fsync_tells_whether_the_run_is_there(tmp_path, monkeypatch, number):
    said = []
    for n in count(1):
        folder, calls, fsync = tmp_path / f"runs-{n}", count(1), os.fsync
        folder.mkdir()

        def fail(descriptor, n=n, calls=calls, fsync=fsync):
            if next(calls) == n:
                raise OSError(number, os.strerror(number))
            fsync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            try:
                publish(report("new"), folder)
            except MachineError as error:
                said.append(str(error))
                is_there = (folder / "new").exists() and verify(folder / "new") == []
                is_latest = (folder / "latest").is_symlink()
                assert is_there == ("the run is written" in said[-1])
                assert is_there != ("nothing was written" in said[-1])
                assert is_latest == ("and 'latest' points to it" in said[-1])
            else:
                break
    assert "the disk did not confirm it" in said[-1]
    assert "'latest' does not point to it" in said[-2]
    assert len(said) > 4


def test_disk_that_fills_inside_polars_is_told_as_such(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError("write: No space left on device (os error 28)")

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", full)

    with pytest.raises(MachineError, match="disk is full") as caught:
        publish(with_users(), tmp_path)

    assert (caught.value.code, caught.value.exit_status) == ("disk-full", 4)
    assert [each.name for each in tmp_path.iterdir()] == [
        f".lock-{runs.RunLock(tmp_path, 'nightly').key}"
    ]


def test_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupt)

    with pytest.raises(KeyboardInterrupt):
        publish(report(), tmp_path)

    assert left_over(tmp_path) == []
    assert not (tmp_path / "first").exists()


KILLED = """
import os, sys
from itertools import count
from pathlib import Path
from evalkit import runs
from evalkit.report import Report

text, root, calls = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split()


def report(run_id):
    return Report.from_json(text.replace('"first"', f'"{run_id}"'))


for n in count(1):
    folder = root / str(n)
    runs.publish(report("first"), folder, formats=())
    child = os.fork()
    if not child:
        passed = count(1)
        for name in calls:
            def call(*args, real=getattr(os, name), **options):
                if next(passed) == n:
                    os._exit(9)
                return real(*args, **options)
            setattr(os, name, call)
        runs.publish(report("second"), folder, formats=("csv", "markdown"))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert runs.verify(folder / "first") == [], n
    assert runs.verify(folder / "latest") == [], n
    is_new = (folder / "second").exists()
    if is_new:
        assert runs.verify(folder / "second") == [], n
    assert status == 0 or os.waitstatus_to_exitcode(status) == 9, (n, status)
    runs.publish(report("next"), folder, formats=())
    assert not [each for each in os.listdir(folder) if each.startswith(".tmp")], n
    if status == 0:
        assert is_new
        break
print(n)
"""


def test_kill_at_any_call_leaves_the_old_run_or_the_new_one(tmp_path):
    # A kill before call n is also a kill after call n - 1. Nothing here imports Polars, so the
    # script may fork.
    found = subprocess.run(
        [sys.executable, "-c", KILLED, TEXT, str(tmp_path), " ".join(CALLS)],
        capture_output=True,
        text=True,
    )

    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 20


RANDOMLY_KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from evalkit import runs
from evalkit.report import Report

text, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
formats = ("csv", "markdown", "html", "latex")


def report(run_id):
    return Report.from_json(text.replace('"first"', f'"{run_id}"'))


def seconds_of(run_id):
    began = time.perf_counter()
    runs.publish(report(run_id), folder, formats=formats)
    return time.perf_counter() - began


seconds = min(seconds_of(f"warm-{n}") for n in range(3))
rng = random.Random(1)
killed = complete = 0
for n in range(kills):
    child = os.fork()
    if not child:
        runs.publish(report(f"run-{n}"), folder, formats=formats)
        os._exit(0)
    time.sleep(rng.uniform(0, 1.2 * seconds))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    killed += status != 0
    name = folder / f"run-{n}"
    if name.exists():
        complete += 1
        assert runs.verify(name) == [], n
    else:
        assert status != 0, n
    assert runs.verify(folder / "latest") == [], n
    runs.publish(report(f"next-{n}"), folder, formats=())
    assert not [each for each in os.listdir(folder) if each.startswith(".tmp")], n
print(killed, complete)
"""


def test_kill_at_a_random_moment_leaves_no_torn_run(tmp_path):
    kills = int(os.environ.get("EVALKIT_TEST_KILLS", "25"))

    found = subprocess.run(
        [sys.executable, "-c", RANDOMLY_KILLED, TEXT, str(tmp_path), str(kills)],
        capture_output=True,
        text=True,
    )

    assert found.returncode == 0, found.stderr
    killed, _ = map(int, found.stdout.split())
    assert killed > kills // 10


# What verify sees.


@pytest.mark.parametrize("name", ["report.json", "metrics.parquet", "report.md", "manifest.json"])
def test_any_changed_file_is_found(tmp_path, name):
    path = publish(report(), tmp_path)
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)

    problems = verify(path)

    assert len(problems) == 1
    assert problems[0].startswith(f"{name}: ")
    with pytest.raises(DataError) as caught:
        load_run(path)
    assert caught.value.code == "run-damaged"


@pytest.mark.parametrize("name", ["report.json", "metrics.parquet", "manifest.json"])
@pytest.mark.parametrize("kind", ["missing", "short", "link", "pipe"])
def test_files_that_are_not_what_was_written_are_found(tmp_path, name, kind):
    path = publish(report(), tmp_path)
    content = (path / name).read_bytes()
    (path / name).unlink()
    if kind == "short":
        (path / name).write_bytes(content[:-5])
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        (path / name).symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path / name)

    assert [each.partition(":")[0] for each in verify(path)] == [name]


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", "[" * 100_000, '{"checksum": 1}'])
def test_text_that_is_no_manifest_is_found(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)

    assert len(verify(tmp_path)) == 1


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "per_user/../x", "a\nb", ".hidden"])
def test_manifest_cannot_name_files_elsewhere(tmp_path, name):
    path = publish(report(), tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["checksum"]
    manifest["files"][name] = {}
    manifest["checksum"] = digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))

    assert verify(path) == [f"{name}: no name of a run's file"]


def test_path_without_a_run_is_a_problem_not_a_traceback(tmp_path):
    assert verify(tmp_path) == ["manifest.json: no such file or directory"]
    assert verify(tmp_path / "nothing") == ["manifest.json: no such file or directory"]


# Names and keys.


def test_run_ids_sort_by_start_and_never_repeat():
    start = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    ids = [new_run_id(start + timedelta(milliseconds=number)) for number in range(50)]

    assert ids == sorted(ids)
    assert ids[0].startswith("20260102-030405-678-")
    assert len({new_run_id(start) for _ in range(50)}) == 50


def test_run_id_is_in_utc():
    moment = datetime.fromisoformat("2026-01-02T03:04:05+02:00")

    assert new_run_id(moment).startswith("20260102-010405-000-")


KEY = ({"a": 1, "b": (1, 2)}, ["f"], {"evalkit": "0.1.0"}, ["nDCG 1"])


def test_run_key_rests_on_content_and_not_on_the_order_of_keys():
    assert run_key({"b": [1, 2], "a": 1}, *KEY[1:]) == run_key(*KEY)
    assert len(run_key(*KEY)) == 32


@pytest.mark.parametrize("place", range(4))
def test_run_key_changes_with_each_part(place):
    other = ({"a": 2}, ["g"], {"evalkit": "0.2.0"}, ["nDCG 2"])
    parts = (*KEY[:place], other[place], *KEY[place + 1 :])

    assert run_key(*parts) != run_key(*KEY)


def test_input_without_fingerprint_is_like_no_other():
    assert run_key(KEY[0], [None], *KEY[2:]) != run_key(KEY[0], [None], *KEY[2:])
