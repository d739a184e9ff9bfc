"""A run's directory that somebody planted or damaged is data at most, and stops no job."""

import json
import os
import random
import shutil
import sqlite3
import time
from pathlib import Path

import polars as pl
import pytest
from example_runs import report, with_users
from program import run_here

from evalkit import runs
from evalkit.cli import console
from evalkit.cli.app import run_command
from evalkit.cli.outcome import exit_status_of
from evalkit.config import GateRule
from evalkit.errors import DataError, EvalkitError
from evalkit.report import by_hints
from evalkit.runs import history, load_run, publish, verify
from evalkit.runs._keys import digest
from evalkit.runs.gates import find_baselines, judge
from tests.peaks import run_measured
from tests.sources.hostile import Column, element, same, same_text, write

MINE = """
open("planted", "w").close()
from evalkit.metrics import kernel, metric

@metric(name="mine", summary="Whether a hit is there.", formula="1 where there is a hit", latex="1",
        source="none, 2026", bounds=(0.0, 1.0), undefined="never")
@kernel
def mine(hits, relevant, lengths, cutoffs, out):
    for user in range(out.shape[0]):
        for column in range(cutoffs.size):
            out[user, column] = 0.0
            if hits.starts[user + 1] > hits.starts[user]:
                if hits.ranks[hits.starts[user]] <= cutoffs[column]:
                    out[user, column] = 1.0
"""
TRIALS = int(os.environ.get("EVALKIT_TEST_MUTATIONS", "40"))


def forge(path, **changes):
    """Change a manifest, so that its checksum fits again."""
    manifest = json.loads((path / "manifest.json").read_text())
    manifest |= changes
    manifest.pop("checksum", None)
    manifest["checksum"] = digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def config_of(path):
    return json.loads((path / "manifest.json").read_text())["config"]


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    users = [user for user in range(40) for _ in range(3)]
    items = [1, 2, 3] * 40
    pl.DataFrame({"user": users[::3], "item": [1] * 40}).write_parquet("truth.parquet")
    pl.DataFrame({"user": users, "item": items, "rank": items}).write_parquet("a.parquet")
    (tmp_path / "job.toml").write_text(
        'name = "job"\n[truth]\npath = "truth.parquet"\n'
        '[[rankings]]\nmodel = "a"\npath = "a.parquet"\ncolumns = { rank = "rank" }\n'
        '[metrics]\nnames = ["RR", "recall@2"]\n[output]\nper_user = true\n'
        '[[gates]]\nmetric = "RR"\nmax_drop = 0.1\nbaseline = "last"\nunclear = "pass"\n'
    )
    return tmp_path


def said(capsys, *arguments):
    """Status, stdout and stderr of one command, which ends without a fault of evalkit."""
    console.configure([])
    status = exit_status_of(lambda: run_command([str(each) for each in arguments]))
    out, err = capsys.readouterr()
    assert "internal" not in err, err
    assert "Traceback" not in err
    return status, out, err


def two_runs(logs, capsys):
    for _ in range(2):
        status, _, err = said(capsys, "run", "job.toml", "--quiet")
        assert status == 0, err
    return sorted(logs.glob("runs/2*"))


# What a run names is not run, not imported and no path.


def test_metric_files_are_named_again_where_they_are_needed(logs, capsys):
    (logs / "mine.py").write_text(MINE)
    text = (logs / "job.toml").read_text().replace('"RR", "re', '"mine@2", "RR", "re')
    (logs / "job.toml").write_text(text.replace("[output]", 'files = ["mine.py"]\n[output]'))
    two_runs(logs, capsys)
    os.unlink("planted")

    refused = said(capsys, "compare", "last~1", "last")
    others = said(capsys, "compare", "last~1", "last", "-m", "RR")

    assert refused[0] == 2
    assert "--metric-file" in refused[2]
    assert others[0] == 0
    assert not (logs / "planted").exists()
    named = said(capsys, "compare", "last~1", "last", "--metric-file", "mine.py", "--json")
    assert named[0] == 0
    assert {each["metric"] for each in json.loads(named[1])["comparisons"]} == {
        "mine@2", "RR", "recall@2",
    }  # fmt: skip


@pytest.mark.parametrize(
    "section",
    [
        {"names": ["RR"], "files": ["{evil}"]},
        {"names": ["RR"], "profile": "{evil}"},
        {"names": ["RR"], "profile": "no-such-library"},
    ],
)
def test_files_and_profiles_of_a_planted_manifest_are_never_opened(logs, capsys, section):
    _, second = two_runs(logs, capsys)
    (logs / "evil.py").write_text(MINE)
    os.mkfifo(logs / "evil.toml")  # whoever opens it waits for ever
    evil = "evil.py" if "files" in section else "evil.toml"
    planted = json.loads(json.dumps(section).replace("{evil}", str(logs / evil)))
    forge(second, config={**config_of(second), "metrics": planted})

    for command in (["compare", "last~1", "last"], ["why", "last~1", "last"], ["gate", "last"]):
        assert said(capsys, *command)[0] in (0, 1, 3), command
    assert not (logs / "planted").exists()


def test_gate_of_a_run_names_no_path(logs, capsys):
    first, second = two_runs(logs, capsys)
    rule = {"metric": "RR", "max_drop": 0.1, "baseline": str(first)}
    forge(second, config={**config_of(second), "gates": [rule]})

    refused = said(capsys, "gate", "last")
    named = said(capsys, "gate", "last", "--baseline", first)

    assert refused[0] == 2
    assert f"--baseline {first}" in refused[2]
    assert named[0] == 0


@pytest.mark.parametrize("gates", [[{"metric": 1}], "no", [{}], [{"metric": "RR"}], [[]], 7])
def test_gates_of_a_planted_manifest_are_refused(logs, capsys, gates):
    _, second = two_runs(logs, capsys)
    forge(second, config={**config_of(second), "gates": gates, "statistics": {"level": "high"}})

    assert said(capsys, "gate", "last")[0] == 3


# Only what the manifest lists exists.


def test_planted_values_of_users_are_not_read(logs, capsys):
    first, second = two_runs(logs, capsys)
    before = said(capsys, "compare", "last~1", "last", "--json")[1]
    (second / "per_user").mkdir()
    values = pl.read_parquet(second / "per_user.parquet")
    values.with_columns(pl.col("RR") + 0.5).write_parquet(second / "per_user" / "part-0.parquet")

    assert said(capsys, "compare", "last~1", "last", "--json")[1] == before
    assert said(capsys, "gate", "last", "--baseline", first.name)[0] == 0
    assert verify(second) == ["per_user: the manifest does not list it"]
    assert said(capsys, "verify", second)[0] == 3


def test_verify_names_what_is_not_of_the_run(tmp_path):
    path = publish(with_users(), tmp_path)
    (path / "notes.txt").write_text("mine")
    (path / ".hidden").symlink_to("/etc/passwd")

    assert verify(path) == [
        ".hidden: the manifest does not list it",
        "notes.txt: the manifest does not list it",
    ]
    assert load_run(path).run_id == "first"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema_version": 99}, "schema_version 99 is not known here"),
        ({"files": []}, "it lists no files"),
        ({"files": {}}, "it lists no report.json"),
        ({"run_id": "../x"}, "'../x' is no run_id"),
        ({"run_id": 3}, "3 stands where a text belongs"),
        ({"run_id": "20200101-000000-000-aaaaaa"}, "report.json: run_id"),
    ],
)
def test_a_manifest_that_no_run_wrote_is_told(tmp_path, changes, told):
    path = publish(report("20260101-000000-000-aaaaaa"), tmp_path)
    forge(path, **changes)

    assert told in verify(path)[0]
    with pytest.raises(DataError) as error:
        load_run(path)
    assert error.value.code == "run-damaged"


def test_folder_of_values_that_is_a_link_is_not_followed(tmp_path):
    from evalkit.report import PerUser

    source = tmp_path / "users"
    source.mkdir()
    for part in "ab":
        pl.DataFrame({"user": [1], "model": ["als"], "nDCG@10": [0.5]}).write_parquet(
            source / f"{part}.parquet"
        )
    path = publish(report(per_user_values=PerUser(("user",), ("nDCG@10",), path=source)), tmp_path)
    (path / "per_user").rename(tmp_path / "elsewhere")
    (path / "per_user").symlink_to(tmp_path / "elsewhere")

    assert all(each.startswith("per_user/part-0000") for each in verify(path))
    with pytest.raises(DataError) as caught:
        load_run(path)
    assert caught.value.code == "run-damaged"


@pytest.mark.parametrize("target", ["../elsewhere/first", "..", "/etc", ".", "linked"])
def test_latest_points_to_a_run_beside_it(tmp_path, target):
    folder = tmp_path / "runs"
    publish(report(), folder)
    publish(report(), tmp_path / "elsewhere")
    (folder / "linked").symlink_to(tmp_path / "elsewhere" / "first")
    (folder / "latest").unlink()
    (folder / "latest").symlink_to(target)

    assert verify(folder / "latest")
    with pytest.raises(EvalkitError):
        history.load_named(folder, "latest")
    assert history.read_tags(folder) == {}


@pytest.mark.parametrize("suffix", ["", "-journal"])
def test_index_that_is_a_link_is_made_anew(tmp_path, suffix):
    folder = tmp_path / "runs"
    publish(report(), folder)
    elsewhere = tmp_path / "elsewhere.sqlite"
    with sqlite3.connect(elsewhere) as connection:
        connection.execute("CREATE TABLE runs (mine TEXT)")
    connection.close()
    before = elsewhere.read_bytes()
    (folder / f"{history.INDEX}{suffix}").symlink_to(elsewhere)

    assert history.query(folder, "SELECT run_id FROM runs").rows == (("first",),)
    assert elsewhere.read_bytes() == before


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER evil AFTER INSERT ON runs BEGIN DELETE FROM metrics; END",
        "CREATE VIEW evil AS SELECT 1",
        "DROP TABLE metrics; CREATE VIEW metrics AS SELECT 1 AS run_id",
    ],
)
def test_index_with_more_than_tables_is_made_anew(tmp_path, sql):
    publish(report(), tmp_path)
    history.query(tmp_path, "SELECT 1")
    with sqlite3.connect(tmp_path / history.INDEX) as connection:
        connection.executescript(sql)
    connection.close()
    publish(report("second"), tmp_path)

    assert history.query(tmp_path, "SELECT count(*) FROM metrics").rows == ((2,),)
    assert history.query(tmp_path, "SELECT count(*) FROM sqlite_master WHERE name = 'evil'").rows


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.drop("RR"),
        lambda frame: frame.with_columns(RR=pl.lit("x")),
        lambda frame: frame.with_columns(RR=pl.lit(None)),
        lambda frame: frame.drop("user"),
        lambda frame: frame.drop("model"),
        lambda frame: frame.head(0),
        lambda frame: pl.DataFrame({"x": [1]}),
        None,
    ],
)
@pytest.mark.parametrize("name", ["per_user.parquet", "parts.parquet"])
def test_planted_tables_stop_no_job(logs, capsys, name, change):
    from evalkit.runs._files import file_record

    _, second = two_runs(logs, capsys)
    path = second / name
    if change is None or name == "parts.parquet":
        content = pl.DataFrame({"model": ["a"], "sum": ["1*2^99999"]})
        content.write_parquet(path) if change is not None else path.write_bytes(b"PAR1no")
    else:
        change(pl.read_parquet(path)).write_parquet(path)
    files = json.loads((second / "manifest.json").read_text())["files"]
    forge(second, files={**files, name: file_record(second, name)})

    for command in (["compare", "last~1", "last"], ["why", "last~1", "last"]):
        assert said(capsys, *command)[0] in (0, 3), command
    assert said(capsys, "gate", "last", "--baseline", "last~1")[0] in (0, 1, 3)
    assert said(capsys, "run", "job.toml", "--quiet")[0] == 0


def plant_table(run, name, content):
    """Another table in a run, whose manifest fits."""
    from evalkit.runs._files import file_record

    (run / name).write_bytes(content)
    files = json.loads((run / "manifest.json").read_text())["files"]
    forge(run, files={**files, name: file_record(run, name)})


BOMBS = {
    "claims": lambda path: write(
        path, {"metric": Column(bytes(800), 100, claimed=(1 << 31) - 2, codec="snappy")}, 100
    ),
    "values": lambda path: write(path, {"metric": same(1, (1 << 31) - 1)}, (1 << 31) - 1),
    "nested": lambda path: write(
        path,
        {"metric": Column(bytes(800), 100)},
        100,
        fields=[*[element(b"a", children=1)] * 5_000, element(b"metric")],
    ),
    "texts": lambda path: write(
        path,
        dict.fromkeys(("model", "metric", "name", "user"), same_text(b"a" * 25_000, 480_000)),
        480_000,
    ),
}


IN_ONE_PROCESS = """
import json, shutil, sys
from evalkit.cli import console
from evalkit.cli.app import run_command
from evalkit.cli.outcome import exit_status_of
commands, folder, bombs = map(json.loads, sys.argv[1:])
for bomb in bombs:
    shutil.rmtree(folder)
    shutil.copytree(bomb, folder)
    for command in commands:
        console.configure([])
        print("STATUS", exit_status_of(lambda: run_command(command)))
"""


def test_small_tables_that_claim_much_stop_no_job(logs, capsys):
    """Peaks are the operating system's, of whole processes."""
    toml = (logs / "job.toml").read_text()
    (logs / "job.toml").write_text(toml.replace("[output]", "[output]\nsegments_in_json = false"))
    first, second = two_runs(logs, capsys)
    commands = [
        ["report", str(second)], ["verify", str(second)], ["history"], ["history", "show", "RR"],
        ["why", str(first), str(second)], ["compare", str(first), str(second)],
        ["gate", str(second), "--baseline", str(first)],
    ]  # fmt: skip
    planted = []
    for bomb, make in BOMBS.items():
        make(logs / "bomb.parquet")
        content = (logs / "bomb.parquet").read_bytes()
        assert len(content) < 150_000
        for name in ("metrics.parquet", "parts.parquet", "per_user.parquet"):
            planted.append(str(shutil.copytree(second, logs / "bombs" / bomb / name)))
            plant_table(Path(planted[-1]), name, content)

    arguments = map(json.dumps, (commands, str(second), planted))
    ended = run_measured("-c", IN_ONE_PROCESS, *arguments, seconds=100)

    said = [line.split()[1] for line in ended.stdout.splitlines() if line[:6] == "STATUS"]
    assert len(said) == len(commands) * len(planted), ended.stderr
    assert {*said} <= {"0", "1", "3"}, (said, ended.stderr)
    assert ended.peak_mib < 450
    assert run_here(["run", "job.toml", "--quiet"], logs).status == 0


# One bad directory stops no job, and is named.


def plant(folder, planted, **changes):
    path = publish(report(planted), folder)
    forge(path, **changes)
    return path


WRONG = {
    "files": ["report.json", {"report.json": 1}, {"report.json": {"sha256": 1, "bytes": "x"}}],
    "run_id": [None, 7, ["z"], {}],
    "name": [None, 7, []],
    "run_key": [None, 1.5],
    "per_user": [
        1,
        [],
        {},
        {"user_columns": 1, "metrics": []},
        {"user_columns": [1], "metrics": [{}]},
    ],
    "config": [1, [], "x"],
    "is_fine": ["no", 2],
    "higher_is_better": [[], {"RR": 1}],
    "meta": [[], {"started": 7}],
    "schema_version": [None, 2, "1"],
}


@pytest.mark.parametrize(("key", "value"), [(key, each) for key in WRONG for each in WRONG[key]])
def test_manifest_of_wrong_types_is_set_aside_by_name(tmp_path, key, value, caplog):
    publish(report("good"), tmp_path)
    plant(tmp_path, "zzz", **{key: value})

    assert history.find_run(tmp_path, "last") == tmp_path / "good"
    assert "zzz is left out" in caplog.text
    assert history.query(tmp_path, "SELECT run_id FROM runs").rows == (("good",),)
    assert verify(tmp_path / "zzz")


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b"9" * 100_000,
        b'{"checksum": NaN}',
        b'{"checksum": 1e999}',
        b"\xff\xfe\x00",
        "{}".encode("utf-16"),
        b'{"checksum": "a", "checksum": "b"}',
        b"",
        b"\x00" * 100,
        b'{"checksum": ' + b"1" * 5000 + b"}",
    ],
)
def test_hostile_json_is_set_aside_by_name(tmp_path, content, caplog):
    publish(report("good"), tmp_path)
    (plant(tmp_path, "zzz") / "manifest.json").write_bytes(content)

    assert [path.name for path, _ in runs.finished(tmp_path)] == ["good"]
    assert "zzz is left out" in caplog.text


def test_huge_manifest_is_not_read(tmp_path, caplog):
    import resource

    publish(report("good"), tmp_path)
    os.truncate(plant(tmp_path, "zzz") / "manifest.json", 3 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert history.find_run(tmp_path, "last") == tmp_path / "good"
    assert "larger than 16,777,216 bytes" in caplog.text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_list_of_millions_is_not_parsed(monkeypatch):
    monkeypatch.setattr(by_hints, "MOST_VALUES", 1000)

    with pytest.raises(ValueError, match="more than"):
        by_hints.load_json(b"[" + b"[]," * 700 + b"0]")


@pytest.mark.parametrize("run_id", ["99991231-235959-999-ffffff", "20990101-000000-000-aaaaaa"])
def test_run_of_the_future_is_never_the_last_one(tmp_path, run_id, caplog):
    publish(report("20260101-000000-000-aaaaaa"), tmp_path)
    publish(report(run_id), tmp_path)

    assert history.find_run(tmp_path, "last").name == "20260101-000000-000-aaaaaa"
    assert f"{run_id} is left out: it says that it began in the future" in caplog.text


def test_clock_that_is_a_little_ahead_is_forgiven(tmp_path):
    run_id = time.strftime("%Y%m%d-%H%M%S-000-aaaaaa", time.gmtime(time.time() + 600))
    publish(report(run_id), tmp_path)

    assert history.find_run(tmp_path, "last").name == run_id


@pytest.mark.parametrize("name", ["report.json", "report.md"])
def test_damaged_run_is_never_the_last_one(tmp_path, name, caplog):
    publish(report("a"), tmp_path)
    path = publish(report("b"), tmp_path)
    (path / name).write_text("changed")

    assert history.find_run(tmp_path, "last") == tmp_path / "a"
    assert f"b is left out: {name}" in caplog.text


def test_gate_with_a_damaged_baseline_cannot_tell(tmp_path, caplog):
    path = publish(report("a"), tmp_path)
    (path / "report.json").write_text("changed")
    rules = [GateRule.model_validate({"metric": "nDCG@10", "max_drop": 0.1, "baseline": "a"})]

    baselines = find_baselines(rules, ["als"], tmp_path, name="nightly")
    (gate,) = judge(rules, report("now"), baselines, level=0.95)

    assert (gate.outcome, gate.fails) == ("cannot tell", True)
    assert "no whole run 'a'" in gate.message
    assert "a is left out" in caplog.text


def test_jobs_go_on_beside_a_bad_directory_and_name_it(logs, capsys, caplog):
    _, second = two_runs(logs, capsys)
    forge(second, is_fine="no", name=["job"])
    caplog.clear()

    for arguments in (
        ["run", "job.toml", "--if-new"],
        ["history", "list"],
        ["history", "show", "RR"],
        ["history", "rebuild"],
        ["history", "prune", "--keep", "1"],
    ):
        assert said(capsys, *arguments)[0] == 0, arguments
    assert f"{second.name} is left out" in caplog.text
    assert second.exists()


# Mutations.

VALUES = [
    None, True, -1, 0, 2**63, 2**64, 10**400, 1.5, -0.0, 1e308, "", "x", "../x", "/etc/passwd",
    "\u202e", "\ud800", "a\nb", "\x1b[31m", [], {}, [[]], {"a": {}}, "9" * 5000, "last", "nan",
]  # fmt: skip


def mutate(draw, tree):
    """The tree with one value changed, removed, doubled or moved."""
    places = []

    def walk(node, place):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key], (*place, key))

    walk(tree, ())
    node, key = draw.choice(places)
    kind = draw.randrange(4)
    if kind == 0 and isinstance(node, dict):
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        node[draw.choice(["", "x", "\u202e", key + "x"])] = node.pop(key)
    elif kind == 2 and isinstance(node, list):
        node.append(node[key])
    else:
        node[key] = draw.choice(VALUES)


COMMANDS = [
    ["history", "list"],
    ["history", "list", "--json"],
    ["history", "show", "RR"],
    ["history", "query", "SELECT * FROM metrics", "--format", "csv"],
    ["compare", "last~1", "{run}"],
    ["compare", "last~1", "last", "--test", "bootstrap"],
    ["gate", "{run}"],
    ["gate", "last", "--baseline", "{run}"],
    ["why", "last~1", "{run}"],
    ["verify", "{run}"],
    ["report", "{run}", "--format", "html"],
    ["report", "{run}", "--format", "latex"],
    ["report", "{run}"],
    ["history", "prune", "--keep", "1", "--dry-run"],
]


def test_no_mutated_run_stops_a_command(logs, capsys):
    from hashlib import sha256

    _, second = two_runs(logs, capsys)
    kept = {name: (second / name).read_bytes() for name in ("manifest.json", "report.json")}
    for trial in range(TRIALS):
        draw = random.Random(trial)
        trees = {name: json.loads(content) for name, content in kept.items()}
        name = draw.choice(list(trees))
        for _ in range(draw.randrange(1, 3)):
            mutate(draw, trees[name])
        text = json.dumps(trees["report.json"]).encode()
        (second / "report.json").write_bytes(text)
        files = trees["manifest.json"].get("files")
        if isinstance(files, dict) and isinstance(files.get("report.json"), dict):
            files["report.json"] |= {"sha256": sha256(text).hexdigest(), "bytes": len(text)}
        (second / "manifest.json").write_text(json.dumps(trees["manifest.json"]))
        if draw.random() < 0.9:
            forge(second)
        command = draw.choice(COMMANDS)
        status, _, err = said(capsys, *(each.format(run=second) for each in command))
        assert status in (0, 1, 2, 3), (trial, command, err)
        if command[0] == "history":
            assert status == 0 or "show" in command, (trial, command, err)
