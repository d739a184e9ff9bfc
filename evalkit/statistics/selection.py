"""The best of many trials: which cannot be told from it, what it will be worth, who may leave."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Flags, Floats, Ints, Keys
from evalkit.kernels.threads import ordered_map

from ._draws import CHUNK, GRID_BITS, MOST_USERS, TOGETHER, draw_poisson, start_streams
from ._grid import grid_exponent, to_grid
from .bootstrap import check_replicates, percentile_interval, refuse_users
from .distributions import t_quantile
from .exact import ExactSums
from .intervals import NO_INTERVAL, Interval, check_level, mean_interval
from .studentised_range import range_quantile

Choose = Callable[[Floats], Ints]


@dataclass(frozen=True, slots=True)
class Corrected:
    """What the chosen trial will be worth on other users.

    Args:
        value: the estimate; `interval`: its limits.
        chosen: int64[n_trials], in how many replicates each trial was chosen.
    """

    value: float
    interval: Interval
    chosen: Ints


def choose_best(means: Floats) -> Ints:
    """For each row of means the first of the largest.

    Example:
        >>> choose_best(np.array([[0.1, 0.3], [0.2, 0.2]])).tolist()
        [1, 0]
    """
    best: Ints = np.argmax(means, axis=1).astype(np.int64)
    return best


def exact_means(values: Floats) -> Floats:
    """float64[n_trials], rounded once, so that trials are equal where their users' sums are.

    Example:
        >>> exact_means(np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])).tolist()
        [0.2, 0.2]
    """
    sums = ExactSums(values.shape[1])
    for first in range(0, len(values), TOGETHER):  # no copy of all values
        sums.add(values[first : first + TOGETHER])
    return np.array([sums.sum_of(trial).mean for trial in range(values.shape[1])])


def corrected_estimate(
    values: Floats,
    keys: Keys,
    *,
    replicates: int,
    seed: int,
    level: float,
    threads: int,
    choose: Choose = choose_best,
) -> Corrected:
    """What a choice by these values is worth on users that it was not made by.

    In every replicate users have Poisson(1) weights, drawn by a hash as those of `Resamples`; a
    trial is chosen by the weighted means, and measured over the users of weight 0. The estimate is
    the mean over replicates. Its limits lie halfway between their percentiles, too far off since
    only 37 % of the users measure in each, and those of the winner's own mean moved there, too
    near since they know of no choice (`bench/selection.py` counts how often each holds).

    Args:
        values: float64[n_users, n_trials], none undefined, the larger the better; ties are won by
            the first trial.
        keys: uint64[n_users], stable hashes of the users' ids.
        choose: a trial for each row of float64[replicates, n_trials], the means in the bag.
    Raises:
        RequestError: there are too few replicates [too-few-replicates], or `level` is not above 0
            and below 1 [level-out-of-range].
        DataError: there are more than 33,554,432 users [too-many-users].
    Source:
        Tsamardinos, Greasidou and Borboudakis 2018, Bootstrapping the out-of-sample predictions
        for efficient and accurate cross-validation, Machine Learning 107, 1895-1922.
    Example:
        >>> values = np.tile([[0.2, 0.4], [0.5, 0.6], [0.1, 0.5], [0.4, 0.3]], (50, 1))
        >>> keys = np.arange(200, dtype=np.uint64)
        >>> of = {"replicates": 200, "seed": 1, "level": 0.95, "threads": 1}
        >>> found = corrected_estimate(values, keys, **of)
        >>> round(found.value, 6), found.chosen.tolist()
        (0.450947, [0, 200])
    """
    check_replicates(replicates)
    check_level(level)
    n_users, n_trials = values.shape
    if n_users > MOST_USERS:
        refuse_users(n_users)
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    exponent = grid_exponent(largest)
    exponents = np.full(n_trials, exponent, dtype=np.int64)
    starts = np.empty(n_users, dtype=np.uint64)
    start_streams(np.require(keys, np.uint64, ["C", "W"]), np.uint64(seed % 2**64), starts)
    chunks = -(-replicates // CHUNK) * CHUNK
    bags = np.zeros((n_trials, chunks), dtype=np.int64)
    outs, counts = np.zeros_like(bags), np.zeros((2, chunks), dtype=np.int64)

    def add(first: int) -> tuple[Ints, Ints, Ints]:
        block = slice(first, first + TOGETHER)
        grid, _ = to_grid(values[block], exponents)
        found = np.zeros_like(bags), np.zeros_like(bags), np.zeros_like(counts)
        room = np.empty((2 * n_trials + 2, CHUNK))
        add_bagged(starts[block], grid, replicates, *found, room, np.empty(CHUNK, np.int32))
        return found

    for found in ordered_map(add, range(0, n_users, TOGETHER), threads=threads):
        for whole, part in zip((bags, outs, counts), found, strict=True):
            whole += part
    used = slice(0, replicates)
    scale = 2.0 ** (exponent - GRID_BITS)
    with np.errstate(invalid="ignore", divide="ignore"):
        places = choose((bags[:, used] / counts[0, used]).T * scale)
        drawn = outs[places, np.arange(replicates)] / counts[1, used] * scale
    drawn = drawn[np.isfinite(drawn)]
    chosen = np.bincount(places, minlength=n_trials)
    if n_users < 2 or not drawn.size:
        return Corrected(math.nan, NO_INTERVAL, chosen)
    value = math.fsum(drawn) / drawn.size
    wide = percentile_interval(drawn, level=level)
    winner = values[:, choose(exact_means(values)[None])[0]]
    error = float(winner.std(ddof=1)) / math.sqrt(n_users)
    near = mean_interval(value, error, n_users, level=level)
    interval = Interval((wide.low + near.low) / 2, (wide.high + near.high) / 2)
    return Corrected(value, interval, chosen)


@kernel(allocates=False)
def add_bagged(starts, grid, n_replicates, bags, outs, counts, room, draws):  # type: ignore[no-untyped-def]
    """Add at most TOGETHER users to the sums in the bag, and out of it, of every replicate.

    Args:
        grid: float64[n_users, n_trials] of whole numbers.
        bags, outs: int64[n_trials, n_chunks * CHUNK]; counts: int64[2, n_chunks * CHUNK].
        room: float64[2 * n_trials + 2, CHUNK]; draws: int32[CHUNK].
    """
    n_users, n_trials = grid.shape
    weights, absent = room[2 * n_trials], room[2 * n_trials + 1]
    for first in range(0, n_replicates, CHUNK):
        for row in range(2 * n_trials):
            for place in range(CHUNK):
                room[row, place] = 0.0
        for user in range(n_users):
            draw_poisson(starts[user], first, draws, weights)
            for place in range(CHUNK):
                absent[place] = 1.0 if weights[place] == 0.0 else 0.0
                counts[0, first + place] += np.int64(weights[place])
                counts[1, first + place] += np.int64(absent[place])
            for trial in range(n_trials):
                value = grid[user, trial]
                if value == 0.0:
                    continue
                bag, out = room[trial], room[n_trials + trial]
                for place in range(CHUNK):
                    bag[place] += weights[place] * value
                    out[place] += absent[place] * value
        for trial in range(n_trials):
            for place in range(CHUNK):
                bags[trial, first + place] += np.int64(room[trial, place])
                outs[trial, first + place] += np.int64(room[n_trials + trial, place])


def halved_estimate(values: Floats, halves: Flags, choose: Choose) -> float:
    """Chosen by one half of the users and measured by the other, both ways, and averaged.

    Args:
        halves: bool[n_users], who is in the first half.
    Example:
        >>> values = np.array([[0.2, 0.4], [0.5, 0.6], [0.1, 0.5], [0.4, 0.3]])
        >>> halves = np.array([True, True, False, False])
        >>> round(halved_estimate(values, halves, choose_best), 6)
        0.45
    """
    first, second = (values.mean(axis=0, where=each[:, None]) for each in (halves, ~halves))
    chosen = choose(np.stack([first, second]))
    return float((second[chosen[0]] + first[chosen[1]]) / 2)


def paired_errors(values: Floats, best: int) -> Floats:
    """float64[n_trials], standard errors of the mean difference of each trial from the best.

    Example:
        >>> values = np.array([[0.2, 0.4], [0.5, 0.6], [0.1, 0.5], [0.4, 0.3]])
        >>> [round(each, 6) for each in paired_errors(values, 1).tolist()]
        [0.104083, 0.0]
    """
    n_users = values.shape[0]
    if n_users < 2:
        return np.full(values.shape[1], np.nan)
    means, squares = values.mean(axis=0), np.zeros(values.shape[1])
    means -= means[best]
    for first in range(0, n_users, TOGETHER):  # no copy of all values
        block = values[first : first + TOGETHER]
        squares += ((block - block[:, best : best + 1] - means) ** 2).sum(axis=0)
    errors: Floats = np.sqrt(squares / (n_users - 1) / n_users)
    return errors


def alike_reach(n_trials: int, n_users: int, *, level: float) -> float:
    """So many paired standard errors a trial may lie below the best, and not be told from it.

    Tukey's range over all trials, on the paired error of each pair: all pairs hold at once.

    Source:
        Games and Howell 1976, Pairwise multiple comparison procedures with unequal n's and/or
        variances, Journal of Educational Statistics 1(2), 113-125.
    Example:
        >>> round(alike_reach(10, 1000, level=0.95), 6)
        3.170888
    """
    if n_trials < 2:
        return 0.0
    if n_users < 2:
        return math.inf
    return range_quantile(level, n_trials, n_users - 1) / math.sqrt(2.0)


def hopeless(
    values: Floats, *, level: float, n_tests: int, keep: float, may: Sequence[bool] = ()
) -> tuple[list[int], list[float], list[float]]:
    """Trials that the paired interval says to be worse than the best that may win, worst first.

    At most a share of 1 - `keep` of them leaves, whatever the intervals say.

    Args:
        n_tests: tests of the whole race, by which 1 - level is split.
        may: which trials may win; by default all. Where none may, none leaves.
    Returns:
        Their places; for every trial its difference from the best, and the reach of its interval.
    Example:
        >>> values = np.array([[0.2, 0.4], [0.5, 0.6], [0.1, 0.5], [0.4, 0.3]])
        >>> out, deltas, _ = hopeless(values, level=0.95, n_tests=1, keep=0.5)
        >>> out, [round(each, 3) for each in deltas]
        ([], [-0.15, 0.0])
    """
    n_users, n_trials = values.shape
    means = values.mean(axis=0)
    is_open = np.array(may or [True] * n_trials)
    best = int(np.argmax(np.where(is_open, means, -np.inf)))
    errors = paired_errors(values, best)
    df = max(1, n_users - 1)
    reach = t_quantile(1 - (1 - level) / max(1, n_tests), df) * errors
    deltas = means - means[best]
    order: Sequence[int] = [int(each) for each in np.argsort(deltas, kind="stable")]
    most = n_trials - max(1, math.ceil(keep * n_trials))
    can_tell = n_users > 1 and is_open.any()
    out = [place for place in order if can_tell and deltas[place] + reach[place] < 0.0]
    return out[:most], deltas.tolist(), reach.tolist()
