"""Tests of a mean difference over the same users, from its exact sums.

`delta` is always candidate - baseline, averaged over the users who have both values. Where no user
differs from another the standard error is 0, and t is infinite for two users as for a thousand: p
is then that of flipping their signs, which counts them (`p_alike`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.errors import RequestError

from .skewness import p_above, p_two_sided_of


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Outcome of a test over users.

    Args:
        statistic: of the test; NaN where it does not exist.
        p_value: from 0 to 1; NaN where the test does not exist.
        n: users that entered it.
        is_tail: the p-value is that of a tail beyond what was drawn.
        way: of ranks, above 0 where those of positive differences are the larger ones.
    """

    statistic: float
    p_value: float
    n: int
    is_tail: bool = False
    way: float = 0.0


def p_of_t_tests(
    deltas: Sequence[float],
    std_errors: Sequence[float | None],
    ns: Sequence[int],
    skewnesses: Sequence[float],
    dfs: Sequence[float],
) -> list[float]:
    """The p-values of Student's paired t tests of "the mean difference is 0", two-sided.

    They are mended as limits are (`skewness`), here and in the tests below.

    Args:
        deltas: mean differences.
        std_errors: of the mean differences; None below two users.
        ns: users with both values, or clusters of them.
        skewnesses: of the users' differences; NaN where unknown, which gives Student's p.
        dfs: degrees of freedom, n - 1 where users count alike.
    Source:
        Student 1908, Biometrika 6(1), 1-25; Hall 1992, JRSS B 54(1), 221-228.
    Example:
        >>> [round(p, 6) for p in p_of_t_tests([0.02], [0.008], [200], [math.nan], [199])]
        [0.013227]
    """
    statistics = [*map(_ratio, deltas, std_errors, ns)]
    found = p_two_sided_of(statistics, dfs, skewnesses, ns)
    for place, (t, df) in enumerate(zip(statistics, dfs, strict=True)):
        if math.isinf(t):
            found[place] = p_alike(df)
    return found


def non_inferiority_test(
    delta: float,
    std_error: float | None,
    n: int,
    *,
    margin: float,
    higher_is_better: bool = True,
    skewness: float = math.nan,
    df: float | None = None,
) -> PairedTest:
    """One-sided t test of "the candidate is worse by `margin` or more".

    Args:
        margin: above 0, in the unit of `delta`: the loss that would not matter.
        higher_is_better: of the metric; otherwise a positive delta is the worse one.
    Raises:
        RequestError: the margin is not above 0 or not finite [bad-margin].
    Source:
        Blackwelder 1982, Controlled Clinical Trials 3(4), 345-353.
    Example:
        >>> round(non_inferiority_test(-0.001, 0.008, 200, margin=0.02).p_value, 6)
        0.00925
    """
    check_margin(margin)
    sign = 1.0 if higher_is_better else -1.0
    return _above(sign * delta + margin, std_error, n, sign * skewness, df)


def equivalence_test(
    delta: float,
    std_error: float | None,
    n: int,
    *,
    margin: float,
    skewness: float = math.nan,
    df: float | None = None,
) -> PairedTest:
    """Two one-sided t tests of "the models differ by `margin` or more, either way".

    The statistic and the p-value are those of the side that says less. At level a, p <= a means
    that the 1 - 2a interval lies within -margin and margin.

    Args:
        margin: above 0, in the unit of `delta`: the difference that would not matter.
    Raises:
        RequestError: the margin is not above 0 or not finite [bad-margin].
    Source:
        Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 657-680.
    Example:
        >>> round(equivalence_test(-0.001, 0.008, 200, margin=0.02).p_value, 6)
        0.00925
    """
    check_margin(margin)
    return max(
        (_above(sign * delta + margin, std_error, n, sign * skewness, df) for sign in (1.0, -1.0)),
        key=lambda test: test.p_value,
    )


def check_margin(margin: float) -> None:
    """Raise unless `margin` is a size: the direction follows from the metric and the test.

    Raises:
        RequestError: the margin is not above 0 or not finite [bad-margin].
    """
    if not (math.isfinite(margin) and margin > 0.0):
        hint = "it is the size of a difference, in the metric's own unit: margin = 0.002"
        if math.isfinite(margin) and margin < 0.0:
            hint = f"it is a size without direction: margin = {-margin!r}"
        raise RequestError(
            f"margin is {margin!r}, not a number above 0", code="bad-margin", hint=hint
        )


def p_alike(df: float) -> float:
    """Two-sided p of a difference that all users share: 2 of the 2^n signs that they could have.

    Args:
        df: degrees of freedom, n - 1 where users count alike.
    Source:
        Fisher 1935, The Design of Experiments, section 21.
    Example:
        >>> p_alike(1), p_alike(5)
        (0.5, 0.03125)
    """
    return math.pow(2.0, -df)


def effect_size(delta: float, std_error: float | None, n: int) -> float:
    """Cohen's d of paired differences, delta / s; NaN below two users or without variance.

    Source:
        Cohen 1988, Statistical Power Analysis for the Behavioral Sciences, 2nd edition, 2.3.5.
    Example:
        >>> round(effect_size(0.02, 0.008, 200), 6)
        0.176777
    """
    if std_error is None or n < 2 or std_error == 0.0:
        return math.nan
    return delta / (std_error * math.sqrt(n))


def _above(
    excess: float, std_error: float | None, n: int, skewness: float, df: float | None
) -> PairedTest:
    """One-sided test of "the excess is not above 0"."""
    t, df = _ratio(excess, std_error, n), n - 1 if df is None else df
    if math.isinf(t):
        return PairedTest(t, 0.5 * p_alike(df) if t > 0.0 else 1.0, n)
    return PairedTest(t, p_above(t, df, skewness, n), n)


def _ratio(excess: float, std_error: float | None, n: int) -> float:
    if std_error is None or n < 2:
        return math.nan
    if std_error == 0.0:
        return math.copysign(math.inf, excess) if excess != 0.0 else 0.0
    return excess / std_error
