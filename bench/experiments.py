"""An experiment's logs of any size: invented, read by evalkit, and by hand in Polars and DuckDB.

    python bench/experiments.py --units 100000 --folder FOLDER

Prints CPU seconds and peak memory of each, in a process of its own, beside those of decoding the
columns alone, and checks that all say the same means before a time is printed. A folder that is
there is read again. `--peers PYTHON` names a Python that has duckdb and tea-tasting: DuckDB by
hand, and tea-tasting on what DuckDB made of the logs.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

VARIANTS = {"control": 50.0, "b": 50.0}
READ = (["unit", "variant", "time"], ["unit", "time", "kind"])


def decode(paths: Sequence[str], read: Sequence[list[str]] = READ) -> dict[str, float]:
    """Every column that is read, batch by batch, and nothing done with it."""
    for path, columns in zip(paths, read, strict=True):
        for _ in pl.scan_parquet(path).select(columns).collect_batches():
            pass
    return {}


def decode_in_full(paths: Sequence[str]) -> dict[str, float]:
    """As `decode`, with the values of events, which the question in full adds up."""
    return decode(paths, (READ[0], [*READ[1], "value"]))


def by_evalkit(paths: Sequence[str]) -> dict[str, float]:
    import evalkit

    report = evalkit.evaluate_experiment(
        *paths,
        variants=VARIANTS,
        window="7d",
        covariate_days=0,
        sums={"shown": "impression", "clicks": "click"},
        metrics=["mean(clicks)", "ratio(clicks, shown)"],
    )
    return {each.model: each.value for each in report.estimates if each.metric == "mean(clicks)"}


def by_evalkit_in_full(paths: Sequence[str]) -> dict[str, float]:
    """As `evalkit synth` asks: covariates, sums of values, caps, effects day by day."""
    import evalkit

    evalkit.evaluate_experiment(
        *paths,
        variants=VARIANTS,
        window="7d",
        sums={
            "shown": "impression",
            "clicks": "click",
            "revenue": {"kind": "purchase", "of": "value"},
        },
        metrics=["mean(clicks)", "ratio(clicks, shown)", "mean(revenue, winsor=0.999)"],
        primary=["ratio(clicks, shown)"],
        guardrails=["mean(revenue, winsor=0.999)"],
    )
    return {}


def by_polars(paths: Sequence[str]) -> dict[str, float]:
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


UNITS = """
create table units as
with first as (
    select unit, min(time) as first, min(variant) as variant
    from '{0}' group by unit having count(distinct variant) = 1
), last as (select max(time) as until from '{1}'),
done as (select first.* from first, last where first + interval 7 day <= until)
select done.unit, any_value(done.variant) as variant,
    count(*) filter (kind = 'click') as clicks, count(*) filter (kind = 'impression') as shown
from done left join '{1}' as events on events.unit = done.unit
    and events.time >= done.first and events.time < done.first + interval 7 day
group by done.unit
"""


def by_duckdb(paths: Sequence[str]) -> dict[str, float]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(UNITS.format(*paths))
    return dict(connection.sql("select variant, avg(clicks) from units group by 1").fetchall())


def by_tea_tasting(paths: Sequence[str]) -> dict[str, float]:
    import ibis
    import tea_tasting as tt

    connection = ibis.duckdb.connect()
    connection.raw_sql(UNITS.format(*paths))
    clicks, ratio = tt.Mean("clicks"), tt.RatioOfMeans("clicks", "shown")
    experiment = tt.Experiment(clicks=clicks, ctr=ratio)
    found = experiment.analyze(connection.table("units"), control="control")
    return {"control": found["clicks"].control, "b": found["clicks"].treatment}


WAYS: dict[str, Callable[[Sequence[str]], dict[str, float]]] = {
    "decoding": decode,
    "decoding, in full": decode_in_full,
    "evalkit": by_evalkit,
    "evalkit, in full": by_evalkit_in_full,
    "polars by hand": by_polars,
    "duckdb by hand": by_duckdb,
    "tea-tasting": by_tea_tasting,
}
OF_PEERS = ("duckdb by hand", "tea-tasting")


def measure(way: str, folder: str, python: str) -> dict[str, Any]:
    """One way in a process of its own: what it said, CPU and wall seconds, peak bytes."""
    command = [python, __file__, "--folder", folder, "--only", way]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def run_one(way: str, folder: Path) -> None:
    paths = [str(folder / name / "*.parquet") for name in ("exposures", "events")]
    if way.startswith("evalkit"):  # kernels are compiled, or loaded, before
        warm = folder / "warm"
        if not warm.exists():
            from evalkit.kinds.experiments.synth import generate_experiment

            generate_experiment(warm, units=1000)
        WAYS[way]([str(warm / name / "*.parquet") for name in ("exposures", "events")])
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    said = WAYS[way](paths)
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    found = {"said": said, "cpu": used, "wall": time.perf_counter() - begin}
    print(json.dumps(found | {"peak": after.ru_maxrss * 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--ids", choices=["int", "string"], default="int")
    parser.add_argument("--peers")
    parser.add_argument("--only", choices=list(WAYS))
    asked = parser.parse_args()
    if asked.only:
        run_one(asked.only, asked.folder)
        return
    if not asked.folder.exists():
        from evalkit.kinds.experiments.synth import generate_experiment

        generate_experiment(asked.folder, units=asked.units, ids=asked.ids)
    ways = [way for way in WAYS if asked.peers or way not in OF_PEERS]
    found = {
        way: measure(way, str(asked.folder), asked.peers if way in OF_PEERS else sys.executable)
        for way in ways
    }
    means = found["evalkit"]["said"]
    for way, own in found.items():
        for name in VARIANTS if own["said"] else ():
            assert abs(means[name] - own["said"][name]) < 1e-9, (way, means, own["said"])
    for way, own in found.items():
        base = found["decoding, in full" if way.endswith("in full") else "decoding"]["cpu"]
        print(
            f"{way:18} {own['cpu']:8.2f} s CPU {own['wall']:8.2f} s wall "
            f"{own['cpu'] / base:6.2f} x decoding {own['peak'] / 2**20:8.0f} MiB"
        )


if __name__ == "__main__":
    main()
