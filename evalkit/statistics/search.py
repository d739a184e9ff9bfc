"""Where the candidate loses and gains: segments searched with false discoveries under control."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from evalkit.errors import RequestError

from .corrections import adjust
from .distributions import t_quantile, t_sf_of
from .intervals import Interval

Against = Literal["zero", "others"]


@dataclass(frozen=True, slots=True)
class SegmentDelta:
    """The paired difference over the users of one segment, or of a crossing of segments.

    Args:
        segmentation: name of the rule.
        segment: name of the group.
        n: users.
        delta: mean of candidate - baseline.
        std_error: of `delta`; None below two users.
        skewness: of the users' differences (`ExactSums.skewness_of`). Without it the tests are
            plain t tests, which claim far too much of a few hundred users with skewed differences.
        metric: what differs; a search over several metrics is one search.
        higher_is_better: of the metric.
    """

    segmentation: str
    segment: str
    n: int
    delta: float
    std_error: float | None
    skewness: float | None = None
    metric: str = ""
    higher_is_better: bool = True


class Discovery(NamedTuple):
    """A segment that loses or gains.

    Args:
        found: the segment.
        delta: what was tested: the segment's delta, or its distance from that of other users.
        interval: limits of that, widened for having been picked.
        p_value: one-sided.
        p_adjusted: over all segments that were searched.
    """

    found: SegmentDelta
    delta: float
    interval: Interval
    p_value: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class Discoveries:
    """What a search found.

    Args:
        losses: segments where the candidate is worse, metric by metric the largest loss first.
        gains: segments where it is better, metric by metric the largest gain first.
        n_searched: segments that were tested, each metric counted.
        too_small: segments that were not, for want of users or of variance.
    """

    losses: tuple[Discovery, ...]
    gains: tuple[Discovery, ...]
    n_searched: int
    too_small: tuple[SegmentDelta, ...]


def search_segments(
    segments: Sequence[SegmentDelta],
    *,
    false_discovery_rate: float,
    min_users: int,
    against: Against = "zero",
    everyone: Mapping[str, SegmentDelta] | None = None,
) -> Discoveries:
    """Segments that lose or gain; the expected share of false ones is below the rate.

    Losses and gains are two families of one-sided t tests, each of which must also hold when
    mended for skewness, where that is known. Each family is held below half of the rate, so that
    both lists together are below it. Segments may overlap. Means of groups that share users
    rise and fall together, those of disjoint groups are independent: tests against zero depend on
    each other positively, for which Benjamini and Hochberg's procedure holds. A group and all
    others are opposites, so tests against others use that of Benjamini and Yekutieli, which holds
    for any dependence and finds less. What is picked for its size looks larger than it is:
    the limits are those at 1 - rate x picked / searched, of which the expected share that misses
    is below the rate (Benjamini and Yekutieli 2005).

    Args:
        segments: all that were looked at, also the boring ones, metric by metric where there are
            several: metrics of one ranking rise and fall together.
        false_discovery_rate: above 0 and below 1.
        min_users: smaller segments are not searched; 100 was enough in simulations, 50 was not.
        against: "zero" asks where the candidate is worse or better than the baseline, "others"
            where it is worse or better than among all other users.
        everyone: by metric all users, each segment's among them; needed for "others".
    Raises:
        RequestError: the rate is not above 0 and below 1 [bad-rate].
    Source:
        Benjamini and Hochberg 1995, JRSS B 57(1), 289-300; Benjamini and Yekutieli 2001, Annals
        of Statistics 29(4), 1165-1188; and 2005, JASA 100(469), 71-81; Hall 1992, JRSS B 54(1),
        221-228 (skewness).
    Example:
        >>> one = SegmentDelta("country", "de", 900, -0.02, 0.004)
        >>> other = SegmentDelta("country", "fr", 800, 0.001, 0.004)
        >>> found = search_segments([one, other], false_discovery_rate=0.05, min_users=100)
        >>> [each.found.segment for each in found.losses], found.n_searched
        (['de'], 2)
    """
    if not 0.0 < false_discovery_rate < 1.0:
        message = f"the false discovery rate is {false_discovery_rate!r}, not above 0 and below 1"
        hint = "0.05 lets one discovery in twenty be false"
        raise RequestError(message, code="bad-rate", hint=hint)
    tested, too_small = [], []
    for segment in segments:
        contrast = _of_itself(segment) if against == "zero" else _to_others(segment, everyone)
        if segment.n < max(2, min_users) or contrast is None:
            too_small.append(segment)
        else:
            tested.append((segment, contrast))
    both = [contrast.statistics() for _, contrast in tested]
    rate = 0.5 * false_discovery_rate
    lists = [_picked(tested, both, side, against, rate) for side in (-1.0, 1.0)]
    n_picked = sum(map(len, lists))
    level = 1.0 - false_discovery_rate * n_picked / max(1, len(tested))
    order = {
        metric: place for place, metric in enumerate(dict.fromkeys(s.metric for s in segments))
    }
    losses, gains = (
        sorted(
            (
                Discovery(segment, contrast.delta, contrast.interval(level), p_value, p_adjusted)
                for segment, contrast, p_value, p_adjusted in picked
            ),
            key=lambda each: (order[each.found.metric], -abs(each.delta)),
        )
        for picked in lists
    )
    return Discoveries(tuple(losses), tuple(gains), len(tested), tuple(too_small))


def _picked(
    tested: Sequence[tuple[SegmentDelta, "_Contrast"]],
    both: Sequence[tuple[float, float]],
    side: float,
    against: Against,
    rate: float,
) -> list[tuple[SegmentDelta, "_Contrast", float, float]]:
    """Segments of one side below the rate, with p and adjusted p; a side is -1 or 1."""
    ways = [side if segment.higher_is_better else -side for segment, _ in tested]
    smaller = [
        min(way * plain, way * cubic) for way, (plain, cubic) in zip(ways, both, strict=True)
    ]
    p_values = t_sf_of(smaller, [contrast.df for _, contrast in tested])
    adjusted = adjust(p_values, "bh" if against == "zero" else "by").p_adjusted
    return [
        (*pair, p_value, p_adjusted)
        for pair, p_value, p_adjusted in zip(tested, p_values, adjusted, strict=True)
        if p_adjusted <= rate
    ]


class _Contrast(NamedTuple):
    """What is tested of a segment: an estimate, its error, its degrees of freedom and skewness."""

    delta: float
    std_error: float
    df: float
    skewness: float

    def statistics(self) -> tuple[float, float]:
        """t, and that with Hall's cubic in t: of a one-sided test the smaller one counts.

        The t test alone finds too much on the side of the short tail; the cubic alone where
        skewness is small beside the error of its estimate, which leans to the side of t.
        """
        t, k = self.delta / self.std_error, self.skewness
        return t, t + k * t * t / 3.0 + k * k * t**3 / 27.0 + k / 6.0

    def interval(self, level: float) -> Interval:
        reach = -t_quantile(0.5 * (1.0 - level), self.df) * self.std_error
        return Interval(self.delta - reach, self.delta + reach)


def _of_itself(segment: SegmentDelta) -> _Contrast | None:
    if segment.n < 2 or not segment.std_error:
        return None
    skewness = _known(segment.skewness) / math.sqrt(segment.n)
    return _Contrast(segment.delta, segment.std_error, segment.n - 1, skewness)


def _to_others(
    segment: SegmentDelta, by_metric: Mapping[str, SegmentDelta] | None
) -> _Contrast | None:
    """The segment's delta less that of all other users, whose sums are those of all less its own.

    Source:
        Welch 1947, Biometrika 34(1/2), 28-35.
    """
    if by_metric is None:
        raise ValueError("tests against others need everyone")
    everyone = by_metric[segment.metric]
    n, n_all = segment.n, everyone.n
    n_others = n_all - n
    if n < 2 or n_others < 2 or segment.std_error is None or everyone.std_error is None:
        return None
    delta_others = (n_all * everyone.delta - n * segment.delta) / n_others
    own_squares, own_cubes = _central(segment)
    all_squares, all_cubes = _central(everyone)
    away, others_away = segment.delta - everyone.delta, delta_others - everyone.delta
    squares = all_squares - own_squares - n * away**2 - n_others * others_away**2
    squares = max(0.0, squares)
    cubes = all_cubes - own_cubes - n * away**3 - n_others * others_away**3
    cubes -= 3.0 * (away * own_squares + others_away * squares)
    own = own_squares / (n * (n - 1))
    other = squares / (n_others * (n_others - 1))
    variance = own + other
    if variance <= 0.0:
        return None
    df = variance**2 / (own**2 / (n - 1) + other**2 / (n_others - 1))
    skewness = (own_cubes / n**3 - cubes / n_others**3) / variance**1.5
    return _Contrast(segment.delta - delta_others, math.sqrt(variance), df, skewness)


def _central(segment: SegmentDelta) -> tuple[float, float]:
    """Sums of squares and of cubes around the mean."""
    n = segment.n
    squares = n * (n - 1) * (segment.std_error or 0.0) ** 2
    return squares, _known(segment.skewness) * n * (squares / n) ** 1.5


def _known(skewness: float | None) -> float:
    return 0.0 if skewness is None or math.isnan(skewness) else skewness
