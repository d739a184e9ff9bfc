"""Most commands of tests run here; each kind of end is that of a process of its own."""

import re
import shutil

import pytest
from program import run_here, run_program

OWN = re.compile(
    r"\d{8}-\d{6}-\d{3}-[0-9a-f]{6}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?|\d\.\d s\b"
    r'|"meta": .*'
)
COMMANDS = [
    "run job.toml --summary",
    "run job.toml --json",
    "run job.toml --log-format json --set policies.tise=item",
    "run job.toml --set rankings[0].path=nowhere.parquet",
    "run no-such.toml",
    "run --thread 2",
    "evaluate --truth truth.parquet --rankings good.parquet -m nDCG@2",
    "check job.toml",
    "init --truth truth.parquet --rankings good.parquet -o -",
    "explain few-users",
    "history",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_and_writes_here_what_its_process_does(logs, tmp_path_factory, command):
    other = tmp_path_factory.mktemp("other") / "logs"
    shutil.copytree(logs, other)
    here, there = run_here(command.split(), logs), run_program(command.split(), other)

    assert here.status == there.status
    assert said(here.out) == said(there.out)
    assert said(here.err) == said(there.err)
    assert files(logs) == files(other)


def said(text):
    """A text less what each run has of its own."""
    return OWN.sub("", text)


def files(folder):
    """Names of all files, of which each run has its own folder."""
    return sorted(said(str(each.relative_to(folder))) for each in folder.rglob("*"))
