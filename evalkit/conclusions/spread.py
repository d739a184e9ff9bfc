"""What the error of a difference stands on, and the limits that follow."""

import math
from typing import NamedTuple

from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from evalkit.statistics.paired import p_alike
from evalkit.statistics.proportions import FEWEST_DIFFERING, mcnemar_p, paired_interval


class Spread(NamedTuple):
    """What the error of a difference stands on.

    Args:
        n: users, or clusters of them.
        df: degrees of freedom.
        skewness: of their differences; NaN where unknown.
        is_clustered: the error stands on clusters.
        is_weighted: users count differently, and the table says of their signs alone.
        widest: the largest difference that there can be.
        table: users who are 1 in both, in the candidate alone, the baseline alone, neither; where
            all are 0 or 1 and few differ. Clusters are no surer than the exact test of their users.
        is_mended: skewness mends tests against a margin, and what stands on clusters; of single
            users limits and p are those of the paired t test.
    """

    n: int
    df: float
    skewness: float
    widest: float = math.inf
    table: tuple[int, int, int, int] | None = None
    is_clustered: bool = False
    is_mended: bool = True
    is_weighted: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the table says all that is known of the difference."""
        return self.table is not None and not self.is_clustered and not self.is_weighted

    @property
    def margin_skewness(self) -> float:
        """What tests against a margin are mended for."""
        return self.skewness if self.is_mended else math.nan

    @property
    def plain_skewness(self) -> float:
        """What the test of a difference is mended for."""
        return self.margin_skewness if self.is_clustered else math.nan

    def limits(
        self, delta: float, std_error: float | None, *, level: float, of_margin: bool = False
    ) -> Interval:
        """Limits of a difference of this spread; `of_margin`: as tests against a margin have."""
        exact = None
        if self.table is not None and not self.is_weighted:
            exact = paired_interval(*self.table, level=level)
            if self.is_exact:
                return exact
        if std_error == 0.0 and p_alike(self.df) > 1.0 - level:  # so few say nothing of others
            is_bounded = math.isfinite(self.widest)
            return Interval(-self.widest, self.widest) if is_bounded else NO_INTERVAL
        found = mean_interval(
            delta,
            std_error,
            self.n,
            level=level,
            skewness=self.margin_skewness if of_margin else self.plain_skewness,
            df=self.df,
            only_wider=True,
        )
        if exact is not None and found.exists:
            found = found.around(exact)
        if self.table is not None and self.is_weighted and found.exists and not of_margin:
            cannot_tell = mcnemar_p(*self.table[1:3]) > 1.0 - level
            found = found.around(Interval(0.0, 0.0)) if cannot_tell else found
        return found.within((-self.widest, self.widest))


def counts_differing(both: int, gained: int, lost: int, n: int) -> tuple[int, int, int, int] | None:
    """Of `n` users of 0 and 1 the counts that `Spread.table` has; None where many differ."""
    if gained + lost >= FEWEST_DIFFERING or n < 2:
        return None
    return both, gained, lost, n - both - gained - lost
