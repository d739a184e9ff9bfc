"""Exact sums by cells of the users, which explain a change between two runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.exact import SCALE_BITS, CellRows, ExactSums
from evalkit.metrics import Request
from evalkit.segments import UserSegments
from evalkit.truth import Truth
from evalkit.values.blocks import Values

RELEVANT_FROM = (0, 1, 2, 3, 5, 9, 17, 33)  # where each range of numbers of relevant items begins
N_KINDS = 2 * len(RELEVANT_FROM)  # of users in a segment: ranges, and whether they are ranked
MOST_PART_CELLS = 4096  # of a segmentation

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Split:
    """Users by segment, number of relevant items, and whether they are ranked."""

    name: str | None
    labels: tuple[str, ...]
    codes: Mapping[str, Codes]  # of each model: places among the cells
    cells: npt.NDArray[np.int64]  # those that have users, as sums of a cell are large
    sums: dict[str, ExactSums]
    locks: Mapping[str, Lock]

    def segment_of(self, cell: int) -> str | None:
        """The segment that a cell is a part of; None where all users are one."""
        return None if self.name is None else self.labels[cell // N_KINDS]


class PartSums:
    """Exact sums by cells that explain a change between two runs, of one share of the users.

    Args:
        present: for each model bool[n_users], whether the user has a ranking.
        segmentations: of the users.
    """

    def __init__(
        self,
        truth: Truth,
        present: Mapping[str, npt.NDArray[np.bool_]],
        segmentations: Sequence[UserSegments],
    ) -> None:
        relevant = np.searchsorted(RELEVANT_FROM, truth.pairs.n_relevant, side="right") - 1
        everyone = np.zeros(truth.pairs.n_users, dtype=np.int32)
        listed: list[tuple[str | None, tuple[str, ...], Codes]] = [(None, ("",), everyone)]
        listed += [(each.name, each.groups.labels, each.groups.codes) for each in segmentations]
        self._splits = []
        for name, labels, codes in listed:
            n_cells = N_KINDS * len(labels)
            if n_cells > MOST_PART_CELLS:
                continue
            of_models = {
                model: ((codes * len(RELEVANT_FROM) + relevant) * 2 + here).astype(np.int32)
                for model, here in present.items()
            }
            n_users = sum(np.bincount(each, minlength=n_cells) for each in of_models.values())
            cells = np.flatnonzero(n_users)
            places = np.cumsum(np.asarray(n_users) > 0, dtype=np.int32) - 1
            self._splits.append(
                _Split(
                    name,
                    labels,
                    {model: places[each] for model, each in of_models.items()},
                    cells,
                    {},
                    {model: Lock() for model in present},
                )
            )

    def add(
        self,
        users: npt.NDArray[np.int64],
        values: Mapping[str, Sequence[Values]],
        n_columns: int,
    ) -> None:
        """A block of users."""
        for split in self._splits:
            for model, groups in values.items():
                rows = CellRows.of(split.codes[model][users], split.cells.size)
                with split.locks[model]:
                    if model not in split.sums:
                        split.sums[model] = ExactSums(n_columns, split.cells.size)
                    sums = split.sums[model]
                    first = 0
                    for each in groups:
                        sums.add(each, first_column=first, rows=rows)
                        first += each.shape[1]

    def rows(self, requests: Sequence[Request], columns: npt.NDArray[np.int64]) -> pl.DataFrame:
        """One row for each model, request and cell with users."""
        labels = [each.label for each in requests]
        wanted = columns[: len(labels)]
        found = [pl.DataFrame(schema=PART_SCHEMA)]
        for split in self._splits:
            for model, sums in split.sums.items():
                places = np.flatnonzero(np.bincount(split.codes[model]))
                cells = split.cells[places].tolist()
                of_cells = pl.DataFrame(
                    {
                        "segment": [split.segment_of(cell) for cell in cells],
                        "relevant": [spell_range(cell // 2 % len(RELEVANT_FROM)) for cell in cells],
                        "is_ranked": [bool(cell % 2) for cell in cells],
                    },
                    schema_overrides=PART_SCHEMA,
                )
                rows = (places[:, None] * sums.n_columns + wanted).ravel().tolist()
                found.append(
                    of_cells[np.repeat(np.arange(places.size), len(labels))]
                    .with_columns(
                        pl.lit(model).alias("model"),
                        pl.Series("metric", labels * places.size, pl.String),
                        pl.lit(split.name, pl.String).alias("segmentation"),
                        pl.Series("n_users", sums.counts[rows, 0]),
                        pl.Series("sum", [spell_sum(sums.sum_of(row).scaled) for row in rows]),
                    )
                    .filter(pl.col("n_users") > 0)
                    .select(*PART_SCHEMA)
                )
        return pl.concat(found)


PART_SCHEMA = {
    "model": pl.String,
    "metric": pl.String,
    "segmentation": pl.String,
    "segment": pl.String,
    "relevant": pl.String,
    "is_ranked": pl.Boolean,
    "n_users": pl.Int64,
    "sum": pl.String,
}


def spell_range(place: int) -> str:
    """A range of numbers of relevant items: `3-4`, or `33 or more`."""
    first = RELEVANT_FROM[place]
    if place == len(RELEVANT_FROM) - 1:
        return f"{first} or more"
    last = RELEVANT_FROM[place + 1] - 1
    return str(first) if first == last else f"{first}-{last}"


MOST_BITS = 1 << 13  # no sum of floats has so many
_SUM = re.compile(r"(?P<number>-?\d{1,2500})\*2\^(?P<exponent>-?\d{1,5})", re.ASCII)


def spell_sum(scaled: int) -> str:
    """An exact sum, an integer times 2^-1074, as `integer*2^exponent` without trailing zeros."""
    if scaled == 0:
        return "0*2^0"
    shift = (scaled & -scaled).bit_length() - 1
    return f"{scaled >> shift}*2^{shift - SCALE_BITS}"


def read_sum(text: str) -> int:
    """The integer that `spell_sum` wrote.

    Raises:
        ValueError: it wrote no such text.
    """
    found = _SUM.fullmatch(text)
    if found is None or int(found["exponent"]) + SCALE_BITS not in range(MOST_BITS):
        raise ValueError(f"{text[:40]!r} is no exact sum")
    number = int(found["number"])
    return number << (int(found["exponent"]) + SCALE_BITS) if number else 0


def add_parts(one: pl.DataFrame | None, other: pl.DataFrame | None) -> pl.DataFrame | None:
    """The rows of two shares of the users, cell by cell."""
    if one is None or other is None:
        return other if one is None else one
    merged: dict[tuple[object, ...], list[int]] = {}
    for *cell, n_users, text in [*one.rows(), *other.rows()]:
        known = merged.setdefault(tuple(cell), [0, 0])
        known[0] += n_users
        known[1] += read_sum(text)
    rows = [(*cell, n_users, spell_sum(scaled)) for cell, (n_users, scaled) in merged.items()]
    return pl.DataFrame(rows, schema=PART_SCHEMA, orient="row")


def finish_parts(parts: pl.DataFrame | None, n_segments: Mapping[str, int]) -> pl.DataFrame | None:
    """The rows in order, without segmentations that have too many segments over all shares."""
    if parts is None:
        return None
    many = [name for name, n in n_segments.items() if n * N_KINDS > MOST_PART_CELLS]
    is_kept = ~pl.col("segmentation").is_in(many)
    kept = parts.filter(is_kept.fill_null(value=True))
    names = ["model", "metric", "segmentation", "segment", "relevant", "is_ranked"]
    return kept.sort(names, maintain_order=True)
