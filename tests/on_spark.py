"""A config measured in one process and on Spark, and ids of every type."""

import secrets
from contextlib import contextmanager
from datetime import date, datetime, timedelta

import polars as pl
from passes import first_difference, outcome_of

from evalkit.config import parse_config
from evalkit.pipeline import run_config


def both(text, folder, partitions=3, more="", **asked):
    """What one process says, and what Spark says."""
    on_spark = f'\n[engine]\nkind = "spark"\npartitions = {partitions}\n{more}'
    configs = [parse_config(each, source="x.toml", base=folder) for each in (text, text + on_spark)]
    return [outcome_of(lambda c=config: run_config(c, **asked)) for config in configs]


@contextmanager
def jobs_of(session):
    """The numbers of the jobs of Spark that have any task meanwhile."""
    context, jobs = session.sparkContext, []
    tracker = context.statusTracker()
    name = secrets.token_hex(8)
    context.setJobGroup(name, "of a test")
    try:
        yield jobs
    finally:
        begun = tracker.getJobIdsForGroup(name)
        jobs += [job for job in begun if tracker.getJobInfo(job).stageIds]
        context.setLocalProperty("spark.jobGroup.id", None)


def check(text, folder, status=0, **asked):
    one, spark = both(text, folder, **asked)

    assert not first_difference(one, spark)
    assert status in (None, one.status), one.said
    return one


TYPES = {
    "int32": lambda ids: pl.Series(ids, dtype=pl.Int32),
    "uint64": lambda ids: pl.Series([2**64 - 1 - int(n) for n in ids], dtype=pl.UInt64),
    "text": lambda ids: pl.Series([f"user-{n}\N{SNOWMAN}" for n in ids]),
    "category": lambda ids: pl.Series([f"u{n}" for n in ids], dtype=pl.Categorical),
    "binary": lambda ids: pl.Series([b"\xff%d" % n for n in ids]),
    "date": lambda ids: pl.Series([date(2020, 1, 1) + timedelta(int(n)) for n in ids]),
    "ms": lambda ids: pl.Series(
        [datetime(1969, 12, 31) + timedelta(minutes=int(n)) for n in ids], dtype=pl.Datetime("ms")
    ),
    "zone": lambda ids: pl.Series(
        [datetime(2026, 3, 29) + timedelta(minutes=int(n)) for n in ids],
        dtype=pl.Datetime("us", "Europe/Berlin"),
    ),
}
