"""Whether `--memory-limit` is held, on logs that are hard to hold: peaks, times, what is refused.

    python bench/memory.py                          # eleven logs, without a limit, then below some
    python bench/memory.py --only repeats --scale 0.2

Every run is a fresh process, its peak is the operating system's. A limit is a share of the peak
without any. What is refused names what it needs; that is given, and held against the peak: it may
be a quarter more, and the run take four times as long as without a limit.
"""

import hashlib
import json
import re
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import (
    BENCH,
    ROOT,
    Ended,
    Machine,
    describe_machine,
    environment,
    make_parser,
    run_process,
    table,
    tell,
    write,
)

NEED = re.compile(r"--memory-limit (\d+)MiB")
TOML = """
[truth]
path = "{folder}/truth.parquet"
columns = {{ user = "user", item = "item"{relevance} }}
{tables}
[metrics]
names = [{metrics}]
{more}
"""
RANKINGS = """
[[rankings]]
path = "{folder}/{name}.parquet"
columns = {{ user = "user", item = "item", {column} }}
{model}
"""
TRAIN = """
[train]
path = "{folder}/train.parquet"
columns = {{ user = "user", item = "item" }}
drop_seen = {drop_seen}
"""
ROWS = """
{table}
path = "{folder}/{name}.parquet"
columns = {{ {columns} }}
{more}
[metrics]
names = [{metrics}]
"""
METRICS = ("nDCG", "recall", "AP", "RR")
MOST_NAMED = 1.25  # of what is named, to the peak then measured
REST_MIB = 48  # by which a process at rest differs between machines
MOST_TIMES, LEAST_SECONDS = 4.0, 5.0  # start-up alone is as long as a small run


@dataclass(frozen=True, slots=True)
class Hard:
    """A log that is hard to hold.

    Args:
        make: writes it to a folder, at a scale, and says its config.
        shares: limits, as shares of the peak without one.
    """

    make: Callable[[Path, float], str]
    shares: tuple[float, ...] = (0.7, 0.5, 0.1)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its limit, whether it was refused, peak and time."""

    log: str
    limit_mib: int | None
    needed_mib: int | None  # that a refused run named
    is_named: bool  # the limit is what a refused run named
    peak_mib: int
    cpu: float
    wall: float
    times: float  # of CPU seconds, to those without a limit
    is_same: bool | None  # as without a limit

    @property
    def fault(self) -> str:
        """What was promised and not held."""
        if self.limit_mib is None or self.needed_mib is not None:
            return ""
        faults = {
            "another report": self.is_same is False,
            "above the limit": self.peak_mib > self.limit_mib,
            "named too much": self.is_named
            and self.limit_mib > MOST_NAMED * self.peak_mib + REST_MIB,
            "slow": self.times > MOST_TIMES and self.cpu > LEAST_SECONDS,
        }
        return ", ".join(name for name, is_so in faults.items() if is_so)


@dataclass(frozen=True, slots=True)
class Record:
    """What is written as JSON."""

    machine: Machine
    scale: float
    runs: list[Run]


def config(
    folder: Path,
    names: tuple[str, ...] = ("rankings",),
    *,
    relevance: bool = False,
    column: str = 'rank = "rank"',
    model: str = 'model = "als"',
    metrics: tuple[str, ...] = METRICS,
    cutoffs: tuple[int, ...] = (5, 10),
    more: str = "",
) -> str:
    tables = "".join(
        RANKINGS.format(folder=folder, name=name, column=column, model=model) for name in names
    )
    named = ", ".join(f'"{name}@{cutoff}"' for name in metrics for cutoff in cutoffs)
    grades = ', relevance = "relevance"' if relevance else ""
    return TOML.format(folder=folder, relevance=grades, tables=tables, metrics=named, more=more)


def scattered_copies(folder: Path, scale: float) -> str:
    """Scores of users whose rows lie apart, under a policy that looks at whole lists."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(1)
    n_users, depth = int(200_000 * scale), 50
    rows = n_users * depth
    order = rng.permutation(rows)
    ranked = pl.DataFrame({"user": order // depth, "item": (order * 7919) % 100_003})
    ranked = ranked.with_columns(score=pl.Series(rng.random(rows, dtype=np.float32)))
    ranked.write_parquet(folder / "rankings.parquet", row_group_size=1 << 18)
    ranked.filter(pl.Series(rng.random(rows) < 0.1)).select("user", "item").write_parquet(
        folder / "truth.parquet", row_group_size=1 << 18
    )
    return config(folder, column='score = "score"', more='[policies]\nduplicates = "best"')


def repeats(folder: Path, scale: float) -> str:
    """A truth in which each pair stands many times, in any order."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(2)
    rows, n_users = int(30_000_000 * scale), int(100_000 * scale)
    pairs = rng.integers(0, 20 * n_users, rows)
    truth = pl.DataFrame({"user": pairs // 20, "item": pairs % 20 * 31})
    truth.write_parquet(folder / "truth.parquet", row_group_size=1 << 18)
    users = np.repeat(np.arange(n_users), 20)
    ranks = np.tile(np.arange(1, 21, dtype=np.int32), n_users)
    ranked = pl.DataFrame({"user": users, "item": (ranks * 31).astype(np.int64), "rank": ranks})
    ranked.write_parquet(folder / "rankings.parquet", row_group_size=1 << 18)
    return config(folder)


def long_ids(folder: Path, scale: float) -> str:
    """Users and items that are called by long texts."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(3)
    n_users, depth = int(150_000 * scale), 20
    users = np.repeat(np.arange(n_users), depth)
    items = rng.integers(0, 50_000, users.size)
    ranks = np.tile(np.arange(1, depth + 1, dtype=np.int32), n_users)
    ids = [
        pl.format(
            "https://shop.example.com/catalogue/{}/{}/{}",
            pl.lit(name),
            pl.col(name),
            pl.lit("x" * 60),
        ).alias(name)
        for name in ("user", "item")
    ]
    ranked = pl.DataFrame({"user": users, "item": items, "rank": ranks})
    ranked = ranked.unique(["user", "item"], maintain_order=True).with_columns(
        rank=pl.int_range(1, pl.len() + 1).over("user").cast(pl.Int32)
    )
    chosen = ranked.filter(pl.Series(rng.random(ranked.height) < 0.5))
    ranked.with_columns(ids).write_parquet(folder / "rankings.parquet", row_group_size=1 << 17)
    chosen.with_columns(ids).select("user", "item").write_parquet(
        folder / "truth.parquet", row_group_size=1 << 17
    )
    return config(folder)


def models_by_segments(folder: Path, scale: float) -> str:
    """Many models, compared in many segments."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(4)
    n_users, n_models, n_segments = 20_000, max(2, int(8 * scale)), max(10, int(800 * scale))
    truth = pl.DataFrame({"user": np.repeat(np.arange(n_users), 5)}).with_columns(
        item=pl.int_range(pl.len()) % 5 * 7
    )
    truth.write_parquet(folder / "truth.parquet")
    names = tuple(f"model-{n}" for n in range(n_models))
    users = np.repeat(np.arange(n_users), 10)
    frames = []
    for name in names:
        items = np.concatenate([rng.permutation(40)[:10] for _ in range(n_users // 50)] * 50)
        ranks = np.tile(np.arange(1, 11, dtype=np.int32), n_users)
        frames.append(
            pl.DataFrame({"user": users, "item": items, "rank": ranks}).with_columns(
                model=pl.lit(name)
            )
        )
    pl.concat(frames).write_parquet(folder / "rankings.parquet")
    groups = pl.DataFrame({"user": np.arange(n_users)}).with_columns(
        city=pl.format("c{}", pl.col("user") % n_segments)
    )
    groups.write_parquet(folder / "users.parquet")
    more = f"""
[statistics]
pairs = "all"

[segments]
min_users = 1

[segments.city]
path = "{folder}/users.parquet"
user = "user"
by = "city"
"""
    return config(
        folder, column='rank = "rank", model = "model"', model="", cutoffs=(1, 3, 5, 10), more=more
    )


def users_and_items(folder: Path, scale: float) -> str:
    """Errors over users and items, of two models and their segments."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(12)
    n_users, n_items, depth = int(150_000 * scale), int(100_000 * scale), 20
    users = np.repeat(np.arange(n_users), depth)
    truth = pl.DataFrame({"user": users, "item": rng.integers(0, n_items, users.size)}).unique()
    truth = truth.sort("user", "item").with_columns(shop=pl.col("user") % 7)
    truth.write_parquet(folder / "truth.parquet", row_group_size=1 << 18)
    names = "als", "bpr"
    tables = ""
    for name in names:
        shown = truth.select("user", "item", rank=pl.int_range(1, pl.len() + 1).over("user"))
        missed = pl.Series(rng.random(truth.height) < 0.5)
        shown = shown.with_columns(item=pl.when(missed).then(-1 - pl.col("item")).otherwise("item"))
        shown.write_parquet(folder / f"{name}.parquet", row_group_size=1 << 18)
        tables += RANKINGS.format(
            folder=folder, name=name, column='rank = "rank"', model=f'model = "{name}"'
        )
    more = """
[statistics]
baseline = "als"
two_way = "item"
[segments.shop]
by = "shop"
"""
    metrics = config(folder, (), metrics=("nDCG", "recall"), more=more)
    return metrics.replace("[metrics]", tables + "[metrics]")


def large_truth(folder: Path, scale: float) -> str:
    """A truth that is much larger than the rankings, with relevances."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(5)
    n_users, n_items = int(400_000 * scale), 50
    users = np.repeat(np.arange(n_users), n_items)
    truth = pl.DataFrame({"user": users}).with_columns(
        item=pl.int_range(pl.len()) % n_items * 13,
        relevance=pl.Series(rng.integers(1, 6, users.size)).cast(pl.Float64),
    )
    truth.write_parquet(folder / "truth.parquet", row_group_size=1 << 18)
    few = np.arange(0, n_users, 20)
    ranked = pl.DataFrame({"user": np.repeat(few, 5)}).with_columns(
        item=pl.int_range(pl.len()) % 5 * 13, rank=(pl.int_range(pl.len()) % 5 + 1).cast(pl.Int32)
    )
    ranked.write_parquet(folder / "rankings.parquet", row_group_size=1 << 18)
    return config(folder, relevance=True)


def ratings(folder: Path, scale: float) -> str:
    """True ratings and predictions of the same pairs, in two orders; errors over users too."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(6)
    rows = int(10_000_000 * scale)
    pairs = pl.DataFrame({"user": rng.permutation(rows) // 50, "item": np.arange(rows) % 9973})
    pairs = pairs.unique(["user", "item"], keep="first", maintain_order=True)
    rated = pairs.with_columns(rating=pl.Series(rng.integers(1, 11, pairs.height) / 2))
    rated.write_parquet(folder / "ratings.parquet", row_group_size=1 << 18)
    predicted = pairs.with_columns(prediction=pl.Series(rng.normal(3, 1, pairs.height)))
    predicted.reverse().write_parquet(folder / "predictions.parquet", row_group_size=1 << 18)
    more = f'''
[[predictions]]
model = "svd"
path = "{folder}/predictions.parquet"
columns = {{ user = "user", item = "item", prediction = "prediction" }}
'''
    return ROWS.format(
        folder=folder,
        table="[ratings]",
        name="ratings",
        columns='user = "user", item = "item", rating = "rating"',
        metrics='"RMSE", "MAE", "R2", "RMSE(over=\'users\')"',
        more=more,
    )


def labels(folder: Path, scale: float) -> str:
    """Scored rows whose users lie apart; areas within users too."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(7)
    rows = int(20_000_000 * scale)
    scores = rng.random(rows)
    scored = pl.DataFrame({"user": rng.permutation(rows) // 40, "score": scores})
    scored = scored.with_columns(label=pl.Series(rng.random(rows) < scores))
    scored.write_parquet(folder / "labels.parquet", row_group_size=1 << 18)
    return ROWS.format(
        folder=folder,
        table="[[labels]]",
        name="labels",
        columns='user = "user", score = "score", label = "label"',
        metrics='"AUC", "GAUC", "log-loss"',
        more='model = "ctr"',
    )


def lists(folder: Path, scale: float) -> str:
    """Lists that are looked at themselves, beside a training log whose users lie apart."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(8)
    n_users, depth, n_items = int(1_000_000 * scale), 20, max(1_000, int(500_000 * scale))
    users = np.repeat(np.arange(n_users), depth)
    firsts = np.repeat((rng.random(n_users) ** 3 * n_items).astype(np.int64), depth)
    ranks = np.tile(np.arange(1, depth + 1, dtype=np.int32), n_users)
    ranked = pl.DataFrame({"user": users, "item": (firsts + 7 * ranks) % n_items, "rank": ranks})
    ranked.write_parquet(folder / "rankings.parquet", row_group_size=1 << 18)
    write_train(folder, n_users, n_items)
    items = pl.select(item=pl.int_range(n_items))
    items.write_parquet(folder / "items.parquet")
    more = f"""[items]
path = "{folder}/items.parquet"
columns = {{ item = "item" }}
"""
    return config(
        folder,
        metrics=("novelty", "item_coverage", "gini", "personalization", "unseen_share"),
        cutoffs=(10, 20),
        more=more + TRAIN.format(folder=folder, drop_seen="false"),
    )


def whole_lists(folder: Path, scale: float) -> str:
    """Scores of users whose rows lie apart, for metrics that look at whole lists."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(10)
    n_users, depth, n_items = int(500_000 * scale), 30, max(1_000, int(100_000 * scale))
    order = rng.permutation(n_users * depth)
    ranked = pl.DataFrame({"user": order // depth, "item": order * 7919 % n_items})
    scores = pl.Series(rng.random(order.size, dtype=np.float32))
    ranked.with_columns(score=scores).write_parquet(
        folder / "rankings.parquet", row_group_size=1 << 18
    )
    ranked.filter(pl.Series(rng.random(order.size) < 0.1)).select("user", "item").write_parquet(
        folder / "truth.parquet", row_group_size=1 << 18
    )
    genres = [f"g{each % 20}|g{each % 7}" for each in range(n_items)]
    pl.DataFrame({"item": np.arange(n_items), "genres": genres}).write_parquet(
        folder / "items.parquet"
    )
    more = f"""[items]
path = "{folder}/items.parquet"
separator = "|"
columns = {{ item = "item", genres = "genres" }}
"""
    return config(
        folder,
        column='score = "score"',
        metrics=("nDCG", "ild(distance='jaccard')", "genre_entropy", "alpha_ndcg", "entropy"),
        cutoffs=(10, 20),
        more=more,
    )


def builtins(folder: Path, scale: float) -> str:
    """A baseline that is made of the training log, without what users have had."""
    n_users = int(1_000_000 * scale)
    write_train(folder, n_users, max(1_000, int(500_000 * scale)))
    rankings = """
[[rankings]]
model = "popular"
builtin = "popular"
k = 20
"""
    more = rankings + TRAIN.format(folder=folder, drop_seen="true")
    return config(folder, (), more=more)


def write_train(folder: Path, n_users: int, n_items: int) -> None:
    """Twenty training rows a user, in no order, and two of the truth."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(9)
    for name, n in (("train", 20), ("truth", 2)):
        users = rng.permutation(np.repeat(np.arange(n_users), n))
        items = (rng.random(users.size) ** 3 * n_items).astype(np.int64)
        pl.DataFrame({"user": users, "item": items}).write_parquet(
            folder / f"{name}.parquet", row_group_size=1 << 18
        )


LOGS = {
    "copies": Hard(scattered_copies),
    "repeats": Hard(repeats),
    "long-ids": Hard(long_ids),
    "segments": Hard(models_by_segments, (0.95, 0.5)),
    "two-way": Hard(users_and_items),
    "large-truth": Hard(large_truth),
    "ratings": Hard(ratings),
    "labels": Hard(labels),
    "lists": Hard(lists),
    "whole-lists": Hard(whole_lists),
    "builtins": Hard(builtins),
}


def main() -> int:
    """Exit status: 0, or 1 where a promise is not held."""
    parser = make_parser(__doc__)
    parser.add_argument("--only", help=f"Some of {', '.join(LOGS)}.")
    parser.add_argument("--scale", type=float, default=1.0, help="Of the logs' sizes.")
    parser.add_argument("--make", help="Write this log alone; used by the script itself.")
    parser.add_argument("--digest", type=Path, help="Of the run in a folder; used likewise.")
    given = parser.parse_args()
    if given.digest is not None:
        sys.stdout.write(digest(given.digest))
        return 0
    if given.make is not None:
        folder = given.out / f"memory-{given.make}-{given.scale:g}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.toml").write_text(LOGS[given.make].make(folder, given.scale))
        return 0
    machine, runs = describe_machine(), list[Run]()
    for name in given.only.split(",") if given.only else LOGS:
        runs += measure(name, given)
    record = Record(machine, given.scale, runs)
    write(given.out, f"memory-{machine.commit}", record, render(record))
    return 1 if any(run.fault for run in runs) else 0


def measure(name: str, given: Namespace) -> Iterator[Run]:
    """The runs of one log: without a limit, then below each."""
    out, scale = given.out.resolve(), given.scale
    job = out / f"memory-{name}-{scale:g}" / "job.toml"
    if not job.exists():  # in another process, so that this one stays small
        order = [sys.executable, __file__, "--make", name, "--scale", str(scale), "--out", str(out)]
        run_process(order, environment([BENCH, ROOT], given.threads))
    evaluate(job, given, None)  # compiles, and fills the file cache
    first = evaluate(job, given, 1 << 20)
    if first.status != 0:
        raise SystemExit(f"evalkit ended with exit status {first.status}")
    peak = first.round.peak_bytes >> 20
    spent = first.round
    yield told(Run(name, None, None, False, peak, spent.cpu, spent.wall, 1.0, None))
    for share in LOGS[name].shares:
        limit = max(1, int(share * peak))
        ended = evaluate(job, given, limit)
        needed = NEED.search(ended.errors) if ended.status == 4 else None
        yield told(as_run(name, limit, ended, first, None if needed is None else int(needed[1])))
        if needed is not None:
            limit = int(needed[1])
            ended = evaluate(job, given, limit)
            yield told(replace(as_run(name, limit, ended, first, None), is_named=True))
            break  # a smaller limit names the same


def as_run(name: str, limit: int, ended: Ended, first: Ended, needed: int | None) -> Run:
    is_same = None if needed is not None else ended.output == first.output
    spent = ended.round
    times = spent.cpu / first.round.cpu
    peak = spent.peak_bytes >> 20
    return Run(name, limit, needed, False, peak, spent.cpu, spent.wall, times, is_same)


def told(run: Run) -> Run:
    tell(f"{run}")
    return run


def digest(runs: Path) -> str:
    """What has to be the same whatever the limit."""
    path = runs / "latest" / "report.json"
    report: dict[str, Any] = json.loads(path.read_bytes())
    kept = {key: report[key] for key in report if key not in ("meta", "run_id")}
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()


def evaluate(job: Path, given: Namespace, limit_mib: int | None) -> Ended:
    """One `evalkit run` in a fresh process; its output is what tells reports apart.

    A process begins with the peak of the one that starts it, which therefore reads no report.
    """
    with tempfile.TemporaryDirectory() as runs:
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "evalkit",
            "run",
            job,
            "--out",
            runs,
        ]
        command += ["--threads", str(given.threads), "--quiet"]
        if limit_mib is not None:
            command += ["--memory-limit", f"{limit_mib}MiB"]
        used = environment([BENCH, ROOT], given.threads)
        ended = run_process(command, used)
        if ended.status:
            return replace(ended, output=f"exit status {ended.status}")
        return replace(
            ended, output=run_process([sys.executable, __file__, "--digest", runs], used).output
        )


def render(record: Record) -> str:
    """The record as Markdown; bars show peaks."""
    header = ["log", "limit MiB", "peak MiB", "named MiB", "CPU s", "times", "fault"]
    rows = [
        [
            run.log,
            "" if run.limit_mib is None else f"{run.limit_mib:,}",
            f"{run.peak_mib:,}",
            "" if run.needed_mib is None else f"{run.needed_mib:,}",
            f"{run.cpu:.1f}",
            f"{run.times:.1f}",
            run.fault,
        ]
        for run in record.runs
    ]
    return (
        table(header, rows, [float(run.peak_mib) for run in record.runs])
        + f"\n\n{record.machine}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
