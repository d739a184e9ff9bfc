"""Files of a folder that count, and those that do not: read by their form, or told."""

import os
import shutil

import polars as pl
import pytest

import evalkit
from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.jobs.check import check_config
from tests.passes import in_passes, outcome_of

TRUTH = pl.DataFrame({"user": [1, 2, 3], "item": [10, 20, 30]})


def ranked(items=(10, 20, 30)):
    return pl.DataFrame({"user": [1, 2, 3], "item": list(items), "rank": 1})


@pytest.fixture
def folder(tmp_path):
    """Truth in three files, of which one alone is named after its form."""
    made = tmp_path / "truth"
    made.mkdir()
    TRUTH[:1].write_parquet(made / "part-0.parquet")
    TRUTH[1:2].write_parquet(made / "part-0001")
    TRUTH[2:].write_parquet(made / "part-2.parquet.snappy")
    return made


def evaluate(folder, **options):
    return evalkit.evaluate(str(folder), ranked((10, 21, 30)), metrics=["recall@1"], **options)


def refused(folder, **options):
    with pytest.raises(EvalkitError) as caught:
        evaluate(folder, **options)
    return caught.value


@pytest.mark.parametrize("options", [{}, {"format": {"truth": "parquet"}}])
def test_files_of_one_form_are_read_whatever_their_names(folder, options):
    report = evaluate(folder, **options)

    assert report.value("recall@1") == pytest.approx(2 / 3)
    assert report.inputs[0].rows == 3
    assert report.inputs[0].left_out == 0


def test_a_folder_of_partitions_without_endings_is_read(tmp_path):
    for number in range(3):
        part = tmp_path / "truth" / f"day={number}"
        part.mkdir(parents=True)
        TRUTH[number : number + 1].write_parquet(part / "part-0")

    assert evaluate(tmp_path / "truth").inputs[0].rows == 3


@pytest.mark.parametrize("users", [("1", "2"), ("01", "02"), ("1", "01")])
def test_users_of_two_folders_are_two(tmp_path, users):
    for user in users:
        part = tmp_path / "truth" / f"user={user}"
        part.mkdir(parents=True)
        pl.DataFrame({"item": [10]}).write_parquet(part / "a.parquet")
    ids = list(users) if users == ("1", "01") else [1, 2]
    ranked_ = pl.DataFrame({"user": ids, "item": [10, 20], "rank": 1})

    report = evalkit.evaluate(str(tmp_path / "truth"), ranked_, metrics=["RR"])

    assert (report.value("RR"), report.counts.truth.users) == (0.5, 2)


def test_arrow_files_without_endings_are_read(tmp_path):
    (tmp_path / "truth").mkdir()
    TRUTH.write_ipc(tmp_path / "truth" / "part-0")

    assert evaluate(tmp_path / "truth").inputs[0].rows == 3


@pytest.mark.parametrize("name", ["more.csv", "more"])
def test_two_forms_of_tables_are_refused(folder, name):
    TRUTH.write_csv(folder / name) if "." in name else TRUTH.write_ipc(folder / name)

    assert refused(folder).code == "unknown-format"


def test_text_without_an_ending_is_read_where_the_format_is_written(tmp_path):
    folder = tmp_path / "truth"
    folder.mkdir()
    TRUTH[:2].write_csv(folder / "part-0.csv")
    TRUTH[2:].write_csv(folder / "part-0001")

    assert evaluate(folder, format={"truth": "csv"}).inputs[0].rows == 3
    assert evaluate(folder).inputs[0].left_out == 1


NO_DATA = {
    "README.md": b"# rows",
    "schema.json": b"{}",
    "_SUCCESS": b"",
    ".hidden.parquet": b"PAR1",
    "part.crc": b"crc",
    "part.parquet.tmp": b"PAR1",
}


def test_what_is_left_out_is_counted_and_named_by_check(folder, tmp_path):
    for name, content in NO_DATA.items():
        (folder / name).write_bytes(content)
    for name in ("_temporary", ".hive-staging_1"):
        (folder / name).mkdir()
        TRUTH.write_parquet(folder / name / "part-9.parquet")
    ranked().write_parquet(tmp_path / "rankings.parquet")

    report = evaluate(folder)

    assert report.inputs[0].rows == 3
    assert report.inputs[0].left_out == len(NO_DATA) + 2
    tree = {
        "truth": {"path": str(folder)},
        "rankings": [{"path": str(tmp_path / "rankings.parquet"), "model": "als"}],
        "metrics": {"names": ["recall@1"]},
    }
    (told,) = [
        each for each in check_config(build_config(tree, name="c")) if each.code == "files-left-out"
    ]
    assert all(name in told.message for name in [*NO_DATA, "_temporary", ".hive-staging_1"])


def hudi(root):
    (root / ".hoodie").mkdir()


def delta(root):
    (root / "_delta_log").mkdir()


def iceberg(root):
    (root / "metadata").mkdir()
    (root / "metadata" / "v1.metadata.json").write_text("{}")


@pytest.mark.parametrize("make", [hudi, delta, iceberg])
@pytest.mark.parametrize("kind", ["file", "files", "glob", "folder", "globbed folder", "above"])
def test_files_of_tables_of_versions_are_refused_unless_they_are_meant(tmp_path, make, kind):
    root = tmp_path / "lake" / "table"
    data = root / "data"
    data.mkdir(parents=True)
    TRUTH.write_parquet(data / "part-0.parquet")
    make(root)
    given = {
        "file": str(data / "part-0.parquet"),
        "files": [str(data / "part-0.parquet")],
        "glob": str(data / "*.parquet"),
        "folder": str(data),
        "globbed folder": str(root / "dat*"),
        "above": str(tmp_path / "lake"),
    }[kind]
    rankings = ranked()

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(given, rankings, metrics=["recall@1"])
    assert caught.value.code == "files-of-a-table"
    assert 'files={"truth": "as they are"}' in caught.value.hint
    meant = evalkit.evaluate(given, rankings, metrics=["recall@1"], files={"truth": "as they are"})
    assert meant.value("recall@1") == 1.0


def test_a_whole_hudi_table_is_refused_too(tmp_path):
    root = tmp_path / "truth"
    root.mkdir()
    TRUTH.write_parquet(root / "part-0.parquet")
    hudi(root)

    assert refused(root).code == "files-of-a-table"
    shutil.rmtree(root / ".hoodie")
    assert evaluate(root).inputs[0].rows == 3


@pytest.mark.parametrize("kind", ["split", "labels"])
def test_what_python_is_told_of_files_of_a_table_is_followed(tmp_path, kind):
    (tmp_path / ".hoodie").mkdir()
    path = str(tmp_path / "a.parquet")
    columns = {"user": [1, 1], "item": [1, 2], "time": [1, 2], "score": [0.9, 0.1], "label": [1, 0]}
    pl.DataFrame(columns).write_parquet(path)

    def read(log, **more):
        if kind == "split":
            return evalkit.split(log, by="user", test=1, **more).manifest
        return evalkit.evaluate_labels(log, metrics=["AUC"], **more).estimates

    with pytest.raises(EvalkitError) as caught:
        read(path)

    told = caught.value.hint.rpartition("to read all files: ")[2]
    assert eval(
        f"read(path, {told})" if "=" in told else f"read({told})", {**globals(), **locals()}
    )


def test_a_split_reads_pages_unverified_where_it_is_told_to():
    path = f"{os.environ.get('EVALKIT_TEST_DATA', '../shared')}/corpus/checksum-ranking.parquet"
    if not os.path.exists(path):
        pytest.skip("the corpus is not here")

    with pytest.raises(EvalkitError) as caught:
        evalkit.split(path, by="user", test=1, order="input")

    assert "verify_pages=False" in caught.value.hint
    assert evalkit.split(path, by="user", test=1, order="input", verify_pages=False).manifest


def test_check_tells_several_lists_of_a_user(tmp_path):
    truth = pl.DataFrame({"user": [1, 2], "item": [7, 8]})
    lists = pl.DataFrame({"user": [1, 2, 1], "items": [[7], [8], [9]]})
    truth.write_parquet(tmp_path / "truth.parquet")
    lists.write_parquet(tmp_path / "a.parquet")
    tree = {
        "truth": {"path": str(tmp_path / "truth.parquet")},
        "rankings": [{"path": str(tmp_path / "a.parquet"), "model": "a"}],
        "metrics": {"names": ["RR"]},
    }

    found = check_config(build_config(tree, name="lists"))

    (told,) = (each for each in found if each.code == "several-lists")
    assert told.message == "1 users have several lists, which are read as one: user 1"
    assert not told.is_error


def test_a_run_tells_several_lists_of_a_user_in_any_passes():
    truth = pl.DataFrame({"user": [1, 2, 3], "item": [7, 8, 9]})
    lists = pl.DataFrame({"user": [1, 2, 1, 3, 4, 4], "items": [[7], [8], [9], [], [1], [2]]})

    def run():
        return evalkit.evaluate(truth, lists, metrics=["RR"])

    told = [each.message for each in run().warnings if each.code == "several-lists"]
    assert told == ["1 users have several lists, which are read as one"]
    assert in_passes(3, run) == outcome_of(run)
