"""All pairs of models over the same users: Tukey's test, and letters for those that are alike."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .distributions import f_sf, normal_quantile, normal_sf
from .intervals import NO_INTERVAL, Interval, check_level
from .paired import p_alike
from .studentised_range import SQRT_2, range_quantile, range_sf

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class TukeyPair:
    """One pair of models.

    Args:
        baseline: place of the one model.
        candidate: place of the other.
        delta: candidate - baseline.
        interval: simultaneous confidence limits of `delta`: all pairs hold at once.
        p_value: adjusted for all pairs; NaN where the test does not exist.
    """

    baseline: int
    candidate: int
    delta: float
    interval: Interval
    p_value: float


@dataclass(frozen=True, slots=True)
class Tukey:
    """Tukey's test of all pairs.

    Args:
        pairs: every pair once, in the order of the models.
        mean_square: residual variance when users' and models' effects are taken out.
        df: its degrees of freedom, (n - 1)(m - 1).
        f: the F statistic of "all models are alike".
        f_p_value: its p-value.
    """

    pairs: tuple[TukeyPair, ...]
    mean_square: float
    df: int
    f: float
    f_p_value: float


def tukey_test(
    means: Sequence[float],
    std_errors: Mapping[tuple[int, int], float | None],
    n: int,
    *,
    level: float,
) -> Tukey:
    """Tukey's honestly significant difference on the layout of users by models.

    The layout is users by models: users are the blocks of a randomised block design. What is left
    when their effects and those of the models are taken out has the mean square
    sum over pairs of s_ij^2 / (m (m - 1)),
    half the average variance of a paired difference: each user's squares around their mean are
    the squared differences of all pairs over m. So exact sums of the pairs' differences are all
    that is needed, and they merge.

    The test supposes one variance for all pairs, and knows neither skewness nor users not seen
    (`p_of_all_pairs` is for those). Where all users differ alike there is no variance: p is that
    of flipping their signs, by Bonferroni.

    Args:
        means: of the m models over the same n users, each of whom has a value of every model.
        std_errors: of the mean difference, for every pair (i, j) with i < j.
        n: users.
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Tukey 1953, The Problem of Multiple Comparisons; Carterette 2012, Multiple Testing in
        Statistical Analysis of Systems-Based Information Retrieval Experiments, ACM TOIS 30(1),
        article 4, section 4.
    Example:
        >>> errors = {(0, 1): 0.01, (0, 2): 0.01, (1, 2): 0.01}
        >>> found = tukey_test([0.30, 0.31, 0.36], errors, 100, level=0.95)
        >>> [round(pair.p_value, 6) for pair in found.pairs]
        [0.577729, 0.0, 4e-06]
    """
    check_level(level)
    m = len(means)
    places = [(i, j) for i in range(m) for j in range(i + 1, m)]
    errors = [error for place in places if (error := std_errors[place]) is not None]
    if m < 2 or n < 2 or len(errors) < len(places):
        missing = (TukeyPair(i, j, means[j] - means[i], NO_INTERVAL, math.nan) for i, j in places)
        return Tukey(tuple(missing), math.nan, 0, math.nan, math.nan)
    df = (n - 1) * (m - 1)
    mean_square = math.fsum(error * error for error in errors) * n / (m * (m - 1))
    error = math.sqrt(mean_square / n)
    reach = range_quantile(level, m, df) * error
    pairs = []
    for i, j in places:
        delta = means[j] - means[i]
        interval = Interval(delta - reach, delta + reach)
        if error > 0.0:
            p_value = range_sf(abs(delta) / error, m, df)
        else:
            p_value = min(1.0, len(places) * p_alike(n - 1)) if delta else 1.0
            interval = NO_INTERVAL if len(places) * p_alike(n - 1) > 1.0 - level else interval
        pairs.append(TukeyPair(i, j, delta, interval, p_value))
    between = math.fsum(pair.delta**2 for pair in pairs) * n / (m * (m - 1))
    f = between / mean_square if mean_square > 0.0 else math.inf if between > 0.0 else 0.0
    return Tukey(tuple(pairs), mean_square, df, f, f_sf(f, m - 1, df))


def p_of_all_pairs(p_value: float, n_models: int) -> float:
    """What a pair's own test says when all pairs of models are tested by one of their own.

    The range of normal means as far out as its p, which no pair's variance but its own is in.

    Source:
        Games and Howell 1976, Pairwise Multiple Comparison Procedures with Unequal N's and/or
        Variances, Journal of Educational Statistics 1(2), 113-125 (of t, with its own error).
    Example:
        >>> round(p_of_all_pairs(0.01, 2), 6), round(p_of_all_pairs(0.01, 4), 6)
        (0.01, 0.049105)
    """
    if n_models == 2 or not 0.0 < p_value < 1.0:
        return p_value
    return range_sf(-SQRT_2 * normal_quantile(0.5 * p_value), n_models, math.inf)


def error_of_one_pair(error: float, n_models: int) -> float:
    """The p of a pair's own test at which `p_of_all_pairs` is `error`.

    Example:
        >>> round(error_of_one_pair(0.05, 2), 6), round(error_of_one_pair(0.05, 4), 6)
        (0.05, 0.010198)
    """
    return 2.0 * normal_sf(range_quantile(1.0 - error, n_models, math.inf) / SQRT_2)


def group_letters(are_alike: Sequence[Sequence[bool]]) -> list[str]:
    """For each model its letters; two models share one exactly where they cannot be told apart.

    Args:
        are_alike: bool[n_models, n_models], symmetric, models from best to worst.
    Source:
        Piepho 2004, An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons,
        Journal of Computational and Graphical Statistics 13(2), 456-466.
    Example:
        >>> group_letters([[True, True, False], [True, True, True], [False, True, True]])
        ['a', 'ab', 'b']
    """
    n = len(are_alike)
    groups = [frozenset(range(n))] if n else []
    for i in range(n):
        for j in range(i + 1, n):
            if are_alike[i][j]:
                continue
            split = [group for group in groups if i in group and j in group]
            kept = [group for group in groups if not (i in group and j in group)]
            for part in (group - {out} for group in split for out in (i, j)):
                if not any(part <= other for other in kept):
                    kept = [other for other in kept if not other < part]
                    kept.append(part)
            groups = kept
    groups.sort(key=sorted)
    return ["".join(_letter(g) for g, group in enumerate(groups) if i in group) for i in range(n)]


def _letter(number: int) -> str:
    """a .. z, then a1 .. z1, a2 and so on."""
    again, letter = divmod(number, len(ALPHABET))
    return ALPHABET[letter] + (str(again) if again else "")
