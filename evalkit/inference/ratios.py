"""Numbers over users that are no plain means, as estimates and comparisons take them."""

from typing import Protocol

from evalkit.aggregate.segments import Segment
from evalkit.aggregate.sums import Pair


class RatioTotal(Protocol):
    """A number over users that is no plain mean, or the difference of two."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def std_error(self) -> float | None: ...
    @property
    def skewness(self) -> float: ...
    @property
    def df(self) -> float: ...


class RatioTotals(Protocol):
    """Such numbers of every segment, model and pair."""

    def total(self, segment: Segment, model: str, column: int) -> RatioTotal | None:
        """One request of one model in one segment; None where it is a plain mean of users."""

    def of_pair(
        self, segment: Segment, pair: Pair, column: int
    ) -> tuple[RatioTotal, RatioTotal, RatioTotal] | None:
        """The difference of two models, and each of both; None where it is that of plain means."""

    def users_without_values(self, segment: Segment, pair: Pair, column: int) -> int | None:
        """How many users a difference stands on that have no values, by which models win or lose.

        None where users have values.
        """

    def users_carrying(self, segment: Segment, pair: Pair, column: int) -> float:
        """How many users may carry a difference; infinite where all may."""
