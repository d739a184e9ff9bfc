"""Measures metrics on lists written out by hand: one gain a rank, 0 for a miss."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evalkit.metrics import NO_CUTOFF, Hits, Metric, Relevant, registry

Gains = Sequence[float]


def measure(
    name: str,
    ranked: Sequence[Gains],
    relevant: Sequence[Gains],
    cutoffs: Sequence[int | None],
    *,
    metrics: Mapping[str, Metric] | None = None,
    **parameters: str | float,
) -> NDArray[np.float64]:
    """The metric's values, float64[n_users, n_cutoffs], columns in the order of `cutoffs`.

    Args:
        ranked: for each user the gain at each rank, 0 for an item that is not relevant.
        relevant: for each user the gains of all relevant items, shown or not, in any order.
        cutoffs: None for the whole list.
    """
    metric = (metrics or registry())[name]
    hits, gains, lengths = ragged_rows(ranked, relevant)
    wanted = np.array([NO_CUTOFF if each is None else each for each in cutoffs], dtype=np.int64)
    order = np.argsort(wanted, kind="stable")
    out = np.full((len(ranked), len(cutoffs)), -12345.0)
    metric.request(**parameters).measure(hits, gains, lengths, wanted[order], out)
    values = np.empty_like(out)
    values[:, order] = out
    return values


def ragged_rows(
    ranked: Sequence[Gains], relevant: Sequence[Gains]
) -> tuple[Hits, Relevant, NDArray[np.int64]]:
    """What kernels take: hits, relevant items and lengths."""
    shown = [[(rank, gain) for rank, gain in enumerate(row, 1) if gain != 0] for row in ranked]
    hits = Hits(
        _starts([len(row) for row in shown]),
        np.array([rank for row in shown for rank, _ in row], dtype=np.int32),
        np.array([gain for row in shown for _, gain in row], dtype=np.float64),
        np.array([g for row in shown for g in sorted((g for _, g in row), reverse=True)], float),
    )
    gains = Relevant(
        _starts([len(row) for row in relevant]),
        np.array([gain for row in relevant for gain in sorted(row, reverse=True)], float),
    )
    return hits, gains, np.array([len(row) for row in ranked], dtype=np.int64)


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def measure_states(
    name: str,
    shown: Sequence[float | None],
    missed: Gains,
    cutoffs: Sequence[int | None],
    **parameters: str | float,
) -> NDArray[np.float64]:
    """The values of one user, float64[n_cutoffs], of a metric of judgements.

    Args:
        shown: 1 for a relevant item, 0 for a judged one, -1 for one that was pooled and never
            judged, None for any other.
        missed: states of what the list lacks.
        cutoffs: ascending, None last.
    """
    ranks = [rank for rank, state in enumerate(shown, 1) if state is not None]
    states = [state for state in shown if state is not None]
    wanted = sorted([*states, *missed], reverse=True)
    hits = Hits(
        _starts([len(ranks)]),
        np.array(ranks, dtype=np.int32),
        np.array(states, dtype=float),
        np.array(sorted(states, reverse=True), dtype=float),
    )
    relevant = Relevant(_starts([len(wanted)]), np.array(wanted, dtype=float))
    out = np.full((1, len(cutoffs)), -12345.0)
    at = np.array([NO_CUTOFF if each is None else each for each in cutoffs], dtype=np.int64)
    lengths = np.array([len(shown)], dtype=np.int64)
    registry()[name].request(**parameters).measure(hits, relevant, lengths, at, out)
    return out[0]
