"""Runs in an object store: whole or not at all, whatever call of the store fails.

moto's server stands in for S3, on loopback; obstore's store in memory for the scripted faults.
"""

import json
import random
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import polars as pl
import pytest
from example_runs import report
from program import Outcome, run_program
from typer.main import get_command

from evalkit import runs
from evalkit.cli.app import make_app
from evalkit.config import build_config
from evalkit.errors import BusyError, DataError, EvalkitError, MachineError, RequestError
from evalkit.jobs.alerts import LastTold
from evalkit.jobs.job import Job, run_in_store
from evalkit.runs import StoreFolder, open_store, publish, verify
from evalkit.runs import _store as store_module
from evalkit.runs.history.holdout_uses import MOST_NOTED_BYTES, NOTED, fetch_notes
from evalkit.splits.api import split

obstore = pytest.importorskip("obstore", reason='pip install "evalkit-recsys[s3]"')

ROOT = Path(__file__).parents[2]
SECRET = "not-to-be-seen-4711"


class Faulty:
    """A store in memory that fails `burst` calls from the n-th on, before or after it did them."""

    def __init__(self) -> None:
        from obstore.store import MemoryStore

        self.inner = store_module.StoreObjects(MemoryStore())
        self.error: Exception | None = None
        self.n, self.burst, self.after, self.calls = 0, 1, False, 0

    def _call(self, name, *arguments):
        self.calls += 1
        if self.error is None or not self.n <= self.calls < self.n + self.burst:
            return getattr(self.inner, name)(*arguments)
        if self.after:
            getattr(self.inner, name)(*arguments)
        raise self.error

    def put(self, path, content):
        return self._call("put", path, content)

    def create(self, path, content):
        return self._call("create", path, content)

    def replace(self, path, content, version):
        return self._call("replace", path, content, version)

    def get(self, *asked):
        return self._call("get", *asked)

    def save(self, *asked):
        return self._call("save", *asked)

    def names(self, prefix):
        return self._call("names", prefix)

    def folders(self, prefix):
        return self._call("folders", prefix)

    def delete(self, path):
        return self._call("delete", path)


def local(tmp_path: Path, run_id: str) -> Path:
    folder = tmp_path / f"local-{run_id}"
    return publish(report(run_id), folder, formats=("csv", "markdown", "html"))


def night(folder: StoreFolder, run: Path) -> None:
    with folder.hold("nightly"):
        folder.sweep()
        folder.publish(run)


def whole_runs(objects, tmp_path: Path) -> list[str]:
    """Ids of the runs whose manifest is there, each of which must verify."""
    folder = StoreFolder("memory", objects.inner, "runs")
    found = []
    for manifest in folder.manifests():
        into = tmp_path / f"check-{random.random()}"
        into.mkdir()
        assert verify(folder.fetch(manifest.run_id, into)) == []
        found.append(manifest.run_id)
    return sorted(found)


FAULTS = (
    ConnectionError("refused"),
    TimeoutError("no answer"),
    PermissionError("denied"),
    OSError("broken pipe"),
)


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [local(folder, name) for name in ("first", "second", "third")]


@pytest.mark.some_cases(6)  # each fault, and each end of a call with each burst
@pytest.mark.parametrize("burst", [1, 2, 1000])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_any_failing_call_leaves_whole_runs_only(
    tmp_path, three_runs, error, after, burst, monkeypatch
):
    monkeypatch.setattr(store_module.time, "sleep", lambda _: None)
    first, second, third = three_runs
    n = 0
    while True:
        n += 1
        objects = Faulty()
        folder = StoreFolder("memory", objects, "runs")
        night(folder, first)
        objects.error, objects.after, objects.burst = error, after, burst
        objects.calls, objects.n = 0, n
        failed = None
        try:
            night(StoreFolder("memory", objects, "runs"), second)
        except EvalkitError as caught:
            failed = caught
        if objects.calls < n:
            break
        found = whole_runs(objects, tmp_path)
        assert found in (["first"], ["first", "second"]), n
        if found == ["first"]:
            assert failed is not None, n
            assert isinstance(failed, BusyError | MachineError), n
        # the next night is good, once the lease of a lock that could not be released is over
        objects.error = None
        for name in objects.inner.names("runs"):
            if ".lock-" in name:
                objects.inner.put(name, json.dumps({"owner": "gone", "ends": 0}).encode())
        night(StoreFolder("memory", objects, "runs"), third)
        assert "third" in whole_runs(objects, tmp_path)
    assert failed is None
    assert n > 10


def test_latest_names_the_last_run(tmp_path):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")

    for run_id in ("first", "second", "before"):  # began before them by the clock
        night(folder, local(tmp_path, run_id))

    assert folder.latest() == "second"
    assert [each.run_id for each in folder.manifests()] == ["second", "first", "before"]


def test_no_more_is_read_of_a_store_than_a_manifest_says(tmp_path):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    night(folder, local(tmp_path, "first"))
    objects.put("runs/first/report.json", b"x" * (9 << 20))
    objects.put(f"runs/{NOTED}", b"x" * (MOST_NOTED_BYTES + 1))
    (tmp_path / "copy").mkdir()

    copy = folder.fetch("first", tmp_path / "copy")

    wanted = json.loads((copy / "manifest.json").read_text())["files"]["report.json"]["bytes"]
    assert (copy / "report.json").stat().st_size == wanted + 1
    assert verify(copy)[0].startswith(f"report.json: bytes {wanted + 1}, not")
    with pytest.raises(DataError) as caught:
        fetch_notes(folder, tmp_path)
    assert caught.value.code == "run-damaged"


def test_looks_at_a_test_part_are_counted_in_a_store(tmp_path):
    rows = [(user, item, item) for user in range(20) for item in range(4)]
    log = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    split(log, by="user", test=1, time_unit="s", out=tmp_path / "splits" / "s")
    log.with_columns(rank=pl.col("time") + 1).write_parquet(tmp_path / "list.parquet")
    tree = {
        "truth": {"path": str(tmp_path / "splits" / "s" / "test" / "*.parquet")},
        "rankings": [{"model": "a", "path": str(tmp_path / "list.parquet")}],
        "metrics": {"names": ["RR"]},
    }
    objects, dones = Faulty(), []
    for name in ("one", "two"):
        job = Job(build_config(json.loads(json.dumps(tree)), name=name), tmp_path / "runs")
        dones.append(run_in_store(job, StoreFolder("memory", objects, "runs")))

    warned = [[each.code for each in done.report.warnings] for done in dones]
    assert [codes.count("looked-before") for codes in warned] == [0, 1]
    notes = objects.get("runs/looks.jsonl")[0].decode().splitlines()
    assert [json.loads(each)["run_id"] for each in notes] == [each.report.run_id for each in dones]


def test_history_reads_the_numbers_of_a_store(tmp_path, monkeypatch, capsys):
    objects = Faulty()
    folder = StoreFolder("s3://bucket/runs", objects, "runs")
    night(folder, local(tmp_path, "first"))
    night(folder, local(tmp_path, "second"))
    monkeypatch.setattr("evalkit.runs.open_store", lambda url, options: folder)

    command = get_command(make_app(["history"]))
    command.main(["history", "list", "--out", "s3://bucket/runs"], standalone_mode=False)
    command.main(["history", "--out", "s3://bucket/runs", "list"], standalone_mode=False)
    listed = capsys.readouterr().out
    with pytest.raises(RequestError, match="no page is written into a store"):
        command.main(["history", "html", "--out", "s3://bucket/runs"], standalone_mode=False)

    assert listed.count("\nfirst ") == listed.count("\nsecond ") == 2
    assert {name.rpartition("/")[2] for name in objects.names("runs")} >= {"manifest.json"}


def test_what_was_told_last_is_kept_in_a_store():
    folder = StoreFolder("memory", Faulty(), "runs")

    LastTold(folder, "nightly").write("failed")

    assert LastTold(folder, "nightly").read() == "failed"
    assert LastTold(folder, "other").read() == "fine"


def test_run_is_put_once(tmp_path):
    folder = StoreFolder("memory", Faulty(), "runs")
    run = local(tmp_path, "first")
    night(folder, run)

    with pytest.raises(RequestError) as caught:
        night(folder, run)

    assert caught.value.code == "run-exists"
    assert [each.run_id for each in folder.manifests()] == ["first"]


def test_what_an_unfinished_publication_left_is_swept(tmp_path):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    objects.put("runs/20200101-000000-000-abcdef/report.json", b"{}")
    fresh = f"runs/{time.strftime('%Y%m%d')}-000000-000-abcdef/report.json"
    objects.put(fresh, b"{}")

    night(folder, local(tmp_path, "first"))

    left = [name for name in objects.names("runs") if name.endswith("000-abcdef/report.json")]
    assert left == [fresh]


def test_what_a_killed_job_put_is_swept_by_the_next_of_its_name(tmp_path):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    run_id = time.strftime("%Y%m%d-000000-000-abcdef", time.gmtime())
    for name in ("nightly", "weekly"):
        objects.put(f"runs/.tmp-{runs.RunLock(Path(), name).key}/{run_id}-{name}", b"")
        objects.put(f"runs/{run_id}-{name}/report.json", b"{}")

    night(folder, local(tmp_path, "first"))

    left = [name for name in objects.names("runs") if "abcdef" in name]
    assert [name for name in left if "nightly" in name] == []
    assert len(left) == 2
    assert [name for name in objects.names("runs") if ".tmp-" in name and "first" in name] == []


def test_job_that_lost_its_lock_and_its_files_withdraws_its_run(tmp_path):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    run = local(tmp_path, "first")
    put = objects.put

    def lose(path, content):
        put(path, content)
        if path.endswith("report.md"):
            StoreFolder("memory", objects, "runs")._sweep_own("nightly")

    objects.put = lose
    with pytest.raises(BusyError) as caught:
        folder.publish(run)

    assert caught.value.code == "lock-lost"
    assert objects.get("runs/first/manifest.json") is None


def test_failing_latest_says_that_the_run_is_written(tmp_path):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    put = objects.put

    def refuse(path, content):
        if path.endswith("latest"):
            raise TimeoutError("no answer")
        put(path, content)

    objects.put = refuse
    with pytest.raises(MachineError, match="the run is written") as caught:
        folder.publish(local(tmp_path, "first"))

    assert caught.value.code == "latest-not-moved"
    assert whole_runs(objects, tmp_path) == ["first"]


@pytest.mark.parametrize("content", [b"../../x", b"/etc", b"", b"\xff" * 500, b"a/b"])
def test_latest_of_a_store_names_a_run_or_nothing(content):
    objects = Faulty()
    objects.put("runs/latest", content)

    assert StoreFolder("memory", objects, "runs").latest() is None


def test_damaged_manifest_in_a_store_is_set_aside_and_stays(tmp_path, caplog):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    objects.put("runs/20200101-000000-000-abcdef/manifest.json", b"[" * 100_000)

    night(folder, local(tmp_path, "first"))

    assert [each.run_id for each in folder.manifests()] == ["first"]
    assert "20200101-000000-000-abcdef is left out" in caplog.text
    assert objects.get("runs/20200101-000000-000-abcdef/manifest.json") is not None


def test_second_writer_is_told_to_come_again():
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")

    with folder.hold("nightly"):
        with pytest.raises(BusyError) as caught, folder.hold("nightly"):
            pass
        with folder.hold("weekly"):
            pass

    assert (caught.value.code, caught.value.exit_status) == ("run-locked", 75)
    assert not [name for name in objects.names("runs") if ".lock-" in name]


def test_lock_of_a_killed_job_ends_by_itself(monkeypatch):
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    path = f"runs/.lock-{runs.RunLock(Path(), 'nightly').key}"
    objects.put(path, json.dumps({"owner": "killed", "ends": time.time() - 1}).encode())

    with folder.hold("nightly"):
        content, _ = objects.get(path)

    assert json.loads(content)["owner"] != "killed"
    assert objects.get(path) is None


def test_lock_that_was_taken_over_is_noticed(monkeypatch):
    monkeypatch.setattr(store_module, "LEASE_SECONDS", 0.2)
    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    path = f"runs/.lock-{runs.RunLock(Path(), 'nightly').key}"

    def lose() -> None:
        with folder.hold("nightly"):
            objects.put(path, json.dumps({"owner": "other", "ends": time.time() + 99}).encode())
            time.sleep(0.3)

    with pytest.raises(BusyError) as caught:
        lose()

    assert caught.value.code == "lock-lost"
    assert json.loads(objects.get(path)[0])["owner"] == "other"


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "per_user/../../evil"])
def test_fetched_run_cannot_leave_its_folder(tmp_path, name):
    from evalkit.runs._keys import digest

    objects = Faulty()
    folder = StoreFolder("memory", objects, "runs")
    run = local(tmp_path, "first")
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["checksum"]
    manifest["files"][name] = {}
    manifest["checksum"] = digest(manifest)
    objects.put("runs/first/manifest.json", json.dumps(manifest).encode())
    into = tmp_path / "into"
    into.mkdir()

    with pytest.raises(EvalkitError) as caught:
        folder.fetch("first", into)

    assert caught.value.code == "run-damaged"


def test_secrets_stand_in_the_environment_alone():
    tree = {
        "truth": {"path": "t.parquet"},
        "rankings": [{"model": "a", "path": "a.parquet"}],
        "metrics": {"names": ["nDCG@5"]},
        "storage": {"aws_secret_access_key": SECRET, "aws_region": "x"},
    }

    with pytest.raises(RequestError) as caught:
        build_config(tree, name="job")

    assert caught.value.code == "secret-in-config"
    assert SECRET not in str(caught.value)


def test_missing_variable_is_told(monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)

    with pytest.raises(RequestError) as caught:
        open_store("s3://lake/runs", {"aws_secret_access_key": "${NOWHERE}"})

    assert caught.value.code == "missing-variable"


@pytest.mark.parametrize(
    ("url", "options", "code"),
    [
        ("s3://", {}, "bad-store"),
        ("s3://lake", {"no_such_option": "1"}, "bad-store"),
        ("s3://lake", {"allow_http": "true"}, "bad-store"),
        ("s3://lake", {"max_retries": "-1"}, "bad-value"),
        ("s3://lake", {"retry_timeout_ms": "x"}, "bad-value"),
    ],
)
def test_what_is_no_store_is_told(url, options, code):
    with pytest.raises(RequestError) as caught:
        open_store(url, options)

    assert caught.value.code == code


def test_options_of_readers_are_no_fault_of_a_store_of_runs():
    times = {"read_timeout": "15s", "timeout": "9s", "file_cache_ttl": "3"}
    retries = {"max_retries": "1", "retry_timeout_ms": "100", "retry_init_backoff_ms": "9"}

    found = open_store("s3://lake/runs", {"aws_region": "eu-central-1", **times, **retries})

    assert found.url == "s3://lake/runs"


# S3, as moto plays it.


@pytest.fixture(scope="module")
def s3():
    """A server on loopback with the bucket `lake`; the environment that reaches it."""
    moto = pytest.importorskip("moto.server", reason='pip install "moto[server]"')
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        import boto3

        client = boto3.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"])
        client.create_bucket(
            Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        yield client, environment
    server.stop()


def evalkit(folder: Path, *arguments: str, **more: str) -> Outcome:
    return run_program([*arguments], folder, more)


@pytest.fixture
def lake(s3, tmp_path):
    """The logs of the example config in the bucket."""
    client, _ = s3
    users = list(range(60))
    ranked = [(user, (user + place) % 9, place + 1) for user in users for place in range(8)]
    frames = {
        "interactions": {"user_id": users, "item_id": [u % 9 for u in users], "rating": [5.0] * 60},
        "rankings/als": {
            "user_id": [row[0] for row in ranked],
            "item_id": [row[1] for row in ranked],
            "rank": [row[2] for row in ranked],
        },
    }
    for name, columns in frames.items():
        pl.DataFrame(columns).write_parquet(tmp_path / "part.parquet")
        client.upload_file(
            str(tmp_path / "part.parquet"), "lake", f"{name}/day=2026-11-20/part.parquet"
        )
    return client


def test_example_reads_from_a_store_and_publishes_there(lake, tmp_path):
    config = str(ROOT / "configs" / "object-store.toml")
    options = ("--var", "day=2026-11-20", "--log-format", "json")

    done = evalkit(tmp_path, "run", config, *options)

    assert done.status == 0, done.err
    (url,) = [line.split(": ")[1] for line in done.out.splitlines() if line.startswith("report: ")]
    assert url.startswith("s3://lake/evaluation/2")
    for run in (url, "s3://lake/evaluation/latest"):
        assert evalkit(tmp_path, "verify", run).status == 0
    keys = [each["Key"] for each in lake.list_objects_v2(Bucket="lake")["Contents"]]
    ours = [key for key in keys if key.startswith("evaluation/")]
    assert not [key for key in ours if ".lock-" in key]
    names = {key.rpartition("/")[2] for key in ours}
    assert names >= {"latest", "manifest.json", "metrics.parquet", "report.html", "report.json"}
    contents = [lake.get_object(Bucket="lake", Key=key)["Body"].read() for key in ours]
    assert not [each for each in contents if SECRET.encode() in each]
    assert SECRET not in done.out + done.err
    assert list(tmp_path.iterdir()) == [tmp_path / "part.parquet"]


def test_gates_compare_with_the_last_run_in_the_store(lake, tmp_path):
    config = str(ROOT / "configs" / "object-store.toml")
    gate = 'gates=[{metric="nDCG@10", max_drop=0.2, baseline="last", unclear="pass"}]'
    options = ("--var", "day=2026-11-20", "--set", gate, "--out", "s3://lake/gated", "--json")

    first = evalkit(tmp_path, "run", config, *options)
    second = evalkit(tmp_path, "run", config, *options)

    assert (first.status, second.status) == (0, 0), first.err + second.err
    (before,) = json.loads(first.out)["gates"]
    (now,) = json.loads(second.out)["gates"]
    assert before["outcome"] == "cannot tell"
    assert (now["outcome"], now["judged_by"], now["delta"]) == ("pass", "paired", 0.0)


def test_store_that_does_not_answer_is_busy(tmp_path, s3):
    config = str(ROOT / "configs" / "object-store.toml")
    options = ("--var", "day=2026-11-20", "--set", 'storage.max_retries="0"')

    done = evalkit(tmp_path, "run", config, *options, AWS_ENDPOINT_URL="http://127.0.0.1:9")

    assert done.status == 75, done.err
    assert "store-unreachable" in done.err
    assert SECRET not in done.out + done.err


# Hints of S3 are followed as they are written, and what comes next is an answer.
#
# Not followed here: Google's and Azure's words (moto is S3), hf:// (a host of its own);
# missing-extra (`pip install`, of a registry); store-failed ("try again": of unknown causes);
# store-refused (writing), of which only the reading of the same rights is.


class Gateway(BaseHTTPRequestHandler):
    """Answers with a status while that is asked, or asks moto."""

    def do_GET(self):
        region, status = self.server.region, self.server.status
        if self.server.failing:
            self.server.failing -= 1
        elif region and f"/{region}/s3/" in self.headers["Authorization"]:
            status = None
        elif not region:
            status = None
        if status is not None or self.path.startswith("/la_ke"):
            self.send_response(status or 400)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        asked = Request(self.server.behind + self.path, headers=dict(self.headers))
        asked.method = self.command
        with urlopen(asked) as answer:
            body = answer.read()
            self.send_response(answer.status)
            for name in ("Content-Range", "Content-Type", "Last-Modified", "ETag"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            length = answer.headers["Content-Length"] if self.command == "HEAD" else len(body)
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def gateway(s3):
    """A server before moto's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    server.behind, server.region, server.status, server.failing = (
        s3[1]["AWS_ENDPOINT_URL"],
        "",
        0,
        0,
    )
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def measure(folder, *more, truth="s3://lake/interactions/", without=(), **environment):
    """The hint of a command that reads the example's logs, or none where a number came."""
    asked = ("--truth", truth, "--rankings", "als=s3://lake/rankings/als/", "--metric", "RR")
    fast = ("--set", "storage.max_retries=0")
    unset = dict.fromkeys(without, "")
    with pytest.MonkeyPatch.context() as patch:
        for name in unset:
            patch.delenv(name)
        done = evalkit(folder, "evaluate", *asked, *fast, *more, **environment)
    assert "internal" not in done.err
    if done.status == 0:
        assert "RR" in done.out
        return None
    return re.search(r"error\[(\S+)\].*\n.*\n  hint: (.*)", done.err).groups()


def setting_of(hint):
    return re.search(r"--set (storage\.\w+)=(\S+)", hint).groups()


@pytest.mark.parametrize("wrong", ["lake/interaction/", "lake/interactions/x.parquet", "lak/i/"])
def test_misspelt_paths_and_buckets_are_corrected(lake, tmp_path, wrong):
    code, hint = measure(tmp_path, truth=f"s3://{wrong}")

    assert (code, hint) == ("path-not-found", "look for misspellings in the bucket and the path")
    assert measure(tmp_path) is None


def test_credentials_are_named_or_left_out(lake, tmp_path):
    without = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    nowhere = {"AWS_METADATA_ENDPOINT": "http://127.0.0.1:9"}

    code, hint = measure(tmp_path, without=without, **nowhere)

    assert code == "unreadable-file"
    assert all(name in hint for name in without)
    assert measure(tmp_path, **nowhere) is None
    lake.put_bucket_acl(Bucket="lake", ACL="public-read")
    for each in lake.list_objects_v2(Bucket="lake")["Contents"]:
        lake.put_object_acl(Bucket="lake", Key=each["Key"], ACL="public-read")
    key, value = re.search(r"public bucket (\w+)=(\w+)", hint).groups()
    assert measure(tmp_path, without=without, **nowhere, **{key: value}) is None


def test_rights_are_given_to_credentials(lake, s3, tmp_path):
    import boto3

    url = s3[1]["AWS_ENDPOINT_URL"]
    iam = boto3.client("iam", endpoint_url=url, region_name="us-east-1")
    iam.create_user(UserName="reader")
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    given = {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }

    def let_through(n_calls):
        body = {"data": str(n_calls).encode(), "headers": {"Content-Type": "text/plain"}}
        urlopen(Request(f"{url}/moto-api/reset-auth", **body)).close()

    try:
        let_through(0)
        code, hint = measure(tmp_path, **given)
        let_through(1_000_000)
        right = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [right]})
        iam.put_user_policy(UserName="reader", PolicyName="reads", PolicyDocument=policy)
        let_through(0)
        after = measure(tmp_path, **given)
    finally:
        let_through(1_000_000_000)

    assert code == "unreadable-file"
    assert hint.startswith(
        "give the credentials that the environment or the config names the right"
    )
    assert after is None


@pytest.mark.parametrize("status", [301, 307])
def test_the_region_of_a_bucket_is_written(lake, tmp_path, gateway, status):
    gateway.region, gateway.status = "eu-central-1", status
    environment = {"AWS_ENDPOINT_URL": gateway.url, "AWS_REGION": "us-east-1"}

    code, hint = measure(tmp_path, **environment)

    assert code == "unreadable-file"
    key, value = setting_of(hint)
    assert measure(tmp_path, "--set", f"{key}={value}", **environment) is None


@pytest.mark.parametrize("wrong", ["127.0.0.1:9000", "lake.example", "://"])
def test_the_address_of_a_store_is_written_whole(lake, s3, tmp_path, wrong):
    code, hint = measure(tmp_path, AWS_ENDPOINT_URL=wrong)

    assert code == "unreadable-file"
    key, _ = setting_of(hint)
    right = s3[1]["AWS_ENDPOINT_URL"]
    assert measure(tmp_path, "--set", f"{key}={right}", AWS_ENDPOINT_URL=wrong) is None


def test_a_request_that_a_store_does_not_take_is_corrected(lake, tmp_path, gateway):
    code, hint = measure(tmp_path, truth="s3://la_ke/interactions/", AWS_ENDPOINT_URL=gateway.url)

    assert (code, hint) == (
        "unreadable-file",
        "look at the bucket, the path and the options of the store",
    )
    assert measure(tmp_path, AWS_ENDPOINT_URL=gateway.url) is None


def test_a_store_that_is_down_answers_later(lake, tmp_path, gateway):
    gateway.status, gateway.failing = 503, 1000

    code, hint = measure(tmp_path, AWS_ENDPOINT_URL=gateway.url)
    gateway.failing = 0

    assert (code, hint) == ("store-unreachable", "try again later")
    assert measure(tmp_path, AWS_ENDPOINT_URL=gateway.url) is None


@pytest.mark.parametrize("option", ["max_retries=two", "max_retries=2.5"])
def test_numbers_of_a_store_are_written_as_told(lake, tmp_path, option):
    code, hint = measure(tmp_path, "--set", f"storage.{option}")

    assert code == "bad-value"
    key, value = re.search(r'such as (\w+) = "(\S+)"', hint).groups()
    assert measure(tmp_path, "--set", f"storage.{key}={value}") is None
