"""Segments stand in report.json (schema 1) or in Parquet beside it (2): nobody sees which."""

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import polars as pl
import pytest
from example_runs import report
from segmented_logs import make_logs

import evalkit
from evalkit.cli import console
from evalkit.cli.app import run_command
from evalkit.cli.outcome import exit_status_of
from evalkit.config.form_names import FILES
from evalkit.errors import DataError
from evalkit.report import Report
from evalkit.runs import load_run, publish, verify
from evalkit.runs._files import file_record
from evalkit.runs._keys import digest

KEPT = Path(__file__).parent / "version_1"  # written by an evalkit that knew of no other
JOB = """
name = "job"
[truth]
path = "truth.parquet"
[[rankings]]
model = "a"
path = "a.parquet"
[[rankings]]
model = "b"
path = "{second}.parquet"
[metrics]
names = ["nDCG@5", "recall@{{1,5}}", "precision(over='length')@5"]
[segments]
country = {{ by = "country" }}
kind = {{ path = "users.parquet", user = "who", by = "kind" }}
cross = [["country", "kind"]]
[statistics]
baseline = "a"
search = true
curves = true
distributions = true
[[gates]]
metric = "nDCG@5"
segment = "country=de"
model = "b"
min = 0.01
unclear = "pass"
[[gates]]
metric = "recall@5"
segment = "kind=new"
model = "b"
max_drop = 0.5
baseline = "last"
unclear = "pass"
[output]
per_user = true
formats = ["json", "parquet", "markdown", "html", "csv", "latex"]
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same two runs, twice: segments beside report.json, and in it."""
    folder = tmp_path_factory.mktemp("schemas")
    make_logs(folder)
    beside, inside = folder / "beside", folder / "inside"
    for second in "bc":
        (folder / "job.toml").write_text(JOB.format(second=second))
        run_command(["run", str(folder / "job.toml"), "--out", str(beside), "--quiet"])
        path = beside / "latest"
        config = json.loads((path / "manifest.json").read_text())["config"]
        publish(load_run(path), inside, formats=FILES, segments_in_json=True, config=config)
    return beside, inside


def document(path):
    return json.loads((path / "latest" / "report.json").read_text())


def said(capsys, *arguments):
    console.configure([])
    status = exit_status_of(lambda: run_command([str(each) for each in arguments]))
    out, err = capsys.readouterr()
    return status, out, err


def forge(path, **changes):
    """Change a manifest, so that its checksum fits again."""
    manifest = manifest_of(path) | changes
    manifest.pop("checksum", None)
    manifest["checksum"] = digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def manifest_of(path):
    return json.loads((path / "manifest.json").read_text())


def copy_of(folder, into):
    return Path(copytree((folder / "latest").resolve(), into / "copy"))


def test_report_json_holds_the_whole_and_parquet_the_segments(folders):
    beside, inside = map(document, folders)

    assert (beside["schema_version"], inside["schema_version"]) == (2, 1)
    for name in ("metrics", "comparisons"):
        whole = [each for each in inside[name] if each["segmentation"] is None]
        for entry in whole:  # written where any record has some, of segments too
            if entry.get("caveats", "some") is None:
                del entry["caveats"]
        assert beside[name] == whole
        assert 0 < len(whole) < len(inside[name])
        rows = pl.read_parquet(folders[0] / "latest" / f"{name}.parquet")
        assert rows["segmentation"].to_list() == [each["segmentation"] for each in inside[name]]
        column = "value" if name == "metrics" else "p_adjusted"
        assert rows[column].to_list() == [each[column] for each in inside[name]]
    rest = set(inside) - {"schema_version", "metrics", "comparisons"}
    assert {key: beside[key] for key in rest} == {key: inside[key] for key in rest}


def test_other_files_are_the_same(folders):
    tables, texts = ("metrics.parquet", "comparisons.parquet"), ("metrics.csv", "report.md")
    for name in (*tables, *texts, "report.html", "report.tex"):
        found = [(each / "latest" / name).read_bytes() for each in folders]
        assert found[0] == found[1], name


def test_either_reads_as_the_same_report(folders):
    beside, inside = (load_run(each / "latest") for each in folders)

    assert beside == inside
    assert beside.to_json() == (folders[1] / "latest" / "report.json").read_text()
    assert evalkit.load(folders[0] / "latest") == inside
    few = [load_run(each / "latest", metrics={"recall@5"}) for each in folders]
    assert few[0] == few[1]
    assert {each.metric for each in few[0].estimates} == {"recall@5"}
    assert any(each.segment for each in few[0].estimates)


COMMANDS = (
    *(("report", "last", "--format", form) for form in ("screen", "table", "json", "csv", "html")),
    *(("report", "last", "--format", form) for form in ("markdown", "latex")),
    ("compare", "last~1", "last"),
    ("compare", "last~1", "last", "--json"),
    ("why", "last~1", "last"),
    ("why", "last~1", "last", "--by", "kind", "--json"),
    ("gate", "last"),
    ("gate", "last~1"),
    ("gate", "last", "--baseline", "last~1", "--json"),
    ("history", "list"),
    ("history", "show", "nDCG@5", "--model", "b", "--segment", "country=de"),
    ("history", "query", "SELECT * FROM metrics ORDER BY run_id, rowid"),
    ("history", "export", "all.parquet"),
    ("history", "html"),
    ("verify", "runs/latest"),
)


@pytest.mark.some_cases(8)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_say_the_same_of_either(folders, capsys, monkeypatch, tmp_path, command):
    found = []
    for folder in folders:
        place = tmp_path / folder.name
        place.mkdir()
        (place / "runs").symlink_to(folder)
        monkeypatch.chdir(place)
        status, out, err = said(capsys, *command)
        files = {each.name: each.read_bytes() for each in place.iterdir() if each.is_file()}
        found.append((status, *(each.replace(str(folder), "") for each in (out, err)), files))

    assert found[0] == found[1]
    assert found[0][0] == 0, found[0][2]


def test_kept_run_of_version_1_is_read_as_before(tmp_path):
    text = (KEPT / "report.json").read_text()

    found = load_run(KEPT)

    assert verify(KEPT) == []
    assert json.loads(text)["schema_version"] == 1
    assert Report.from_json(text) == replace(found, config=None)
    assert found.to_json() == text
    assert (len(found.estimates), len(found.comparisons)) == (16, 8)
    assert found.value("nDCG@5", model="b", segment="country=de") == 0.11640635216267306
    again = load_run(publish(found, tmp_path, formats=("json", "parquet"), config=found.config))
    assert again == found


def test_everything_is_in_json_where_parquet_is_not_written(folders, tmp_path):
    found = load_run(folders[0] / "latest")

    path = publish(found, tmp_path, formats=("json", "markdown"))

    assert (path / "report.json").read_text() == found.to_json()
    assert not (path / "metrics.parquet").exists()


def test_config_option_keeps_segments_in_json(folders, monkeypatch):
    folder = folders[0].parent
    options = ["--set", "output.segments_in_json=true", "--out", str(folder / "asked"), "--quiet"]
    run_command(["run", str(folder / "job.toml"), *options])

    assert document(folder / "asked")["metrics"] == document(folders[1])["metrics"]
    assert document(folder / "asked")["schema_version"] == 1


def test_names_that_parquet_would_change_stay_in_json(folders, tmp_path):
    found = load_run(folders[0] / "latest")
    odd = [
        replace(each, segment=each.segment and "\udcff" + each.segment) for each in found.estimates
    ]

    compared = tuple(replace(each, candidate="\udcff") for each in found.comparisons)
    path = publish(replace(found, estimates=tuple(odd), comparisons=compared), tmp_path)

    assert json.loads((path / "report.json").read_text())["schema_version"] == 1
    assert list(load_run(path).estimates) == odd
    assert load_run(path).comparisons == compared


def test_run_without_segments_is_of_schema_1(tmp_path):
    path = publish(report(), tmp_path)

    assert json.loads((path / "report.json").read_text())["schema_version"] == 1


def test_report_json_alone_is_refused_where_it_leaves_segments_out(folders):
    with pytest.raises(DataError, match="leaves segments to") as caught:
        Report.from_json((folders[0] / "latest" / "report.json").read_text())

    assert caught.value.code == "report-schema"


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.with_columns(value=pl.col("value") / 2),
        lambda rows: rows.head(0),
        lambda rows: rows.filter(pl.col("segment").is_not_null()),
        lambda rows: rows.drop("segment"),
        lambda rows: rows.drop("metric"),
        lambda rows: rows.with_columns(segmentation=1),
        lambda rows: rows.with_columns(segment=pl.col("n_users")),
        lambda rows: rows.with_columns(parameters=pl.lit("{")),
        lambda rows: rows.with_columns(policies=pl.lit(1)),
        lambda rows: rows.with_columns(policies=pl.lit(None, pl.String)),
        lambda rows: rows.with_columns(n_users=pl.lit(0.5)),
        lambda rows: rows.with_columns(low=pl.concat_list("low")),
        lambda rows: rows.with_columns(metric=pl.struct("metric")),
        lambda rows: rows.with_columns(pl.col("segmentation").fill_null("x")),
    ],
)
@pytest.mark.parametrize("metrics", [None, {"recall@5"}])
def test_planted_rows_are_refused(folders, tmp_path, change, metrics):
    path = copy_of(folders[0], tmp_path)
    change(pl.read_parquet(path / "metrics.parquet")).write_parquet(path / "metrics.parquet")
    forge(path, files={name: file_record(path, name) for name in manifest_of(path)["files"]})

    assert verify(path)
    with pytest.raises(DataError) as caught:
        load_run(path, metrics=metrics)
    assert caught.value.code == "run-damaged"


def test_table_that_is_not_listed_is_missed(folders, tmp_path):
    for name in ("metrics.parquet", "comparisons.parquet"):
        (tmp_path / name).mkdir()
        path = copy_of(folders[0], tmp_path / name)
        files = manifest_of(path)["files"]
        forge(path, files={key: each for key, each in files.items() if key != name})
        (path / name).unlink()

        with pytest.raises(DataError, match="all users"):
            load_run(path)


def test_damaged_tables_are_refused(folders, tmp_path):
    draw = random.Random(1)
    path = copy_of(folders[0], tmp_path)
    kept = (path / "metrics.parquet").read_bytes()
    for trial in range(60):
        content = bytearray(kept)
        for _ in range(1 + trial % 3):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        if trial % 5 == 0:
            content = content[: draw.randrange(len(content))]
        (path / "metrics.parquet").write_bytes(content)
        forge(path, files={name: file_record(path, name) for name in manifest_of(path)["files"]})
        with suppress(DataError):
            load_run(path)


def test_more_rows_than_a_report_may_have_are_not_read(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("evalkit.report.parquet.MOST_VALUES", 100)

    with pytest.raises(DataError, match="more than 100 values"):
        load_run(folders[0] / "latest")
