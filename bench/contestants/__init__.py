"""One file a contestant, each with `prepare(log, cutoffs, threads) -> Callable[[], Answer]`.

`prepare` may connect and compose a query; whatever reads the logs belongs into the call that it
returns, which is timed. A module that cannot be imported leaves its contestant out, with a word.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

METRICS = ("nDCG", "recall", "precision", "AP", "RR", "hit", "F1")
CONTESTANTS = {  # module -> how tables call it, and the libraries whose versions matter
    "floor": ("floor: Polars reads the columns", ("polars",)),
    "evalkit_call": ("evalkit, warm process", ("evalkit", "polars", "numba", "numpy")),
    "evalkit_command": ("evalkit, whole command", ("evalkit",)),
    "duckdb_query": ("hand-written DuckDB", ("duckdb",)),
    "polars_query": ("hand-written Polars", ("polars",)),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Means by label, such as `nDCG@10`, and what else a contestant says of its run."""

    values: dict[str, float]
    notes: dict[str, object] = field(default_factory=dict)


Call: TypeAlias = Callable[[], Answer]
Prepare: TypeAlias = Callable[[Path, Sequence[int], int], Call]


def labels(cutoffs: Sequence[int]) -> list[str]:
    """The names of all numbers that a contestant has to give."""
    return [f"{metric}@{cutoff}" for metric in METRICS for cutoff in cutoffs]
