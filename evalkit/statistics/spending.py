"""Bounds of several looks: of a planned number, and of any number that may come."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from evalkit.errors import RequestError
from evalkit.kernels.arrays import Floats

from ._root import root_of
from .distributions import normal_quantile, normal_sf

POINTS = 401
FARTHEST = 8.5  # standard deviations, beyond which nothing is left
_erfc = np.frompyfunc(math.erfc, 1, 1)


def spent(spending: str, fraction: float, error: float) -> float:
    """The error that is spent at a fraction of the information; two-sided.

    Args:
        spending: obrien-fleming, pocock, linear or power(rho=2).
    Raises:
        RequestError: no such function [unknown-spending].
    Source:
        Lan and DeMets 1983, Discrete Sequential Boundaries for Clinical Trials, Biometrika 70(3).
    Example:
        >>> round(spent("pocock", 0.5, 0.05), 6), spent("linear", 0.5, 0.05)
        (0.031006, 0.025)
    """
    t = min(1.0, fraction)
    if spending == "obrien-fleming":
        return 4.0 * normal_sf(-normal_quantile(0.25 * error) / math.sqrt(t))
    if spending == "pocock":
        return error * math.log1p((math.e - 1.0) * t)
    return error * float(t ** rho_of(spending))


def rho_of(spending: str) -> float:
    """The exponent of `linear` and `power(rho=...)`.

    Example:
        >>> rho_of("power(rho=2)")
        2.0
    """
    if spending == "linear":
        return 1.0
    text = spending.replace(" ", "")
    if text.startswith("power(rho=") and text.endswith(")"):
        try:
            rho = float(text[10:-1])
        except ValueError:
            rho = math.nan
        if rho > 0.0:
            return rho
    message = f"no spending function is called {spending!r}"
    hint = 'one of "obrien-fleming", "pocock", "linear", "power(rho=2)"'
    raise RequestError(message, code="unknown-spending", hint=hint)


def bounds_of(
    fractions: Sequence[float], spending: str, *, error: float = 0.05, sides: int = 2
) -> list[float]:
    """The |z| at each look from which on it stops; infinite where nothing is spent.

    Args:
        fractions: of the final information, rising, above 0; beyond 1 counts as 1.
        sides: 1 spends the error on one side.
    Source:
        Armitage, McPherson and Rowe 1969, JRSS A 132(2), 235-244 (the recursion).
    Raises:
        RequestError: fractions do not rise [bad-fractions]; no such function [unknown-spending].
    Example:
        >>> [round(each, 4) for each in bounds_of([0.5, 1.0], "obrien-fleming")]
        [2.9626, 1.9686]
    """
    try:
        times = tuple(min(1.0, float(each)) for each in fractions)
    except (TypeError, ValueError):
        times = ()
    if not times or not all(a < b for a, b in pairwise((0.0, *times))):
        message = f"the looks are at {fractions!r}, which do not rise from above 0 to 1"
        raise RequestError(message, code="bad-fractions", hint="looks=[0.25, 0.5, 0.75, 1.0]")
    return list(_bounds(times, spending, error, sides))


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(POINTS)


@lru_cache(maxsize=1024)
def _bounds(times: tuple[float, ...], spending: str, error: float, sides: int) -> tuple[float, ...]:
    found: list[float] = []
    before, used = 0.0, 0.0
    nodes, weights = _nodes()
    places, density = np.zeros(1), np.ones(1)  # where the sum is, and how much of it, at `before`
    for time in times:
        goal, step = spent(spending, time, error) - used, math.sqrt(time - before)
        used += goal
        beyond = _Beyond(places, density, math.sqrt(time), step, sides)
        bound = _root(beyond, goal)
        found.append(bound)
        edge = min(bound, FARTHEST) * math.sqrt(time)
        low = -edge if sides == 2 else -FARTHEST * math.sqrt(time)
        there = 0.5 * (edge - low) * nodes + 0.5 * (edge + low)
        kernel = np.exp(-0.5 * ((there[:, None] - places) / step) ** 2)
        density = (kernel * density).sum(axis=1) / (step * math.sqrt(2.0 * math.pi))
        density, places, before = density * weights * 0.5 * (edge - low), there, time
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Beyond:
    """How likely the sum is beyond a bound at the next look, having stopped at none before."""

    places: Floats
    density: Floats
    scale: float
    step: float
    sides: int

    def __call__(self, bound: float) -> float:
        edge = bound * self.scale
        tails = 0.5 * _tails((edge - self.places) / self.step)
        if self.sides == 2:
            tails += 0.5 * _tails((edge + self.places) / self.step)
        return float((self.density * tails).sum())


def _tails(z: Floats) -> Floats:
    return np.array(_erfc(z * math.sqrt(0.5)), dtype=np.float64)


def _root(beyond: Callable[[float], float], goal: float) -> float:
    """The bound beyond which as much lies as is to be spent."""
    if goal <= 0.0 or beyond(FARTHEST) > goal:
        return math.inf
    log_goal = math.log(goal)

    def short(bound: float) -> float:
        return log_goal - math.log(max(beyond(bound), 1e-300))

    return 0.0 if short(0.0) >= 0.0 else root_of(short, 0.0, FARTHEST, accuracy=1e-12)


@dataclass(frozen=True, slots=True)
class Sequential:
    """Limits and p-values that hold at any number of looks: the mixture over normal priors.

    Args:
        tightest_at: units of both variants at which limits are tightest.
        level: for which that is so.

    Source:
        Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024, Annals of Statistics 52(6),
        2613-2640, theorem 2.2; Robbins 1970, Annals of Mathematical Statistics 41(5), 1397-1409.
    """

    tightest_at: float
    level: float

    def mixed(self, n: float) -> float:
        """n times the mixing variance, in units of a unit's variance."""
        log_error = math.log(1.0 - self.level)
        return n * (-2.0 * log_error + math.log(1.0 - 2.0 * log_error)) / self.tightest_at

    def reach(self, error: float, n: float) -> float:
        """Standard errors from the estimate to either limit at a two-sided error.

        Example:
            >>> round(Sequential(5000.0, 0.95).reach(0.05, 5000.0), 4)
            3.0352
        """
        mixed = self.mixed(max(n, 1.0))
        return math.sqrt(2.0 * (mixed + 1.0) / mixed * math.log(math.sqrt(mixed + 1.0) / error))

    def p_value(self, z: float, n: float) -> float:
        """Two-sided: the error at which a limit is reached.

        Example:
            >>> round(Sequential(5000.0, 0.95).p_value(3.0352, 5000.0), 3)
            0.05
        """
        mixed = self.mixed(n)
        log = 0.5 * math.log1p(mixed) - 0.5 * z * z * mixed / (mixed + 1.0)
        return min(1.0, math.exp(min(0.0, log)))
