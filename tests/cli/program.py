"""Runs of the program, here or in a process of its own, and what they say."""

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import NamedTemporaryFile

import polars as pl
import pytest

from evalkit.cli import console
from evalkit.cli.app import run_command
from evalkit.cli.outcome import exit_status_of

ROOT = Path(__file__).parent.parent.parent
READ_WHEN_LOADED = ("NUMBA_", "POLARS_", "PYTHON")
IS_FREE = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def codes(self) -> list[str]:
        """Codes of the errors on stderr."""
        lines = self.err.splitlines()
        return [line[6 : line.index("]")] for line in lines if line.startswith("error[")]

    @property
    def document(self) -> dict:
        return json.loads(self.out)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name != "EVALKIT_TRACEBACK"}
    paths = [str(ROOT), *filter(None, [known.get("PYTHONPATH")])]
    return {**known, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "80", **more}


def run_here(arguments: list[str], cwd: Path, more: Mapping[str, str] = {}) -> Outcome:
    """`evalkit ...` in this process, which takes a third of the time; `test_here.py` compares."""
    out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name, value in {"COLUMNS": "80", **more}.items():
            patch.setenv(name, value)
        patch.delenv("EVALKIT_TRACEBACK", raising=False)
        for name in ("_is_json", "_is_quiet", "_is_log"):
            patch.setattr(console, name, False)
        patch.setattr(console, "_run_id", "")
        patch.setattr("evalkit.errors._shows", console.warn)
        console.configure(arguments)
        status = exit_status_of(lambda: run_command(arguments))
    return Outcome(status, *(each.buffer.getvalue().decode() for each in (out, err)))


def run_program(arguments: list[str], cwd: Path, more: Mapping[str, str] = {}) -> Outcome:
    """`evalkit ...` in a process of its own, which mostly comes loaded."""
    variables = environment(more)
    if own_variables(variables) == own_variables(environment({})) and IS_FREE.acquire(False):
        try:
            return run_loaded(arguments, cwd, variables)
        finally:
            IS_FREE.release()
    done = subprocess.run(
        [sys.executable, "-m", "evalkit", *arguments],
        cwd=cwd,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(READ_WHEN_LOADED)}


def run_loaded(arguments: list[str], cwd: Path, variables: Mapping[str, str]) -> Outcome:
    process = zygote(tuple(own_variables(variables).items()))
    with NamedTemporaryFile() as out, NamedTemporaryFile() as err:
        request = {"arguments": arguments, "cwd": str(cwd), "env": dict(variables)}
        line = json.dumps(request | {"out": out.name, "err": err.name})
        process.stdin.write(line + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        return Outcome(status, out.read().decode(), err.read().decode())


@cache
def zygote(variables: tuple[tuple[str, str], ...]) -> "subprocess.Popen[str]":
    """The process that all others come from, one for each set of variables that are read early."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", Path(__file__).with_name("zygote.py")],
        env={**environment({}), **dict(variables)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return process


def write_logs(folder: Path) -> Path:
    """A truth, rankings of two models and a config: nDCG@2 of `good` is 1, of `bad` below."""
    pl.DataFrame(
        {"user_id": [1, 1, 2], "item_id": [10, 11, 10], "rating": [1.0, 1.0, 1.0]}
    ).write_parquet(folder / "truth.parquet")
    for model, items in (("good", [10, 11, 10, 12]), ("bad", [12, 11, 13, 14])):
        pl.DataFrame(
            {"user_id": [1, 1, 2, 2], "item_id": items, "rank": [1, 2, 1, 2]}
        ).write_parquet(folder / f"{model}.parquet")
    (folder / "job.toml").write_text(
        '[truth]\npath = "truth.parquet"\n'
        'columns = { user = "user_id", item = "item_id", relevance = "rating" }\n'
        + "".join(
            f'[[rankings]]\nmodel = "{model}"\npath = "{model}.parquet"\n'
            'columns = { user = "user_id", item = "item_id", rank = "rank" }\n'
            for model in ("good", "bad")
        )
        + '[metrics]\nnames = ["nDCG@2", "recall@1"]\n'
    )
    return folder
