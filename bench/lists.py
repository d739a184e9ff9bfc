"""What metrics of lists cost beside nDCG: whole processes, CPU and wall seconds, in turns.

    python bench/lists.py                    # 1,000,000 users x 50 ranks, 50,000,000 rows of train
    python bench/lists.py --users 1e5 --rounds 5 --only ndcg,light,heavy

Bias: evalkit's authors wrote this. The log is that of the other benches, of evalkit's own
generator: ranks, a user's rows together, integer ids, 100,000 items. Train is another log of it,
of the same users, as many rows, in user order. The table of items gives each one to three of 20
genres, one of 10 providers, and a vector of 64 numbers.

No time is shown before numbers of a small log agree to 1e-12 with plain NumPy over whole matrices,
and those of all lists together at full size too. Floors are Polars decoding the columns that a run
reads, then sorting them by user where rows are scattered, or gathering a vector for each row.
"""

import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness import (
    BENCH,
    MODEL,
    ROOT,
    Log,
    Machine,
    Round,
    Shape,
    count,
    describe_machine,
    environment,
    make_parser,
    prepare_logs,
    run_process,
    table,
    tell,
    write,
)

CHECKED = 3_000  # users of the log on which every number is checked
DIMENSIONS = 64
OF_ALL = ("item_coverage", "gini", "entropy", "hhi", "personalization")
LIGHT = ("novelty", "avg_popularity", "tail_share", *OF_ALL, "exposure_parity(by='provider')")
HEAVY = (*LIGHT, "genre_entropy", "calibration", "ild(distance='jaccard')", "alpha_ndcg")


@dataclass(frozen=True, slots=True)
class Way:
    """What is run.

    Args:
        metrics: at 10 and 50, beside nDCG.
        tables: that the config has beside truth and rankings.
        against: the way that it is held against, or that is its floor.
    """

    title: str
    metrics: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    against: str = "ndcg"
    ids: str = "int"
    order: str = "grouped"
    form: str = "rank"
    train: str = "grouped"
    floor: str = ""

    def shape(self, users: int, seed: int) -> Shape:
        """Of its rankings."""
        return Shape(users, ids=self.ids, order=self.order, form=self.form, seed=seed)

    def shape_of_train(self, users: int, seed: int) -> Shape:
        """Of its train."""
        return Shape(users, ids=self.ids, order=self.train, form="rank", seed=seed + 1_000)


BOTH = ("items", "train")
WAYS = {
    "ndcg": Way("nDCG alone"),
    "train": Way("nDCG, train read for what was seen", (), ("train",)),
    "counts": Way("of these those without train", LIGHT[3:], ("items",)),
    "light": Way("nine metrics", LIGHT, BOTH),
    "heavy": Way("thirteen metrics", HEAVY, BOTH),
    "cosine": Way("ILD by cosine", ("ild",), ("items",), floor="vectors"),
    "ndcg-scores": Way("nDCG by scores", form="score"),
    "scores": Way("nine, by scores", LIGHT, BOTH, "ndcg-scores", form="score", floor="sort"),
    "ndcg-scattered": Way("nDCG, scattered rows", order="scattered"),
    "scattered": Way(
        "nine, scattered rows", LIGHT, BOTH, "ndcg-scattered", order="scattered", floor="sort"
    ),
    "scattered-train": Way("nine, scattered train", LIGHT, BOTH, train="scattered", floor="sort"),
    "ndcg-text": Way("nDCG, ids as text", ids="string"),
    "text": Way("nine, ids as text", LIGHT, BOTH, "ndcg-text", ids="string", floor="decode"),
}


@dataclass(frozen=True, slots=True)
class Taken:
    """What a way took, over the rounds.

    Args:
        floor: CPU seconds of what no reader can do without.
        times, nanoseconds_a_row: CPU against the way that it is held against.
    """

    way: str
    title: str
    cpu: float
    wall: float
    peak_mib: int
    times: float
    nanoseconds_a_row: float
    floor: float | None
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Record:
    """What is written as JSON."""

    machine: Machine
    users: int
    threads: int
    decoding_train: float  # CPU seconds
    reading_train: float  # of nine metrics, less those of as many without
    taken: list[Taken]


def main() -> int:
    """Exit status 0, or 1 where a number is wrong."""
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(globals()[sys.argv[2]](*sys.argv[3:])))
        return 0
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=1_000_000, help="Users, 50 ranks each.")
    parser.add_argument("--rounds", type=int, default=3, help="Of each, in turns.")
    parser.add_argument("--only", help=f"Some of {', '.join(WAYS)}.")
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else list(WAYS)
    chosen = list(dict.fromkeys(each for name in chosen for each in (WAYS[name].against, name)))
    check(given)
    configs = {name: prepare(WAYS[name], given.users, given) for name in chosen}
    rounds: dict[str, list[Round]] = {name: [] for name in chosen}
    for number in range(given.rounds + 1):
        for name in chosen:
            spent, values = run(configs[name], given)
            if number == 0 and "items" in WAYS[name].tables:
                compare(values, call("of_all", configs[name].parent, given), name)
            if number > 0:
                tell(f"round {number}: {name}: {spent.cpu:.2f} s of CPU")
                rounds[name].append(spent)
    record = conclude(rounds, configs, given)
    write(given.out, f"lists-{record.machine.commit}", record, render(record))
    return 0


def check(given: Namespace) -> None:
    """Refuse wrong numbers, on a small log."""
    for name in ("heavy", "cosine", "scores", "scattered", "text"):
        job = prepare(WAYS[name], CHECKED, given)
        compare(run(job, given)[1], call("by_numpy", job.parent, given), name)


def compare(values: dict[str, float], wanted: dict[str, float], name: str) -> None:
    """Refuse numbers that differ.

    Raises:
        SystemExit: one does; exit status 1.
    """
    for label, value in values.items():
        if label in wanted and not abs(value - wanted[label]) <= 1e-12 * max(1.0, abs(value)):
            tell(f"{name}: {label} is {value!r}, and by NumPy {wanted[label]!r}")
            raise SystemExit(1)


def call(what: str, *more: object) -> Any:
    """What a function below gives in a process of its own: this one stays small."""
    told = [str(each) for each in more if not isinstance(each, Namespace)]
    threads = next(each.threads for each in more if isinstance(each, Namespace))
    command: list[str | Path] = [sys.executable, __file__, "--worker", what, *told]
    ended = run_process(command, environment([ROOT, BENCH], threads))
    if ended.status != 0:
        raise SystemExit(ended.status)
    return json.loads(ended.output)


def run(job: Path, given: Namespace) -> tuple[Round, dict[str, float]]:
    """One `evalkit run`, and its values over all users."""
    with tempfile.TemporaryDirectory() as runs:
        command: list[str | Path] = [sys.executable, "-m", "evalkit", "run", job, "--out", runs]
        command += ["--json", "--quiet", "--threads", str(given.threads)]
        ended = run_process(command, environment([BENCH, ROOT], given.threads))
    if ended.status != 0:
        raise SystemExit(ended.status)
    found = json.loads(ended.output)["metrics"]
    return ended.round, {each["metric"]: each["value"] for each in found}


def prepare(way: Way, users: int, given: Namespace) -> Path:
    """The config of a way, beside the tables that it reads."""
    log, train = prepare_logs(
        [way.shape(users, given.seed), way.shape_of_train(users, given.seed)], given.out.resolve()
    )
    name = next(name for name, each in WAYS.items() if each == way)
    out: Path = given.out.resolve()
    folder = out / "lists" / f"{users}-s{given.seed}" / name
    folder.mkdir(parents=True, exist_ok=True)
    items = folder.parent / f"items-{way.ids}.parquet"
    if not items.exists():
        call("make_items", items, log.path, train.path, given)
    (folder / "job.toml").write_text("\n".join(spell(way, log, train, items)) + "\n")
    return folder / "job.toml"


def spell(way: Way, log: Log, train: Log, items: Path) -> Iterator[str]:
    """The lines of a config."""
    order = 'score = "score"' if way.form == "score" else 'rank = "rank"'
    yield f'[truth]\npath = "{log.path}/truth"\ncolumns = {{ user = "user", item = "item" }}'
    yield f'[[rankings]]\nmodel = "{MODEL}"\npath = "{log.path}/rankings/{MODEL}"'
    yield f'columns = {{ user = "user", item = "item", {order} }}'
    if "train" in way.tables:
        yield f'[train]\npath = "{train.path}/rankings/{MODEL}"'
        yield 'columns = { user = "user", item = "item" }'
    if "items" in way.tables:
        columns = 'item = "item", genres = "genres", vector = "vector"'
        yield f'[items]\npath = "{items}"\nseparator = "|"\ncolumns = {{ {columns} }}'
    labels = [f"{each}@{{10,50}}" for each in ("nDCG", *way.metrics)]
    yield f"[metrics]\nnames = {json.dumps(labels)}"


def conclude(rounds: dict[str, list[Round]], configs: dict[str, Path], given: Namespace) -> Record:
    """The record of all rounds."""
    cpu = {name: median(each.cpu for each in found) for name, found in rounds.items()}
    taken = []
    for name, found in rounds.items():
        way = WAYS[name]
        floor = call("floor", configs[name], way.floor, given) if way.floor else None
        more = cpu[name] - cpu[way.against]
        taken.append(
            Taken(
                name,
                way.title,
                cpu[name],
                median(each.wall for each in found),
                max(each.peak_bytes for each in found) >> 20,
                cpu[name] / cpu[way.against],
                1e9 * more / (given.users * 50),
                floor,
                found,
            )
        )
    train = [name for name in ("train", "light") if name in configs]
    decoding = call("decode_train", configs[train[0]], given) if train else 0.0
    reading = cpu["light"] - cpu["counts"] if {"light", "counts"} <= set(cpu) else 0.0
    return Record(describe_machine(), given.users, given.threads, decoding, reading, taken)


def render(record: Record) -> str:
    """The record as Markdown; bars show CPU seconds."""
    header = ["what", "CPU s", "wall s", "peak MiB", "times", "ns a row more", "floor s"]
    rows = [
        [
            each.title,
            f"{each.cpu:.2f}",
            f"{each.wall:.2f}",
            f"{each.peak_mib:,}",
            f"{each.times:.2f}",
            f"{each.nanoseconds_a_row:.1f}",
            "" if each.floor is None else f"{each.floor:.2f}",
        ]
        for each in record.taken
    ]
    text = table(header, rows, [each.cpu for each in record.taken])
    told = f"decoding train {record.decoding_train:.2f} s, reading it {record.reading_train:.2f} s"
    log = f"{record.users:,} users x 50, {record.threads} threads"
    return f"{text}\n\n{log}; {told}\n{record.machine}\n"


# ---------------------------------------------------------------- in a process of its own


def make_items(to: str, *logs: str) -> None:
    """The table of the items that rankings and trains name."""
    import numpy as np
    import polars as pl

    paths = [f"{log}/rankings/{MODEL}/*.parquet" for log in logs]
    named = [pl.scan_parquet(path).select("item").unique().collect() for path in paths]
    items = pl.concat(named).unique().sort("item")
    rng = np.random.default_rng(1)
    n = items.height
    first = rng.integers(0, 20, n)
    texts = [
        "|".join(f"g{(one + 7 * each) % 20:02}" for each in range(number))
        for one, number in zip(first, rng.integers(1, 4, n), strict=True)
    ]
    providers = [f"p{each}" for each in (10 * rng.random(n) ** 2).astype(np.int64)]
    vectors = rng.normal(size=(n, DIMENSIONS)).astype(np.float32)
    items.with_columns(
        genres=pl.Series(texts),
        provider=pl.Series(providers),
        vector=pl.Series(vectors, dtype=pl.Array(pl.Float32, DIMENSIONS)),
    ).write_parquet(to)


def spent_by(work: Any) -> float:
    """CPU seconds of a call, the least of three."""
    import time

    found = []
    for _ in range(3):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def read_config(job: str) -> Any:
    """A config as TOML has it."""
    import tomllib

    return tomllib.loads(Path(job).read_text())


def decode_train(job: str) -> float:
    """CPU seconds of decoding train."""
    import polars as pl

    path = read_config(job)["train"]["path"]
    rows = pl.scan_parquet(f"{path}/*.parquet").select(pl.col("user", "item").max())
    return spent_by(lambda: rows.collect(engine="streaming"))


def floor(job: str, kind: str) -> float:
    """CPU seconds of what no reader of the rankings, and of train, does without."""
    import numpy as np
    import polars as pl

    config = read_config(job)
    rankings = config["rankings"][0]
    rows = pl.scan_parquet(f"{rankings['path']}/*.parquet").select(*rankings["columns"].values())
    if kind == "vectors":
        vectors = pl.read_parquet(config["items"]["path"])["vector"].to_numpy()
        items = rows.select("item").collect()["item"].to_numpy() - 1
        sums = np.zeros(DIMENSIONS)

        def gather() -> None:
            for begin in range(0, items.size, 1 << 16):
                sums[:] += vectors[items[begin : begin + (1 << 16)]].sum(axis=0)

        return spent_by(lambda: rows.max().collect(engine="streaming")) + spent_by(gather)
    if kind == "sort" and "scattered-train" in job:
        rows = pl.scan_parquet(f"{config['train']['path']}/*.parquet").select("user", "item")
    rows = rows.sort("user", "item") if kind == "sort" else rows
    return spent_by(lambda: rows.max().collect(engine="streaming"))


def by_numpy(folder: str) -> dict[str, float]:
    """Every number, over matrices of all users and ranks."""
    return numbers_of(Path(folder) / "job.toml", of_users=True)


def of_all(folder: str) -> dict[str, float]:
    """The numbers of all lists together."""
    return numbers_of(Path(folder) / "job.toml", of_users=False)


def numbers_of(job: Path, *, of_users: bool) -> dict[str, float]:
    """Numbers by NumPy, of lists of 50 different items that the table has."""
    import numpy as np
    import polars as pl

    config = read_config(str(job))
    table_of_items = pl.read_parquet(config["items"]["path"]).with_row_index("code")
    codes = table_of_items.select("item", "code")
    ranked = pl.scan_parquet(f"{config['rankings'][0]['path']}/*.parquet")
    by = ["user", "rank"] if "rank" in ranked.collect_schema() else ["user", "score"]
    ranked = ranked.sort(by, descending=[False, by[1] == "score"]).join(
        codes.lazy(), on="item", maintain_order="left"
    )
    lists = ranked.select("user", "code").collect(engine="streaming")
    shown = lists["code"].to_numpy().reshape(-1, 50)
    users = lists["user"].gather_every(50)
    found: dict[str, float] = {}
    n_items = table_of_items.height
    providers, groups = np.unique(table_of_items["provider"].to_numpy(), return_inverse=True)
    for k in (10, 50):
        counts = np.bincount(shown[:, :k].ravel(), minlength=n_items)
        p = np.sort(counts[counts > 0] / counts.sum())
        ascending = np.sort(counts)
        places = np.arange(1, n_items + 1)
        attention = np.zeros(providers.size)
        for rank in range(k):
            at = np.bincount(groups[shown[:, rank]], minlength=providers.size)
            attention += at / np.log2(rank + 2)
        parity = attention / np.bincount(groups)
        n = len(shown)
        found |= {
            f"item_coverage@{k}": float((counts > 0).mean()),
            f"gini@{k}": float(
                ((2.0 * places - n_items - 1) * ascending).sum() / (n_items * counts.sum())
            ),
            f"entropy@{k}": float(-(p * np.log2(p)).sum()),
            f"hhi@{k}": float((p**2).sum()),
            f"personalization@{k}": 1 - float(((counts**2 / k).sum() - n) / (n * (n - 1))),
            f"exposure_parity(by='provider')@{k}": float(parity.min() / parity.max()),
        }
    if of_users:
        found |= of_each_user(config, table_of_items, shown, users)
    return found


def of_each_user(config: Any, items: Any, shown: Any, users: Any) -> dict[str, float]:
    """Means of users by NumPy."""
    import numpy as np
    import polars as pl

    n_items = items.height
    genres = [text.split("|") for text in items["genres"]]
    names = sorted({name for each in genres for name in each})
    has = np.array([[name in each for name in names] for each in genres], dtype=np.float64)
    masses = has / has.sum(axis=1, keepdims=True)
    codes = items.select("item", "code").lazy()
    wanted = {"truth": config["truth"]["path"]}
    if "train" in config:
        wanted["train"] = config["train"]["path"]
    owned = {
        name: pl.scan_parquet(f"{path}/*.parquet")
        .join(codes, on="item")
        .join(users.to_frame().with_row_index("row").lazy(), on="user")
        .select(pl.col("row").cast(pl.Int64), pl.col("code").cast(pl.Int64))
        .unique()
        .collect()
        for name, path in wanted.items()
    }
    found: dict[str, float] = {}
    vectors = items["vector"].to_numpy().astype(np.float64)
    units = vectors / np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    for k in (10, 50):
        cosines = [
            1 - ((units[own].sum(axis=0) ** 2).sum() - k) / (k * (k - 1)) for own in shown[:, :k]
        ]
        found[f"ild@{k}"] = float(np.mean(cosines))
    if "train" not in owned:
        return found
    popular = np.bincount(owned["train"]["code"].to_numpy(), minlength=n_items)
    n_users = owned["train"]["row"].n_unique()
    information = -np.log2(np.maximum(popular, 1) / n_users)
    descending = np.sort(popular)[::-1]
    last = int(np.searchsorted(np.cumsum(descending), 0.8 * popular.sum(), "left"))
    tail = (popular < descending[last]) | (popular == 0)
    history = np.zeros((len(shown), len(names)))
    rows, own = (owned["train"][name].to_numpy() for name in ("row", "code"))
    np.add.at(history, rows, masses[own])
    history /= history.sum(axis=1, keepdims=True)
    relevant = {
        row: set(own) for row, own in owned["truth"].group_by("row").agg("code").iter_rows()
    }
    order = np.argsort(np.argsort([str(each) for each in items["item"]]))
    for k in (10, 50):
        own = shown[:, :k]
        q = masses[own].sum(axis=1)
        q /= q.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropies = -np.where(q > 0, q * np.log2(q), 0.0).sum(axis=1)
            steck = np.where(
                history > 0, history * np.log2(history / (0.99 * q + 0.01 * history)), 0.0
            ).sum(axis=1)
        both = np.einsum("uig,ujg->uij", has[own], has[own])
        sizes = has.sum(axis=1)[own]
        distances = 1 - both / (sizes[:, :, None] + sizes[:, None, :] - both)
        upper = np.triu_indices(k, 1)
        gains = [
            alpha_ndcg(own[row], relevant[row], has, order, k)
            for row in range(len(shown))
            if row in relevant
        ]
        found |= {
            f"novelty@{k}": float(information[own].mean(axis=1).mean()),
            f"avg_popularity@{k}": float(popular[own].mean()),
            f"tail_share@{k}": float(tail[own].mean()),
            f"genre_entropy@{k}": float(entropies.mean()),
            f"calibration@{k}": float(steck.mean()),
            f"ild(distance='jaccard')@{k}": float(distances[:, upper[0], upper[1]].mean()),
            f"alpha_ndcg@{k}": float(np.mean(gains)),
        }
    return found


def alpha_ndcg(own: Any, relevant: set[int], has: Any, order: Any, k: int) -> float:
    """Of one user, by its definition."""
    import math

    import numpy as np

    def gain_of(items: list[int | None]) -> float:
        worth, total = np.ones(has.shape[1]), 0.0
        for rank, item in enumerate(items, 1):
            if item is not None:
                total += float((worth * has[item]).sum()) / math.log2(1 + rank)
                worth *= np.where(has[item] > 0, 0.5, 1.0)
        return total

    left, ideal, worth = set(relevant), list[int | None](), np.ones(has.shape[1])
    while left and len(ideal) < k:
        best = max(left, key=lambda item: (float((worth * has[item]).sum()), order[item]))
        left.remove(best)
        ideal.append(best)
        worth *= np.where(has[best] > 0, 0.5, 1.0)
    return gain_of([item if item in relevant else None for item in own.tolist()]) / gain_of(ideal)


if __name__ == "__main__":
    sys.exit(main())
