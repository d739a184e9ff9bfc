"""Logs for the benchmark, and their numbers by the hand-written query; an order is a line of JSON.

    echo '{"make": "logs/small", "shape": {"users": 1000}}' | python bench/log_files.py
    echo '{"check": "logs/small", "to": "numbers.json"}' | python bench/log_files.py

Bias: the rows come from evalkit's own generator. What it cannot make is added here: ids of other
types, a truth in the order of time, one user with very many rows.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from uuid import UUID

import labels
import numpy as np
import polars as pl

from contestants import CUTOFFS
from contestants.polars_query import compose
from evalkit.cli import synth_logs
from harness import LABELS, MODEL, Shape, tell


def name_uuid(role: str, number: int) -> UUID:
    """128 bits without an order."""
    return UUID(bytes=blake2b(f"{role}{number}".encode(), digest_size=16).digest())


SPELLED: dict[str, Callable[[str, int], str | bytes]] = {  # of users and items, by their numbers
    "text12": lambda role, n: f"{role[0]}{n:011d}",
    "text24": lambda role, n: f"customer-{n:015d}" if role == "user" else f"i{n:07d}",
    "uuid": lambda role, n: str(name_uuid(role, n)),
    "uuid-bytes": lambda role, n: name_uuid(role, n).bytes,
    "categorical": lambda role, n: f"{role} of kind {n}",
}


def main() -> int:
    """Exit status 0."""
    for line in sys.stdin:
        order = json.loads(line)
        if "make" in order:
            shape = Shape(**order["shape"])
            tell(f"generating {shape.rows:,} rows: {shape.name}")
            (make_labels if shape.form == "labels" else make)(Path(order["make"]), shape)
        else:
            tell(f"checking {Path(order['check']).name} with the Polars query")
            numbers = measure(Path(order["check"]))
            Path(order["to"]).write_text(json.dumps(numbers) + "\n")
    return 0


def make(folder: Path, shape: Shape) -> None:
    """The log of a shape with its facts beside it; whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".log-", dir=folder.parent) as fresh:
        log = Path(fresh) / folder.name
        synth_logs.generate(
            log,
            users=shape.users,
            depth=shape.depth,
            relevant=shape.relevant,
            models=shape.models,
            ids="int" if shape.ids in SPELLED else shape.ids,  # type: ignore[arg-type]
            order=shape.order,  # type: ignore[arg-type]
            files=shape.files,
            form=shape.form,  # type: ignore[arg-type]
            seed=shape.seed,
        )
        if shape.heavy_rows:
            add_heavy_user(log, shape)
        if shape.ids in SPELLED:
            spell_ids(log, shape.ids)
        if shape.truth == "time":
            for file in (log / "truth").iterdir():
                rows = pl.read_parquet(file).sample(fraction=1.0, shuffle=True, seed=shape.seed)
                rows.write_parquet(file, row_group_size=synth_logs.ROWS_PER_GROUP)
        if shape.form == "list":  # the config reads places alone, as the query in SQL does
            config = log / "config.toml"
            config.write_text(config.read_text().replace(', score = "scores"', ""))
        files = [*(log / "truth").iterdir(), *(log / "rankings").rglob("*.parquet")]
        facts = {
            "pairs": count_rows(log / "truth"),
            "megabytes": sum(file.stat().st_size for file in files) / 1e6,
        }
        (log / "facts.json").write_text(json.dumps(facts) + "\n")
        shutil.move(log, folder)


def make_labels(folder: Path, shape: Shape) -> None:
    """Impressions with their facts beside them."""
    folder.mkdir(parents=True)
    file = folder / "labels.parquet"
    labels.make(file, 1, str(shape.rows), "float32", str(shape.seed))
    facts = {"pairs": 0, "megabytes": file.stat().st_size / 1e6}
    (folder / "facts.json").write_text(json.dumps(facts) + "\n")


def add_heavy_user(log: Path, shape: Shape) -> None:
    """One more user in files of their own, which come between or after those of the others.

    Half of the relevant items are ranked, anywhere in the list.
    """
    rng = np.random.default_rng(shape.seed)
    user, rows = shape.users + 1, shape.heavy_rows
    shown = rng.permutation(np.arange(1, rows + 1))
    half = shape.heavy_relevant // 2
    hidden = np.arange(rows + 1, rows + 1 + shape.heavy_relevant - half)
    relevant = rng.permutation(np.concatenate([rng.choice(shown, half, replace=False), hidden]))
    rankings = pl.DataFrame({"user": user, "item": shown, "rank": np.arange(1, rows + 1)})
    relevance = rng.integers(1, 6, relevant.size)
    truth = pl.DataFrame({"user": user, "item": relevant, "relevance": relevance})
    for folder, frame in ((log / "truth", truth), (log / "rankings" / MODEL, rankings)):
        beside = sorted(folder.glob("*.parquet"))[0]
        frame = frame.select(
            pl.col(name).cast(kind) for name, kind in pl.read_parquet_schema(beside).items()
        )
        frame.write_parquet(folder / f"{beside.stem}_heavy.parquet")


def spell_ids(log: Path, kind: str) -> None:
    """Give users and items ids of another type."""
    names: dict[str, pl.Series] = {}

    def spell(role: str) -> pl.Expr:
        return pl.col(role).map_batches(lambda ids: names[role].gather(ids), names[role].dtype)

    files = [*(log / "truth").iterdir(), *(log / "rankings").rglob("*.parquet")]
    dtype = pl.Categorical() if kind == "categorical" else None
    for role in ("user", "item"):
        numbers = pl.scan_parquet(files, extra_columns="ignore").select(pl.col(role).max())
        largest = int(numbers.collect().item())
        spelled = [SPELLED[kind](role, number) for number in range(largest + 1)]
        names[role] = pl.Series(role, spelled, dtype)
    for file in files:
        fresh = file.with_suffix(".fresh")
        rows = pl.scan_parquet(file).with_columns(spell("user"), spell("item"))
        rows.sink_parquet(fresh, row_group_size=synth_logs.ROWS_PER_GROUP)
        fresh.replace(file)


def count_rows(folder: Path) -> int:
    """Rows by the metadata of the Parquet files."""
    return int(pl.scan_parquet(folder / "*.parquet").select(pl.len()).collect().item())


def measure(log: Path) -> dict[str, float]:
    """Means over all users by label, from one pair of files at a time.

    Files of the same name hold the same users, and every user of a pair has a ranking: the mean
    over all is that of the pairs, weighted by their users.
    """
    rankings = log / "rankings" / MODEL
    sums = dict.fromkeys(LABELS, 0.0)
    n_users = 0
    for file in sorted((log / "truth").glob("*.parquet")):
        truth = pl.scan_parquet(file)
        here = int(truth.select(pl.col("user").n_unique()).collect(engine="streaming").item())
        query = compose(pl.scan_parquet(rankings / file.name), truth, CUTOFFS)
        row = query.collect(engine="streaming").row(0, named=True)
        sums = {label: sums[label] + here * row[label] for label in sums}
        n_users += here
    return {label: total / n_users for label, total in sums.items()}


if __name__ == "__main__":
    sys.exit(main())
