"""`evalkit partial` and `evalkit merge`: the same report as `evalkit run`, and clear refusals."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from program import environment

import evalkit as package
from evalkit.cli.options import check_file_option
from evalkit.errors import EvalkitError, MachineError, RequestError
from evalkit.jobs.partial import check_target, parse_share


def parts_of(evalkit, n_shares, *more, config="job.toml"):
    """Every share measured by a command of its own; the names of the files."""
    names = [f"part-{share}" for share in range(1, n_shares + 1)]
    for share, name in enumerate(names, 1):
        done = evalkit("partial", config, "--share", f"{share}/{n_shares}", "--out", name, *more)
        assert done.status == 0, done.err
        assert done.out == f"partial: {name}\n"
    return names


def same(document):
    """A report less what each run has of its own."""
    return {key: each for key, each in document.items() if key not in ("meta", "run_id")}


def report_of(folder):
    return same(json.loads((folder / "latest" / "report.json").read_text()))


GATED = """
[[gates]]
metric = "nDCG@2"
min = 0.9
[output]
per_user = true
formats = ["json", "parquet"]
[statistics]
baseline = "good"
test = "wilcoxon"
"""


@pytest.fixture
def gated(logs: Path) -> Path:
    config = logs / "job.toml"
    config.write_text(config.read_text() + GATED)
    return logs


def test_merge_publishes_what_run_publishes(process, gated):
    whole = process("run", "job.toml", "--out", "whole")
    names = parts_of(process, 3)
    merged = process("merge", *reversed(names), "--out", "runs")

    assert merged.status == whole.status == 1  # a gate fails
    assert report_of(gated / "runs") == report_of(gated / "whole")
    tables = ("per_user.parquet", "parts.parquet", "metrics.parquet", "comparisons.parquet")
    for name in tables:
        one, other = (pl.read_parquet(gated / each / "latest" / name) for each in ("runs", "whole"))
        own = ("job", "run_id", "started")
        assert one.drop(own, strict=False).equals(other.drop(own, strict=False)), name
    assert [line for line in merged.err.splitlines() if "gate" in line]
    assert process("verify", "runs/latest").status == 0
    assert process("history", "list", "--out", "runs").out.count("job") >= 1
    again = process("merge", *names, "--out", "runs", "--if-new")
    assert "nothing-new" in again.err


def test_a_job_of_one_day_is_shared_out(evalkit, logs):
    config = logs / "job.toml"
    text = config.read_text()
    path = next(line for line in text.splitlines() if line.startswith("path = "))
    name = path.partition('"')[2].rstrip('"')
    os.rename(logs / name, logs / f"2026-01-31-{name}")
    config.write_text(text.replace(path, f'path = "{{day}}-{name}"', 1))
    day = ("--var", "day=2026-01-31")
    whole = evalkit("run", "job.toml", *day, "--out", "whole")

    merged = evalkit("merge", *parts_of(evalkit, 2, *day), "--out", "runs")

    assert (whole.status, merged.status) == (0, 0), merged.err
    assert report_of(logs / "runs") == report_of(logs / "whole")
    manifest = json.loads((logs / "runs" / "latest" / "manifest.json").read_text())
    assert manifest["config"]["variables"] == {"day": "2026-01-31"}


def test_both_doors_give_the_same(process, gated):
    names = parts_of(process, 2)
    files = [gated / f"python-{share}" for share in (1, 2)]
    cwd = os.getcwd()
    os.chdir(gated)
    try:
        for share, path in enumerate(files, 1):
            assert package.partial("job.toml", share=(share, 2), out=path) == path
        report = package.merge(files)
        published = package.merge(names, out="published")
    finally:
        os.chdir(cwd)
    document = process("merge", *names, "--json", "--out", "runs").document

    assert [Path(gated, name).read_bytes() for name in names] == [p.read_bytes() for p in files]
    gates = document.pop("gates", None)
    assert gates
    found = json.loads(report.to_json())
    found.pop("gates", None)
    assert same(found) == same(document)
    assert report.per_user("nDCG@2", model="bad").height == 2
    assert published.per_user("nDCG@2", model="bad").height == 2
    assert [each.outcome for each in published.gates] == [each["outcome"] for each in gates]


def test_shares_of_a_log_laid_out_by_user(evalkit, logs):
    for name in ("truth", "good", "bad"):
        frame = pl.read_parquet(logs / f"{name}.parquet")
        for share0 in (0, 1):
            path = logs / name / f"bucket={share0}" / "part.parquet"
            path.parent.mkdir(parents=True)
            frame.filter(pl.col("user_id") % 2 == share0).write_parquet(path)
    text = (logs / "job.toml").read_text()
    for name in ("truth", "good", "bad"):
        text = text.replace(f"{name}.parquet", f"{name}/bucket={{share0}}/*.parquet")
    (logs / "job.toml").write_text(text)
    (logs / "whole.toml").write_text('name = "job"\n' + text.replace("{share0}", "*"))

    names = parts_of(evalkit, 2)
    merged = evalkit("merge", *names, "--json").document
    whole = evalkit("run", "whole.toml", "--json").document

    for key in ("metrics", "counts", "warnings"):
        assert merged[key] == whole[key]
    assert merged["inputs"][0]["paths"] == [f"truth/bucket={each}/*.parquet" for each in (0, 1)]
    assert merged["inputs"][0]["rows"] == 3
    assert evalkit("run", "job.toml").codes == ["share-places"]
    assert "share-places" in evalkit("check", "job.toml").out
    one = evalkit("check", "job.toml", "--var", "share0=1")
    assert one.status == 0, one.out


def test_a_log_that_is_not_laid_out_by_user_is_refused(logs):
    for name in ("truth", "good", "bad"):
        for share in (1, 2):
            (logs / f"{name}-{share}.parquet").write_bytes((logs / f"{name}.parquet").read_bytes())
    config = logs / "job.toml"
    config.write_text(config.read_text().replace(".parquet", "-{share}.parquet"))
    files = [package.partial(config, share=(i, 2), out=logs / f"part-{i}") for i in (1, 2)]

    with pytest.raises(EvalkitError) as caught:
        package.merge(files)

    assert (caught.value.code, caught.value.exit_status) == ("user-in-two-shares", 3)


def test_missing_shares_are_refused_or_told(evalkit, logs):
    names = parts_of(evalkit, 3)

    refused = evalkit("merge", *names[::2])
    assert (refused.status, refused.codes) == (3, ["missing-shares"])
    assert "share 2 of 3" in refused.err
    allowed = evalkit("merge", *names[::2], "--allow-missing", "--json")
    assert allowed.status == 0
    assert "missing-shares" in [each["code"] for each in allowed.document["warnings"]]
    whole = evalkit("merge", *names, "--json").document
    assert whole["run_key"] != allowed.document["run_key"]
    assert whole["run_key"] == evalkit("run", "job.toml", "--json").document["run_key"]


@pytest.mark.parametrize(
    "share", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4", "1/4/2", "1/9999999999"]
)
def test_what_is_no_share_is_refused(share):
    with pytest.raises(RequestError) as caught:
        parse_share(share)

    assert (caught.value.code, caught.value.at) == ("bad-share", f"--share {share}")


@pytest.mark.parametrize("check", [check_target, partial(check_file_option, option="--per-user")])
def test_a_folder_mounted_for_reading_is_the_machines_fault(tmp_path, monkeypatch, check):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as also root is told

    with pytest.raises(MachineError) as caught:
        check(tmp_path / "new")

    assert (caught.value.code, caught.value.exit_status) == ("not-writable", 4)


@pytest.mark.parametrize("out", ["truth.parquet", ".", "nowhere/part", "job.toml"])
def test_no_other_file_is_lost(logs, out):
    with pytest.raises(RequestError) as caught:
        check_target(logs / out)

    assert caught.value.code == "bad-option"


def test_a_wrong_request_is_refused_before_any_work(evalkit, logs):
    before = {path.name: path.read_bytes() for path in logs.iterdir()}

    share = evalkit("partial", "job.toml", "--share", "3/2", "--out", "part")
    out = evalkit("partial", "job.toml", "--share", "1/2", "--out", "truth.parquet")

    assert (share.status, share.codes) == (2, ["bad-share"])
    assert (out.status, out.codes) == (2, ["bad-option"])
    assert {path.name: path.read_bytes() for path in logs.iterdir()} == before


def test_a_share_is_not_measured_elsewhere_than_the_config_says(evalkit, logs):
    engine = ("--set", "engine.kind=spark")

    done = evalkit("partial", "job.toml", "--share", "1/2", "--out", "one", *engine)

    assert (done.status, done.codes, (logs / "one").exists()) == (2, ["conflicting-keys"], False)


def test_an_earlier_partial_is_replaced(evalkit, logs):
    parts_of(evalkit, 1)
    before = (logs / "part-1").read_bytes()

    parts_of(evalkit, 1)

    assert (logs / "part-1").read_bytes() == before


def test_what_is_no_partial_is_refused(evalkit, logs):
    (logs / "empty").touch()

    done = evalkit("merge", "truth.parquet", ".", "empty", "nowhere")

    assert (done.status, done.codes) == (3, ["not-a-partial"] * 3 + ["path-not-found"])
    assert not (logs / "runs").exists()


def test_nothing_is_merged_of_nothing(evalkit, logs):
    done = evalkit("merge")

    assert (done.status, done.codes) == (2, ["nothing-to-merge"])


def test_partials_of_other_work_are_refused(evalkit, logs):
    parts_of(evalkit, 2)
    evalkit("partial", "job.toml", "--share", "2/2", "--out", "part-2", "--sample", "0.5")

    done = evalkit("merge", "part-1", "part-2")

    assert (done.status, done.codes) == (3, ["foreign-partial"])
    assert "the sample is 0.5" in done.err


def test_values_that_were_not_kept_cannot_be_written(evalkit, logs):
    names = parts_of(evalkit, 2)

    done = evalkit("merge", *names, "--per-user", "users.parquet")

    assert (done.status, done.codes) == (2, ["values-not-kept"])
    names = parts_of(evalkit, 2, "--per-user")
    assert evalkit("merge", *names, "--per-user", "users.parquet").status == 0
    assert evalkit("run", "job.toml", "--per-user", "whole.parquet").status == 0
    one, other = (pl.read_parquet(logs / name) for name in ("users.parquet", "whole.parquet"))
    assert one.equals(other)


METRIC = '''
from evalkit.kernels import kernel
from evalkit.metrics import metric


@metric(
    name="shown",
    summary="Items in a list.",
    formula="length",
    latex="n",
    source="nobody",
    bounds=(0.0, float("inf")),
    undefined="never",
)
@kernel
def shown(hits, relevant, lengths, cutoffs, out):
    """Length of each list."""
    for user in range(out.shape[0]):
        for column in range(cutoffs.size):
            out[user, column] = float(lengths[user])
'''


def test_a_metric_file_is_named_again_and_never_run_by_a_partial(evalkit, logs):
    (logs / "mine.py").write_text(METRIC)
    config = logs / "job.toml"
    config.write_text(config.read_text().replace('"recall@1"]', '"shown"]\nfiles = ["mine.py"]'))
    names = parts_of(evalkit, 2)
    (logs / "mine.py").write_text(METRIC + "open('run', 'w')\n")

    refused = evalkit("merge", *names)
    assert (refused.status, refused.codes) == (2, ["metric-file-needed"])
    assert not (logs / "run").exists()
    assert "--metric-file mine.py" in refused.err
    (logs / "mine.py").write_text(METRIC)
    merged = evalkit("merge", *names, "--metric-file", "mine.py", "--json")
    assert merged.status == 0, merged.err
    assert same(merged.document) == same(evalkit("run", "job.toml", "--json").document)
    (logs / "mine.py").write_text(METRIC.replace("float(lengths[user])", "2.0 * lengths[user]"))
    other = evalkit("merge", *names, "--metric-file", "mine.py")
    assert (other.status, other.codes) == (3, ["foreign-partial"])


def test_a_partial_leads_out_of_no_folder(evalkit, logs):
    config = logs / "job.toml"
    (logs / "other").mkdir()
    assert evalkit("run", "job.toml", "--out", "other").status == 0
    config.write_text(
        config.read_text() + '[output]\npath = "elsewhere"\n'
        '[[gates]]\nmetric = "nDCG@2"\nmax_drop = 0.1\nbaseline = "other/latest"\n'
    )
    names = parts_of(evalkit, 2)

    done = evalkit("merge", *names)

    assert (done.status, done.codes) == (2, ["unknown-run"])
    assert not (logs / "elsewhere").exists()


def test_faults_of_rows_are_told_once_and_as_run_tells_them(evalkit, logs):
    good = pl.read_parquet(logs / "good.parquet")
    pl.concat([good, good]).write_parquet(logs / "good.parquet")
    names = parts_of(evalkit, 2)

    merged, whole = evalkit("merge", *names), evalkit("run", "job.toml")

    assert merged.status == whole.status == 3
    assert merged.err == whole.err


def test_python_refuses_as_the_command_does(logs):
    with pytest.raises(EvalkitError) as caught:
        package.partial(logs / "job.toml", share=(0, 4), out=logs / "part")
    assert caught.value.code == "bad-share"
    with pytest.raises(EvalkitError) as caught:
        package.merge([])
    assert caught.value.code == "nothing-to-merge"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_is_told(process, logs):
    done = process("partial", "job.toml", "--share", "1/2", "--out", "/dev/full")

    assert done.status in (2, 4)
    assert done.codes


def test_a_killed_process_leaves_no_file(logs):
    code = (
        "import os, sys\n"
        "from evalkit.planning.partials import _container\n"
        "_container._packed = lambda piece: os.kill(os.getpid(), 9)\n"
        "from evalkit.cli.app import run_command\n"
        "run_command(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "partial", "job.toml", "--share", "1/2", "--out", "part"]

    done = subprocess.run(command, cwd=logs, env=environment({}), check=False)

    assert done.returncode == -9
    assert not (logs / "part").exists()


def test_every_command_that_measures_takes_a_metric_file(evalkit, logs):
    (logs / "mine.py").write_text(METRIC)
    named = ("--set", 'metrics.names=["shown@2"]', "--metric-file", "mine.py")
    two = ("--truth", "truth.parquet", "good.parquet", "bad.parquet", "-m", "shown@2")
    for command in (
        ("run", "job.toml", *named, "--json"),
        ("check", "job.toml", *named),
        ("partial", "job.toml", *named, "--share", "1/2", "--out", "1.partial"),
        ("compare", *two, *named[2:], "--json"),
        ("explain", "shown", *named[2:]),
        ("metrics", *named[2:]),
    ):
        found = evalkit(*command)
        assert (found.status, found.codes) == (0, []), (command, found.err)
        assert "shown" in found.out or command[0] in ("check", "partial"), command
