"""An experiment's logs of any size: invented, read by evalkit, and by hand in Polars and DuckDB.

    python bench/experiments.py --units 100000 --folder FOLDER

Prints CPU seconds of each, beside those of decoding the columns alone, and checks that all say
the same means before a time is printed.
"""

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

import evalkit
from evalkit.kinds.experiments.synth import generate_experiment

VARIANTS = {"control": 50.0, "b": 50.0}


def cpu(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What `work` gives, its CPU seconds and its wall seconds."""
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    found = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return found, used, time.perf_counter() - begin


def decode(paths: Sequence[Path]) -> list[int]:
    return [pl.scan_parquet(path).collect(engine="streaming").height for path in paths]


def by_evalkit(paths: Sequence[Path]) -> dict[str, float]:
    report = evalkit.evaluate_experiment(
        *paths,
        variants=VARIANTS,
        window="7d",
        covariate_days=0,
        sums={"shown": "impression", "clicks": "click"},
        metrics=["mean(clicks)", "ratio(clicks, shown)"],
    )
    return {each.model: each.value for each in report.estimates if each.metric == "mean(clicks)"}


def by_polars(paths: Sequence[Path]) -> dict[str, float]:
    exposures, events = map(pl.scan_parquet, paths)
    first = exposures.group_by("unit").agg(
        pl.col("time").min().alias("first"),
        pl.col("variant").min(),
        pl.col("variant").n_unique().alias("n"),
    )
    until = events.select(pl.col("time").max()).collect(engine="streaming").item()
    first = first.filter((pl.col("n") == 1) & (pl.col("first") + pl.duration(days=7) <= until))
    inside = (pl.col("time") >= pl.col("first")) & (
        pl.col("time") < pl.col("first") + pl.duration(days=7)
    )
    sums = (
        events.join(first, on="unit")
        .filter(inside)
        .group_by("unit")
        .agg((pl.col("kind") == "click").sum().alias("clicks"))
    )
    whole = first.join(sums, on="unit", how="left").with_columns(pl.col("clicks").fill_null(0))
    rows = whole.group_by("variant").agg(pl.col("clicks").mean()).collect(engine="streaming")
    return dict(rows.iter_rows())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--ids", choices=["int", "string"], default="int")
    asked = parser.parse_args()
    found = generate_experiment(asked.folder, units=asked.units, ids=asked.ids)
    paths = [found["exposures"], found["events"]]
    by_evalkit(paths)  # kernels are compiled
    ways: dict[str, Callable[[Sequence[Path]], Any]] = {
        "decoding": decode,
        "evalkit": by_evalkit,
        "polars by hand": by_polars,
    }
    said = {name: cpu(partial(work, paths)) for name, work in ways.items()}
    means, others = said["evalkit"][0], said["polars by hand"][0]
    assert all(abs(means[name] - others[name]) < 1e-12 for name in VARIANTS), (means, others)
    base = said["decoding"][1]
    for name, (_, used, wall) in said.items():
        print(f"{name:16} {used:8.2f} s CPU {wall:8.2f} s wall {used / base:6.2f} x decoding")


if __name__ == "__main__":
    main()
