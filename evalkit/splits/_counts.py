"""How a share of rows becomes a number of rows, by the formulas that libraries use."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from evalkit.config import SplitSection
from evalkit.errors import warn
from evalkit.kernels.arrays import Int32s

FEW = 10  # users of whom one may well have half of the rows


def count_parts(n: int, rule: SplitSection) -> tuple[int, int]:
    """How many of the `n` latest rows are validation, and how many are test.

    The floats are computed as the libraries do, in the order of their operations; `floor` alone,
    the default, computes with the decimals as they are written.
    """
    if rule.ratios:
        n_validation, n_test = _of_ratios(n, rule)
    elif isinstance(rule.test, float) or isinstance(rule.validation, float):
        n_validation, n_test = _of_shares(n, rule)
    else:
        n_test, n_validation = int(rule.test or 0), int(rule.validation or 0)
    n_test = max(0, min(n_test, n - rule.min_train))
    return max(0, min(n_validation, n - n_test - rule.min_train)), n_test


def bounds_of(counts: Int32s, rule: SplitSection) -> tuple[list[Int32s], int]:
    """For each fold rows of each group, those left out, of test, of validation; -1: no part.

    Args:
        counts: rows of each group.
    Returns:
        These, and how many groups give fewer test rows than asked for.
    """
    n_folds = rule.folds or 1
    sizes, inverse = np.unique(counts, return_inverse=True)
    by_size: dict[int, tuple[int, int]] = {}
    bounds, fewer = [], 0
    for fold in range(n_folds):
        left_out = (n_folds - 1 - fold) * (rule.test if isinstance(rule.test, int) else 0)
        of_sizes = np.zeros((sizes.size, 4), dtype=np.int32)
        for place, size in enumerate(sizes.tolist()):
            n_left = min(left_out, size)
            rest = size - n_left
            n_validation, n_test = 0, 0
            if rest >= rule.min_rows and rest:
                if rest not in by_size:
                    by_size[rest] = count_parts(rest, rule)
                n_validation, n_test = by_size[rest]
            if rule.min_rows > size and rule.below_min == "drop":
                n_left = -1
            of_sizes[place] = size, n_left, n_test, n_validation
        if isinstance(rule.test, int):
            few = (of_sizes[:, 2] < rule.test) & (sizes > 0)
            fewer = int(np.count_nonzero(few[inverse]))
        bounds.append(of_sizes[inverse])
    return bounds, fewer


def _of_shares(n: int, rule: SplitSection) -> tuple[int, int]:
    least = rule.min_train
    count = _FORMULAS[rule.rounding]
    n_test = count(n, rule.test, least) if isinstance(rule.test, float) else int(rule.test or 0)
    rest = n - max(0, min(n_test, n - least))
    if not isinstance(rule.validation, float):
        return int(rule.validation or 0), n_test
    if not rule.validation:
        return 0, n_test
    of_all = rule.rounding in ("ceil", "round-test", "floor-test") and not rule.validation_of_rest
    return count(n if of_all else rest, rule.validation, least), n_test


def _of_ratios(n: int, rule: SplitSection) -> tuple[int, int]:
    total = math.fsum(rule.ratios)
    shares = [each / total for each in rule.ratios]
    if rule.rounding == "round-boundaries":
        bounds, cumulated = [], 0.0
        given = rule.ratios if total == 1 else tuple(shares)
        for share in given[:-1]:
            cumulated += share
            bounds.append(round(cumulated * n))
        ends = [*bounds, n]
        return (ends[1] - ends[0], n - ends[1]) if len(ends) == 3 else (0, n - ends[0])
    count = _FORMULAS[rule.rounding]
    if rule.rounding.startswith("parts-floor"):
        return _parts_floor(n, shares)
    n_test = count(n, shares[-1], rule.min_train)
    return (count(n, shares[1], rule.min_train) if len(shares) == 3 else 0), n_test


def _parts_floor(n: int, shares: list[float]) -> tuple[int, int]:
    counts = [int(share * n) for share in shares]
    counts[0] = n - sum(counts[1:])
    for place in range(1, len(counts)):
        if counts[0] <= 1:
            break
        if 0 < shares[-place] * n < 1:
            counts[-place] += 1
            counts[0] -= 1
    return (counts[1] if len(counts) == 3 else 0), counts[-1]


def _floor(n: int, share: float, least: int) -> int:
    exact = n * Fraction(repr(share))
    return 1 if 0 < exact < 1 and n > least else math.floor(exact)


def _fraction3(n: int, share: float, _: int) -> int:
    limit = round(1 - share, 3)
    return sum(round(place / n, 3) > limit for place in range(1, n + 1))


def _floor_test_1(n: int, share: float, _: int) -> int:
    return 1 if 0 < n * share < 1 and n > 1 else int(n * share)


_FORMULAS: Mapping[str, Callable[[int, float, int], int]] = {
    "floor": _floor,
    "floor-test": lambda n, share, _: int(n * share),
    "floor-test, at least 1 where train keeps 1": _floor_test_1,
    "floor-train": lambda n, share, _: n - math.floor(n * (1 - share)),
    "ceil-train": lambda n, share, _: n - math.ceil(n * (1 - share)),
    "ceil-test": lambda n, share, _: n - int(n * (1 - share)),
    "ceil": lambda n, share, _: math.ceil(share * n),
    "round-test": lambda n, share, _: round(n * share),
    "round-test, none becomes all": lambda n, share, _: round(n * share) or n,
    "fraction3": _fraction3,
    "round-boundaries": lambda n, share, _: n - round(n * (1 - share)),
    "parts-floor, at least 1 where train keeps 1": lambda n, share, _: _parts_floor(
        n, [1 - share, share]
    )[1],
}


def tell_of_one(counts: Int32s) -> None:
    """Warn where one of many has half of all rows: a machine, or an id of nobody."""
    n_rows, most = int(counts.sum()), int(counts.max(initial=0))
    n = int(np.count_nonzero(counts))
    if n > FEW and 2 * most >= n_rows > 0:
        warn(
            "one-has-half",
            f"one of {n:,} has {most:,} of {n_rows:,} rows",
            hint="a machine, or rows of no user? where leaves them out",
        )
