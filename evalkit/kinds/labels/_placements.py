"""What single rows do to areas under curves: their influence, by the leading bits of their score.

An area is a function of where rows stand among those of the other label. What one row more would
move it by depends on its score and label alone, so it is looked up in a table; rows of one cell of
the leading bits count as tied.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.kinds.labels._kernels import AT_A_TIME
from evalkit.metrics import Term

MOST_UNDECIDED = 0.01  # share of pairs whose order the leading bits do not tell


@dataclass(frozen=True, slots=True)
class Placements:
    """The influence of a row on areas, by its cell and label.

    Args:
        least, shift: of the cells, as in `Leading`.
        terms: one an area.
        influence: float64[2, n_cells, n_terms], of rows with label 0 and 1,
            and some columns of 0.
    """

    least: int
    shift: int
    terms: tuple[Term, ...]
    influence: Floats


def is_area(term: Term) -> bool:
    """Whether a user's part of a sum is told by the influence of its rows on an area."""
    return isinstance(term, tuple) and term[0] in AREAS


def place_rows(
    least: int, shift: int, counts: Ints, terms: Sequence[Term], find_mixed: Callable[[], Flags]
) -> Placements | None:
    """Influences of rows on some areas.

    Args:
        counts: int64[n_cells, 2], rows with label 0 and 1; scores descend.
        find_mixed: bool[n_cells], cells with more than one score; only called where it matters.
    Returns:
        None where such cells leave more than one pair in a hundred undecided, or where there is
        no pair.
    Source:
        AUC: DeLong, DeLong and Clarke-Pearson 1988; clustered: Obuchowski 1997. The others are
        derivatives by the weight of a row of the sums that the metric is.
    """
    good, bad = counts[:, 1].astype(np.float64), counts[:, 0].astype(np.float64)
    pairs = good.sum() * bad.sum()
    if not terms or pairs == 0:
        return None
    most = MOST_UNDECIDED * pairs
    if shift > 0 and (good * bad).sum() > most and (good * bad)[find_mixed()].sum() > most:
        return None
    used = np.flatnonzero(counts[:, 0] | counts[:, 1])
    cells = _CellRows(good[used], bad[used])
    width = -(-len(terms) // AT_A_TIME) * AT_A_TIME
    influence = np.zeros((2, counts.shape[0], width))
    for place, term in enumerate(terms):
        name, parameter = cast(tuple[str, str | float], term)
        influence[:, used, place] = AREAS[name](cells, parameter).T
    return Placements(least, shift, tuple(terms), influence)


class _CellRows:
    """Rows of each cell, and in the cells above and below it."""

    def __init__(self, good: Floats, bad: Floats) -> None:
        self.good, self.bad = good, bad
        self.positives, self.negatives = float(good.sum()), float(bad.sum())
        self.down_to_1, self.down_to_0 = np.cumsum(good), np.cumsum(bad)
        self.above_1, self.above_0 = self.down_to_1 - good, self.down_to_0 - bad


def _auc(cells: _CellRows, ties: str | float) -> Floats:
    """DeLong's placements less the AUC."""
    half = 0.5 if ties == "half" else 0.0
    below = cells.negatives - cells.down_to_0
    won_1 = (below + half * cells.bad) / cells.negatives
    won_0 = (cells.above_1 + half * cells.good) / cells.positives
    auc = float((cells.good * won_1).sum() / cells.positives)
    return np.stack([(won_0 - auc) / cells.negatives, (won_1 - auc) / cells.positives], axis=1)


def _pr_auc(cells: _CellRows, integration: str | float) -> Floats:
    """A row moves its own term, and the precision at every score from its own down."""
    rows = cells.down_to_1 + cells.down_to_0
    precision = cells.down_to_1 / rows
    own, weight = precision, cells.good
    if integration == "trapezoid":
        own = (precision + np.concatenate([[1.0], precision[:-1]])) / 2.0
        weight = (cells.good + np.concatenate([cells.good[1:], [0.0]])) / 2.0
    area = float((cells.good * own).sum() / cells.positives)
    slopes = [-weight * cells.down_to_1 / rows**2, weight * cells.down_to_0 / rows**2]
    lower_0, lower_1 = (np.cumsum(each[::-1])[::-1] for each in slopes)
    return np.stack([lower_0, own - area + lower_1], axis=1) / cells.positives


def _partial_auc(cells: _CellRows, max_fpr: str | float) -> Floats:
    """Only negatives above the cut count; moving the cut itself changes nothing at first order."""
    share = float(max_fpr)
    width = np.clip(share * cells.negatives - cells.above_0, 0.0, cells.bad)
    part = np.divide(width, cells.bad, out=np.zeros(width.size), where=cells.bad > 0)
    half_1 = part * cells.good / 2.0
    area = float((width * (cells.above_1 + half_1)).sum()) / (cells.positives * cells.negatives)
    last = int(np.flatnonzero(width > 0.0)[-1])
    at_cut = float(cells.above_1[last] + part[last] * cells.good[last]) / cells.positives
    below = width.sum() - np.cumsum(width) + width * part / 2.0
    of_1 = (below / cells.negatives - area) / cells.positives
    lost = part * ((cells.above_1 + half_1) / cells.positives - at_cut)
    of_0 = (lost - (area - share * at_cut)) / cells.negatives
    return np.stack([of_0, of_1], axis=1)


AREAS: Mapping[str, Callable[[_CellRows, Any], Floats]] = {
    "AUC": _auc,
    "PR-AUC": _pr_auc,
    "partial-AUC": _partial_auc,
}
