"""The Poisson bootstrap over users: replicates of means, added up in the pass over the users.

Every user has a Poisson(1) weight in every replicate, a hash of seed, user key and replicate
(`_draws` says which). A replicate is a weighted sum, so that all of it merges: memory is that of
replicates x columns x segments, never of users, and neither order nor threads nor shards can
change a bit. Users of one cluster share weights where they are given the cluster's key.

Values are rounded to a grid of 2^-36 of the largest possible one, so that their sums are whole
numbers. That moves a mean by 2^-37 of the largest value at most, before the estimate itself is put
back in its place: limits are those of the replicates plus estimate less mean on the grid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from evalkit.errors import DataError, RequestError
from evalkit.kernels.arrays import Floats, Int32s, Ints, Keys
from evalkit.statistics import _draws as draws

from ._draws import Drawn
from ._grid import check_segments, grid_exponent, skewness_of, spread_of, to_grid
from .distributions import normal_cdf, normal_quantile
from .intervals import NO_INTERVAL, Interval, check_level
from .paired import PairedTest
from .tails import p_of_draws

KINDS = ("percentile", "bca", "studentised")
FEWEST_REPLICATES = 100
EDGE, TINIEST = 0.025, 1e-12  # the share of draws that a tail passes through, and its last one
SEED_MASK = (1 << 64) - 1


def estimate_bytes(
    n_columns: int, *, replicates: int, n_segments: int = 1, squares: bool = False
) -> int:
    """Peak memory of one `Resamples`, of which every thread has one.

    Args:
        n_columns: values of a user: models x metrics x cutoffs.
        squares: for studentised limits.
    """
    n_sums = n_columns * (2 if squares else 1)
    chunks = -(-replicates // draws.CHUNK) * draws.CHUNK
    return 8 * n_segments * (chunks * (2 * n_sums + 1) + n_columns * draws.MOMENTS)


def check_replicates(replicates: int) -> None:
    """Raise unless there are enough replicates for their limits to mean something.

    Raises:
        RequestError: there are fewer than 100 [too-few-replicates].
    """
    if replicates < FEWEST_REPLICATES:
        message = f"replicates is {replicates}, fewer than {FEWEST_REPLICATES}"
        hint = "replicates = 1000 is enough for 95 % limits"
        raise RequestError(message, code="too-few-replicates", hint=hint)


@dataclass(slots=True, eq=False)
class Resamples:
    """Weighted sums of several columns of values in every replicate, while they are filled.

    Raises:
        ValueError: arrays, as those of a file, do not belong together.
    """

    replicates: int
    seed: int
    squares: bool
    n_users: int
    exponents: Ints
    sums: Ints
    totals: Ints
    missing: Ints  # made when a value is NaN
    moments: Ints

    def __post_init__(self) -> None:
        chunks = -(-self.replicates // draws.CHUNK) * draws.CHUNK
        n_segments, n_columns = len(self.totals), self.exponents.size
        sums = (n_segments, n_columns * (2 if self.squares else 1), chunks)
        shapes = [self.sums.shape, self.totals.shape, self.moments.shape]
        if shapes != [sums, sums[::2], (n_segments, n_columns, draws.MOMENTS)] or (
            self.missing.size and self.missing.shape != sums
        ):
            raise ValueError("resampled sums are of another shape")

    @classmethod
    def empty(
        cls,
        largest: Sequence[float],
        *,
        replicates: int,
        seed: int,
        n_segments: int = 1,
        squares: bool = False,
    ) -> "Resamples":
        """Sums of nobody yet.

        Args:
            largest: for each column a bound of the absolute values: 1 for most metrics and for
                their differences, or the largest value that was measured. Values up to the next
                power of two are taken.
            replicates: at least 100.
            seed: any integer; the report repeats it.
            n_segments: segments that are kept apart; all users together are their sum.
            squares: also keep what studentised limits need.
        Raises:
            RequestError: there are too few replicates [too-few-replicates].
        """
        check_replicates(replicates)
        exponents = np.array([grid_exponent(bound) for bound in largest], dtype=np.int64)
        n_columns = len(largest)
        n_sums = n_columns * (2 if squares else 1)
        chunks = -(-replicates // draws.CHUNK) * draws.CHUNK
        shapes = (n_segments, n_sums, chunks), (n_segments, chunks), (0, 0, 0)
        sums, totals, missing = (np.zeros(shape, dtype=np.int64) for shape in shapes)
        moments = np.zeros((n_segments, n_columns, draws.MOMENTS), dtype=np.int64)
        return cls(replicates, seed, squares, 0, exponents, sums, totals, missing, moments)

    def add(self, keys: Keys, values: Floats, segments: Int32s | None = None) -> None:
        """Add users.

        Args:
            keys: uint64[n_users], stable hashes of the ids; users of one key share all weights.
            values: float64[n_users, n_columns], NaN where undefined: left out of that column.
            segments: int32[n_users], below 0 for users to be left out.
        Raises:
            DataError: values are larger than their bound, or infinite [value-beyond-bound]; there
                are more than 33,554,432 users [too-many-users].
        """
        prepared = prepare_block(
            keys, values, segments, self.exponents, self.seed, len(self.totals)
        )
        if prepared is None:
            return
        starts, codes, grid, n_undefined = prepared
        self._count_users(codes.size)
        draws.add_moments(codes, grid, self.moments)
        if self.squares:
            squares = np.rint(np.ldexp(grid * grid, -draws.GRID_BITS))
            grid = np.concatenate([grid, squares], axis=1)
        if n_undefined and self.missing.size == 0:
            self.missing = np.zeros_like(self.sums)
        draws.add_weighted(
            starts,
            codes,
            grid,
            draws.POISSON,
            self.replicates,
            Drawn(self.sums, self.totals, self.missing),
            np.empty((2 * grid.shape[1] + 2, draws.CHUNK)),
            np.empty(draws.CHUNK, dtype=np.int32),
        )

    def merge(self, other: "Resamples") -> None:
        """Take over another thread's or shard's sums of the same columns, seed and segments."""
        self._count_users(other.n_users)
        self.sums += other.sums
        self.totals += other.totals
        self.moments += other.moments
        if other.missing.size:
            self.missing = self.missing + other.missing if self.missing.size else other.missing

    def over(self, segments: Ints) -> "Resamples":
        """The sums over some of the segments, as those of one."""
        own = (self.sums, self.totals, self.moments, self.missing)
        sums, totals, moments, missing = (
            each[segments].sum(axis=0, keepdims=True) if each.size else each for each in own
        )
        return replace(self, sums=sums, totals=totals, moments=moments, missing=missing)

    def _count_users(self, n_users: int) -> None:
        self.n_users += n_users
        if self.n_users > draws.MOST_USERS:
            refuse_users(self.n_users)

    def replicate_means(self, column: int) -> Floats:
        """float64[replicates], the column's mean in every replicate; NaN where no user has weight.

        It is of all segments together; `over` has single ones.
        """
        sums, weights = self._replicates_of(column)
        with np.errstate(invalid="ignore", divide="ignore"):
            means: Floats = np.ldexp(sums / weights, int(self.exponents[column]) - draws.GRID_BITS)
        return means

    def estimate(self, column: int) -> float:
        """The column's mean on the grid; NaN of nothing."""
        count, total = (int(each) for each in self._moments_of(column)[:2])
        scale = int(self.exponents[column]) - draws.GRID_BITS
        return math.ldexp(total / count, scale) if count else math.nan

    def interval(
        self, column: int, *, level: float, kind: str = "percentile", estimate: float | None = None
    ) -> Interval:
        """Confidence limits of the column's mean; none below two users.

        Args:
            level: above 0 and below 1.
            kind: "percentile", "bca", or "studentised", which needs `squares`.
            estimate: the exact mean; limits are moved by what the grid moved the mean.
        Raises:
            RequestError: `level` is not above 0 and below 1 [level-out-of-range].
        Source:
            Davison and Hinkley 1997, Bootstrap Methods and their Application, 5.2 and 5.3.
        """
        check_level(level)
        moments = self._moments_of(column)
        count, mean = int(moments[0]), self.estimate(column)
        if count < 2:
            return NO_INTERVAL
        estimate = mean if estimate is None else estimate
        if spread_of(moments) == 0:
            return Interval(estimate, estimate)
        means = self.replicate_means(column)
        if kind == "bca":
            found = bca_interval(means, mean, acceleration(moments), level=level)
        elif kind == "studentised":
            errors = self._replicate_errors(column)
            own_error = self._own_error(column)
            found = studentised_interval(means, errors, mean, own_error, level=level)
        else:
            found = percentile_interval(means, level=level)
        return Interval(found.low + (estimate - mean), found.high + (estimate - mean))

    def test(self, column: int) -> PairedTest:
        """Two-sided test of "the column's mean is 0", of the replicates moved to a mean of 0.

        Studentised where `squares` were kept. p is (1 + replicates at least as far off) /
        (1 + replicates), or that of Student's tail where these are few (`tails`); NaN below two
        users.

        Source:
            Sakai 2006, Evaluating evaluation metrics based on the bootstrap, SIGIR, 525-532.
        """
        moments = self._moments_of(column)
        mean, count = self.estimate(column), int(moments[0])
        if count < 2:
            return PairedTest(mean, math.nan, count)
        shifts = self.replicate_means(column) - mean
        far = abs(mean)
        if self.squares and spread_of(moments) > 0:
            with np.errstate(invalid="ignore", divide="ignore"):
                shifts = shifts / self._replicate_errors(column)
            far /= self._own_error(column)
        p_value, is_tail = p_of_draws(shifts, far, df=count - 1)
        return PairedTest(mean, p_value, count, is_tail)

    def _replicates_of(self, column: int) -> tuple[Ints, Ints]:
        sums = self.sums[:, column, : self.replicates].sum(axis=0)
        weights = self.totals[:, : self.replicates].sum(axis=0)
        if self.missing.size:
            weights = weights - self.missing[:, column, : self.replicates].sum(axis=0)
        return sums, weights

    def _moments_of(self, column: int) -> Ints:
        whole: Ints = self.moments[:, column].sum(axis=0)
        return whole

    def _replicate_errors(self, column: int) -> Floats:
        n_columns = self.exponents.size
        sums, weights = self._replicates_of(column)
        squares, _ = self._replicates_of(n_columns + column)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.ldexp(sums / weights, -draws.GRID_BITS)
            variances = np.ldexp(squares / weights, -draws.GRID_BITS) - means * means
            errors = np.sqrt(np.maximum(variances, 0.0) / (weights - 1))
        errors[errors == 0.0] = np.nan
        scaled: Floats = np.ldexp(errors, int(self.exponents[column]))
        return scaled

    def _own_error(self, column: int) -> float:
        moments = self._moments_of(column)
        count = int(moments[0])
        return math.ldexp(
            math.sqrt(spread_of(moments) / (count * count * (count - 1))),
            int(self.exponents[column]) - 30,
        )


def refuse_users(n_users: int) -> NoReturn:
    """Raise, since whole-number sums of more users might not fit.

    Raises:
        DataError: always [too-many-users].
    """
    message = f"{n_users:,} users are too many to resample, which takes {draws.MOST_USERS:,}"
    hint = 'method = "normal" has no limit; so many users need no bootstrap'
    raise DataError(message, code="too-many-users", hint=hint)


def prepare_block(
    keys: Keys,
    values: Floats,
    segments: Int32s | None,
    exponents: Ints,
    seed: int,
    n_segments: int,
) -> tuple[Keys, Int32s, Floats, int] | None:
    """Starts of the streams, codes in ascending order, values on the grid, how many are NaN.

    Raises:
        DataError: values are larger than their bound [value-beyond-bound].
    """
    codes = np.zeros(keys.size, dtype=np.int32) if segments is None else segments
    if segments is not None and keys.size and codes.min() != codes.max():
        order = np.argsort(codes, kind="stable")
        order = order[np.searchsorted(codes[order], 0) :]
        keys, values, codes = keys[order], values[order], codes[order]
    if keys.size == 0 or codes[0] < 0:
        return None
    codes = check_segments(codes, n_segments)
    grid, n_undefined = to_grid(values, exponents)
    keys = np.require(keys, np.uint64, ["C", "W"])
    starts = np.empty(keys.size, dtype=np.uint64)
    draws.start_streams(keys, np.uint64(seed & SEED_MASK), starts)
    return starts, codes, grid, n_undefined


def acceleration(moments: Ints) -> float:
    """BCa's acceleration of a mean: a sixth of the skewness over sqrt(n), as the jackknife gives.

    Args:
        moments: int64[MOMENTS] of one column.
    Source:
        Efron 1987, Better Bootstrap Confidence Intervals, JASA 82(397), equation 6.6.
    """
    skewness = skewness_of(moments)
    return 0.0 if math.isnan(skewness) else skewness / (6.0 * math.sqrt(int(moments[0])))


def percentile_interval(replicates: Floats, *, level: float) -> Interval:
    """The quantiles (1 - level) / 2 and (1 + level) / 2 of the replicates of any statistic.

    Args:
        replicates: float64[n_replicates]; NaN are left out.
    Example:
        >>> limits = percentile_interval(np.arange(101.0), level=0.9)
        >>> round(limits.low, 6), round(limits.high, 6)
        (4.1, 95.9)
    """
    found = np.sort(replicates[~np.isnan(replicates)])
    tail = 0.5 * (1.0 - level)
    return _limits(found, tail, 1.0 - tail)


def bca_interval(
    replicates: Floats, estimate: float, acceleration: float, *, level: float
) -> Interval:
    """Bias-corrected and accelerated limits.

    Args:
        replicates: float64[n_replicates]; NaN are left out.
        estimate: of all users, from the same values.
        acceleration: a sixth of the skewness of the estimate.
    Source:
        Efron 1987, Better Bootstrap Confidence Intervals, JASA 82(397), 171-185.
    Example:
        >>> limits = bca_interval(np.arange(101.0), 50.0, 0.0, level=0.9)
        >>> round(limits.low, 6), round(limits.high, 6)
        (4.1, 95.9)
    """
    found = np.sort(replicates[~np.isnan(replicates)])
    n = found.size
    if n == 0:
        return NO_INTERVAL
    below = int(np.searchsorted(found, estimate, "left"))
    tied = int(np.searchsorted(found, estimate, "right")) - below
    share = (below + 0.5 * tied) / n
    bias = normal_quantile(min(max(share, 1.0 / (n + 1)), n / (n + 1)))
    tails = []
    for z in (normal_quantile(0.5 * (1.0 - level)), -normal_quantile(0.5 * (1.0 - level))):
        room = 1.0 - acceleration * (bias + z)
        if room <= 0.0:  # the skewness is beyond what BCa can mend
            return NO_INTERVAL
        tails.append(normal_cdf(bias + (bias + z) / room))
    return _limits(found, *tails)


def studentised_interval(
    replicates: Floats, errors: Floats, estimate: float, error: float, *, level: float
) -> Interval:
    """Limits from the replicates' own t statistics; none where half of them have no error.

    Args:
        replicates: float64[n_replicates].
        errors: float64[n_replicates], the standard error within each; NaN are left out.
        estimate: of all users.
        error: its standard error.
    Source:
        Davison and Hinkley 1997, Bootstrap Methods and their Application, 5.2.1.
    Example:
        >>> means, errors = np.arange(101.0), np.full(101, 2.0)
        >>> limits = studentised_interval(means, errors, 50.0, 2.0, level=0.9)
        >>> round(limits.low, 6), round(limits.high, 6)
        (4.1, 95.9)
    """
    ratios = (replicates - estimate) / errors
    ratios = np.sort(ratios[~np.isnan(ratios)])
    if 2 * ratios.size < replicates.size:
        return NO_INTERVAL
    tail = 0.5 * (1.0 - level)
    turned = _limits(ratios, tail, 1.0 - tail)
    return Interval(estimate - turned.high * error, estimate - turned.low * error)


def _limits(ascending: Floats, low: float, high: float) -> Interval:
    """Quantiles at (n + 1) p, linear between neighbours, and where that lies beyond a tail.

    It is a normal one about the median, through the draws' own last fortieth on its side.
    """
    n = ascending.size
    if n == 0:
        return NO_INTERVAL
    found = []
    for share in (low, high):
        limit = _between(ascending, share)
        if not 1.0 <= (n + 1) * share <= n:
            centre, edge = _between(ascending, 0.5), EDGE if share < 0.5 else 1.0 - EDGE
            far = min(max(share, TINIEST), 1.0 - TINIEST)
            stretch = normal_quantile(far) / normal_quantile(edge)
            tail = centre + (_between(ascending, edge) - centre) * stretch
            limit = min(limit, tail) if share < 0.5 else max(limit, tail)
        found.append(limit)
    return Interval(found[0], found[1])


def _between(ascending: Floats, share: float) -> float:
    """The quantile at (n + 1) p, linear between neighbours, the ends where that lies beyond."""
    n = ascending.size
    place = min(max((n + 1) * share, 1.0), float(n)) - 1.0
    before = int(place)
    after = min(before + 1, n - 1)
    part = place - before
    return float(ascending[before] * (1.0 - part) + ascending[after] * part)
