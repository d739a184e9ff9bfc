"""What a paired comparison can see: power, smallest detectable difference, users needed."""

import math
from typing import TYPE_CHECKING

from evalkit.errors import RequestError

from ._root import Floats, Places, root_of, roots_of
from ._scale import average_over_scale
from .distributions import normal_cdf, normal_quantile, t_quantile
from .intervals import check_level

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DEFAULT_POWER = 0.8
MOST_USERS = 10**15


def power_of(difference: float, std_dev: float, n: int, *, level: float) -> float:
    """The chance that a two-sided paired t test finds a true mean difference.

    By the noncentral t distribution; about 1e-12 accurate. NaN below two users.

    Args:
        difference: the true mean difference.
        std_dev: of the users' differences, their standard error times sqrt(n).
        n: users.
        level: of confidence: 0.95 is a test at 0.05.
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Johnson, Kotz and Balakrishnan 1995, Continuous Univariate Distributions 2, chapter 31.
    Example:
        >>> round(power_of(0.01, 0.2, 2000, level=0.95), 6)
        0.608367
    """
    check_level(level)
    if n < 2 or math.isnan(std_dev):
        return math.nan
    if std_dev == 0.0:
        return 1.0 if difference else 1.0 - level
    return _power(abs(difference) / std_dev * math.sqrt(n), n - 1, level)


def _power(noncentrality: float, df: float, level: float) -> float:
    limit = -t_quantile(0.5 * (1.0 - level), df)

    def beyond(s: float) -> float:
        return normal_cdf(noncentrality - limit * s) + normal_cdf(-noncentrality - limit * s)

    # where density times tail is largest, were the tail exp(-(limit s - noncentrality)^2 / 2)
    square, product = df + limit * limit, limit * noncentrality
    s = (product + math.sqrt(product * product + 4.0 * df * square)) / (2.0 * square)
    return min(1.0, average_over_scale(beyond, df, start=min(0.0, math.log(s))))


def smallest_difference(
    std_dev: float, n: float, *, level: float, power: float = DEFAULT_POWER
) -> float:
    """The true mean difference that a two-sided paired t test finds with chance `power`.

    NaN below two users.

    Args:
        std_dev: of the users' differences, their standard error times sqrt(n).
        n: users; or one more than the degrees of freedom, which need not be whole.
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range]; `power` is not above
            1 - level and below 1 [power-out-of-range].
    Example:
        >>> round(smallest_difference(0.2, 2000, level=0.95), 6)
        0.012535
    """
    check_level(level)
    check_power(power, level)
    if n < 2 or math.isnan(std_dev):
        return math.nan
    df = n - 1
    high = -t_quantile(0.5 * (1.0 - level), df) - t_quantile(1.0 - power, df) + 1.0
    while _power(high, df, level) < power:
        high *= 2.0
    found = root_of(lambda noncentrality: _power(noncentrality, df, level) - power, 0.0, high)
    return found * std_dev / math.sqrt(n)


def users_needed(
    difference: float, std_dev: float, *, level: float, power: float = DEFAULT_POWER
) -> int | None:
    """The fewest users, at least 2, with whom a two-sided paired t test has that power.

    None where no number helps: for a difference of 0 or more than 10^15 users.

    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range]; `power` is not above
            1 - level and below 1 [power-out-of-range].
    Example:
        >>> users_needed(0.01, 0.2, level=0.95)
        3142
    """
    check_level(level)
    check_power(power, level)
    if math.isnan(std_dev) or math.isnan(difference) or difference == 0.0:
        return None
    if std_dev == 0.0:
        return 2
    effect = abs(difference) / std_dev
    quantiles = normal_quantile(0.5 * (1.0 - level)) + normal_quantile(1.0 - power)
    root = abs(quantiles) / effect
    if not root < math.sqrt(MOST_USERS):
        return None

    def is_enough(n: int) -> bool:
        return _power(effect * math.sqrt(n), n - 1, level) >= power

    low, high = 1, max(2, math.ceil(root * root))  # the normal approximation asks for too few
    while not is_enough(high):
        low, high = high, high + max(1, high // 1000)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def smallest_share_differences(
    differing: Floats,
    ns: "npt.NDArray[np.int64]",
    *,
    level: float,
    power: float = DEFAULT_POWER,
) -> Floats:
    """The true differences of two shares of the same users that McNemar's mid-p finds so often.

    So many users differ as were seen, half of them each way, and those who make the difference
    come on top. By the normal approximation: enumerated, the power is 0 to 9 points above (0.05;
    most where fewest differ). Infinite where no difference is found.

    Args:
        differing: the share of users who differ where there is no difference, of each.
        ns: users.
    Source:
        Connor 1987, Sample Size for Testing Differences in Proportions for the Paired-Sample
        Design, Biometrics 43(1), 207-211.
    Example:
        >>> import numpy as np
        >>> smallest_share_differences(np.array([0.02]), np.array([300]), level=0.95).round(4)
        array([0.0392])
    """
    import numpy as np

    check_level(level)
    check_power(power, level)
    roots = np.sqrt(ns)

    def excess(places: Places, differences: Floats) -> Floats:
        reaches = _reaches_of_shares(differing[places], differences, level, power)
        return differences * roots[places] - reaches

    found = np.full(ns.size, np.inf)
    exists = np.flatnonzero(excess(np.arange(ns.size), np.ones(ns.size)) > 0.0)
    found[exists] = roots_of(
        lambda places, here: excess(exists[places], here),
        np.zeros(exists.size),
        np.ones(exists.size),
    )
    return found


def users_needed_of_shares(
    difference: float, differing: float, *, level: float, power: float = DEFAULT_POWER
) -> int | None:
    """The fewest users with whom McNemar's mid-p has that power, as `smallest_share_differences`.

    Example:
        >>> users_needed_of_shares(0.0392, 0.02, level=0.95)
        301
    """
    check_level(level)
    check_power(power, level)
    if not 0.0 < difference < 1.0:
        return None
    import numpy as np

    given = np.array([differing]), np.array([difference])
    root = float(_reaches_of_shares(*given, level, power)[0]) / difference
    return max(2, math.ceil(root * root)) if root < math.sqrt(MOST_USERS) else None


def _reaches_of_shares(
    differing: Floats, differences: Floats, level: float, power: float
) -> Floats:
    import numpy as np

    both = differing + differences
    squares = np.array([each**2 for each in differences.tolist()])  # as Python rounds them
    at_null = -normal_quantile(0.5 * (1.0 - level)) * np.sqrt(both)
    reaches: Floats = at_null - normal_quantile(1.0 - power) * np.sqrt(
        np.maximum(0.0, both - squares)
    )
    return reaches


def check_power(power: float, level: float) -> None:
    """Raise unless a test at `level` can have this power.

    Raises:
        RequestError: `power` is not above 1 - level and below 1 [power-out-of-range].
    """
    if not 1.0 - level < power < 1.0:
        message = f"power is {power!r}, not above {1.0 - level:g} and below 1"
        hint = "power = 0.8 finds such a difference four times in five"
        raise RequestError(message, code="power-out-of-range", hint=hint)


def units_of_two(
    difference: float,
    variances: tuple[float, float],
    shares: tuple[float, float],
    *,
    level: float,
    power: float = DEFAULT_POWER,
    is_normal: bool = False,
) -> tuple[int, int] | None:
    """The fewest units of two independent groups with whom a difference is found.

    Two-sided; by the noncentral t distribution with n_0 + n_1 - 2 degrees of freedom, or by normal
    quantiles. None where no number helps.

    Args:
        variances: of the values of a unit in each group; `shares` of all units.
    Raises:
        RequestError: as `smallest_difference`.
    Example:
        >>> units_of_two(0.5, (4.0, 4.0), (1.0, 1.0), level=0.95)
        (253, 253)
    """
    check_level(level)
    check_power(power, level)
    whole = shares[0] + shares[1]
    first, second = shares[0] / whole, shares[1] / whole
    unit = variances[0] / first + variances[1] / second  # variance of the difference times n
    if math.isnan(unit) or math.isnan(difference) or difference == 0.0:
        return None
    effect = abs(difference) / math.sqrt(unit) if unit > 0.0 else math.inf
    quantiles = normal_quantile(0.5 * (1.0 - level)) + normal_quantile(1.0 - power)
    n = (quantiles / effect) ** 2
    if not n < MOST_USERS:
        return None
    if not is_normal and effect < math.inf:
        low, high = max(n, 2.0 + 1e-9), max(2.0 * n, 8.0)
        while _power(effect * math.sqrt(high), high - 2.0, level) < power:
            high *= 2.0
        if _power(effect * math.sqrt(low), low - 2.0, level) < power:
            n = root_of(lambda n: _power(effect * math.sqrt(n), n - 2.0, level) - power, low, high)
        else:
            n = low
    return max(2, math.ceil(n * first - 1e-9)), max(2, math.ceil(n * second - 1e-9))
