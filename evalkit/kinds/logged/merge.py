"""What a share of the users leaves behind: their sums, counts of rows, the largest weights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.kinds.logged._units import keep_largest

Values = npt.NDArray[np.float64]
TOP = 10


@dataclass(slots=True)
class RoundCounts:
    """Rounds that were read, and how far a round can go.

    Args:
        rewards: the least and the largest; `least`: the smallest value of each column of
            propensities.
    """

    rows: int = 0
    rewards: tuple[float, float] = (math.inf, -math.inf)
    least: dict[str, float] = field(default_factory=dict)

    def note(self, rows: int, rewards: tuple[float, float], least: Mapping[str, float]) -> None:
        """Add rounds."""
        self.rows += rows
        self.rewards = min(self.rewards[0], rewards[0]), max(self.rewards[1], rewards[1])
        for name, value in least.items():
            self.least[name] = min(value, self.least.get(name, value))

    def merge(self, other: "RoundCounts") -> None:
        """Add those of other users."""
        self.note(other.rows, other.rewards, other.least)


@dataclass(slots=True)
class Biggest:
    """The largest weight of a target, and its ten largest weighted rewards.

    Args:
        tops: by absolute value, falling.
    """

    weight: float = 0.0
    tops: list[float] = field(default_factory=list)

    def note(self, weights: Values, values: Values) -> None:
        """Look at some rounds: float64[n_rounds] each."""
        self.weight = max(self.weight, float(weights.max()))
        tops = np.array([*self.tops, *[0.0] * (TOP - len(self.tops))])
        keep_largest(values, tops)
        self.tops = tops.tolist()

    def merge(self, other: "Biggest") -> None:
        """Take over those of other users."""
        self.weight = max(self.weight, other.weight)
        self._take(other.tops)

    def _take(self, more: Sequence[float]) -> None:
        self.tops = sorted([*self.tops, *more], reverse=True)[:TOP]


@dataclass(slots=True)
class LoggedSums:
    """Sums of users.

    Args:
        users: by share, from 1: user and segment columns, and a column for each term.
        user_names: as they were given; empty where rounds are units.
        weights: by share, of all rounds of a segment: squares of weights, and how many are 0.
        unsupported: by target that is a table, the mass on items that are never shown.
    """

    users: dict[int, pl.DataFrame]
    weights: dict[int, pl.DataFrame]
    user_names: tuple[str, ...]
    counts: RoundCounts
    biggest: list[Biggest]
    unsupported: dict[int, float]
    at: str

    def merge(self, other: "LoggedSums") -> None:
        """Take over the sums of other users."""
        self.users.update(other.users)
        self.weights.update(other.weights)
        self.counts.merge(other.counts)
        for mine, theirs in zip(self.biggest, other.biggest, strict=True):
            mine.merge(theirs)

    @property
    def frame(self) -> pl.DataFrame:
        """The users of all shares."""
        rows = pl.concat([self.users[share] for share in sorted(self.users)])
        return rows.sort([name for name in rows.columns if ":" not in name])
