# mypy: disable-error-code="no-untyped-def"
"""What a rank among sampled items says of the rank among all of them.

Of the item at rank r among n, others that are drawn with replacement stand above it with the
chance x = (r - 1) / (n - 1): of m of them, binomially many. Sums and products alone are used, no
logarithm, which might differ from one machine to another.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from evalkit.errors import RequestError
from evalkit.kernels import kernel

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

RECALL, NDCG, RR = 0, 1, 2
MOST_OTHERS = 2000  # of a sample: solving takes the cube of it
NEGLIGIBLE = 1e-60  # against the likeliest number


@kernel(allocates=False)
def value_at(rank, cutoff, of):
    """The metric of one relevant item at a rank, which may lie between two."""
    if rank > cutoff:
        return 0.0
    if of == RECALL:
        return 1.0
    return 1.0 / (math.log2(1.0 + rank) if of == NDCG else rank)


@kernel(allocates=False)
def spread_out(chance, out):
    """Binomial probabilities of 0 to out.size - 1 hits, from the likeliest number outwards."""
    n = out.size - 1
    top = min(int((n + 1) * chance), n)
    for hits in range(n + 1):
        out[hits] = 0.0
    out[top] = 1.0
    total = 1.0
    if top < n:
        odds = chance / (1.0 - chance)
        for hits in range(top, n):
            out[hits + 1] = out[hits] * ((n - hits) / (hits + 1.0) * odds)
            total += out[hits + 1]
            if out[hits + 1] < NEGLIGIBLE:
                break
    if top > 0:
        odds = (1.0 - chance) / chance
        for hits in range(top, 0, -1):
            out[hits - 1] = out[hits] * (hits / (n - hits + 1.0) * odds)
            total += out[hits - 1]
            if out[hits - 1] < NEGLIGIBLE:
                break
    for hits in range(n + 1):
        out[hits] /= total


@kernel(allocates=False)
def add_ranks(catalogue, of, cutoffs, one, two, chances, pairs, wanted):
    """Sums over all ranks of a catalogue, each of the weight 1 / catalogue.

    Args:
        one, two: room for the numbers of hits of one sample and of two.
        chances: gets the probability of each number of hits.
        pairs: that of two samples together.
        wanted: gets for each number of hits and cutoff the metric times the probability.
    """
    for place in range(catalogue):
        chance = place / (catalogue - 1.0)
        spread_out(chance, one)
        spread_out(chance, two)
        for hits in range(one.size):
            chances[hits] += one[hits] / catalogue
        for hits in range(two.size):
            pairs[hits] += two[hits] / catalogue
        for column in range(cutoffs.size):
            value = value_at(place + 1.0, cutoffs[column], of)
            if value > 0.0:
                for hits in range(one.size):
                    wanted[hits, column] += one[hits] * (value / catalogue)


@kernel(allocates=False)
def fill_system(gamma, chances, pairs, system):
    """(1 - gamma) A'A + gamma diag(chances), of the probabilities A of hits by rank.

    Two samples of the same rank have j and k hits with the probability that both have j + k, times
    that of j of them being in the first: hypergeometric, whatever the rank.
    """
    m = chances.size - 1
    for both in range(2 * m + 1):
        first, last, middle = max(0, both - m), min(both, m), both // 2
        system[middle, both - middle] = 1.0
        total = 1.0
        for j in range(middle, last):
            ratio = (m - j) * (both - j) / ((j + 1.0) * (m - both + j + 1.0))
            system[j + 1, both - j - 1] = system[j, both - j] * ratio
            total += system[j + 1, both - j - 1]
        for j in range(middle, first, -1):
            ratio = j * (m - both + j) / ((m - j + 1.0) * (both - j + 1.0))
            system[j - 1, both - j + 1] = system[j, both - j] * ratio
            total += system[j - 1, both - j + 1]
        for j in range(first, last + 1):
            system[j, both - j] *= (1.0 - gamma) * (pairs[both] / total)
    for j in range(m + 1):
        system[j, j] += gamma * chances[j]


@kernel(allocates=False)
def solve_in_place(system, columns):
    """Cholesky's way through a symmetric, positive system; `columns` get the solutions.

    Whether it is positive as far as float64 sees.
    """
    n = system.shape[0]
    for row in range(n):
        for column in range(row + 1):
            total = system[row, column]
            for each in range(column):
                total -= system[row, each] * system[column, each]
            if row > column:
                system[row, column] = total / system[column, column]
            elif total > 0.0:
                system[row, row] = math.sqrt(total)
            else:
                return False
    for column in range(columns.shape[1]):
        for row in range(n):
            total = columns[row, column]
            for each in range(row):
                total -= system[row, each] * columns[each, column]
            columns[row, column] = total / system[row, row]
        for row in range(n - 1, -1, -1):
            total = columns[row, column]
            for each in range(row + 1, n):
                total -= system[each, row] * columns[each, column]
            columns[row, column] = total / system[row, row]
    return True


@lru_cache(maxsize=256)
def bias_variance(
    of: int, catalogue: int, sample: int, gamma: float, cutoffs: tuple[int, ...]
) -> "NDArray[float64]":
    """float64[sample + 1, n_cutoffs], the value of each rank in the sample, from 1 on.

    The values f minimise, over the ranks r of the catalogue, each of them as likely, the mean of
    (E[f | r] - metric(r))^2 + gamma Var[f | r].

    Raises:
        RequestError: a sample is too large to be solved for, or `gamma` too small [bad-sample].
    """
    import numpy as np

    if sample > MOST_OTHERS:
        raise RequestError(
            f"samples of {sample:,} others are more than the {MOST_OTHERS:,} that are solved for",
            code="bad-sample",
            hint="estimate='rank' is good enough for large samples",
        )
    one, two = np.zeros(sample + 1), np.zeros(2 * sample + 1)
    chances, pairs = np.zeros(sample + 1), np.zeros(2 * sample + 1)
    values = np.zeros((sample + 1, len(cutoffs)))
    wanted = np.array(cutoffs, dtype=np.int64)
    add_ranks(catalogue, of, wanted, one, two, chances, pairs, values)
    system = np.zeros((sample + 1, sample + 1))
    fill_system(gamma, chances, pairs, system)
    if not solve_in_place(system, values):
        message = f"gamma={gamma:g} is too small for a sample of {sample}"
        raise RequestError(message, code="bad-sample", hint="gamma=0.01 has little bias")
    return values


@kernel(allocates=False)
def add_groups(edges, one, chances):
    """The mean probability of each number of hits over the ranks of each group.

    `edges` int64[n_groups + 1]: ranks below the first and up to the last of each group.
    """
    catalogue = edges[-1]
    for group in range(edges.size - 1):
        n_ranks = edges[group + 1] - edges[group]
        for place in range(edges[group], edges[group + 1]):
            spread_out(place / (catalogue - 1.0), one)
            for hits in range(one.size):
                chances[group, hits] += one[hits] / n_ranks


@kernel(allocates=False)
def maximise(shares, chances, steps, weights, expected):
    """Steps of expectation maximisation of the weights of groups, which add up to 1.

    Args:
        shares: of the users that have each number of hits.
        expected: room for one number each.
    """
    for _ in range(steps):
        for hits in range(shares.size):
            expected[hits] = 0.0
        for group in range(weights.size):
            for hits in range(shares.size):
                expected[hits] += weights[group] * chances[group, hits]
        for hits in range(shares.size):
            expected[hits] = shares[hits] / expected[hits] if expected[hits] > 0.0 else 0.0
        for group in range(weights.size):
            factor = 0.0
            for hits in range(shares.size):
                factor += chances[group, hits] * expected[hits]
            weights[group] *= factor


@lru_cache(maxsize=16)
def _groups(catalogue: int, sample: int) -> "tuple[NDArray[int64], NDArray[float64]]":
    """Edges of groups of ranks, each about a fiftieth of those before it, and `add_groups`."""
    import numpy as np

    edges = [0]
    while edges[-1] < catalogue:
        edges.append(min(catalogue, edges[-1] + max(1, edges[-1] // 50)))
    found = np.array(edges, dtype=np.int64)
    chances = np.zeros((found.size - 1, sample + 1))
    add_groups(found, np.zeros(sample + 1), chances)
    return found, chances


def most_likely(shares: Sequence[float], of: int, catalogue: int, steps: int, cutoff: int) -> float:
    """The metric of the distribution of ranks under which such ranks in samples are likely.

    It starts with every rank as likely and is the same for all ranks of a group: every rank alone
    up to 50, then groups of a fiftieth of what is before them.

    Args:
        shares: of the users whose item has 0, 1, ... others of the sample above it; they add up
            to 1.
    """
    import numpy as np

    edges, chances = _groups(catalogue, len(shares) - 1)
    weights = np.diff(edges) / catalogue
    maximise(np.array(shares), chances, steps, weights, np.zeros(len(shares)))
    total = math.fsum(
        weight / float(last - first) * value_at.plain(rank + 1.0, cutoff, of)
        for weight, first, last in zip(weights.tolist(), edges[:-1], edges[1:], strict=True)
        for rank in range(int(first), min(int(last), cutoff))
    )
    return total / math.fsum(weights.tolist())
