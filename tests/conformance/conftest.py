"""Real logs and reference values, read from outside the repository: each skips by its name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

OUTSIDE = {
    "gowalla": "check-ins of Gowalla, the split of NGCF and LightGCN",
    "ml-100k": "MovieLens 100K",
    "ml-latest-small": "MovieLens latest-small with rankings and reference values",
    "trec_eval": "trec_eval's own test files",
}
HAS_JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@pytest.fixture(scope="session")
def data_set(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """The folder of a data set by its name; skips with that name where it is not to be had."""

    def find(name: str) -> Path:
        if not os.environ.get("EVALKIT_TEST_DATA"):
            pytest.skip(f"{name} ({OUTSIDE[name]}): set EVALKIT_TEST_DATA")
        folder = Path(request.getfixturevalue("shared")) / "data" / name
        if not folder.is_dir():
            pytest.skip(f"{name} ({OUTSIDE[name]}): EVALKIT_TEST_DATA lacks data/{name}")
        if name == "gowalla" and not HAS_JIT:
            pytest.skip("gowalla: nine million rows are too many for kernels in plain Python")
        return folder

    return find


@pytest.fixture(scope="session")
def gowalla(data_set: Callable[[str], Path]) -> Path:
    return data_set("gowalla")


@pytest.fixture(scope="session")
def ml_100k(data_set: Callable[[str], Path]) -> Path:
    return data_set("ml-100k")


@pytest.fixture(scope="session")
def ml_latest_small(data_set: Callable[[str], Path]) -> Path:
    return data_set("ml-latest-small")


@pytest.fixture(scope="session")
def trec_files(data_set: Callable[[str], Path]) -> Path:
    return data_set("trec_eval")


@pytest.fixture(scope="session")
def jit() -> None:
    """Compiled kernels; skips where they are off."""
    if not HAS_JIT:
        pytest.skip("many runs over real logs: too slow for kernels in plain Python")
