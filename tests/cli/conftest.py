"""The program, here or in a process of its own, and small logs for it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Outcome, environment, run_here, run_program, write_logs


@pytest.fixture
def evalkit(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs `evalkit ...` in an empty folder, without a process of its own."""

    def run(*arguments: object, cwd: Path = tmp_path, **env: str) -> Outcome:
        return run_here([*map(str, arguments)], cwd, env)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs `evalkit ...` in an empty folder, as a process."""

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
