# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Intra-list diversity: distances of the pairs of a list, by vectors or genres."""

import math
from typing import Any, NamedTuple

import numpy as np

from evalkit.metrics import ATTENTION, PATIENCE, choice, kernel, list_metric, of_items
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import stands_in
from evalkit.metrics.lists.genres import sets

COSINE, JACCARD, HAMMING, COSINE_GENRES, HAMMING_GENRES, COLUMNS, COLUMNS_GENRES = range(7)
LEAVES, NO_RANK, UNLIKE = range(3)
ZERO, EMPTY, SHORT, UNDEFINED = 1, 2, 3, 1
OVER_PAIRS, OVER_N = 0, 1
MOST_SETS = 1024  # of genres, whose distances from each other are kept
AXES = (
    choice(
        "distance",
        {
            "cosine": "1 less the cosine of the vectors",
            "jaccard": "genres that one alone has, of those that either has",
            "hamming": "share of the vectors' numbers that differ",
            "cosine_genres": "1 less the cosine of the genres, as vectors of 0 and 1",
            "hamming_genres": "share of all genres that one alone has",
            "columns": "how many of the vectors' numbers differ",
            "columns_genres": "how many genres one alone has",
        },
        doc="How far two items are from each other.",
    ),
    choice(
        "unknown",
        {
            "leaves": "it leaves the pairs",
            "no_rank": "it takes no rank, and the next item moves up",
            "unlike": "it is like no other",
        },
        doc="An item outside the table of items, or without a vector.",
    ),
    choice(
        "single",
        {
            "nan": "undefined",
            "zero": "distance 0 of one item",
            "empty": "distance 0, of none too",
            "short": "distance 0 where a list shows no two items, known or not",
        },
        doc="A list with fewer than two items that can be held against each other.",
    ),
    choice(
        "zero_vector",
        {"unlike": "its cosine with all others is 0", "nan": "the list has no value"},
        doc="A vector of zeros.",
    ),
    choice(
        "pairs_den",
        {"pairs": "the pairs", "n": "the items, so that long lists score more"},
        doc="What the sum over the pairs is divided by.",
    ),
)


class Features(NamedTuple):
    """What distances are made of; arrays without rows where a distance needs none.

    `state` int8[n_items]: -1 unknown, 0 a vector of zeros, 1 another one; `rows`, `norms`: vectors;
    `codes` int32[n_items, columns]: equal numbers of a column share a code, `first` of them the
    code that its column begins with; `bits` uint64[n_items, words], `sizes`: genres; `sets`
    uint32[n_items], which genres each has, and `apart` float64[n_sets, n_sets], their distances.
    """

    state: Any
    rows: Any
    norms: Any
    codes: Any
    n_codes: int
    bits: Any
    sizes: Any
    sets: Any
    apart: Any


def needs_of(values):
    """Vectors or genres."""
    return ("vector",) if values["distance"] in ("cosine", "hamming", "columns") else ("genres",)


@of_items
def features(values, items):
    """What the distance asked for needs."""
    distance = str(values["distance"])
    size = items.is_listed.size
    rows, norms = np.zeros((0, 0)), np.zeros(0)
    bits, sizes = np.zeros((0, 0), dtype=np.uint64), np.zeros(0, dtype=np.int64)
    codes, n_codes = np.zeros((0, 0), dtype=np.int32), 0
    own, apart = np.zeros(0, dtype=np.uint32), np.zeros((0, 0))
    state = np.where(items.is_listed, 1, -1).astype(np.int8)
    if distance in ("cosine", "hamming", "columns"):
        rows, norms = items.vectors.rows, items.vectors.norms
        state = np.sign(norms).astype(np.int8)
    else:
        bits = items.genres.bits
        sizes = np.diff(items.genres.starts).astype(np.int64)
        if distance == "jaccard":
            own, apart = distances_of_sets(sets({"by": "genres"}, items))
        else:
            rows = np.zeros((size, len(items.genres.names)))
            rows[np.repeat(np.arange(size), sizes), items.genres.codes] = 1.0
            norms = np.sqrt(sizes)
            state[items.is_listed & (sizes == 0)] = 0
    if distance not in ("cosine", "jaccard", "cosine_genres"):
        columns = []
        for column in range(rows.shape[1]):
            each, places = np.unique(rows[:, column], return_inverse=True)
            columns.append(places + n_codes)
            n_codes += each.size
        codes = np.array(columns, dtype=np.int32).reshape(len(columns), size).T.copy()
    return Features(state, rows, norms, codes, n_codes, bits, sizes, own, apart)


def distances_of_sets(of_genres):
    """Which set each item has, and the Jaccard distances of all sets; nothing where they are many.

    Items share few sets of genres: a pair is looked up.
    """
    rows, sizes = of_genres.rows, of_genres.sizes
    if not 0 < rows.shape[0] <= MOST_SETS:
        return np.zeros(0, dtype=np.uint32), np.zeros((0, 0))
    both = rows @ rows.T
    either = np.add.outer(sizes, sizes) - both
    apart = np.where(either > 0.0, 1.0 - both / np.maximum(either, 1.0), 0.0)
    return of_genres.of_items.astype(np.uint32), apart


def tables(values, context):
    """The features of items."""
    return (features({"distance": values["distance"]}, context.items),)


M1, M2, M4 = 0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F
H01 = 0x0101010101010101


@kernel(allocates=False)
def count_bits(word):
    """How many bits of a uint64 are 1."""
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    word = word - ((word >> one) & np.uint64(M1))
    word = (word & np.uint64(M2)) + ((word >> two) & np.uint64(M2))
    word = (word + (word >> four)) & np.uint64(M4)
    return np.int64((word * np.uint64(H01)) >> np.uint64(56))


@kernel(allocates=False)
def jaccard_distance(bits, sizes, one, other):
    """Share of the genres of two items that one of them alone has; 0 of none."""
    both = 0
    for word in range(bits.shape[1]):
        both += count_bits(bits[one, word] & bits[other, word])
    either = sizes[one] + sizes[other] - both
    return 1.0 - both / either if either > 0 else 0.0


@kernel(allocates=False)
def cosine(rows, norms, one, other):
    """Cosine of the vectors of two items; 0 of a vector of zeros."""
    if norms[one] <= 0.0 or norms[other] <= 0.0:
        return 0.0
    total = 0.0
    for column in range(rows.shape[1]):
        total += np.float64(rows[one, column]) * np.float64(rows[other, column])
    return total / (norms[one] * norms[other])


@kernel(allocates=False)
def add_distances(some, one, others, sums):
    """Add the Jaccard distances of an item to others; of sets, where their distances are kept."""
    if some.apart.shape[0] > 0:
        row = some.apart[one]
        for each in range(sums.size):
            sums[each] += row[others[each]]
    else:
        for each in range(sums.size):
            sums[each] += jaccard_distance(some.bits, some.sizes, one, others[each])


@kernel(allocates=False)
def add_four(apart, known, first, sums):
    """Add the distances of four items of a list, one after the other, to each behind them.

    What is added up is read and written once for all four.
    """
    one, two, three, four = (
        apart[known[first]],
        apart[known[first + 1]],
        apart[known[first + 2]],
        apart[known[first + 3]],
    )
    sums[first + 1] += one[known[first + 1]]
    sums[first + 2] = sums[first + 2] + one[known[first + 2]] + two[known[first + 2]]
    last = known[first + 3]
    sums[first + 3] = sums[first + 3] + one[last] + two[last] + three[last]
    for place in range(first + 4, sums.size):
        other = known[place]
        sums[place] = sums[place] + one[other] + two[other] + three[other] + four[other]


@kernel(allocates=False)
def fill_far(lists, user, stop, most, some, known, far):
    """Fill `far` of the known items among the first places of a list.

    Args:
        most: known items that are looked at.
        known: uint32, room for them.
        far: of each the sum of its distances to those before it.
    """
    begin, n = lists.starts[user], 0
    for place in range(begin, begin + stop):
        item = lists.items[place]
        if some.state[item] >= 0 and n < most:
            known[n] = some.sets[item] if some.sets.size > 0 else np.uint32(item)
            far[n] = 0.0
            n += 1
    first = 0
    while some.apart.shape[0] > 0 and first + 4 <= n:
        add_four(some.apart, known, first, far[:n])
        first += 4
    for each in range(first, n):
        add_distances(some, known[each], known[each + 1 : n], far[each + 1 : n])


@kernel(allocates=False)
def add_item(item, some, distance, held, n_held, sums, counts):
    """Sum of the distances of an item to those that are held, and hold it too.

    Of cosines it adds the unit vector to `sums` instead, and gives 0.
    """
    total = 0.0
    if distance in (COSINE, COSINE_GENRES):
        if some.norms[item] > 0.0:
            for column in range(sums.size):
                sums[column] += some.rows[item, column] / some.norms[item]
    else:
        for column in range(some.codes.shape[1]):
            code = some.codes[item, column]
            total += n_held - counts[code]
            counts[code] += 1
    held[n_held] = item
    return total


@kernel
def mean_distance(
    lists, within, cutoffs, some, distance, unknown, single, zero_vector, pairs_den, out
):
    """Fill `out` with the mean distance of the pairs of items up to each cutoff."""
    # Wide: what a metric of its kind is given, and its own parameters.
    longest = 0
    for user in range(out.shape[0]):
        longest = max(longest, lists.lengths[user])
    held = np.empty(longest, dtype=np.int64)
    counts = np.zeros(some.n_codes, dtype=np.int64)
    is_cosine = distance in (COSINE, COSINE_GENRES)
    sums = np.zeros(some.rows.shape[1])
    known, far = np.empty(longest, dtype=np.uint32), np.empty(longest)
    last = out.shape[1] - 1
    for user in range(out.shape[0]):
        if distance == JACCARD:
            reach = lists.lengths[user] if unknown == NO_RANK else within[user, last]
            fill_far(lists, user, reach, cutoffs[last], some, known, far)
        begin, place, n, n_unlike, n_units, total = lists.starts[user], 0, 0, 0, 0, 0.0
        sums[:] = 0.0
        for column in range(out.shape[1]):
            stop = lists.lengths[user] if unknown == NO_RANK else within[user, column]
            while place < stop and (unknown != NO_RANK or n < cutoffs[column]):
                item = lists.items[begin + place]
                place += 1
                state = some.state[item]
                if state < 0:
                    n_unlike += unknown == UNLIKE
                else:
                    if distance == JACCARD:
                        total += far[n]
                    else:
                        total += add_item(item, some, distance, held, n, sums, counts)
                    n_units += state > 0
                    n += 1
            pairs, all_of_them = n * (n - 1) / 2.0, n + n_unlike
            distances = total
            if is_cosine:
                square = 0.0
                for each in range(sums.size):
                    square += sums[each] * sums[each]
                distances = pairs - (square - n_units) / 2.0
            elif distance == HAMMING or distance == HAMMING_GENRES:
                distances = total / max(some.codes.shape[1], 1)
            more = all_of_them * (all_of_them - 1) / 2.0 - pairs
            distances, pairs = distances + more, pairs + more
            if pairs > 0.0 and is_cosine and zero_vector == UNDEFINED and n_units < n:
                out[user, column] = math.nan
            elif pairs > 0.0:
                out[user, column] = distances / (pairs if pairs_den == OVER_PAIRS else all_of_them)
            else:
                is_zero = single == EMPTY or (single == ZERO and all_of_them > 0)
                is_zero = is_zero or (single == SHORT and place < 2)
                out[user, column] = 0.0 if is_zero else math.nan
        if not is_cosine and distance != JACCARD:
            for position in range(n):
                for column in range(some.codes.shape[1]):
                    counts[some.codes[held[position], column]] = 0


@list_metric(
    name="ild",
    aliases=("intra_list_diversity", "intra_list_distance"),
    summary="How different the items of a list are: the mean distance of its pairs.",
    formula="mean over pairs of items of the list of their distance",
    latex=r"\frac{2}{n(n-1)} \sum_{i<j} d(i, j)",
    source="Smyth and McClave 2001, Similarity vs. diversity, p. 351; Ziegler et al. 2005, "
    "Improving recommendation lists through topic diversification, p. 25",
    bounds=(0.0, 2.0),
    undefined="with fewer than two known items",
    parameters=AXES,
    needs=needs_of,
    tables=tables,
)
@kernel
def ild(lists, within, cutoffs, some, distance, unknown, single, zero_vector, pairs_den, out):
    """Mean distance of the pairs; of cosines by a sum of unit vectors, no pair is looked at."""
    mean_distance(
        lists, within, cutoffs, some, distance, unknown, single, zero_vector, pairs_den, out
    )


@list_metric(
    name="ils",
    aliases=("intra_list_similarity",),
    summary="How alike the items of a list are: 1 less the mean distance of its pairs.",
    formula="1 - mean over pairs of items of the list of their distance",
    latex=r"1 - \frac{2}{n(n-1)} \sum_{i<j} d(i, j)",
    source="Ziegler et al. 2005, Improving recommendation lists through topic diversification, "
    "p. 25",
    bounds=(-1.0, 1.0),
    undefined="with fewer than two known items",
    higher_is_better=False,
    parameters=AXES[:-1],
    needs=needs_of,
    tables=tables,
)
@kernel
def ils(lists, within, cutoffs, some, distance, unknown, single, zero_vector, out):
    """One less the mean distance of the pairs."""
    mean_distance(lists, within, cutoffs, some, distance, unknown, single, zero_vector, 0, out)
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[user, column] = 1.0 - out[user, column]


@list_metric(
    name="eild",
    aliases=("expected_intra_list_diversity",),
    summary="How different the relevant items of a list are, by the attention of their ranks.",
    formula="sum over hits i of w(i) * mean of d(i, j) over hits j, by w(max(1, j - i)) / sum of w",
    latex=r"\frac{\sum_i w(i) r_i \frac{\sum_{j \ne i} w(j - i) r_j d(i, j)}"
    r"{\sum_{j \ne i} w(j - i) r_j}}{\sum_i w(i)}",
    source="Vargas and Castells 2011, Rank and relevance in novelty and diversity metrics, p. 113",
    bounds=(0.0, 2.0),
    undefined="for a user without relevant items; with fewer than two known items",
    parameters=(
        choice(
            "distance",
            {
                "cosine": "1 less the cosine of the vectors",
                "jaccard": "genres that one alone has, of those that either has",
            },
            doc="How far two items are from each other.",
        ),
        ATTENTION,
        PATIENCE,
    ),
    needs=lambda values: (*needs_of(values), "relevant"),
    tables=lambda values, context: (
        features({"distance": values["distance"]}, context.items),
        context.relevant,
    ),
)
@kernel
def eild(lists, within, cutoffs, some, relevant, distance, attention, patience, out):
    """Each hit's mean distance to the others, kept as sums that grow with every hit."""
    longest = 0
    for user in range(out.shape[0]):
        longest = max(longest, within[user, out.shape[1] - 1])
    hits = np.empty(longest, dtype=np.int64)
    above, below = np.empty(longest), np.empty(longest)
    next_one = attention_of(1, attention, patience)
    for user in range(out.shape[0]):
        begin, place, n, known, weights = lists.starts[user], 0, 0, 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                weights += attention_of(place + 1, attention, patience)
                if some.state[item] >= 0:
                    known += 1
                    if stands_in(relevant, user, item):
                        above[n] = below[n] = 0.0
                        for number in range(n):
                            other = lists.items[begin + hits[number]]
                            if distance == COSINE:
                                far = 1.0 - cosine(some.rows, some.norms, other, item)
                            else:
                                far = jaccard_distance(some.bits, some.sizes, other, item)
                            weight = attention_of(place - hits[number], attention, patience)
                            above[number] += weight * far
                            below[number] += weight
                            above[n] += next_one * far
                            below[n] += next_one
                        hits[n] = place
                        n += 1
                place += 1
            total = 0.0
            for position in range(n):
                if below[position] > 0.0:
                    weight = attention_of(hits[position] + 1, attention, patience)
                    total += weight * above[position] / below[position]
            is_there = known > 1 and relevant.lengths[user] > 0
            out[user, column] = total / weights if is_there else math.nan
