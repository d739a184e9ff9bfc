"""Values of users that executors write are those of one process, for every reader of a run."""

import json

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES
from spark_logs import ALL, make_logs

from evalkit.cli.app import run_command
from evalkit.runs import load_run, verify

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

KEPT = ALL + "\n[output]\nper_user = true\n"


def run(folder, engine, text=KEPT, *asked):
    """The directory of a run, and the status that the command ends with."""
    on_spark = '\n[engine]\nkind = "spark"\npartitions = 3\n' if engine == "spark" else ""
    (folder / "nightly.toml").write_text(text + on_spark)
    out = folder / engine
    line = ["run", folder / "nightly.toml", "--out", out, "--quiet", "--json", *asked]
    status = run_command([*map(str, line)])
    return (out / "latest").resolve(), status


def rows_of(path):
    return load_run(path).per_user_values.table().collect()


@pytest.mark.parametrize("kind", ["int32", "uint64", "text", "category", "date"])
def test_a_folder_holds_the_rows_of_one_file(session, tmp_path, capsys, kind):
    make_logs(tmp_path, user=TYPES[kind])
    (here, _), (there, status) = run(tmp_path, "local"), run(tmp_path, "spark")

    assert status == 0
    assert verify(there) == []
    assert rows_of(there).equals(rows_of(here))
    files = [*(there / "per_user").iterdir()]
    assert len(files) == 3
    for path in files:
        users = pl.read_parquet(path)["user"]
        assert users.equals(users.sort())
    assert not [each for each in (tmp_path / "spark").iterdir() if each.name.startswith(".tmp")]


def test_whoever_reads_a_run_reads_a_folder(session, tmp_path, capsys):
    gate = '\n[[gates]]\nmetric = "RR"\nmodel = "b"\nmax_drop = 0.5\nbaseline = "last"\n'
    make_logs(tmp_path)
    firsts = {engine: run(tmp_path, engine)[0] for engine in ("local", "spark")}
    spoil(tmp_path / "b.parquet")
    found = {}
    for engine, first in firsts.items():
        copy = tmp_path / f"{engine}.parquet"
        second, status = run(tmp_path, engine, KEPT + gate, "--per-user", copy)
        capsys.readouterr()
        both = [str(first), str(second), "--json"]
        told = [said(capsys, "compare", *both), said(capsys, "why", *both)]
        told[0].pop("meta")
        (judged,) = json.loads((second / "report.json").read_text())["gates"]
        told += [status, judged, load_run(second).per_user("RR", model="b").rows()]
        told.append(pl.read_parquet(copy).rows())
        text = json.dumps(told).replace(first.name, "first").replace(second.name, "second")
        found[engine] = json.loads(text.replace(f"/{engine}/", "/runs/"))

    assert found["spark"] == found["local"]
    assert found["spark"][3]["judged_by"] == "paired"


def said(capsys, *line):
    assert run_command([*line]) == 0
    return json.loads(capsys.readouterr().out)


def spoil(path):
    """Every third item is another one."""
    frame = pl.read_parquet(path)
    others = pl.when(pl.col("item") % 3 == 0).then(pl.col("item") + 500).otherwise("item")
    frame.with_columns(others.alias("item")).write_parquet(path)
