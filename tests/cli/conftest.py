"""The program in a process of its own, and small logs for it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Outcome, environment, run_program, write_logs


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
    return write_logs(tmp_path)
