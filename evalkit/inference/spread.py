"""What the error of a difference stands on, and the limits that follow."""

import math
from typing import NamedTuple

from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from evalkit.statistics.paired import p_alike
from evalkit.statistics.proportions import mcnemar_p, paired_interval
from evalkit.statistics.unseen import Seen, size_against


class DifferenceSpread(NamedTuple):
    """What the error of a difference stands on.

    Args:
        n: users, or clusters of them.
        df: degrees of freedom.
        skewness: of their differences; NaN where unknown.
        is_clustered: the error stands on clusters.
        is_weighted: users count differently, and the table says of their signs alone.
        widest: the largest difference that there can be; `is_of_one`: what one user who was not
            seen moves the mean by, times the users, which bounds no difference.
        table: users who are 1 in both, in the candidate alone, the baseline alone, neither; where
            all are 0 or 1. Clusters are no surer than the test of their users.
        is_mended: skewness mends tests and limits.
        n_below, n_above: users whose difference is below and above 0; None where users have none.
        is_plain: the test of a difference is Student's alone, as are its limits; tests against a
            margin, and what stands on clusters, are mended and count users not seen nevertheless.
        mean: of values, where `widest` is the largest difference that was seen.
    """

    n: int
    df: float
    skewness: float
    widest: float = math.inf
    table: tuple[int, int, int, int] | None = None
    is_clustered: bool = False
    is_mended: bool = True
    is_weighted: bool = False
    n_below: int | None = None
    n_above: int | None = None
    is_plain: bool = False
    is_of_one: bool = False
    mean: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether the table says all that is known of the difference."""
        return self.table is not None and not self.is_clustered and not self.is_weighted

    @property
    def n_differing(self) -> int:
        """Users whose difference is not 0, where the table says so."""
        return 0 if self.table is None else self.table[1] + self.table[2]

    @property
    def margin_skewness(self) -> float:
        """What tests against a margin are mended for."""
        return self.skewness if self.is_mended else math.nan

    @property
    def plain_skewness(self) -> float:
        """What the test of a difference is mended for."""
        return math.nan if self.is_plain and not self.is_clustered else self.margin_skewness

    @property
    def is_student(self) -> bool:
        """Whether the test of a difference knows nothing of users not seen."""
        return self.is_plain or math.isinf(self.widest)

    @property
    def test(self) -> str:
        """The name of the t test: Student's, or Hall's where it says less than that."""
        if self.n_below is not None and not self.is_student:
            return "hall"
        return "hall" if not (self.is_plain or math.isnan(self.plain_skewness)) else "t"

    def p_unseen(
        self, distance: float, delta: float, std_error: float | None, *, is_above: bool
    ) -> float:
        """What the one-sided p of a difference is at least, for all that was not seen.

        Args:
            distance: from the null to the difference, towards the verdict.
            is_above: the verdict is that the difference is above the null, not below it.
        """
        found = self._unseen(delta, std_error, is_above=is_above)
        return found.p_at_least(distance) if found is not None and distance > 0.0 else 0.0

    def reach_unseen(
        self, delta: float, std_error: float | None, *, error: float, is_above: bool
    ) -> float:
        """How far the limit towards the null is from the difference at least."""
        found = self._unseen(delta, std_error, is_above=is_above)
        return found.reach_at_least(error) if found is not None else 0.0

    def _unseen(self, delta: float, std_error: float | None, *, is_above: bool) -> Seen | None:
        """What was seen for a verdict and against it.

        None where nothing is said. Where users have no differences of their own, or nobody knows
        how large one can be, only what does not vary at all is known to have been seen too little;
        over clusters and with weights no user's difference is known.
        """
        below, above, n = self.n_below, self.n_above, self.df + 1.0
        if std_error is None or self.n < 2 or not self.df > 0.0:
            return None
        if std_error == 0.0:
            return Seen(self.widest, n, 0, 0.0, mean=self.mean)
        if below is None or above is None or not math.isfinite(self.widest):
            return None
        against, others = (below, above) if is_above else (above, below)
        squares, size = n * (self.df * std_error * std_error + delta * delta), 0.0
        if not (self.is_clustered or self.is_weighted):
            size = size_against(n * (delta if is_above else -delta), squares, against, others)
        return Seen(self.widest, n, against, squares, size, self.mean)

    def limits(
        self, delta: float, std_error: float | None, *, level: float, of_margin: bool = False
    ) -> Interval:
        """Limits of a difference of this spread; `of_margin`: as tests against a margin have."""
        exact = None
        if self.table is not None and not self.is_weighted:
            exact = paired_interval(*self.table, level=level)
            if self.is_exact and not of_margin:
                return exact
        is_student = self.is_student and not of_margin
        if is_student and std_error == 0.0 and p_alike(self.df) > 1.0 - level:
            is_bounded = math.isfinite(self.widest)  # so few say nothing of others
            return Interval(-self.widest, self.widest) if is_bounded else NO_INTERVAL
        if exact is not None and self.is_exact:
            found = exact
        else:
            found = mean_interval(
                delta,
                std_error,
                self.n,
                level=level,
                skewness=self.margin_skewness if of_margin else self.plain_skewness,
                df=self.df,
                only_wider=True,
            )
        if not is_student and found.exists:
            error = 0.5 * (1.0 - level)
            down, up = (
                self.reach_unseen(delta, std_error, error=error, is_above=is_above)
                for is_above in (True, False)
            )
            if math.isinf(down) or math.isinf(up):
                return NO_INTERVAL
            found = Interval(min(found.low, delta - down), max(found.high, delta + up))
        if exact is not None and found.exists:
            found = found.around(exact)
        if self.table is not None and self.is_weighted and found.exists and not of_margin:
            cannot_tell = mcnemar_p(*self.table[1:3]) > 1.0 - level
            found = found.around(Interval(0.0, 0.0)) if cannot_tell else found
        return found if self.is_of_one else found.within((-self.widest, self.widest))


def counts_differing(both: int, gained: int, lost: int, n: int) -> tuple[int, int, int, int] | None:
    """Of `n` users of 0 and 1 the counts that `DifferenceSpread.table` has; None below two
    users.
    """
    return (both, gained, lost, n - both - gained - lost) if n >= 2 else None
