# mypy: disable-error-code="no-untyped-def"
"""Metrics that hang on the order of all pairs; over rows all pairs are needed together."""

import math
from typing import Any

import numpy as np

from evalkit.metrics import (
    ROWS,
    OfSums,
    Request,
    Smooth,
    choice,
    kernel,
    number,
    of_whole,
    over_rows_or_users,
    rating_metric,
    ratio,
)
from evalkit.metrics.ratings._order import (
    Crossed,
    add_signs,
    longest_of,
    number_levels,
    sort_places,
)
from evalkit.metrics.ratings.agreement import agreement
from evalkit.metrics.ratings.errors import distance, error_metric, where_constant, where_undefined
from evalkit.metrics.ratings.losses import pinball

C, FINITE, ZERO = 1, 1, 1


def of_influence(value: float, column: Any) -> OfSums:
    """A number that is known, and what each pair moves it by."""
    return OfSums((ROWS,), lambda n: value, Smooth((column,), lambda moved: moved))


def of_ranks(asked: Request) -> OfSums:
    """Pearson's correlation of mid-ranks, which are counted from the middle on, doubled."""
    nothing = math.nan if dict(asked.parameters)["undefined"] == "undefined" else 0.0

    def made(ratings: Any, predictions: Any) -> OfSums:
        pairs = Crossed(ratings, predictions)
        r, p = pairs.beside(0)[pairs.rows], pairs.beside(1)[pairs.columns]
        rr, pp, rp = (math.fsum(pairs.counts * each) for each in (r * r, p * p, r * p))
        if not rr * pp > 0.0:
            return of_influence(nothing, distance)
        value = max(-1.0, min(1.0, rp / math.sqrt(rr) / math.sqrt(pp)))
        # a pair more moves the ranks of all others: their sums above it less those below
        above = [-pairs.beside(0, p)[pairs.rows], -pairs.beside(1, r)[pairs.columns]]
        own = [-pairs.beside(0, r)[pairs.rows], -pairs.beside(1, p)[pairs.columns]]
        moved = (r * p + above[0] + above[1]) / math.sqrt(rr) / math.sqrt(pp)
        moved -= value / 2.0 * ((r * r + 2.0 * own[0]) / rr + (p * p + 2.0 * own[1]) / pp)
        return of_influence(value, pairs.column(moved))

    return of_whole(made)


@agreement(
    name="Spearman",
    aliases=("spearmanr", "spearman_corrcoef"),
    summary="Correlation of the ranks of ratings and predictions; equal numbers share their ranks.",
    formula="Pearson's correlation of mid-ranks",
    latex=r"\rho(\mathrm{rank}(r), \mathrm{rank}(\hat r))",
    source="Spearman 1904, The proof and measurement of association between two things",
    parameters=(over_rows_or_users(), where_undefined()),
    over_rows=of_ranks,
)
@kernel
def spearman(starts, ratings, predictions, over, undefined, out):
    """The correlation of mid-ranks of each group; ratings ascend."""
    n_most = longest_of(starts)
    places, ranks = np.empty(n_most, dtype=np.int64), np.empty(n_most)
    for group in range(out.size):
        first, n = starts[group], starts[group + 1] - starts[group]
        sort_places(predictions, first, n, places)
        begin = 0
        for at in range(n):
            if at + 1 == n or predictions[first + places[at + 1]] > predictions[first + places[at]]:
                for place in range(begin, at + 1):
                    ranks[places[place]] = begin + at + 1.0 - n
                begin = at + 1
        rr = pp = rp = 0.0
        begin = 0
        for at in range(n):
            if at + 1 == n or ratings[first + at + 1] > ratings[first + at]:
                own = begin + at + 1.0 - n
                for place in range(begin, at + 1):
                    rr += own * own
                    pp += ranks[place] * ranks[place]
                    rp += own * ranks[place]
                begin = at + 1
        is_there = rr > 0.0 and pp > 0.0
        found = rp / math.sqrt(rr) / math.sqrt(pp) if is_there else math.nan
        nothing = 0.0 if undefined == ZERO else math.nan
        out[group] = min(1.0, max(-1.0, found)) if is_there else nothing


@kernel(allocates=False)
def tau_of(net, apart, n, levels, variant):
    """tau of pairs in one order less those in the other, and of pairs that do not tie."""
    if variant == C:
        return 2.0 * net * levels / (levels - 1.0) / n / n if levels > 1 else math.nan
    if apart[0] == 0.0 or apart[1] == 0.0:
        return math.nan
    return max(-1.0, min(1.0, net / math.sqrt(apart[0]) / math.sqrt(apart[1])))


def of_signs(asked: Request) -> OfSums:
    """Pairs of pairs in one order less those in the other, over those that do not tie."""
    variant = asked.encoded[-1]

    def made(ratings: Any, predictions: Any) -> OfSums:
        pairs, n = Crossed(ratings, predictions), ratings.size
        counts = [pairs.by_level(axis) for axis in (0, 1)]
        signs, levels = pairs.net(), min(each.size for each in pairs.levels)
        net = sum((pairs.counts * signs).tolist()) / 2
        apart = [(float(n) * n - math.fsum(own * own)) / 2.0 for own in counts]
        value = tau_of.plain(net, apart, float(n), levels, variant)
        if math.isnan(value):
            return of_influence(math.nan, distance)
        if variant == C:
            moved = value * (signs / net - 2.0 / n) if net else 2.0 * signs / n / n
        else:
            rest = [
                (n - own[code]) / each
                for own, code, each in zip(counts, (pairs.rows, pairs.columns), apart, strict=True)
            ]
            moved = signs / math.sqrt(apart[0]) / math.sqrt(apart[1])
            moved = moved - value / 2.0 * (rest[0] + rest[1])
        return of_influence(value, pairs.column(moved))

    return of_whole(made)


@agreement(
    name="Kendall",
    aliases=("kendalltau", "kendall_rank_corrcoef", "tau"),
    summary="Pairs of pairs that predictions put in the right order, less those in the wrong one.",
    formula="(C - D) / sqrt((pairs - ties of ratings) (pairs - ties of predictions))",
    latex=r"\frac{C - D}{\sqrt{(n_0 - n_1)(n_0 - n_2)}}",
    source="Kendall 1945, The treatment of ties in ranking problems; c: Stuart 1953",
    parameters=(
        over_rows_or_users(),
        choice(
            "variant",
            {
                "b": "over the pairs that do not tie",
                "c": "2 m (C - D) / (n^2 (m - 1)), m distinct ratings or predictions, the fewer",
            },
            doc="What ties do.",
        ),
    ),
    over_rows=of_signs,
)
@kernel
def kendall(starts, ratings, predictions, over, variant, out):
    """tau of each group."""
    n_most = longest_of(starts)
    places, net = np.empty(n_most, dtype=np.int64), np.empty(n_most, dtype=np.int64)
    rows, columns = np.empty(n_most, dtype=np.int64), np.empty(n_most, dtype=np.int64)
    counts, tree = np.ones(n_most, dtype=np.int64), np.empty(n_most + 1, dtype=np.int64)
    apart = np.empty(2)
    for group in range(out.size):
        first, n = starts[group], starts[group + 1] - starts[group]
        levels = n
        for axis in range(2):
            values, codes = (ratings, rows) if axis == 0 else (predictions, columns)
            sort_places(values, first, n, places)
            levels = min(levels, number_levels(values, first, n, places, codes))
            tied, begin = 0.0, 0
            for at in range(n):
                if at + 1 == n or codes[places[at + 1]] > codes[places[at]]:
                    tied += (at + 1.0 - begin) * (at + 1.0 - begin)
                    begin = at + 1
            apart[axis] = (float(n) * n - tied) / 2.0
        add_signs(rows, columns, counts, n, tree[: n + 1], net)
        total = 0
        for row in range(n):
            total += net[row]
        out[group] = tau_of(total / 2.0, apart, float(n), levels, variant) if n > 0 else math.nan


def of_middle(asked: Request) -> OfSums:
    """The median distance; its limits are the distances at the limits of the share up to it."""

    def made(ratings: Any, predictions: Any) -> OfSums:
        ordered = np.sort(distance(ratings, predictions))
        n = ordered.size
        middle = float(ordered[(n - 1) // 2] / 2.0 + ordered[n // 2] / 2.0) if n else math.nan

        def is_below(ratings: Any, predictions: Any) -> Any:
            return distance(ratings, predictions) <= middle

        def limits(reach: float) -> tuple[float, float]:
            low, high = math.ceil((0.5 - reach) * n) - 1, math.floor((0.5 + reach) * n)
            return float(ordered[max(0, low)]), float(ordered[min(n - 1, high)])

        return OfSums((ROWS,), lambda rows: middle, Smooth((is_below, ROWS), ratio), limits=limits)

    return of_whole(made)


@error_metric(
    name="median-error",
    aliases=("median_absolute_error", "MedAE"),
    summary="The median distance of a prediction and its rating; a few wild ones cost nothing.",
    formula="median of |prediction - rating|; of an even number the mean of the two in the middle",
    latex=r"\mathrm{med} |\hat r - r|",
    source="Hyndman and Koehler 2006, Another look at measures of forecast accuracy, 2.1; "
    "limits: Woodruff 1952, Confidence intervals for medians, JASA 47, p. 635",
    over_rows=of_middle,
)
@kernel
def median_error(starts, ratings, predictions, over, out):
    """The median distance of each group."""
    n_most = longest_of(starts)
    places, far = np.empty(n_most, dtype=np.int64), np.empty(n_most)
    for group in range(out.size):
        first, n = starts[group], starts[group + 1] - starts[group]
        for row in range(n):
            far[row] = abs(predictions[first + row] - ratings[first + row])
        sort_places(far, 0, n, places)
        middle = far[places[(n - 1) // 2]] / 2.0 + far[places[n // 2]] / 2.0 if n > 0 else math.nan
        out[group] = middle


def of_quantile(asked: Request) -> OfSums:
    """1 - losses over those of the best constant, which is the quantile of all ratings."""
    values = dict(asked.parameters)
    q = float(values["q"])

    def made(ratings: Any, predictions: Any) -> OfSums:
        n = ratings.size
        best = np.sort(ratings)[max(0, math.ceil(q * n) - 1)] if n else math.nan

        def of_best(ratings: Any, predictions: Any) -> Any:
            return np.where(ratings > best, q * (ratings - best), (q - 1.0) * (ratings - best))

        def value(wrong: Any, at_best: Any) -> Any:
            if at_best or values["constant"] == "undefined" or n < 2:
                return 1 - wrong / at_best
            return 0.0 if wrong else 1.0

        smooth = Smooth((pinball.request(q=q), of_best), lambda one, other: 1 - one / other)
        return OfSums(smooth.terms, value, smooth)

    return of_whole(made)


@rating_metric(
    name="D2-pinball",
    aliases=("d2_pinball_score", "d2_absolute_error_score(q=0.5)", "D2_absolute(q=0.5)"),
    summary="Share of the pinball loss that predictions take away from that of the best constant.",
    formula="1 - pinball losses / those of the q-quantile of the ratings",
    latex=r"1 - \frac{\sum \ell_q(r, \hat r)}{\sum \ell_q(r, Q_q(r))}",
    source="Koenker and Machado 1999, Goodness of fit for quantile regression, JASA 94, 2",
    bounds=(-math.inf, 1.0),
    undefined="where all ratings are equal",
    parameters=(
        over_rows_or_users(),
        number("q", 0.5, doc="The quantile; of 0.5 it is D2 of distances.", above=0.0, below=1.0),
        where_constant(),
    ),
    over_rows=of_quantile,
)
@kernel(allocates=False)
def d2_pinball(starts, ratings, predictions, over, q, constant, out):
    """1 - losses over those of the quantile of each group; ratings ascend."""
    for group in range(out.size):
        first, n = starts[group], starts[group + 1] - starts[group]
        best = ratings[first + max(0, math.ceil(q * n) - 1)] if n > 0 else math.nan
        wrong = at_best = 0.0
        for row in range(first, first + n):
            error, far = ratings[row] - predictions[row], ratings[row] - best
            wrong += q * error if error > 0.0 else (q - 1.0) * error
            at_best += q * far if far > 0.0 else (q - 1.0) * far
        if at_best > 0.0:
            out[group] = 1.0 - wrong / at_best
        else:
            is_finite = constant == FINITE and n > 1
            out[group] = (0.0 if wrong > 0.0 else 1.0) if is_finite else math.nan
