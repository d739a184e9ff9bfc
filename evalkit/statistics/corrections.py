"""p-values adjusted for the number of tests in their family."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.errors import RequestError

CORRECTIONS = ("holm", "bonferroni", "bh", "by", "none")


@dataclass(frozen=True, slots=True)
class Family:
    """A family of tests with adjusted p-values.

    Args:
        p_adjusted: one for each p-value as given, NaN for those left out.
        size: how many p-values the family has.
        errors: the p at which each was judged, at `error` of the whole family: p_adjusted <= error
            exactly where p <= errors. Limits at 1 - errors say the same as the corrected test.
        left_out: places of the p-values that were NaN; they are no tests and count for nothing.
    """

    p_adjusted: tuple[float, ...]
    size: int
    left_out: tuple[int, ...]
    errors: tuple[float, ...]


def adjust(p_values: Sequence[float], correction: str, *, error: float = 0.05) -> Family:
    """The family of these p-values, each compared with the level as if it stood alone.

    Args:
        p_values: from 0 to 1; NaN where a test does not exist.
        correction: "bonferroni" and "holm" bound the chance of a single false discovery in the
            family; "bh" (Benjamini and Hochberg, for independent or positively dependent tests)
            and "by" (Benjamini and Yekutieli, for any) bound the expected share of false ones
            among the discoveries; "none" leaves them.
        error: at which the family is judged.
    Raises:
        RequestError: no correction has that name [unknown-correction].
    Source:
        Holm 1979, Scandinavian Journal of Statistics 6(2), 65-70; Benjamini and Hochberg 1995,
        JRSS B 57(1), 289-300; Benjamini and Yekutieli 2001, Annals of Statistics 29(4), 1165-1188;
        and 2005, JASA 100(469), 71-81 (limits of what was picked).
    Example:
        >>> adjust([0.01, 0.04, 0.03], "holm").p_adjusted
        (0.03, 0.06, 0.06)
    """
    if correction not in CORRECTIONS:
        message = f"no correction is called {correction!r}"
        hint = f"one of {', '.join(CORRECTIONS)}"
        raise RequestError(message, code="unknown-correction", hint=hint)
    left_out = tuple(place for place, p in enumerate(p_values) if math.isnan(p))
    absent = set(left_out)
    places = [place for place in range(len(p_values)) if place not in absent]
    places.sort(key=p_values.__getitem__)
    tests, n = [p_values[place] for place in places], len(places)
    adjusted, errors = [math.nan] * len(p_values), [math.nan] * len(p_values)
    if correction == "none":
        scaled = tests
    elif correction == "bonferroni":
        scaled = [p * n for p in tests]
    elif correction == "holm":
        scaled = _rising([p * (n - before) for before, p in enumerate(tests)])
    else:
        factor = _factor(correction, n)
        scaled = [p * (factor * n / rank) for rank, p in enumerate(tests, 1)]
        scaled = [-p for p in reversed(_rising([-p for p in reversed(scaled)]))]
    scaled = [1.0 if p > 1.0 else p for p in scaled]
    n_found = sum(p <= error for p in scaled)
    shares = _shares(correction, n_found, n)
    for place, p, share in zip(places, scaled, shares, strict=True):
        adjusted[place], errors[place] = p, error * share
    return Family(tuple(adjusted), n, left_out, tuple(errors))


def _shares(correction: str, n_found: int, n: int) -> list[float]:
    """The shares of the family's error at which the p of each rank was judged.

    Holm stops at the first that it does not find, and judges no other. Procedures of false
    discoveries judge what they find by how many they find, all else by one more.
    """
    if correction == "none" or not n:
        return [1.0] * n
    if correction == "bonferroni":
        return [1.0 / n] * n
    if correction == "holm":
        return [1.0 / (n - min(rank, n_found)) for rank in range(n)]
    factor = _factor(correction, n)
    found, others = (min(n, number) / (factor * n) for number in (n_found, n_found + 1))
    return [found] * n_found + [others] * (n - n_found)


def _factor(correction: str, n: int) -> float:
    return 1.0 if correction == "bh" else math.fsum(1.0 / rank for rank in range(1, n + 1))


def _rising(values: list[float]) -> list[float]:
    largest = -math.inf
    rising = []
    for value in values:
        largest = max(largest, value)
        rising.append(largest)
    return rising
