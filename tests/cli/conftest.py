"""The program in a process of its own, and small logs for it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from program import Outcome, environment, run_program


@pytest.fixture
def evalkit(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs `evalkit ...` in an empty folder."""

    def run(*arguments: object, cwd: Path = tmp_path, **env: str) -> Outcome:
        return run_program([*map(str, arguments)], cwd, env)

    return run


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs Python code that can import evalkit."""

    def run(code: str, *arguments: str, **env: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env=environment(env),
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A truth, rankings of two models and a config: nDCG@2 of `good` is 1, of `bad` below."""
    pl.DataFrame(
        {"user_id": [1, 1, 2], "item_id": [10, 11, 10], "rating": [1.0, 1.0, 1.0]}
    ).write_parquet(tmp_path / "truth.parquet")
    for model, items in (("good", [10, 11, 10, 12]), ("bad", [12, 11, 13, 14])):
        pl.DataFrame(
            {"user_id": [1, 1, 2, 2], "item_id": items, "rank": [1, 2, 1, 2]}
        ).write_parquet(tmp_path / f"{model}.parquet")
    (tmp_path / "job.toml").write_text(
        '[truth]\npath = "truth.parquet"\n'
        'columns = { user = "user_id", item = "item_id", relevance = "rating" }\n'
        + "".join(
            f'[[rankings]]\nmodel = "{model}"\npath = "{model}.parquet"\n'
            'columns = { user = "user_id", item = "item_id", rank = "rank" }\n'
            for model in ("good", "bad")
        )
        + '[metrics]\nnames = ["nDCG@2", "recall@1"]\n'
    )
    return tmp_path
