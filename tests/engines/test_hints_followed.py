"""Hints of the engine are followed as they are written, and what comes next is an answer.

Not followed here, as nothing on one machine brings them about:
no-spark: `pip install "pyspark[connect]"` (a registry), with a server of Spark Connect.
not-on-spark: executors that see other files (another machine); rows, or numbers of users, beyond
the driver's memory (gigabytes); nanoseconds (Spark makes none).
spark-failed: other versions on a node, other rows than the files have, a node that cannot write or
ran out of memory (a cluster), a master that does not answer (Spark waits a minute for it).
"""

import os
import re
import subprocess
import sys

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import make_logs

import evalkit.spark
from evalkit.config import parse_config
from evalkit.engines import _refusals, _spark
from evalkit.errors import EvalkitError
from evalkit.pipeline import run_config

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

TABLES = """
truth.path = "truth.parquet"
train.path = "train.parquet"
items.path = "items.parquet"
rankings = [{ model = "a", path = "a.parquet" }]
"""
NO_EVALKIT = """
import sys

class Finder:
    def find_spec(self, name, *_):
        if name == "evalkit":
            raise ModuleNotFoundError("No module named 'evalkit'")

sys.meta_path.insert(0, Finder())
"""


def hint_of(act):
    with pytest.raises(EvalkitError) as caught:
        act()
    return caught.value.hint


@pytest.fixture
def frames(session, tmp_path):
    """A truth and a model as DataFrames of Spark, with a row's number; and their files."""
    make_logs(tmp_path)
    paths = {name: str(tmp_path / f"{name}.parquet") for name in ("truth", "a")}
    for path in paths.values():
        pl.read_parquet(path).with_row_index("place").write_parquet(path)
    return {name: session.read.parquet(path) for name, path in paths.items()}, paths


@pytest.mark.parametrize("policies", [{"ties": "input"}, {"duplicates": "last"}])
def test_an_order_is_named_or_files_are_given(frames, policies):
    (tables, paths), asked = frames, {"metrics": ["RR"], "policies": policies}
    shown = tables["a"].drop("rank")

    hint = hint_of(lambda: evalkit.spark.evaluate(tables["truth"], {"a": shown}, **asked))
    assert "columns.order of this table, or give files" in hint
    ordered = {"rankings": {"user": "user", "item": "item", "score": "score", "order": "place"}}
    by_column = evalkit.spark.evaluate(tables["truth"], {"a": shown}, columns=ordered, **asked)
    of_files = {"rankings": {key: ordered["rankings"][key] for key in ("user", "item", "score")}}
    by_files = evalkit.spark.evaluate(paths["truth"], {"a": paths["a"]}, columns=of_files, **asked)

    assert by_column.value("RR") == by_files.value("RR") > 0


def test_a_frame_of_this_process_is_given_to_spark_or_as_a_file(session, frames):
    tables, paths = frames
    here = pl.read_parquet(paths["a"])

    hint = hint_of(lambda: evalkit.spark.evaluate(tables["truth"], {"a": here}, metrics=["RR"]))
    assert hint == "give a DataFrame of Spark, or the path of Parquet files"
    found = [
        evalkit.spark.evaluate(tables["truth"], {"a": each}, metrics=["RR"]).value("RR")
        for each in (session.createDataFrame(here.to_pandas()), paths["a"])
    ]

    assert found[0] == found[1] > 0


def test_what_python_asks_beyond_spark_is_left_out_or_measured_here(frames):
    tables, paths = frames
    asked = {"metrics": ["RR"], "memory_limit": 1 << 30}

    hint = hint_of(lambda: evalkit.spark.evaluate(tables["truth"], {"a": tables["a"]}, **asked))
    assert hint == "leave it out, or measure in this process: evalkit.evaluate"
    here = evalkit.evaluate(paths["truth"], {"a": paths["a"]}, **asked)
    left_out = evalkit.spark.evaluate(tables["truth"], {"a": tables["a"]}, metrics=["RR"])

    assert here.value("RR") == left_out.value("RR") > 0


BEYOND = {  # of configs: what is asked, and what is left of it
    "master and remote": ("", 'master = "local[2]"\nremote = "local[2]"', 'master = "local[2]"'),
    "order of train": ("tail_share(head='first')@5", "", None),
    "items": ("gini@5", "", None),
}


@pytest.mark.parametrize("what", BEYOND)
def test_what_a_config_asks_beyond_spark_is_left_out_or_measured_here(
    session, tmp_path, monkeypatch, what
):
    make_logs(tmp_path)
    if what == "items":
        for each in (_refusals, _spark):
            monkeypatch.setattr(each, "MOST_WHOLE", 9)
    metric, engine, left = BEYOND[what]

    def run(kind, metrics, engine):
        text = f"{TABLES}metrics.names = {metrics}\n[engine]\nkind = '{kind}'\n{engine}\n"
        return run_config(parse_config(text, source="x.toml", base=tmp_path))

    hint = hint_of(lambda: run("spark", ["RR", metric] if metric else ["RR"], engine))
    assert hint.endswith("or measure in this process: --engine local")
    assert run("local", ["RR", metric] if metric else ["RR"], "").value("RR")
    if what == "items":
        pl.read_parquet(tmp_path / "items.parquet").head(9).write_parquet(
            tmp_path / "items.parquet"
        )
    assert run("spark", ["RR"], left or "").value("RR")


@pytest.mark.parametrize("master", ["nowhere", "local[x]", "127.0.0.1:7077", "local[0]", ""])
def test_a_master_that_spark_does_not_know_is_written_as_told(session, tmp_path, master):
    make_logs(tmp_path)

    def run(line):
        text = f"{TABLES}metrics.names = ['RR']\n[engine]\nkind = 'spark'\n{line}\n"
        return run_config(parse_config(text, source="x.toml", base=tmp_path))

    hint = hint_of(lambda: run(f"master = '{master}'"))
    (line,) = re.findall(r"write (master = \"\S+\") under \[engine\]", hint)

    assert run(line).value("RR")


def command(folder, *more, without="pass", **environment):
    """What a command prints on Spark in a process of its own, and its status."""
    begin = f"import sys; {without}; from evalkit.cli import main; main()"
    asked = ["run", "job.toml", "--engine", "spark", "--set", "engine.master=local[2]", *more]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | environment
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", begin, *asked],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    hints = re.findall(r"hint: (.*)", done.stderr)
    return done, "".join(hints)


def test_what_is_missing_is_told_and_with_it_an_answer_comes(tmp_path):
    make_logs(tmp_path)
    (tmp_path / "job.toml").write_text(f"{TABLES}metrics.names = ['RR']\n")
    (tmp_path / "lacks").mkdir()
    (tmp_path / "lacks" / "sitecustomize.py").write_text(NO_EVALKIT)
    other = tmp_path / "python"
    other.write_text(
        f'#!/bin/sh\nPYTHONPATH={tmp_path}/lacks:$PYTHONPATH exec {sys.executable} "$@"\n'
    )
    other.chmod(0o755)

    done, hint = command(tmp_path, without="sys.modules['pyspark'] = None")
    assert (done.returncode, hint) == (2, 'pip install "evalkit-recsys[spark]"')
    done, hint = command(tmp_path, JAVA_HOME=str(tmp_path))
    assert done.returncode == 4, done.stderr
    assert "let JAVA_HOME name it" in hint
    done, hint = command(tmp_path, PYSPARK_PYTHON=str(other))
    assert done.returncode == 4, done.stderr
    assert "PYSPARK_PYTHON names the Python that executors run" in hint
    option = "engine.options={'spark.driver.maxResultSize' = 1}"
    done, hint = command(tmp_path, "--set", option)
    assert (done.returncode, hint) == (2, '"spark.driver.maxResultSize" = "1"')

    option = option.replace("= 1", "= '1g'")
    done, _ = command(tmp_path, "--set", option, PYSPARK_PYTHON=sys.executable)

    assert done.returncode == 0, done.stderr
