"""Means and covariances of columns from exact sums; means and ratios of units, with covariates.

A ratio is linearised (the delta method), so that a ratio, its covariates and what CUPED makes of
them are sums of one kind: a vector of estimates with a covariance matrix a unit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.kernels.arrays import Floats, Ints
from evalkit.kernels.threads import slices_of
from evalkit.statistics.exact import SCALE_BITS, ExactSum, ExactSums

ROWS_TOGETHER = 1 << 18
NOISE = 1e-13  # of the terms that cancel: what is below it is rounding
LEAST_APART = 1e-10  # of correlated covariates, below which one says what the others say


def scales_of(columns: Floats) -> Ints:
    """The exponents that bring the largest value of each column near 1: of order no trace.

    Args:
        columns: float64[n_units, n_columns], finite.
    Example:
        >>> scales_of(np.array([[3.0, 0.001], [-8.0, 0.0]])).tolist()
        [4, -9]
    """
    if not columns.shape[0]:
        return np.zeros(columns.shape[1], dtype=np.int64)
    return np.array(np.frexp(np.abs(columns).max(axis=0))[1], dtype=np.int64)


def scale_to_one(value: float) -> float:
    """A power of two that brings a value near 1, so that its square is a number.

    Example:
        >>> scale_to_one(6.0)
        0.125
    """
    return math.ldexp(1.0, min(-math.frexp(value)[1], 1000))


def summed_columns(columns: Floats, scales: Ints) -> Floats:
    """What is added up of each unit: the columns at their scales, then the sum of each pair.

    Squares of the sums of pairs give the mixed products; columns of one scale lose nothing there.

    Example:
        >>> summed_columns(np.array([[2.0, 1.0]]), np.array([1, 0])).tolist()
        [[1.0, 1.0, 2.0]]
    """
    scaled = np.ldexp(columns, -scales)
    first, second = np.triu_indices(columns.shape[1], 1)
    return np.concatenate([scaled, scaled[:, first] + scaled[:, second]], axis=1)


@dataclass(frozen=True, slots=True)
class Moments:
    """Means of columns over units, and covariances over n - 1; NaN where there are none.

    Args:
        means: float64[n_columns]; `covariances`: float64[n_columns, n_columns].
    """

    n: int
    means: Floats
    covariances: Floats

    @classmethod
    @np.errstate(over="ignore")  # squares of 1e155 are infinite, and errors unknown
    def of(cls, sums: Sequence[ExactSum], scales: Ints) -> "Moments":
        """Of the exact sums of `summed_columns`: integers until the last division.

        Example:
            >>> one = [ExactSum(2, 4 << SCALE_BITS, 10 << 2 * SCALE_BITS)]  # of the values 1 and 3
            >>> found = Moments.of(one, np.array([0]))
            >>> found.means.tolist(), found.covariances.tolist()
            ([2.0], [[2.0]])
        """
        k, n = scales.size, sums[0].count
        means, covariances = np.full(k, np.nan), np.full((k, k), np.nan)
        if n:
            whole = n << SCALE_BITS
            means[:] = [np.ldexp(sums[i].scaled / whole, scales[i]) for i in range(k)]
        if n > 1:
            whole, place = 2 * n * (n - 1) << 2 * SCALE_BITS, k
            for i in range(k):
                own = 2 * (n * sums[i].squares - sums[i].scaled ** 2)
                covariances[i, i] = np.ldexp(own / whole, 2 * scales[i])
                for j in range(i + 1, k):
                    mixed = sums[place].squares - sums[i].squares - sums[j].squares
                    both = n * mixed - 2 * sums[i].scaled * sums[j].scaled
                    covariances[i, j] = np.ldexp(both / whole, scales[i] + scales[j])
                    covariances[j, i] = covariances[i, j]
                    place += 1
        return cls(n, means, covariances)


def moments_of(columns: Floats, scales: Ints) -> Moments:
    """Means and covariances of float64[n, n_columns], by exact sums.

    Example:
        >>> columns = np.array([[1.0], [3.0]])
        >>> moments_of(columns, scales_of(columns)).means.tolist()
        [2.0]
    """
    sums = ExactSums(scales.size * (scales.size + 1) // 2)
    for rows in slices_of(columns.shape[0], ROWS_TOGETHER):
        sums.add(summed_columns(columns[rows], scales))
    return Moments.of([sums.sum_of(place) for place in range(sums.n_columns)], scales)


@dataclass(frozen=True, slots=True)
class Terms:
    """Which columns an estimate and its covariates are made of: a mean, or a ratio of two."""

    value: tuple[int, int | None]
    covariates: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Linear:
    """An estimate and its covariates, as sums over units.

    Args:
        estimates: float64[1 + n_covariates], the value first; NaN where undefined.
        covariances: float64[1 + n_covariates, 1 + n_covariates], of one unit; over `n` that of
            the estimates.
        denominators: float64[1 + n_covariates], their means, 1 of what is no ratio.
    """

    n: int
    estimates: Floats
    covariances: Floats
    denominators: Floats

    @np.errstate(invalid="ignore")
    def variance(self, weights: Floats) -> float:
        """Of the sum of the estimates with these weights, one unit's."""
        terms = self.covariances * np.outer(weights, weights)
        found = float(terms.sum())
        return 0.0 if found < NOISE * float(np.abs(terms).sum()) else found


def linear_of(moments: Moments, terms: Terms, whole: Linear | None = None) -> Linear:
    """Means and ratios of columns, and how they vary together.

    Args:
        whole: of all strata together, where these units are one of them: a ratio is what the
            stratum adds to that of the sums, and strata add up to it.
    Source:
        Deng, Knoblich and Lu 2018, Applying the Delta Method in Metric Analytics, KDD, equation 3;
        Cochran 1977, Sampling Techniques, 3rd edition, 6.11 (the combined ratio estimate).
    Example:
        >>> two = Moments(50, np.array([0.3, 2.0]), np.array([[0.1, 0.2], [0.2, 2.0]]))
        >>> found = linear_of(two, Terms((0, 1)))
        >>> round(float(found.estimates[0]), 4), round(float(found.covariances[0, 0]), 5)
        (0.15, 0.02125)
    """
    rows = (terms.value, *terms.covariates)
    slopes = np.zeros((len(rows), moments.means.size))
    estimates, denominators = np.empty(len(rows)), np.ones(len(rows))
    for row, (above, below) in enumerate(rows):
        estimates[row] = moments.means[above]
        if below is None:
            slopes[row, above] = 1.0
            continue
        mean = denominators[row] = moments.means[below]
        ratio = moments.means[above] / mean if mean else np.nan
        estimates[row] = ratio
        if whole is not None:
            ratio, mean = whole.estimates[row], whole.denominators[row]
            left = moments.means[above] - ratio * moments.means[below]
            estimates[row] = ratio + left / mean if mean else np.nan
        slopes[row, above] += 1.0 / mean if mean else np.nan
        slopes[row, below] -= ratio / mean if mean else np.nan
    terms_of = np.einsum("ia,ab,jb->ijab", slopes, moments.covariances, slopes)
    found = terms_of.sum(axis=(2, 3))
    noise = NOISE * np.abs(terms_of).sum(axis=(2, 3))
    return Linear(moments.n, estimates, np.where(np.abs(found) < noise, 0.0, found), denominators)


def theta_of(whole: Linear) -> Floats:
    """What covariates explain, float64[n_covariates]: 0 of one that does not vary.

    Args:
        whole: of the units of all variants together, about their joint means.
    Source:
        Deng, Xu, Kohavi and Walker 2013, Improving the Sensitivity of Online Controlled
        Experiments by Utilizing Pre-Experiment Data, WSDM, equation 4.
    Example:
        >>> both = np.array([[4.0, 1.0], [1.0, 2.0]])
        >>> theta_of(Linear(9, np.zeros(2), both, np.ones(2))).tolist()
        [0.5]
    """
    own, mixed = whole.covariances[1:, 1:], whole.covariances[1:, 0]
    theta = np.zeros(mixed.size)
    varies = np.flatnonzero(np.diag(own) > 0.0)
    if not varies.size or not np.isfinite(whole.covariances).all():
        return theta
    own, mixed = own[np.ix_(varies, varies)], mixed[varies]
    size = np.sqrt(np.diag(own))
    alike = own / np.outer(size, size)
    if varies.size > 1 and np.linalg.cond(alike) > 1.0 / LEAST_APART:
        inverse = np.linalg.pinv(alike, rcond=LEAST_APART, hermitian=True)
        theta[varies] = inverse @ (mixed / size) / size
    else:
        theta[varies] = np.linalg.solve(alike, mixed / size) / size
    return theta


def added_by_units(columns: Floats, whole: Moments, terms: Terms) -> Floats:
    """float64[n_units], between -1 and 1: what each adds to an estimate, to the first order.

    Args:
        columns: float64[n_units, n_columns]; `whole`: of all of them.
    Example:
        >>> columns = np.array([[3.0, 1.0], [1.0, 3.0]])
        >>> added_by_units(columns, Moments(2, np.array([2.0, 2.0]), np.eye(2)), Terms((0, 1)))
        array([ 0.5, -0.5])
    """
    joint, added = linear_of(whole, terms), np.zeros(columns.shape[0])
    slopes = np.concatenate([[1.0], -theta_of(joint)])
    rows = terms.value, *terms.covariates
    for slope, estimate, mean, (above, below) in zip(
        slopes, joint.estimates, joint.denominators, rows, strict=True
    ):
        own = columns[:, above]
        if below is not None:
            own = own - estimate * columns[:, below]
        if slope and mean and np.isfinite(estimate):
            added += slope * own / mean
    scaled: Floats = np.ldexp(added, -scales_of(added[:, None])[0])
    return scaled
