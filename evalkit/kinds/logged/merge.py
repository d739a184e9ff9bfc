"""What a share of the users leaves behind: their sums, counts of rows, the largest weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.logged._units import CARRY, COARSE, FINE, MASK, N_BINS, N_EDGES, SMALLEST

TOP = 10
EDGES = 2.0 ** np.arange(SMALLEST, SMALLEST + N_EDGES)  # of weights that are counted together


@dataclass(slots=True)
class RoundCounts:
    """Rounds that were read, and how far a round can go.

    Args:
        rewards: the least and the largest; `least`: the smallest value of each column of
            propensities.
        positions: rounds at each position of slates.
    """

    rows: int = 0
    rewards: tuple[float, float] = (math.inf, -math.inf)
    least: dict[str, float] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def note(self, rewards: Floats, least: Mapping[str, float]) -> None:
        """Add rounds, float64[n_rounds]."""
        self._add(rewards.size, (float(rewards.min()), float(rewards.max())), least)

    def note_positions(self, places: Floats) -> None:
        """Add rounds at their positions, whole numbers from 1."""
        found = np.bincount(places.astype(np.int64))
        for position in np.flatnonzero(found).tolist():
            self.positions[position] = self.positions.get(position, 0) + int(found[position])

    def merge(self, other: "RoundCounts") -> None:
        """Add those of other users."""
        self._add(other.rows, other.rewards, other.least)
        for position, n_rows in other.positions.items():
            self.positions[position] = self.positions.get(position, 0) + n_rows

    def _add(self, rows: int, rewards: tuple[float, float], least: Mapping[str, float]) -> None:
        self.rows += rows
        self.rewards = min(self.rewards[0], rewards[0]), max(self.rewards[1], rewards[1])
        for name, value in least.items():
            self.least[name] = min(value, self.least.get(name, value))


@dataclass(slots=True)
class WeightsSeen:
    """What the weights of all rounds are, by target.

    Args:
        bins: int64, as `add_rounds` fills them, each up to one of `EDGES`.
        tops: float64[n_targets, 10], the largest weighted rewards by absolute value, falling.
        largest: float64[n_targets], the largest weight; `largest_term` float64[1], of all sums.
    """

    bins: Ints
    tops: Floats
    largest: Floats
    largest_term: Floats

    @classmethod
    def of(cls, n_targets: int) -> "WeightsSeen":
        """No round yet."""
        bins = np.zeros(n_targets * (EDGES.size + 1) * N_BINS, np.int64)
        return cls(bins, np.zeros((n_targets, TOP)), np.zeros(n_targets), np.zeros(1))

    def merge(self, other: "WeightsSeen") -> None:
        """Take over those of other users."""
        both = self.bins + other.bins
        for at in (1, 3):  # the second integer of a sum stays below 2^40
            fine = both[at + 1 :: N_BINS]
            both[at::N_BINS] += fine >> CARRY
            both[at + 1 :: N_BINS] = fine & MASK
        tops = -np.sort(-np.hstack([self.tops, other.tops]), axis=1)
        self.bins, self.tops = both, np.ascontiguousarray(tops[:, :TOP])
        self.largest = np.maximum(self.largest, other.largest)
        self.largest_term = np.maximum(self.largest_term, other.largest_term)

    def of_bins(self, target: int) -> tuple[Ints, Floats, Floats]:
        """Rounds, w r and r of the weights between two edges."""
        rows, *parts = self.bins.reshape(-1, EDGES.size + 1, N_BINS)[target].T
        return rows, *(parts[at] / COARSE + parts[at + 1] / FINE for at in (0, 2))


@dataclass(slots=True)
class LoggedSums:
    """Sums of users.

    Args:
        users: by share, from 1: user and segment columns, and a column for each term.
        user_names: as they were given; empty where rounds are units.
        weights: by share, of all rounds of a segment: squares of weights, and how many are 0.
        unsupported: by target that is a table, the mass on items that are never shown.
        unnamed: a column that looks like the user, where rounds are units and nobody asked for it.
    """

    users: dict[int, pl.DataFrame]
    weights: dict[int, pl.DataFrame]
    user_names: tuple[str, ...]
    counts: RoundCounts
    seen: WeightsSeen
    unsupported: dict[int, float]
    at: str
    unnamed: str = ""

    def merge(self, other: "LoggedSums") -> None:
        """Take over the sums of other users."""
        self.users.update(other.users)
        self.weights.update(other.weights)
        self.counts.merge(other.counts)
        self.seen.merge(other.seen)

    @property
    def frame(self) -> pl.DataFrame:
        """The users of all shares."""
        rows = pl.concat([self.users[share] for share in sorted(self.users)])
        return rows.sort([name for name in rows.columns if ":" not in name])
