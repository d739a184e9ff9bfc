"""Users who were not seen: what those who say nothing against a verdict may hide.

Twenty users who all gain say little of a population in which one in fifty loses much: such twenty
are drawn two times in three. Let R be what one user can differ by, and let the mean of what was
seen lie at distance x from the null, on the side of the verdict. If a share q = x / (x + R) of the
population lay R beyond the null, the mean would be the null; that n users show none of them has
chance (1 - q)^n. So no one-sided p is below that where too little was seen against the verdict.

Enough was seen where at least `FEWEST_AGAINST` users differ against the verdict, and `AGAINST` z^2
of them, z being the normal quantile of the level, and where the squares of all differences add up
to z^4 / `SQUARES` times the square of R: below that, differences are so small that one user whom
nobody has drawn weighs more than all who were. All were chosen by simulation (docs/statistics.md).

Where some were seen against the verdict, they may be fewer than there are. Users of that size come
by chance, as Poisson counts do, so no p is below the chance that so few come of a population whose
mean is the null (`p_few`). Their size is that of two points with the mean and the squares of all
who differ.

Where nobody knows how far a value can lie, R is the largest that was seen, and users of a kind that
is one in a hundred may lie further. Fewer than `FEWEST_SHOWING` may show none of these, so that
they count as `FURTHER` times as far away as the mean, too; fewer squares speak for themselves then.

Nothing here knows of pairs: of two groups of other users the share q may be hidden in either one,
so the p of their difference is no less than that of the smaller group, `n` being its users.
"""

import math
from dataclasses import dataclass

from .distributions import normal_quantile, normal_sf

FEWEST_AGAINST = 5
AGAINST = 1.3
SQUARES = 40.0
# where nobody knows how far a value can lie: users, or clusters, of a difference or a least value;
# users of a gate of a drop or a most; users who would make all squares, were each the largest
FEWEST_APART, FEWEST_UNKNOWN, FEWEST_CARRYING = 30, 200, 4
FEWEST_SHOWING = 300  # of whom 5 in 100 draws show nobody of a kind that is 1 % of all
FURTHER, SQUARES_OPEN = 5.0, 2.5  # times the mean, and what was seen of squares


def p_unseen(distance: float, widest: float, n: float) -> float:
    """The chance that n users show none of those who would make up for what was seen.

    Args:
        distance: from the null to the mean that was seen; 1 where it is not above 0.
        widest: what a user's value can differ by; infinite where that is not known, which gives 1.
        n: users, or one more than the degrees of freedom of those who vary together.
    Example:
        >>> round(p_unseen(0.002, 1.0, 1500), 4), round(p_unseen(0.001, 1.0, 20), 4)
        (0.0499, 0.9802)
    """
    if not distance > 0.0:
        return 1.0
    return math.exp(-n * math.log1p(distance / widest))


def reach_unseen(error: float, widest: float, n: float) -> float:
    """How far a limit is from the mean, so that `p_unseen` of that distance is `error`.

    Example:
        >>> round(reach_unseen(0.05, 1.0, 1500), 6)
        0.001999
    """
    return widest * math.expm1(-math.log(error) / n) if math.isfinite(widest) else math.inf


def p_standing(squares: float, widest: float, n_against: int) -> float:
    """The one-sided p down to which what was seen speaks for itself.

    Args:
        squares: the sum of the squares of all differences.
        n_against: users who differ against the verdict.
    Example:
        >>> round(p_standing(0.3689, 1.0, 20), 4), round(p_standing(20.0, 1.0, 5), 4)
        (0.025, 0.0249)
    """
    if n_against < FEWEST_AGAINST:
        return 1.0
    by_squares = math.sqrt(math.sqrt(SQUARES * squares) / widest)
    return normal_sf(min(by_squares, math.sqrt(n_against / AGAINST)))


def size_against(total: float, squares: float, n_against: int, n_for: int) -> float:
    """What one user who differs against a verdict differs by, were all of a side alike.

    Args:
        total: the sum of all differences, above 0 on the side of the verdict.
        squares: the sum of their squares.
    Example:
        >>> round(size_against(5 * 0.4 - 10 * 0.1, 5 * 0.16 + 10 * 0.01, 10, 5), 6)
        0.1
    """
    if not n_against:
        return 0.0
    n = n_against + n_for
    spread = math.sqrt(max(n * squares - total * total, 0.0) * (n_for / n_against))
    return max(spread - total, 0.0) / n


def p_few(distance: float, size: float, n: float, n_against: int) -> float:
    """The chance that so few differ against a verdict, each by `size`, where the null is true.

    Half of the chance of as many as were seen counts.

    Source:
        Breslow and Day 1987, Statistical Methods in Cancer Research 2, section 2.3 (Byar's
        approximation of Poisson tails).
    Example:
        >>> round(p_few(0.005, 0.5, 1000, 10), 4)
        0.0075
    """
    if not distance > 0.0 or not size > 0.0:
        return 0.0
    seen, expected = n_against + 0.5, n_against + n * distance / size
    away = math.cbrt(expected / seen) - 1.0 + 1.0 / (9.0 * seen)
    return normal_sf(3.0 * math.sqrt(seen) * away)


def reach_few(error: float, size: float, n: float, n_against: int) -> float:
    """How far a limit is from the mean, so that `p_few` of that distance is `error`.

    Example:
        >>> round(reach_few(0.025, 0.5, 1000, 10), 4)
        0.0039
    """
    z, seen = -normal_quantile(error), n_against + 0.5
    if not (z > 0.0 and size > 0.0):
        return 0.0
    root = 1.0 - 1.0 / (9.0 * seen) + z / (3.0 * math.sqrt(seen))
    return size * (seen * root * root * root - n_against) / n


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of users, by whom a verdict is given on all.

    Args:
        widest: what a user's value can differ by.
        n: users, as `p_unseen` takes them.
        n_against: those who differ against the verdict.
        squares: the sum of the squares of all differences.
        size: of the difference of those who differ against it; 0 where that is not known.
        mean: of values, where `widest` was seen, and nobody knows how far others lie.
    """

    widest: float
    n: float
    n_against: int
    squares: float
    size: float = 0.0
    mean: float = 0.0

    @property
    def _further(self) -> "Seen | None":
        """The same, were there a kind of users that lies further away, of whom none is seen."""
        if not (self.mean > 0.0 and self.n < FEWEST_SHOWING):
            return None
        return Seen(FURTHER * self.mean, self.n, self.n_against, SQUARES_OPEN * self.squares)

    def p_at_least(self, distance: float) -> float:
        """What a one-sided p is at least, for all that was not seen.

        Example:
            >>> round(Seen(1.0, 100, n_against=2, squares=0.5).p_at_least(0.02), 4)
            0.138
            >>> round(Seen(1.0, 100, n_against=20, squares=0.5).p_at_least(0.02), 4)
            0.0172
        """
        standing = p_standing(self.squares, self.widest, self.n_against)
        unseen = min(p_unseen(distance, self.widest, self.n), standing)
        if (further := self._further) is not None:
            unseen = max(unseen, further.p_at_least(distance))
        return max(unseen, p_few(distance, self.size, self.n, self.n_against))

    def reach_at_least(self, error: float) -> float:
        """How far a one-sided limit is from the mean at least: where `p_at_least` is `error`.

        Example:
            >>> round(Seen(1.0, 100, n_against=2, squares=0.5).reach_at_least(0.025), 4)
            0.0376
            >>> Seen(1.0, 100, n_against=20, squares=0.5).reach_at_least(0.025)
            0.0
        """
        few = reach_few(error, self.size, self.n, self.n_against)
        if (further := self._further) is not None:
            few = max(few, further.reach_at_least(error))
        if error > p_standing(self.squares, self.widest, self.n_against):
            return few
        return max(few, reach_unseen(error, self.widest, self.n))
