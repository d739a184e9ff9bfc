"""How likely the truth's interactions were to be seen at all, read beside its items."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from evalkit.errors import CountedError
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats
from evalkit.metrics import shifted
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM_KEY, USER_KEY, Sample, Share, as_array, as_keys
from evalkit.truth._index import Grades, count_of, find_item, relevance_at, start_of
from evalkit.truth._read import BATCH_ROWS, Propensities, Truth, Weights, choose_rows
from evalkit.truth._table import find_entry

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


@kernel(allocates=False)
def weigh_places(starts, counts, grades, propensities, rules, out):  # type: ignore[no-untyped-def]
    """Fill `out` with 1 / propensity of each item; how many relevant ones were raised to the floor.

    Args:
        rules: the floor, and the relevance that is relevant.
        out: float64[n_places], of zeros.
    """
    floor, relevant_from = rules
    n_raised = 0
    for user in range(starts.size):
        for place in range(starts[user], starts[user] + counts[user]):
            propensity = propensities[place]
            if propensity < floor:
                propensity = floor
                relevance = relevance_at(grades.codes, grades.values, grades.own, place)
                n_raised += relevance >= relevant_from
            out[place] = 1.0 / propensity
    return n_raised


def with_weights(
    table: Table, truth: Truth, floor: float | None, sample: Sample | None, share: Share | None
) -> Truth:
    """The truth with what its items count by, of the rows that it was made of.

    Raises:
        DataError: propensities that are none, or two of one item [bad-propensity].
    """
    found, pairs = truth.propensities or _read_beside(table, truth, sample, share), truth.pairs
    _refuse(table, found.n_bad, found.n_others)
    weights, rules = np.zeros(pairs.n_places), (floor or 0.0, truth.relevant_from)
    own = pairs.starts, pairs.counts, pairs.grades
    n_raised = int(weigh_places(*own, found.of_places, rules, weights))
    return replace(truth, propensities=None, weights=Weights(weights, n_raised))


def _read_beside(
    table: Table, truth: Truth, sample: Sample | None, share: Share | None
) -> Propensities:
    """Propensities of a truth of many relevances, or of sums of them, read once more."""
    pairs = truth.pairs
    found = np.zeros(pairs.n_places)
    n_bad = n_others = 0
    ids = (*truth.user_plan.select(USER_KEY), *truth.item_plan.select(ITEM_KEY))
    columns = [*ids, pl.col("propensity").cast(pl.Float64).fill_null(0.0).alias("propensity")]
    with reading(table):
        for batch in table.stream(columns, most=BATCH_ROWS):
            rows, _, _ = choose_rows(batch, share, sample)
            propensities = as_array(rows["propensity"])
            n_bad += Propensities.count_bad(propensities)
            users, items = as_keys(rows[USER_KEY]), as_keys(rows[ITEM_KEY])
            if not n_bad:
                n_others += int(note_propensities(users, items, propensities, pairs.index, found))
    return Propensities(found, n_bad, n_others)


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


def relevant_weights(truth: Truth) -> Iterator[Floats]:
    """Those of relevant items alone, float64, so many at a time as a core's cache holds."""
    assert truth.weights is not None
    found, grades = truth.weights.of_places, truth.pairs.grades
    for begin in range(0, found.size, PLACES):
        part = slice(begin, begin + PLACES)
        is_relevant = found[part] > 0.0
        if grades.codes.size:
            is_relevant &= (grades.values >= truth.relevant_from)[grades.codes[part]]
        elif grades.own.size:
            is_relevant &= grades.own[part] >= truth.relevant_from
        yield found[part][is_relevant]


def _gains(relevance: Floats, gain: str, threshold: float) -> Floats:
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

    Where relevances have codes, gains stand in their place, and weights beside them.

    Args:
        gain: linear, exp2, binary or exp2_shifted: what a relevance is worth.
        graded: items below the threshold have a gain too.
    """
    weights, grades = truth.weights, truth.pairs.grades
    assert weights is not None
    key = (gain, graded) if grades.is_graded else ("binary", False)
    if key not in weights.made:
        own, values = weights.of_places, grades.values
        if grades.is_graded:
            relevance = grades.values if grades.codes.size else grades.own
            has_gain = relevance >= truth.relevant_from
            if graded:
                has_gain |= relevance > 0.0
            gains = np.where(has_gain, _gains(relevance, gain, truth.threshold), 0.0)
            own, values = (own, gains) if grades.codes.size else (gains * own, values)
        pairs = replace(truth.pairs, grades=Grades(grades.codes, values, own))
        weights.made[key] = replace(truth, pairs=pairs, relevant_from=5e-324)
    return weights.made[key]
