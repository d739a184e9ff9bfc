"""One rating of several: majority, mean, median, and Dawid and Skene's estimate.

Axes are those of `agreement`: `ratings` is int64[n_units, n_judges], `MISSING` where a judge did
not rate; `levels` is float64[n_levels], ascending.

Source:
    Dawid and Skene 1979, Maximum Likelihood Estimation of Observer Error-Rates Using the EM
    Algorithm, Applied Statistics 28, 20-28.
"""

from dataclasses import dataclass

import numpy as np

from evalkit.kernels.arrays import Floats, Ints

from .agreement import level_counts

METHODS = ("majority", "mean", "median", "dawid-skene")
TIES = ("lower", "higher", "undefined")
FLOOR, SETTLED, MOST_ROUNDS = 1e-10, 1e-12, 10_000


@dataclass(frozen=True, slots=True)
class Votes:
    """What judges together say of every unit.

    Args:
        values: float64[n_units], NaN where nobody rated or a tie is left undefined.
        agreement: float64[n_units], the share of ratings at that value; of Dawid and Skene's
            estimate the largest posterior.
        tied: bool[n_units], where a rule for ties decided.
    """

    values: Floats
    agreement: Floats
    tied: Floats


@dataclass(frozen=True, slots=True)
class DawidSkene:
    """The estimate, when it has settled.

    Args:
        posterior: float64[n_units, n_levels], NaN where nobody rated.
        errors: float64[n_judges, n_levels, n_levels]: the chance that a judge gives the last
            axis' level to a unit whose true level is the middle axis'.
        prior: float64[n_levels].
        n_rounds: of the EM algorithm.
        settled: whether the posterior moved by less than 1e-12 at last.
    """

    posterior: Floats
    errors: Floats
    prior: Floats
    n_rounds: int
    settled: bool


def majority(ratings: Ints, levels: Floats, *, ties: str = "lower") -> Votes:
    """The level that most judges gave.

    Example:
        >>> ratings, levels = np.array([[0, 0, 1], [1, 1, -1]]), np.array([0.0, 1.0])
        >>> majority(ratings, levels).values.tolist()
        [0.0, 1.0]
    """
    return _largest(level_counts(ratings, len(levels)), levels, ties, slack=0.0)


def mean_rating(ratings: Ints, levels: Floats) -> Votes:
    """The mean of the levels that were given; agreement is the share at the commonest level.

    Example:
        >>> ratings, levels = np.array([[0, 0, 1], [1, 1, -1]]), np.array([0.0, 1.0])
        >>> mean_rating(ratings, levels).values.round(3).tolist()
        [0.333, 1.0]
    """
    counts = level_counts(ratings, len(levels))
    totals = counts.sum(axis=1)
    values = np.full(len(ratings), np.nan)
    np.divide(counts @ levels, totals, out=values, where=totals > 0)
    return Votes(values, _shares(counts.max(axis=1), totals), np.zeros(len(ratings), np.bool_))


def median_rating(ratings: Ints, levels: Floats, *, ties: str = "lower") -> Votes:
    """The middle rating; of an even number of ratings with two middles, `ties` says which.

    Example:
        >>> ratings, levels = np.array([[0, 0, 1], [1, 1, -1]]), np.array([0.0, 1.0])
        >>> median_rating(ratings, levels).values.tolist()
        [0.0, 1.0]
    """
    counts = level_counts(ratings, len(levels))
    totals = counts.sum(axis=1)
    running = np.cumsum(counts, axis=1)
    low = (running >= totals[:, None] / 2).argmax(axis=1)
    high = (running > totals[:, None] / 2).argmax(axis=1)
    tied = (low != high) & (totals > 0)
    chosen = high if ties == "higher" else low
    values = np.where((totals == 0) | (tied & (ties == "undefined")), np.nan, levels[chosen])
    given = np.take_along_axis(counts, chosen[:, None], axis=1)[:, 0]
    return Votes(values, _shares(given, totals), tied)


def dawid_skene(ratings: Ints, n_levels: int) -> DawidSkene:
    """Posterior of the true levels, from shares of votes on, by the EM algorithm.

    Example:
        >>> estimate = dawid_skene(np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0]]), 2)
        >>> estimate.settled, estimate.posterior.round(3).tolist()
        (True, [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    n_units, n_judges = ratings.shape
    counts = level_counts(ratings, n_levels)
    rated = counts.sum(axis=1) > 0
    given = (ratings[:, :, None] == np.arange(n_levels)).astype(np.float64)[rated]
    posterior = counts[rated] / counts[rated].sum(axis=1, keepdims=True)
    errors, prior = np.zeros((n_judges, n_levels, n_levels)), np.zeros(n_levels)
    n_rounds, settled = 0, not rated.any()
    while not settled and n_rounds < MOST_ROUNDS:
        n_rounds += 1
        prior = posterior.mean(axis=0)
        errors = np.maximum(np.einsum("ut,ujl->jtl", posterior, given), FLOOR)
        errors /= errors.sum(axis=2, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = np.log(prior) + np.einsum("ujl,jtl->ut", given, np.log(errors))
        logs -= logs.max(axis=1, keepdims=True)
        before, posterior = posterior, np.exp(logs)
        posterior /= posterior.sum(axis=1, keepdims=True)
        settled = bool(np.abs(posterior - before).max() < SETTLED)
    whole = np.full((n_units, n_levels), np.nan)
    whole[rated] = posterior
    return DawidSkene(whole, errors, prior, n_rounds, settled)


def likeliest(estimate: DawidSkene, levels: Floats, *, ties: str = "lower") -> Votes:
    """The level of the largest posterior; two that differ by less than 1e-9 tie.

    Example:
        >>> estimate = dawid_skene(np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0]]), 2)
        >>> likeliest(estimate, np.array([0.0, 1.0])).values.tolist()
        [0.0, 1.0, 0.0]
    """
    return _largest(estimate.posterior, levels, ties, slack=1e-9)


def _largest(scores: Floats, levels: Floats, ties: str, *, slack: float) -> Votes:
    scores = np.nan_to_num(scores, nan=0.0)
    totals, most = scores.sum(axis=1), scores.max(axis=1, keepdims=True)
    best = scores >= most - slack
    tied = (best.sum(axis=1) > 1) & (totals > 0)
    last = scores.shape[1] - 1 - best[:, ::-1].argmax(axis=1)
    chosen = last if ties == "higher" else best.argmax(axis=1)
    values = np.where((totals == 0) | (tied & (ties == "undefined")), np.nan, levels[chosen])
    return Votes(values, _shares(most[:, 0], totals), tied)


def _shares(parts: Floats, totals: Floats) -> Floats:
    shares = np.divide(parts, totals, out=np.full(parts.shape, np.nan), where=totals > 0)
    return np.asarray(shares)
