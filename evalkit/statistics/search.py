"""Where the candidate loses and gains: segments searched with false discoveries under control."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.errors import RequestError

from .corrections import adjust
from .distributions import t_quantile, t_sf_of
from .intervals import Interval


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

    def statistics(self) -> tuple[float, float]:
        """t, and that with Hall's cubic in t: of a one-sided test the smaller one counts.

        The t test alone finds too much on the side of the short tail; the cubic alone where
        skewness is small beside the error of its estimate, which leans to the side of t.
        """
        skewness = 0.0 if self.skewness is None or math.isnan(self.skewness) else self.skewness
        t, k = self.delta / (self.std_error or math.nan), skewness / math.sqrt(self.n)
        return t, t + k * t * t / 3.0 + k * k * t**3 / 27.0 + k / 6.0

    def limits(self, level: float) -> Interval:
        """Student's limits of the difference."""
        reach = -t_quantile(0.5 * (1.0 - level), self.n - 1) * (self.std_error or math.nan)
        return Interval(self.delta - reach, self.delta + reach)


@dataclass(frozen=True, slots=True)
class Discovery:
    """A segment that loses or gains.

    Args:
        found: the segment.
        interval: limits of its delta, widened for having been picked.
        p_value: one-sided.
        p_adjusted: over all segments that were searched.
    """

    found: SegmentDelta
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
    segments: Sequence[SegmentDelta], *, false_discovery_rate: float, min_users: int
) -> Discoveries:
    """Segments that lose or gain; the expected share of false ones is below the rate.

    Losses and gains are two families of one-sided t tests, each of which must also hold when
    mended for skewness, where that is known. Each family is held below half of the rate, so that
    both lists together are below it. Segments may overlap. Means of groups that share users
    rise and fall together, those of disjoint groups are independent: tests depend on each other
    positively, for which Benjamini and Hochberg's procedure holds. What is picked for its size
    looks larger than it is: the limits are those at 1 - rate x picked / searched, of which the
    expected share that misses is below the rate (Benjamini and Yekutieli 2005).

    Args:
        segments: all that were looked at, also the boring ones, metric by metric where there are
            several: metrics of one ranking rise and fall together.
        false_discovery_rate: above 0 and below 1.
        min_users: smaller segments are not searched; 100 was enough in simulations, 50 was not.
    Raises:
        RequestError: the rate is not above 0 and below 1 [bad-rate].
    Source:
        Benjamini and Hochberg 1995, JRSS B 57(1), 289-300; Benjamini and Yekutieli 2005,
        JASA 100(469), 71-81; Hall 1992, JRSS B 54(1), 221-228 (skewness).
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
    least = max(2, min_users)
    tested = [each for each in segments if each.n >= least and each.std_error]
    too_small = [each for each in segments if each.n < least or not each.std_error]
    lists = [_picked(tested, side, 0.5 * false_discovery_rate) for side in (-1.0, 1.0)]
    n_picked = sum(map(len, lists))
    level = 1.0 - false_discovery_rate * n_picked / max(1, len(tested))
    order = {
        metric: place for place, metric in enumerate(dict.fromkeys(s.metric for s in segments))
    }
    losses, gains = (
        sorted(
            (
                Discovery(segment, segment.limits(level), p_value, p_adjusted)
                for segment, p_value, p_adjusted in picked
            ),
            key=lambda each: (order[each.found.metric], -abs(each.found.delta)),
        )
        for picked in lists
    )
    return Discoveries(tuple(losses), tuple(gains), len(tested), tuple(too_small))


def _picked(
    tested: Sequence[SegmentDelta], side: float, rate: float
) -> list[tuple[SegmentDelta, float, float]]:
    """Segments of one side below the rate, with p and adjusted p; a side is -1 or 1."""
    ways = [side if segment.higher_is_better else -side for segment in tested]
    smaller = [
        min(way * t for t in segment.statistics())
        for way, segment in zip(ways, tested, strict=True)
    ]
    p_values = t_sf_of(smaller, [segment.n - 1 for segment in tested])
    adjusted = adjust(p_values, "bh").p_adjusted
    return [each for each in zip(tested, p_values, adjusted, strict=True) if each[2] <= rate]
