"""How likely the truth's interactions were to be seen at all, read beside its items."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import CountedError
from evalkit.kernels import kernel
from evalkit.metrics import shifted
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM_KEY, USER_KEY, Sample, Share, as_array, as_keys
from evalkit.truth._index import Grades, count_of, find_item, start_of
from evalkit.truth._read import BATCH_ROWS, Truth, Weights, choose_rows
from evalkit.truth._table import find_entry

Values = npt.NDArray[np.float64]
PLACES = 1 << 16  # whose weights are added up together


@kernel(allocates=False)
def note_propensities(users, items, propensities, index, found):  # type: ignore[no-untyped-def]
    """Write each row's propensity beside its item; how many rows say another one than before."""
    table = index.table
    n_others = 0
    entry = np.int64(-1)
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            entry = find_entry(table, users[row], index.layout)
        if entry < 0:
            continue
        start, count = start_of(table, entry), count_of(table, entry, index.counts)
        place = find_item(index.lows, index.highs, items[row], start, count)
        if place < 0:  # what is not relevant may not be kept
            continue
        if found[place] == 0.0:
            found[place] = propensities[row]
        n_others += found[place] != propensities[row]
    return n_others


def with_weights(
    table: Table, truth: Truth, floor: float | None, sample: Sample | None, share: Share | None
) -> Truth:
    """The truth with what its items count by, of the rows that it was made of.

    Raises:
        DataError: propensities that are none, or two of one item [bad-propensity].
    """
    pairs = truth.pairs
    found = np.zeros(pairs.n_places)
    n_bad = n_others = 0
    ids = (*truth.user_plan.select(USER_KEY), *truth.item_plan.select(ITEM_KEY))
    columns = [*ids, pl.col("propensity").cast(pl.Float64).fill_null(0.0).alias("propensity")]
    with reading(table):
        for batch in table.stream(columns, most=BATCH_ROWS):
            rows, _, _ = choose_rows(batch, share, sample)
            propensities = as_array(rows["propensity"])
            are_bad = ~((propensities > 0.0) & (propensities <= 1.0))
            n_bad += int(are_bad.sum())
            users, items = as_keys(rows[USER_KEY]), as_keys(rows[ITEM_KEY])
            if not n_bad:
                n_others += int(note_propensities(users, items, propensities, pairs.index, found))
    _refuse(table, n_bad, n_others)
    n_raised = 0
    if floor is not None:
        is_raised = (found > 0.0) & (found < floor)
        found[is_raised] = floor
        n_raised = int((is_raised & (relevances(truth) >= truth.relevant_from)).sum())
    np.divide(1.0, found, where=found > 0.0, out=found)
    return replace(truth, weights=Weights(found, n_raised))


def _refuse(table: Table, n_bad: int, n_others: int) -> None:
    if n_bad:
        raise CountedError(
            "{n} rows of the truth have a propensity that is null, NaN, 0, negative or above 1",
            n_bad,
            code="bad-propensity",
            at=table.at,
            hint="what cannot be seen says nothing: leave such rows out by where; small ones are "
            "raised by min_propensity under [truth]",
        )
    if n_others:
        raise CountedError(
            "{n} rows of the truth have another propensity than an earlier row of their user's "
            "item",
            n_others,
            code="bad-propensity",
            at=table.at,
            hint="give an item of a user one propensity",
        )


def relevances(truth: Truth) -> Values:
    """float64[n_places], of each item; places between users hold anything."""
    grades = truth.pairs.grades
    if grades.codes.size:
        values: Values = grades.values[grades.codes]
        return values
    return grades.own if grades.own.size else np.ones(truth.pairs.n_places)


def relevant_weights(truth: Truth) -> Iterator[Values]:
    """Those of relevant items alone, float64, so many at a time as a core's cache holds."""
    assert truth.weights is not None
    found = truth.weights.of_places
    relevance = relevances(truth) if truth.pairs.grades.is_graded else None
    for begin in range(0, found.size, PLACES):
        part = found[begin : begin + PLACES]
        is_relevant = part > 0.0
        if relevance is not None:
            is_relevant &= relevance[begin : begin + PLACES] >= truth.relevant_from
        yield part[is_relevant]


def _gains(relevance: Values, gain: str, threshold: float) -> Values:
    if gain == "binary":
        return np.ones_like(relevance)
    if gain == "linear":
        return relevance
    if gain == "exp2_shifted":
        relevance = shifted(relevance, threshold)
    with np.errstate(over="ignore"):
        return np.exp2(relevance) - 1.0


def weigh(truth: Truth, gain: str, *, graded: bool) -> Truth:
    """The same truth, whose relevances are gains times weights; what counts by none has 0.

    Args:
        gain: linear, exp2, binary or exp2_shifted: what a relevance is worth.
        graded: items below the threshold have a gain too.
    """
    weights, grades = truth.weights, truth.pairs.grades
    assert weights is not None
    key = (gain, graded) if grades.is_graded else ("binary", False)
    if key not in weights.made:
        own = weights.of_places
        if grades.is_graded:
            relevance = relevances(truth)
            has_gain = relevance >= truth.relevant_from
            if graded:
                has_gain |= relevance > 0.0
            own = np.where(has_gain, _gains(relevance, gain, truth.threshold) * own, 0.0)
        pairs = replace(truth.pairs, grades=Grades(np.empty(0, np.uint8), grades.values, own))
        weights.made[key] = replace(truth, pairs=pairs, relevant_from=5e-324)
    return weights.made[key]
