"""One log in many forms gives one report, byte for byte but for what names the form."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from evalkit.config import build_config
from evalkit.pipeline import run_config

OWN = ("meta", "run_id", "run_key", "inputs")  # of each run; everything else is the log's
METRICS = ["nDCG@{1,10,20}", "nDCG(gain='exp2')", "recall@{5,20}", "precision@10", "hit@10"]
METRICS += ["AP", "AP@10", "RR", "F1@10", "R-precision", "RBP", "first_hit_rank", "DCG@20", "CG"]
SEED = 1
N_FILES = 37

# One-to-one recodings that keep the order of items: text is padded with zeros.
RECODINGS = {
    "integers": {
        "user": [pl.col("user_id").cast(pl.Int64).alias("user")],
        "item": [pl.col("item_id").alias("item")],
    },
    "text": {
        "user": [pl.format("u{}", pl.col("user_id").cast(pl.String).str.zfill(9)).alias("user")],
        "item": [pl.format("i{}", pl.col("item_id").cast(pl.String).str.zfill(9)).alias("item")],
    },
    "two columns": {
        "user": [
            (pl.col("user_id") // 100).cast(pl.Int16).alias("account"),
            (pl.col("user_id") % 100).cast(pl.String).alias("session"),
        ],
        "item": [pl.col("item_id").cast(pl.UInt64).alias("item")],
    },
}
LAYOUTS = ("grouped", "shuffled", f"shuffled in {N_FILES} files")


@dataclass(frozen=True)
class Form:
    """One form of a log: files of truth and rankings, and the names of their columns."""

    truth: str
    rankings: str
    user: list[str]
    ordering: dict[str, str]  # rank = "rank", score = "score", or neither
    relevance: str | None


def digest_of(form: Form, *, threads: int) -> str:
    """SHA-256 of the report but for what each run has of its own."""
    ids: dict[str, object] = {"user": form.user, "item": "item"}
    judged = {} if form.relevance is None else {"relevance": form.relevance}
    tree = {
        "truth": {"path": form.truth, "columns": {**ids, **judged}},
        "rankings": [
            {"model": "model", "path": form.rankings, "columns": {**ids, **form.ordering}}
        ],
        "metrics": {"names": METRICS},
    }
    report = run_config(build_config(tree, name="same"), threads=threads)
    document = {k: v for k, v in json.loads(report.to_json()).items() if k not in OWN}
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def write(frame: pl.DataFrame, folder: Path, layout: str) -> str:
    """The path of a table in a layout; shuffled rows of a user are far apart."""
    folder.mkdir(parents=True)
    if layout == "grouped":
        frame.write_parquet(folder / "all.parquet", row_group_size=50_000)
        return str(folder / "all.parquet")
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=SEED)
    n_files = 1 if layout == "shuffled" else N_FILES
    size = -(-shuffled.height // n_files)
    for number in range(n_files):
        part = shuffled.slice(number * size, size)
        part.write_parquet(folder / f"{number:02}.parquet", row_group_size=50_000)
    return str(folder / "*.parquet")


def forms_of(data: Path, model: str, folder: Path) -> Iterator[tuple[str, Form]]:
    """Every form of a data set's test rows and one model's rankings, by name."""
    truth = pl.read_parquet(data / "interactions.parquet").filter(pl.col("split") == "test")
    rankings = pl.read_parquet(data / "rankings" / f"{model}.parquet")
    relevance = "rating" if "rating" in truth.columns else None
    for ids, recoding in RECODINGS.items():
        columns = [*recoding["user"], *recoding["item"]]
        user = [each.meta.output_name() for each in recoding["user"]]
        judged = truth.select(columns if relevance is None else [*columns, relevance])
        shown = rankings.select(*columns, "rank", "score")
        for layout in LAYOUTS:
            place = folder / ids / layout
            paths = (write(judged, place / "truth", layout), write(shown, place / "shown", layout))
            for order in ("rank", "score"):
                yield f"{ids}, {layout}, {order}", Form(*paths, user, {order: order}, relevance)
            if layout == "grouped":
                yield f"{ids}, {layout}, row order", Form(*paths, user, {}, relevance)
        lists = shown.group_by(user, maintain_order=True).agg("item")
        paths = (paths[0], write(lists, folder / ids / "lists", "grouped"))
        yield f"{ids}, lists", Form(*paths, user, {}, relevance)


@pytest.mark.usefixtures("jit")
@pytest.mark.some_cases(1)
@pytest.mark.parametrize("model", ["ease", "popularity"])
def test_one_log_in_every_form_gives_one_report(ml_100k, tmp_path, model):
    forms = forms_of(ml_100k, model, tmp_path)

    digests = {
        name: digest_of(form, threads=1 + number % 2) for number, (name, form) in enumerate(forms)
    }

    first = digests["integers, grouped, rank"]
    assert [name for name, digest in digests.items() if digest != first] == []
    assert len(digests) == 3 * (3 * 2 + 2)
