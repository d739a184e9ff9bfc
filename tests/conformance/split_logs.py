"""Runs over data sets laid out as `interactions.parquet` with a split, and `rankings/`."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from evalkit.config import build_config
from evalkit.pipeline import run_config
from evalkit.report import Report

Order = Literal["rank", "score", "rows"]
IDS = {"user": "user_id", "item": "item_id"}
NAMES = {"mrr": "RR", "map": "AP", "ndcg": "nDCG"}  # theirs -> ours
NAMES |= {"ndcg_linear": "nDCG", "ndcg_exp": "nDCG(gain='exp2')"}


def models_of(folder: Path) -> list[str]:
    """The models whose rankings the folder holds."""
    return sorted(path.stem for path in (folder / "rankings").glob("*.parquet"))


def evaluate_split(
    folder: Path,
    metrics: Sequence[str],
    *,
    order: Order = "rank",
    relevance: str | None = None,
    threshold: float | None = None,
    policies: Mapping[str, str] | None = None,
    per_user: bool = False,
) -> Report:
    """The report of all models of a data set on its test rows."""
    truth: dict[str, object] = {
        "path": "interactions.parquet",
        "where": "split = 'test'",
        "columns": IDS if relevance is None else {**IDS, "relevance": relevance},
    }
    if threshold is not None:
        truth["threshold"] = threshold
    ordering = {} if order == "rows" else {order: order}
    rankings = [
        {"model": model, "path": f"rankings/{model}.parquet", "columns": {**IDS, **ordering}}
        for model in models_of(folder)
    ]
    tree = {
        "truth": truth,
        "rankings": rankings,
        "metrics": {"names": list(metrics)},
        "policies": dict(policies or {}),
    }
    return run_config(build_config(tree, name="conformance", base=folder), per_user=per_user)


@cache
def recorded(path: Path) -> Any:
    """What a JSON file of reference values holds."""
    return json.loads(path.read_text())


def spelled(measure: str) -> str:
    """A measure of `expected.json`, such as `map@10`, as evalkit writes it."""
    name, _, cutoff = measure.partition("@")
    return f"{NAMES.get(name, name)}@{cutoff}"
