"""Logs for the benchmark, and their numbers by the hand-written query; an order is a line of JSON.

    echo '{"make": "logs/small", "shape": {"users": 1000}}' | python bench/log_files.py
    echo '{"check": "logs/small", "to": "numbers.json"}' | python bench/log_files.py

Bias: the rows come from evalkit's own generator. What it cannot make, one user with very many
rows, is added here.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import labels
import numpy as np
import polars as pl

from contestants import CUTOFFS
from contestants.polars_query import compose
from evalkit.cli import synth_logs
from harness import LABELS, MODEL, Shape, tell


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
            ids=shape.ids,  # type: ignore[arg-type]  # generate() looks at it
            order=shape.order,  # type: ignore[arg-type]
            files=shape.files,
            form=shape.form,  # type: ignore[arg-type]
            seed=shape.seed,
        )
        if shape.heavy_rows:
            add_heavy_user(log, shape)
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
