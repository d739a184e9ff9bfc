"""A control chart over nights: what each night was expected to be, and what is out of order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from .distributions import normal_quantile, normal_sf, t_quantile, t_sf

OUTSIDE, TWO_OF_THREE, SHIFT, TREND = "outside", "two of three", "shift", "trend"
LIMIT, WARNING = 3.0, 2.0  # of a chart, in standard deviations
SAME_SIDE, SAME_WAY = 9, 6  # nights


@dataclass(frozen=True, slots=True)
class Expected:
    """What earlier nights say of one.

    Args:
        level: their mean, weighted by their standard errors; None of the first night.
        low, high: where the night was expected; None where fewer than two went before it.
        signals: of `outside`, `two of three`, `shift`, `trend`.
        shifted: place of the night with which the level shifted, where this night shows it.
    """

    level: float | None = None
    low: float | None = None
    high: float | None = None
    signals: tuple[str, ...] = ()
    shifted: int | None = None


def expect_nights(values: Sequence[float], errors: Sequence[float | None]) -> list[Expected]:
    """What is expected of each night, by its standard error and the nights before it alone.

    A night is held against the mean of the earlier ones, over the error of both. How far such
    distances spread beyond what errors say is learned from the nights themselves (never less than
    the errors), so a distance follows Student's t, and as a normal deviate it stands for itself:
    none depends on another. Signals are

    - `outside`: beyond 3 standard deviations;
    - `two of three`: this night and another of the last three beyond 2, on one side;
    - `shift`: nine nights on one side of the mean of those before them (of what each was held
      against, while these are fewer than nine); the level then is that of these nine;
    - `trend`: six nights, each above the one before, or each below.

    A night that is `outside` is left out of the level. One without error, or with an error of 0,
    is held against nothing.

    Args:
        values: night by night; errors: their standard errors.
    Source:
        Quesenberry 1991, Journal of Quality Technology 23(3), 213-224 (Q charts, which begin
        with the first nights); Laney 2002, Quality Engineering 14(4), 531-537 (spread beyond
        errors); Nelson 1984, Journal of Quality Technology 16(4), 237-239 (tests 1, 5, 2, 3).
    Example:
        >>> found = expect_nights([0.5, 0.5, 0.5, 0.8], [0.01] * 4)
        >>> round(found[3].low, 4), round(found[3].high, 4), found[3].signals
        (0.2782, 0.7218, ('outside',))
    """
    chart = _Chart()
    return [
        chart.judge(place, value, error)
        if error is not None and math.isfinite(error) and error > 0.0 and math.isfinite(value)
        else Expected()
        for place, (value, error) in enumerate(zip(values, errors, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class _Night:
    place: int
    value: float
    error: float
    deviate: float  # normal; NaN where nothing was expected


class _Chart:
    """Nights so far: their level since the last shift, and their distances from it."""

    def __init__(self) -> None:
        self.nights: list[_Night] = []
        self._begin()

    def _begin(self) -> None:
        self.weight = self.sum = self.squares = 0.0
        self.n = 0

    def judge(self, place: int, value: float, error: float) -> Expected:
        """What was expected of a night, which then counts itself."""
        level = low = high = None
        deviate = math.nan
        if self.n:
            level = self.sum / self.weight
        if level is not None and self.n > 1:
            df = self.n - 1
            spread = self._spread(error) * math.sqrt(max(1.0, self.squares / df))
            reach = t_quantile(1.0 - normal_sf(LIMIT), df) * spread
            low, high = level - reach, level + reach
            t = (value - level) / spread
            deviate = math.copysign(-normal_quantile(max(t_sf(abs(t), df), 1e-300)), t)
        self.nights.append(_Night(place, value, error, deviate))
        signals = self._signals()
        if OUTSIDE not in signals:
            self._count(value, error)
        shifted = None
        if SHIFT in signals:
            self._begin()
            self.nights = [replace(each, deviate=math.nan) for each in self.nights[-SAME_SIDE:]]
            for each in self.nights:
                self._count(each.value, each.error)
            shifted = self.nights[0].place
        return Expected(level, low, high, signals, shifted)

    def _spread(self, error: float) -> float:
        """The standard error of a night's distance from the level."""
        return math.sqrt(error * error + 1.0 / self.weight)

    def _count(self, value: float, error: float) -> None:
        if self.n:
            self.squares += ((value - self.sum / self.weight) / self._spread(error)) ** 2
        self.n += 1
        self.weight += 1.0 / error**2
        self.sum += value / error**2

    def _signals(self) -> tuple[str, ...]:
        """What the last night shows."""
        last = self.nights[-1].deviate
        found = []
        if abs(last) > LIMIT:
            found.append(OUTSIDE)
        far = [math.copysign(1.0, last) * each.deviate > WARNING for each in self.nights[-3:]]
        if far[-1] and sum(far) >= 2:
            found.append(TWO_OF_THREE)
        if self._has_shifted():
            found.append(SHIFT)
        values = [each.value for each in self.nights[-SAME_WAY:]]
        steps = [after - before for before, after in pairwise(values)]
        if len(values) == SAME_WAY and (min(steps) > 0.0 or max(steps) < 0.0):
            found.append(TREND)
        return tuple(found)

    def _has_shifted(self) -> bool:
        if len(self.nights) < SAME_SIDE:
            return False
        earlier = [each for each in self.nights[:-SAME_SIDE] if not abs(each.deviate) > LIMIT]
        away = [each.deviate for each in self.nights[-SAME_SIDE:]]
        if len(earlier) >= SAME_SIDE:
            weight = math.fsum(1.0 / each.error**2 for each in earlier)
            level = math.fsum(each.value / each.error**2 for each in earlier) / weight
            away = [each.value - level for each in self.nights[-SAME_SIDE:]]
        return all(each > 0.0 for each in away) or all(each < 0.0 for each in away)
