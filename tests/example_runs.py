"""A small report, runs made of it, and calls of the operating system that fail."""

import os
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import polars as pl

from evalkit.report import PerUser, Report

CALLS = (
    *("open", "write", "fsync", "rename", "replace", "symlink", "mkdir", "chmod", "link"),
    *("scandir", "fstat"),
)

TEXT = """
{"schema_version": 1, "evalkit": "0.1.0", "run_id": "first", "run_key": "k", "name": "nightly",
 "profile": "evalkit",
 "inputs": [{"role": "truth", "paths": ["t.parquet"], "rows": 3, "fingerprint": "f"}],
 "counts": {"truth": {"rows": 3, "rows_used": 3, "rows_dropped": {}, "users": 2,
   "users_without_relevant": 0, "pairs": 3},
  "models": {"als": {"rows": 9, "rows_used": 9, "rows_dropped": {}, "users": 2,
   "users_without_ranking": 0, "users_without_truth": 0, "duplicates": 0,
   "duplicates_searched": "relevant", "seen_in_train": null, "bad_ranks": 0,
   "depth": 5}}},
 "metrics": [{"model": "als", "metric": "nDCG@10", "name": "nDCG", "cutoff": 10, "parameters": {},
   "segmentation": null, "segment": null, "value": 0.5, "low": null, "high": null,
   "std_error": null, "n_users": 2, "n_undefined": 0}],
 "comparisons": [], "gates": [], "warnings": [],
 "meta": {"started": "2026-01-02T03:04:05Z", "seconds": 1.0, "cpu_seconds": 1.0, "peak_bytes": 1,
   "rows_per_second": 1.0, "threads": 2, "stages": {}, "versions": {},
  "ties": {"als": 0}}}
"""


def report(run_id: str = "first", **more: object) -> Report:
    return replace(Report.from_json(TEXT), run_id=run_id, **more)


def with_users(run_id: str = "first") -> Report:
    """A report of two models with values of users."""
    frames = {
        "b": pl.DataFrame({"user": [1, 2], "nDCG@10": [0.5, 1.0]}),
        "als": pl.DataFrame({"user": [2, 3], "nDCG@10": [0.25, float("nan")]}),
    }
    return report(run_id, per_user_values=PerUser(("user",), ("nDCG@10",), frames))


def left_over(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name.startswith(".tmp"))


@contextmanager
def failing(monkeypatch, n: int, number: int):
    """The n-th of all `CALLS` raises; yields a list that then holds its name."""
    fired: list[str] = []
    calls = count(1)

    def guard(name: str, real):
        def call(*args: object, **options: object) -> object:
            if next(calls) == n:
                fired.append(name)
                raise OSError(number, os.strerror(number))
            return real(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, guard(name, getattr(os, name)))
        yield fired
