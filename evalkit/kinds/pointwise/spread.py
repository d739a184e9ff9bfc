"""How far drawing other users moves numbers over all rows, which are smooth functions of sums."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats
from evalkit.kinds.pointwise.means import rest_of_product
from evalkit.metrics import Smooth, square_root
from evalkit.statistics.exact import SCALE_BITS, ExactSums

LEAST_CUBED, MOST_CUBED = 1e-90, 1e90  # errors whose cubes are numbers


@kernel(allocates=False)
def put_products(columns, pairs, triples, wide):  # type: ignore[no-untyped-def]
    """The columns, the product of each pair of them and what was lost when it was rounded, and that
    of each three.
    """
    n_columns = columns.shape[1]
    for row in range(columns.shape[0]):
        for place in range(n_columns):
            wide[row, place] = columns[row, place]
        for pair in range(pairs.shape[0]):
            a, b = columns[row, pairs[pair, 0]], columns[row, pairs[pair, 1]]
            place = n_columns + 2 * pair
            wide[row, place] = a * b
            wide[row, place + 1] = rest_of_product(a, b, a * b)
        for triple in range(triples.shape[0]):
            a, b, c = triples[triple]
            place = wide.shape[1] - triples.shape[0] + triple
            wide[row, place] = columns[row, a] * columns[row, b] * columns[row, c]


class TermSums:
    """Sums of users' terms, of their squares and products: what standard errors are made of.

    Args:
        numbers: whose terms they are.
        leaning: those of them whose skewness is asked for, if they are of one term or of two.
    """

    def __init__(self, numbers: Sequence[Smooth], *, leaning: Sequence[Smooth] = ()) -> None:
        self.terms = tuple(dict.fromkeys(term for each in numbers for term in each.terms))
        pairs = [pair for each in numbers for pair in combinations(self._places(each), 2)]
        self.pairs = tuple(dict.fromkeys((min(pair), max(pair)) for pair in pairs))
        threes = [each for one in leaning for each in self._triples_of(one)]
        self.triples = tuple(dict.fromkeys(threes))
        # each term, of each pair the product and what was lost when it was rounded, then of threes
        self.n_columns = len(self.terms) + 2 * len(self.pairs) + len(self.triples)
        self.sums = ExactSums(self.n_columns)

    def _places(self, number: Smooth) -> list[int]:
        return [self.terms.index(term) for term in number.terms]

    def _triples_of(self, number: Smooth) -> list[tuple[int, ...]]:
        places = sorted(self._places(number))
        return [*combinations_with_replacement(places, 3)] if len(places) <= 2 else []

    def add(self, columns: Floats) -> None:
        """Some users more: float64[n_users, n_terms]."""
        pairs = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        triples = np.array(self.triples, dtype=np.int64).reshape(-1, 3)
        wide = np.empty((columns.shape[0], self.n_columns))
        put_products(np.ascontiguousarray(columns), pairs, triples, wide)
        self.sums.add(wide)

    def merge(self, other: "TermSums") -> None:
        """Take over the sums of other users."""
        self.sums.merge(other.sums)

    def gradient(self, number: Smooth) -> tuple[float, ...] | None:
        """The gradient of a number at the sums over all users; None where there is none."""
        places = self._places(number)
        if any(self.sums.n_infinite(place) or self.sums.n_undefined(place) for place in places):
            return None
        return number.gradient([self.sums.sum_of(place).total for place in places])

    def std_error(self, number: Smooth) -> float | None:
        """Of a number, users drawn at random; None below two users or where it is not smooth.

        sqrt(n / (n - 1) sum of (influence - mean influence)^2), of exact sums.
        """
        gradient, places = self.gradient(number), self._places(number)
        n = self.sums.sum_of(places[0]).count
        if gradient is None or n < 2:
            return None
        slopes = dict(zip(places, map(Fraction, gradient), strict=True))
        total = spread = Fraction(0)
        for place, slope in slopes.items():
            found = self.sums.sum_of(place)
            total += slope * found.scaled
            spread += slope * slope * found.squares
        for one, other in combinations(sorted(slopes), 2):
            product = self._product(one, other)
            if product is None:
                return None
            spread += 2 * slopes[one] * slopes[other] * (product << SCALE_BITS)
        variance = Fraction(n, n - 1) * (spread - total * total / n) / (1 << 2 * SCALE_BITS)
        error = square_root(variance)
        return error if math.isfinite(error) else None

    def skewness(self, number: Smooth) -> float:
        """Of users' influences, which add up to 0; NaN where it is not known."""
        gradient, error = self.gradient(number), self.std_error(number)
        places, wanted = self._places(number), self._triples_of(number)
        n = self.sums.sum_of(places[0]).count
        if gradient is None or not error or n < 3:
            return math.nan
        if not wanted or not {*wanted} <= {*self.triples}:
            return math.nan
        if not LEAST_CUBED < error < MOST_CUBED:
            return math.nan
        slopes, cubes = dict(zip(places, gradient, strict=True)), []
        totals = [slopes[place] * self.sums.sum_of(place).total for place in places]
        if abs(math.fsum(totals)) > 1e-3 * error:
            return math.nan
        first = self.n_columns - len(self.triples)
        for triple in wanted:
            column = first + self.triples.index(triple)
            if self.sums.n_infinite(column):
                return math.nan
            times = 6 // math.prod(math.factorial(triple.count(each)) for each in {*triple})
            slope = math.prod(slopes[each] for each in triple)
            cubes.append(times * slope * self.sums.sum_of(column).total)
        return math.fsum(cubes) * n * n / (error * math.sqrt(n - 1)) ** 3

    def _product(self, one: int, other: int) -> int | None:
        """The exact sum of products of two terms, times 2^1074; None where one overflows."""
        first = len(self.terms) + 2 * self.pairs.index((one, other))
        if self.sums.n_infinite(first):
            return None
        return self.sums.sum_of(first).scaled + self.sums.sum_of(first + 1).scaled

    def influences(self, number: Smooth, columns: Floats) -> Floats | None:
        """float64[n_users] of the terms of some users, which are among those that were added."""
        gradient = self.gradient(number)
        if gradient is None:
            return None
        total = np.zeros(columns.shape[0])
        for place, slope in zip(self._places(number), gradient, strict=True):
            total += slope * columns[:, place]
        return total
