"""Values of single users, kept where the sums of shares say too little: 8 bytes a value.

Errors over clusters take each cluster whole, and draws take the largest value of all users before
the first; both are made when the users of all shares are together. A share leaves a row a user.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.aggregate.segments import IdGroups, UserSegments
from evalkit.aggregate.user_values.blocks import BlockValues, stack_columns
from evalkit.kernels.arrays import Floats, Ints, Keys
from evalkit.kernels.threads import ordered_map

KEY, CLUSTER, WEIGHT = "key", "cluster", "weight"


@dataclass(frozen=True, slots=True)
class UserRows:
    """What is known of users beside their values.

    Args:
        keys: uint64[n_users], stable hashes of their ids.
        clusters: uint64[n_users], what varies together; the users themselves by default.
        weights: float64[n_users], how much each counts.
        segments: of the users, crosses last.
    """

    keys: Keys
    clusters: Keys
    weights: Floats
    segments: Sequence[UserSegments]


@dataclass(slots=True)
class KeptUsers:
    """A row a user: what is known of them, their segments, and a value a model and request."""

    frames: list[pl.DataFrame] = field(default_factory=list)

    def add(self, rows: UserRows, values: BlockValues, models: Sequence[str], threads: int) -> None:
        """Keep the users of one share."""
        own = {name: np.empty((rows.keys.size, values.columns.size)) for name in models}

        def work(block: Ints) -> None:
            for name, each in values.measure(block).items():
                own[name][block] = stack_columns(values, each)

        for _ in ordered_map(work, values.blocks(), threads=threads):
            pass
        columns = {KEY: rows.keys, CLUSTER: rows.clusters, WEIGHT: rows.weights}
        series = [pl.Series(name, each) for name, each in columns.items()]
        for segment in rows.segments:
            labels = pl.Series(_segment(segment.name), segment.groups.labels, dtype=pl.String)
            series.append(labels.gather(segment.groups.codes))
        for name, found in own.items():
            series += [
                pl.Series(_value(name, number), np.ascontiguousarray(found[:, number]))
                for number in range(values.columns.size)
            ]
        self.frames.append(pl.DataFrame(series))

    def merge(self, other: "KeptUsers") -> None:
        """Take over the users of other shares."""
        self.frames += other.frames

    def joined(
        self, models: Sequence[str], segmentations: Sequence[str], n_requests: int
    ) -> tuple[UserRows, dict[str, Floats]]:
        """The users of all shares, and for each model float64[n_users, n_requests]."""
        found = pl.concat(self.frames)
        rows = UserRows(
            found[KEY].to_numpy(),
            found[CLUSTER].to_numpy(),
            found[WEIGHT].to_numpy(),
            [_segments(name, found[_segment(name)]) for name in segmentations],
        )
        places = range(n_requests)
        return rows, {
            name: np.stack([found[_value(name, place)].to_numpy() for place in places], axis=1)
            for name in models
        }


def _segment(name: str) -> str:
    return f"segment {name}"


def _value(model: str, request: int) -> str:
    return f"value {request} {model}"


def _segments(name: str, labels: pl.Series) -> UserSegments:
    distinct = labels.unique().sort()
    codes = labels.cast(pl.Enum(distinct)).to_physical().cast(pl.Int32)
    keys = tuple(((0, float(place), ""),) for place in range(distinct.len()))
    groups = IdGroups(tuple(distinct.to_list()), keys, codes.to_numpy(writable=True))
    return UserSegments(name, groups)
