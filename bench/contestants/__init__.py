"""One file a contestant, each with `prepare(log, labels, threads) -> Callable[[], Answer]`.

`prepare` may connect and compose a query; whatever reads the logs belongs into the call that it
returns, which is timed. A module that cannot be imported leaves its contestant out, with a word.
This file needs the standard library alone: peers import it from environments of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

METRICS = ("nDCG", "recall", "precision", "AP", "RR", "hit", "F1")
CUTOFFS = (1, 5, 10, 20, 50)
PEER_CUTOFF = 10

LINEAR, BINARY = "nDCG@10", "nDCG(gain='binary')@10"
OVER_MIN_K, OVER_RELEVANT = "AP@10", "AP(over='relevant')@10"
FOUR = (LINEAR, "recall@10", "precision@10", OVER_MIN_K)


@dataclass(frozen=True, slots=True)
class Contestant:
    """How tables call it, the libraries whose versions matter, and for a peer what it measures."""

    title: str
    libraries: tuple[str, ...]
    environment: str = ""  # of a peer: its folder below out/envs, made by peers.py
    labels: tuple[str, ...] = ()  # of a peer: evalkit's names for what it computes


CONTESTANTS = {
    "floor": Contestant("floor: Polars reads the columns", ("polars",)),
    "evalkit_call": Contestant("evalkit, warm process", ("evalkit", "polars", "numba", "numpy")),
    "evalkit_parts": Contestant("evalkit, one model at a time", ("evalkit",)),
    "evalkit_segments": Contestant("evalkit, split and compared", ("evalkit",)),
    "evalkit_labels": Contestant("evalkit, labels", ("evalkit",)),
    "evalkit_command": Contestant("evalkit, whole command", ("evalkit",)),
    "duckdb_query": Contestant("hand-written DuckDB", ("duckdb",)),
    "duckdb_process": Contestant("hand-written DuckDB, whole process", ("duckdb",)),
    "polars_query": Contestant("hand-written Polars", ("polars",)),
    "rectools_metrics": Contestant(
        "RecTools",
        ("RecTools", "pandas"),
        environment="rectools",
        labels=(BINARY, "recall@10", "precision@10", OVER_RELEVANT),
    ),
    "pytrec_eval_measures": Contestant(
        "pytrec_eval",
        ("pytrec_eval-terrier",),
        environment="pytrec_eval",
        labels=(LINEAR, "recall@10", "precision@10", OVER_RELEVANT),
    ),
    "replay_metrics": Contestant(
        "RePlay, Polars frames",
        ("replay-rec", "polars"),
        environment="replay",
        labels=(BINARY, "recall@10", "precision@10", OVER_MIN_K),
    ),
    "ranx_dictionaries": Contestant(
        "ranx, dictionaries in one order",
        ("ranx", "numba"),
        environment="ranx",
        labels=(LINEAR, "recall@10", "precision@10", OVER_RELEVANT),
    ),
    "ranx_objects": Contestant(
        "ranx, Qrels and Run",
        ("ranx", "numba"),
        environment="ranx",
        labels=(LINEAR, "recall@10", "precision@10", OVER_RELEVANT),
    ),
    "recommenders_functions": Contestant(
        "recommenders",
        ("recommenders", "pandas"),
        environment="recommenders",
        labels=(BINARY, "recall@10", "precision@10", OVER_MIN_K),
    ),
}


def no_report() -> str:
    """Of a contestant that has no report to compare byte for byte."""
    return ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Means by label, such as `nDCG@10`, and what else a contestant says of its run."""

    values: dict[str, float]
    notes: dict[str, object] = field(default_factory=dict)
    digest: Callable[[], str] = no_report  # called when the clock has stopped


Call: TypeAlias = Callable[[], Answer]
Prepare: TypeAlias = Callable[[Path, Sequence[str], int], Call]


def cutoffs_of(labels: Sequence[str]) -> list[int]:
    """The cutoffs of labels that have one."""
    return sorted({int(label.rpartition("@")[2]) for label in labels})
