"""Agreement of judges: every coefficient is a function of sums over units.

A unit (what is judged) adds a row of features to a coefficient; the coefficient is read from the
sum of these rows. A segment, a bootstrap draw and a unit left out are therefore sums of rows with
other weights, and no coefficient is computed in two ways.

Axes: `ratings` is int64[n_units, n_judges], the place of the rating among `levels`, or `MISSING`;
`levels` is float64[n_levels], ascending. A unit that nobody rated adds nothing.

Source:
    Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, University of Pennsylvania;
    Gwet 2014, Handbook of Inter-Rater Reliability, 4th edition, chapters 2 to 5;
    Fleiss 1971, Psychological Bulletin 76, 378-382; Conger 1980, Psychological Bulletin 88,
    322-328; Cohen 1960, Educational and Psychological Measurement 20, 37-46, and 1968,
    Psychological Bulletin 70, 213-220; McGraw and Wong 1996, Psychological Methods 1, 30-46.
"""

# Long: coefficients, what reads them of sums, and the draws that these sums are made of.

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Floats, Ints

from .distributions import f_quantile, normal_cdf, normal_quantile
from .intervals import NO_INTERVAL, Interval

Weights = npt.NDArray[np.uint16]

MISSING = -1
MOST_WEIGHTS = 2**23
ROUNDING = 1e-12  # coefficients that differ by less are one
KINDS = ("nominal", "ordinal", "interval", "ratio")
WEIGHTS = ("identity", "linear", "quadratic", "ordinal", "ratio")
FORMS = ("1,1", "A,1", "C,1", "1,k", "A,k", "C,k")


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One way to measure agreement.

    Args:
        features: of every unit, float64[n_units, n_features], from ratings.
        read: the coefficient, float64[...], from sums of features, float64[..., n_features];
            NaN where it is undefined.
    """

    features: Callable[[Ints], Floats]
    read: Callable[[Floats], Floats]


def sum_of(features: Floats) -> Floats:
    """The sum over units of each feature, float64[n_features], rounded once: of any order of units.

    Example:
        >>> sum_of(np.array([[0.1], [0.2], [0.3]])).tolist()
        [0.6]
    """
    return np.array([math.fsum(column.tolist()) for column in features.T])


def coefficient_named(
    name: str, levels: Floats, n_judges: int, arguments: Mapping[str, str | None]
) -> Coefficient:
    """The coefficient of a name; Cohen's kappa is undefined for other than two judges.

    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> found = coefficient_named("fleiss", levels, 2, {"weights": "identity"})
        >>> round(float(found.read(found.features(ratings).sum(axis=0))), 4)
        0.4667
    """
    own: dict[str, Any] = dict(arguments)
    if name == "alpha":
        return alpha(levels, **own)
    if name == "conger":
        return conger(levels, n_judges, **own)
    if name == "intraclass":
        return intraclass(levels, n_judges, **own)
    if name != "cohen":
        return chance_corrected(name, levels, **own)
    if n_judges == 2:
        return cohen(levels, **own)
    return Coefficient(
        lambda ratings: np.zeros((len(ratings), 1)), lambda sums: np.full(sums.shape[:-1], np.nan)
    )


def level_counts(ratings: Ints, n_levels: int) -> Floats:
    """How many judges gave each level, float64[n_units, n_levels].

    Example:
        >>> level_counts(np.array([[0, 1, 1], [0, -1, 0]]), 2).tolist()
        [[1.0, 2.0], [2.0, 0.0]]
    """
    counts = np.zeros((len(ratings), n_levels))
    for level in range(n_levels):
        counts[:, level] = (ratings == level).sum(axis=1)
    return counts


def weights_of(name: str, levels: Floats) -> Floats:
    """Gwet's weights of agreement between levels, float64[n_levels, n_levels], 1 on the diagonal.

    Of `WEIGHTS`, all but `identity` and `ordinal` look at the levels' values.
    Example:
        >>> weights_of("linear", np.array([0.0, 1.0, 2.0])).tolist()
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    n = len(levels)
    if name == "identity" or n == 1:
        return np.eye(n)
    distances: Floats = np.abs(levels[:, None] - levels[None, :])
    if name == "quadratic":
        distances = distances**2
    elif name == "ordinal":
        steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        distances = (steps + 1) * steps / 2
    elif name == "ratio":
        distances = _ratio_distances(levels)
    return np.asarray(1 - distances / distances.max())


def _ratio_distances(levels: Floats) -> Floats:
    sums, gaps = levels[:, None] + levels[None, :], levels[:, None] - levels[None, :]
    shares = np.divide(gaps, sums, out=np.zeros(sums.shape), where=sums != 0)
    return np.asarray(shares**2)


def alpha(levels: Floats, *, kind: str = "nominal", weights: str | None = None) -> Coefficient:
    """Krippendorff's alpha, by his distance of the kind of levels or by Gwet's weights.

    For ordered levels the two differ: his distance counts the ratings between two levels, Gwet's
    weights the levels.
    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> found = alpha(levels)
        >>> round(float(found.read(found.features(ratings).sum(axis=0))), 4)
        0.5333
    """
    n = len(levels)

    def features(ratings: Ints) -> Floats:
        counts = level_counts(ratings, n)
        totals = counts.sum(axis=1)
        pairs = counts[:, :, None] * counts[:, None, :]
        pairs[:, np.arange(n), np.arange(n)] -= counts
        several = totals > 1
        pairs[~several] = 0.0
        pairs[several] /= (totals[several] - 1)[:, None, None]
        return pairs.reshape(len(ratings), n * n)

    def read(sums: Floats) -> Floats:
        observed = sums.reshape(*sums.shape[:-1], n, n)
        margins = observed.sum(axis=-1)
        total = margins.sum(axis=-1)
        if weights is not None:
            distances = 1 - weights_of(weights, levels)
        elif kind == "ordinal":
            below = np.cumsum(margins, axis=-1) - margins / 2
            distances = (below[..., :, None] - below[..., None, :]) ** 2
        elif kind == "interval":
            distances = (levels[:, None] - levels[None, :]) ** 2
        elif kind == "ratio":
            distances = _ratio_distances(levels)
        else:
            distances = 1 - np.eye(n)
        expected = (margins[..., :, None] * margins[..., None, :] * distances).sum(axis=(-2, -1))
        disagreement = (observed * distances).sum(axis=(-2, -1))
        return np.asarray(1 - (total - 1) * _share(disagreement, expected))

    return Coefficient(features, read)


def chance_corrected(name: str, levels: Floats, *, weights: str = "identity") -> Coefficient:
    """`AC` (Gwet's AC1, with weights AC2), `fleiss`, `brennan-prediger`, or `agreement` alone.

    Agreement is the mean over units that two judges or more rated. Chance is made of the mean over
    units of the share of ratings at a level, so that a unit with many judges counts once.
    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> found = chance_corrected("AC", levels)
        >>> round(float(found.read(found.features(ratings).sum(axis=0))), 4)
        0.5294
    """
    n, kernel = len(levels), weights_of(weights, levels)

    def features(ratings: Ints) -> Floats:
        counts = level_counts(ratings, n)
        return np.hstack([_pair_agreement(counts, kernel), _level_shares(counts)])

    def read(sums: Floats) -> Floats:
        observed = _share(sums[..., 1], sums[..., 0])
        if name == "agreement":
            return observed
        shares = _share(sums[..., 3:], sums[..., 2:3])
        if name == "AC":
            spread = (shares * (1 - shares)).sum(axis=-1)
            chance = kernel.sum() * spread / (n * (n - 1)) if n > 1 else np.full(spread.shape, 1.0)
        elif name == "fleiss":
            chance = np.einsum("...i,ij,...j->...", shares, kernel, shares)
        else:
            chance = np.full(observed.shape, kernel.sum() / n**2)
        return _beyond_chance(observed, chance)

    return Coefficient(features, read)


def conger(levels: Floats, n_judges: int, *, weights: str = "identity") -> Coefficient:
    """Conger's kappa: chance of two judges drawn without replacement, each with own shares.

    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> found = conger(levels, 2)
        >>> round(float(found.read(found.features(ratings).sum(axis=0))), 4)
        0.5
    """
    n, kernel = len(levels), weights_of(weights, levels)

    def features(ratings: Ints) -> Floats:
        counts = level_counts(ratings, n)
        by_judge = (ratings[:, :, None] == np.arange(n)).reshape(len(ratings), n_judges * n)
        return np.hstack([_pair_agreement(counts, kernel), by_judge.astype(np.float64)])

    def read(sums: Floats) -> Floats:
        observed = _share(sums[..., 1], sums[..., 0])
        given = sums[..., 2:].reshape(*sums.shape[:-1], n_judges, n)
        shares = _share(given, given.sum(axis=-1, keepdims=True))
        total = np.einsum("...ai,ij,...bj->...", shares, kernel, shares)
        alone = np.einsum("...ai,ij,...aj->...", shares, kernel, shares)
        pairs = np.full(total.shape, float(n_judges * (n_judges - 1)))
        return _beyond_chance(observed, _share(total - alone, pairs))

    return Coefficient(features, read)


def cohen(levels: Floats, *, weights: str = "identity", distance: str = "level") -> Coefficient:
    """Cohen's kappa of two judges over the units that both rated.

    Args:
        weights: `identity`, `linear` or `quadratic`.
        distance: of levels by their values, or by their `index` in the list of levels.
    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> found = cohen(levels)
        >>> round(float(found.read(found.features(ratings).sum(axis=0))), 4)
        0.5
    """
    n = len(levels)
    kernel = weights_of(weights, levels if distance == "level" else np.arange(n, dtype=np.float64))

    def features(ratings: Ints) -> Floats:
        both = (ratings != MISSING).all(axis=1)
        cells = np.zeros((len(ratings), n * n))
        cells[np.flatnonzero(both), ratings[both, 0] * n + ratings[both, 1]] = 1.0
        return cells

    def read(sums: Floats) -> Floats:
        cells = sums.reshape(*sums.shape[:-1], n, n)
        total = cells.sum(axis=(-2, -1))
        observed = _share((cells * kernel).sum(axis=(-2, -1)), total)
        rows, columns = cells.sum(axis=-1), cells.sum(axis=-2)
        chance = _share(np.einsum("...i,ij,...j->...", rows, kernel, columns), total**2)
        return _beyond_chance(observed, chance)

    return Coefficient(features, read)


@dataclass(frozen=True, slots=True)
class MeanSquares:
    """Of the two-way table of units and judges, over units that every judge rated.

    Args:
        units: between units. judges: between judges. error: what is left. within: within units.
    """

    units: Floats
    judges: Floats
    error: Floats
    within: Floats
    n_units: Floats


def intraclass(levels: Floats, n_judges: int, *, form: str = "A,1") -> Coefficient:
    """An intraclass correlation of McGraw and Wong; units with a missing rating are left out.

    Args:
        form: `1` one-way, `A` agreement, `C` consistency; of `1` judge, or of the mean of all `k`.
    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> found = intraclass(levels, 2)
        >>> round(float(found.read(found.features(ratings).sum(axis=0))), 4)
        0.5714
    """
    return Coefficient(
        lambda ratings: _table_features(ratings, levels),
        lambda sums: _icc(mean_squares(sums, n_judges), n_judges, form),
    )


def _table_features(ratings: Ints, levels: Floats) -> Floats:
    """1, values by judge, sum of squares, squared sum: zeros where a rating is missing."""
    whole = (ratings != MISSING).all(axis=1)
    # about the middle level, so that squares do not swallow small differences
    values = np.where(whole[:, None], (levels - levels.mean())[ratings], 0.0)
    return np.column_stack(
        [whole, values, (values**2).sum(axis=1), values.sum(axis=1) ** 2]
    ).astype(np.float64)


def mean_squares(sums: Floats, n_judges: int) -> MeanSquares:
    """From sums of the features of `intraclass`, float64[..., n_judges + 3].

    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> sums = intraclass(levels, 2).features(ratings).sum(axis=0)
        >>> round(float(mean_squares(sums, 2).units), 4)
        0.4583
    """
    n, by_judge = sums[..., 0], sums[..., 1:-2]
    total = by_judge.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = total**2 / (n * n_judges)
        between = sums[..., -1] / n_judges - middle
        judges = (by_judge**2).sum(axis=-1) / n - middle
        within = sums[..., -2] - sums[..., -1] / n_judges
        squares = np.stack([between, judges, within - judges, within])
        # what rounding left of nothing would be divided by nothing
        squares[squares <= ROUNDING * sums[..., -2]] = 0.0
        return MeanSquares(
            units=squares[0] / (n - 1),
            judges=squares[1] / (n_judges - 1),
            error=squares[2] / ((n - 1) * (n_judges - 1)),
            within=squares[3] / (n * (n_judges - 1)),
            n_units=n,
        )


def _icc(squares: MeanSquares, k: int, form: str) -> Floats:
    (which, of), between, judges = form.split(","), squares.units, squares.judges
    error = squares.error
    if which == "1":
        below = between if of == "k" else between + (k - 1) * squares.within
        return _share(between - squares.within, below)
    extra = k * (judges - error) / squares.n_units if which == "A" else np.zeros_like(error)
    below = between + extra / k if of == "k" else between + (k - 1) * error + extra
    is_nothing = np.abs(below) <= ROUNDING * (between + judges + error)
    return _share(between - error, np.where(is_nothing, 0.0, below))


def intraclass_interval(sums: Floats, n_judges: int, *, form: str, level: float) -> Interval:
    """Limits by the F distribution, McGraw and Wong 1996, table 7; none below two units.

    Args:
        sums: of features, float64[n_judges + 3].
    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> sums = intraclass(levels, 2).features(ratings).sum(axis=0)
        >>> found = intraclass_interval(sums, 2, form="A,1", level=0.95)
        >>> round(found.low, 3), round(found.high, 3)
        (-0.475, 0.965)
    """
    squares, k = mean_squares(sums, n_judges), n_judges
    n, which = float(squares.n_units), form[0]
    below = float(squares.within if which == "1" else squares.error)
    if n < 2 or k < 2 or not below > 0 or (form[2] == "k" and not squares.units > 0):
        return NO_INTERVAL
    tail = (1 - level) / 2
    f = float(squares.units) / below
    if which in "1C":
        df = n * (k - 1) if which == "1" else (n - 1) * (k - 1)
        low, high = f / f_quantile(tail, n - 1, df), f * f_quantile(tail, df, n - 1)
        ones = Interval((low - 1) / (low + k - 1), (high - 1) / (high + k - 1))
        return ones if form[2] == "1" else Interval(1 - 1 / low, 1 - 1 / high)
    one = float(_icc(squares, k, "A,1"))
    between, judges, error = float(squares.units), float(squares.judges), below
    a, b = k * one / (n * (1 - one)), 1 + k * one * (n - 1) / (n * (1 - one))
    own, rest = (a * judges) ** 2 / (k - 1), (b * error) ** 2 / ((n - 1) * (k - 1))
    df = (a * judges + b * error) ** 2 / (own + rest) if own + rest > 0 else (n - 1) * (k - 1)
    upper, lower = f_quantile(tail, n - 1, df), f_quantile(tail, df, n - 1)
    rest = k * judges + (k * n - k - n) * error
    if rest + n * between == 0:
        return NO_INTERVAL
    low = n * (between - upper * error) / (upper * rest + n * between)
    high = n * (lower * between - error) / (rest + n * lower * between)
    if form[2] == "1":
        return Interval(low, high)
    room = 1 + (k - 1) * low  # without it, more judges would agree less
    return Interval(k * low / room, k * high / (1 + (k - 1) * high)) if room > 0 else NO_INTERVAL


def _pair_agreement(counts: Floats, kernel: Floats) -> Floats:
    """Whether two judges or more rated the unit, and the weighted share of pairs that agree."""
    totals = counts.sum(axis=1)
    agreeing = (counts * (counts @ kernel - 1)).sum(axis=1)
    several = totals > 1
    return np.column_stack(
        [several, np.where(several, agreeing / np.where(several, totals * (totals - 1), 1), 0.0)]
    )


def _level_shares(counts: Floats) -> Floats:
    """Whether anybody rated the unit, and the share of its ratings at each level."""
    totals = counts.sum(axis=1, keepdims=True)
    return np.hstack([totals > 0, counts / np.maximum(totals, 1)])


def _beyond_chance(observed: Floats, chance: Floats) -> Floats:
    """NaN where chance alone explains everything: one level, or judges without a choice."""
    room = 1 - chance
    return _share(observed - chance, np.where(room > 1e-12, room, 0.0))


def _share(part: Floats, whole: Floats) -> Floats:
    """NaN where the whole is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0))


@dataclass(frozen=True, slots=True)
class AgreementDraws:
    """Resampled coefficients.

    Args:
        values: float64[n_draws], NaN where a draw leaves the coefficient undefined.
        without: float64[n_units], the coefficient without each unit (jackknife).
    """

    values: Floats
    without: Floats


def draw_units(n_units: int, *, n_draws: int, seed: int) -> Weights:
    """How often each draw takes each unit, uint16[n_draws, n_units].

    Example:
        >>> draw_units(4, n_draws=3, seed=1).sum(axis=1).tolist()
        [4, 4, 4]
    """
    generator, even = np.random.Generator(np.random.PCG64(seed)), np.full(n_units, 1 / n_units)
    weights = np.empty((n_draws, n_units), np.uint16)
    for draw in range(n_draws):
        weights[draw] = generator.multinomial(n_units, even)
    return weights


def weighted_sums(weights: Weights, features: Floats) -> Floats:
    """Sums of features over the units of each draw, float64[n_draws, n_features].

    Example:
        >>> weighted_sums(np.array([[2, 0], [1, 1]], np.uint16), np.array([[0.5], [1.0]])).tolist()
        [[1.0], [1.5]]
    """
    n_draws, n_units = weights.shape
    step = max(1, MOST_WEIGHTS // n_units)  # so many draws stand as float64 at a time
    return np.vstack(
        [weights[at : at + step].astype(np.float64) @ features for at in range(0, n_draws, step)]
    )


def resample(
    make: Callable[[int], Coefficient],
    ratings: Ints,
    *,
    n_draws: int,
    seed: int,
    judges: bool = False,
    weights: Weights | None = None,
) -> AgreementDraws:
    """Coefficients over units drawn with replacement, and over judges drawn too.

    Units have to come in an order that the log does not decide, since draws go by place.

    Args:
        make: gives the coefficient for a number of judges.
        judges: draw judges as well, for limits that hold for other judges like these.
        weights: of `draw_units`, where several coefficients share them.
    Example:
        >>> ratings, levels = np.array([[0, 0], [1, 1], [1, 0], [0, 0]]), np.array([0.0, 1.0])
        >>> draws = resample(lambda n: alpha(levels), ratings, n_draws=100, seed=1)
        >>> draws.values.shape, draws.without.shape
        ((100,), (4,))
    """
    n_units, n_judges = ratings.shape
    coefficient = make(n_judges)
    features = coefficient.features(ratings)
    without = coefficient.read(sum_of(features) - features)
    if not judges:
        if weights is None:
            weights = draw_units(n_units, n_draws=n_draws, seed=seed)
        return AgreementDraws(coefficient.read(weighted_sums(weights, features)), without)
    generator, even = np.random.Generator(np.random.PCG64(seed)), np.full(n_units, 1 / n_units)
    values = np.empty(n_draws)
    for draw in range(n_draws):
        columns = generator.integers(0, n_judges, n_judges)
        drawn = generator.multinomial(n_units, even)
        values[draw] = coefficient.read(drawn @ coefficient.features(ratings[:, columns]))
    return AgreementDraws(values, without)


def bca_interval(estimate: float, draws: AgreementDraws, *, level: float) -> Interval:
    """Bias-corrected and accelerated limits; none where most draws are undefined or all equal.

    Source:
        Efron 1987, Better Bootstrap Confidence Intervals, JASA 82, 171-185.
    Example:
        >>> values = np.arange(101) / 100.0
        >>> found = bca_interval(0.5, AgreementDraws(values, values), level=0.9)
        >>> round(found.low, 2), round(found.high, 2)
        (0.05, 0.95)
    """
    values = draws.values[~np.isnan(draws.values)]
    if math.isnan(estimate) or len(values) < len(draws.values) / 2 or np.ptp(values) < ROUNDING:
        return NO_INTERVAL
    leans = draws.without[~np.isnan(draws.without)]
    leans = leans.sum() / max(len(leans), 1) - leans
    spread = float((leans**2).sum()) ** 1.5
    acceleration = float((leans**3).sum()) / (6 * spread) if spread > 0 else 0.0
    apart = values - estimate  # what is equal counts half
    below = float((apart < -ROUNDING).mean() + (apart <= ROUNDING).mean()) / 2
    edge = 1 / (2 * len(values))
    bias = normal_quantile(min(max(below, edge), 1 - edge))
    tail = (1 - level) / 2
    limits = []
    for share in (tail, 1 - tail):
        moved = bias + normal_quantile(share)
        chance = normal_cdf(bias + moved / max(1 - acceleration * moved, 1e-3))
        limits.append(float(np.quantile(values, min(max(chance, 0.0), 1.0))))
    return Interval(min(limits[0], estimate), max(limits[1], estimate))
