"""p-values of draws, and what lies beyond them.

Of 1,000 draws none gives a p below 1 / 1,001, which no correction for fifty tests or more can take
to 5 %. Where few of the draws lie as far as what was found, p is that of a tail which passes
through the draws' own last twentieth.
"""

import numpy as np

from evalkit.kernels.arrays import Floats

from .distributions import t_quantile, t_two_sided

FEWEST_BEYOND = 10  # draws as far as this many say by themselves how rare that is
SHARE_OF_TAIL = 0.05


def p_of_draws(draws: Floats, far: float, *, df: float) -> tuple[float, bool]:
    """Two-sided p of something at least so far from 0, and whether a tail had to say it.

    (1 + draws as far) / (1 + draws) where at least ten of them are; otherwise Student's tail,
    stretched so that it has the share of the draws beyond their last twentieth. It is a scale that
    is fitted, no shape: tails with fitted shapes (generalised Pareto) end, and give a p of 0.

    Args:
        draws: of the statistic where nothing differs, float64[n_draws]; NaN are left out.
        far: how far the statistic is from 0.
        df: of the tail; infinite for a normal one.
    Source:
        Knijnenburg, Wessels, Reinders and Shmulevich 2009, Fewer permutations, more accurate
        P-values, Bioinformatics 25(12), i161-i168 (when to leave the draws, and for what).
    Example:
        >>> draws = np.arange(1.0, 1000.0)
        >>> p_of_draws(draws, 500.0, df=np.inf)
        (0.501, False)
        >>> p_value, is_tail = p_of_draws(draws, 2000.0, df=np.inf)
        >>> round(p_value, 9), is_tail
        (3.9845e-05, True)
    """
    sizes = np.abs(draws[~np.isnan(draws)])
    as_far = int(np.count_nonzero(sizes >= far))
    counted = (1 + as_far) / (1 + sizes.size)
    n_tail = round(SHARE_OF_TAIL * sizes.size)
    if as_far >= FEWEST_BEYOND or n_tail == 0:
        return counted, False
    edge = float(np.partition(sizes, -n_tail)[-n_tail])
    if edge == 0.0:
        return counted, False
    at_edge = -t_quantile(0.5 * (1 + n_tail) / (1 + sizes.size), df)
    beyond = t_two_sided(far / edge * at_edge, df)
    return min(beyond, (1 + FEWEST_BEYOND) / (1 + sizes.size)), True
