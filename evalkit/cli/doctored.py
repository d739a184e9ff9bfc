"""What of this machine and installation a run rests on, and whether a small run is right."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec

from evalkit.errors import DISTRIBUTION, EvalkitError, install_hint
from evalkit.report.version import VERSION

GIB = 1 << 30
EXTRAS = {
    **{"s3": "obstore", "delta": "deltalake", "iceberg": "pyiceberg"},
    **{"mlflow": "mlflow", "wandb": "wandb", "spark": "pyspark", "figures": "vl_convert"},
}
LIBRARIES = ("polars", "numba", "llvmlite", "numpy", "pyarrow", "pydantic", "typer")


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that was looked at; `state` is ok, odd or wrong."""

    state: str
    name: str
    found: str
    hint: str = ""


def examine() -> list[Sign]:
    """Everything that was looked at: versions, machine, cache, extras, and a small run."""
    looks: tuple[Callable[[], Iterator[Sign]], ...] = (
        _installation,
        _machine,
        _cache,
        _extras,
        _run,
    )
    return [sign for look in looks for sign in look()]


def _installation() -> Iterator[Sign]:
    yield Sign("ok", "evalkit", f"{VERSION} in {os.path.dirname(os.path.dirname(__file__))}")
    owners = sorted(set(packages_distributions().get("evalkit", ())))
    if set(owners) - {DISTRIBUTION}:
        yield Sign(
            "wrong",
            "distribution",
            f"the package evalkit is of {', '.join(owners)}, ours is {DISTRIBUTION}",
            f"pip uninstall evalkit && pip install --force-reinstall {DISTRIBUTION}",
        )
    yield Sign("ok", "python", f"{sys.version.split()[0]} at {sys.executable}")
    found = ", ".join(f"{name} {_version_of(name)}" for name in LIBRARIES)
    missing = [name for name in LIBRARIES if not _version_of(name)]
    yield Sign("wrong" if missing else "ok", "libraries", found)


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _machine() -> Iterator[Sign]:
    from evalkit.kernels.memory import default_limit
    from evalkit.kernels.threads import usable_cores

    yield Sign("ok", "cores", f"{usable_cores()} usable of {os.cpu_count()}")
    limit = default_limit() / GIB
    hint = "" if limit >= 1 else "--sample 0.1 measures a tenth of the users"
    yield Sign("ok" if limit >= 1 else "odd", "memory", f"{limit:.1f} GiB for a run", hint)


def _cache() -> Iterator[Sign]:
    from evalkit.kernels import cache_directory

    folder = cache_directory()
    if folder is None:  # why was told on stderr
        hint = "set NUMBA_CACHE_DIR to a folder that this user can write"
        yield Sign("odd", "cache", "kernels are compiled anew by every run", hint)
        return
    kept = sum(1 for _ in os.scandir(folder))
    hint = "" if kept else "evalkit warm compiles all kernels now"
    yield Sign("ok" if kept else "odd", "cache", f"{kept:,} kernels in {folder}", hint)


def _extras() -> Iterator[Sign]:
    for extra, module in EXTRAS.items():
        is_here = find_spec(module) is not None
        found = f"{module} {_version_of(module)}".strip() if is_here else "not installed"
        yield Sign("ok", f"extra {extra}", found, "" if is_here else install_hint(extra))


def _run() -> Iterator[Sign]:
    """Two users, by hand: nDCG@2 of the first is 1, of the second 0; recall@2 is 1 and 0."""
    from evalkit.api import evaluate

    began = time.monotonic()
    truth, ranked = {1: [1, 2], 2: [3]}, {1: [2, 1], 2: [4, 5]}
    try:
        report = evaluate(truth, {"model": ranked}, metrics=["nDCG@2", "recall@2", "RR"])
        values = [report.value(label) for label in report.labels]
    except EvalkitError as error:
        yield Sign("wrong", "self-test", f"{error.code}: {error.message}", error.hint)
        return
    seconds = f"after {time.monotonic() - began:.1f} s"
    if values == [0.5, 0.5, 0.5]:
        yield Sign("ok", "self-test", f"3 metrics are right {seconds}")
    else:
        hint = "a fault in evalkit or in its cache: remove the cache's folder, and run it again"
        yield Sign("wrong", "self-test", f"{values} instead of 0.5 each", hint)
