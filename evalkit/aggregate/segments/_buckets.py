"""Groups of values: each text its own, numbers in buckets by edges or by quantiles."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import polars as pl

from evalkit.config import Segmentation
from evalkit.errors import DataError, RequestError
from evalkit.kernels.arrays import Floats, Int32s, Ints

UNKNOWN = "(unknown)"  # ids that the table lacks, and those without a value
SMALL = "(small)"  # segments below the minimum, put together
MOST_GROUPS = 10_000
MOST_CODES_A_ROW = 4  # for which a table of all of them is made

SortKey: TypeAlias = tuple[tuple[int, float, str], ...]
LAST: SortKey = ((2, 0.0, ""),)
SMALL_KEY: SortKey = ((3, 0.0, ""),)


@dataclass(frozen=True, slots=True)
class IdGroups:
    """The group of each id.

    Args:
        labels: the name of each group.
        keys: what the groups are put in order by.
        codes: int32[n_ids], the group of each id.
    """

    labels: tuple[str, ...]
    keys: tuple[SortKey, ...]
    codes: Int32s


@dataclass(slots=True)
class SeenValues:
    """The different values of segmentations by value, which make a segment each.

    Args:
        by_name: of each segmentation a column of them.
        places: where each segmentation stands.
    """

    by_name: dict[str, pl.DataFrame] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, at: str, distinct: pl.Series) -> None:
        """Remember the values of one share of the users.

        Raises:
            RequestError: there are more than a report can hold [too-many-segments].
        """
        frame = distinct.alias("value").to_frame()
        if name in self.by_name:
            frame = pl.concat([self.by_name[name], frame]).unique().sort("value")
        self.by_name[name], self.places[name] = frame, at
        self.check(name)

    def check(self, name: str) -> None:
        """Refuse more segments of one segmentation than a report can hold.

        Raises:
            RequestError: there are more [too-many-segments].
        """
        n_values = self.by_name[name].height
        if n_values > MOST_GROUPS:
            raise RequestError(
                f"{n_values:,} different values make too many segments, at most {MOST_GROUPS:,}",
                code="too-many-segments",
                at=self.places[name],
                hint="make buckets of a number: quantiles = 10",
            )

    def merge(self, other: "SeenValues") -> None:
        """Take over the values of other shares."""
        for name, frame in other.by_name.items():
            with suppress(RequestError):
                self.note(name, other.places[name], frame["value"])


def group_values(
    values: pl.Series,
    rule: Segmentation,
    edges: Sequence[float],
    at: str,
    note: Callable[[pl.Series], None],
) -> IdGroups:
    """The group of each value; null and NaN are unknown.

    Args:
        edges: inner edges of the buckets, where the rule makes any.
        note: told of the different values that make a group each, as `SeenValues.note` is.
    Raises:
        RequestError: more groups than a report can hold [too-many-segments].
    """
    if rule.quantiles is not None or rule.edges is not None:
        closed = "right" if rule.quantiles is not None else "left"
        return _in_buckets(as_numbers(values, at), edges, closed)
    return _by_value(values, note)


def as_numbers(values: pl.Series, at: str) -> Floats:
    """float64 values, NaN where there is none.

    Raises:
        DataError: they are no numbers [not-a-number].
    """
    if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
        message = f"buckets are made of numbers, and this is {values.dtype}"
        hint = 'write by = "cast(... as double)", or leave quantiles and edges out'
        raise DataError(message, code="not-a-number", at=at, hint=hint)
    numbers: Floats = values.cast(pl.Float64).to_numpy(writable=True)
    return numbers


def quantile_edges(numbers: Floats, n_buckets: int) -> list[float]:
    """Inner edges of buckets with as many numbers each, as far as equal numbers allow.

    The edge of a share p is the smallest number that at least a share p of the numbers does not
    exceed (Hyndman and Fan 1996, definition 1); a bucket holds its upper edge. Equal numbers
    stay together, so that there may be fewer buckets.
    """
    known = numbers[~np.isnan(numbers)]
    if known.size == 0:
        return []
    # whole-number division: no rounding decides a place
    places = {max(-(-known.size * step // n_buckets) - 1, 0) for step in range(1, n_buckets)}
    known.partition(sorted({*places, known.size - 1}))
    edges = sorted({float(known[place]) for place in places})
    return [edge for edge in edges if edge < known[-1]]


def _in_buckets(numbers: Floats, edges: Sequence[float], closed: str) -> IdGroups:
    side: str = "left" if closed == "right" else "right"
    codes = np.searchsorted(np.asarray(edges), numbers, side=side).astype(np.int32)  # type: ignore[call-overload]
    unknown = np.isnan(numbers)
    codes[unknown] = len(edges) + 1
    labels = [_label(edges, place, closed) for place in range(len(edges) + 1)]
    keys: list[SortKey] = [((0, float(place), ""),) for place in range(len(labels))]
    return IdGroups((*labels, UNKNOWN), (*keys, LAST), codes)


def _label(edges: Sequence[float], place: int, closed: str) -> str:
    low = spell_number(edges[place - 1]) if place > 0 else None
    high = spell_number(edges[place]) if place < len(edges) else None
    if low is None and high is None:
        return "all"
    if closed == "right":
        if low is None:
            return f"<= {high}"
        return f"> {low}" if high is None else f"({low}, {high}]"
    if low is None:
        return f"< {high}"
    return f">= {low}" if high is None else f"[{low}, {high})"


def spell_number(number: float) -> str:
    """A number as short as it can be read back."""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _by_value(values: pl.Series, note: Callable[[pl.Series], None]) -> IdGroups:
    if values.dtype.is_float():
        values = values.fill_nan(None)
    if values.dtype in (pl.Categorical, pl.Enum, pl.Null):
        values = values.cast(pl.String)
    elif values.dtype == pl.Binary:
        values = values.bin.encode("hex")
    distinct = values.drop_nulls().unique().sort()
    note(distinct)
    if values.dtype == pl.String:
        kind = pl.Enum(distinct)
        codes = values.cast(kind).to_physical().cast(pl.Int32)
    else:
        codes = values.rank("dense").cast(pl.Int32) - 1
    texts = [_apart(_spell(value)) for value in distinct.to_list()]
    numeric = values.dtype.is_numeric()
    keys: list[SortKey] = [
        ((0, float(value), text),) if numeric else ((1, 0.0, text),)
        for value, text in zip(distinct.to_list(), texts, strict=True)
    ]
    filled: Int32s = codes.fill_null(len(texts)).to_numpy(writable=True)
    return IdGroups((*texts, UNKNOWN), (*keys, LAST), filled)


def without_gaps(codes: Ints, n_codes: int) -> tuple[Ints, Int32s]:
    """The codes that are there, in order, and each code as its place among these."""
    if n_codes > MOST_CODES_A_ROW * codes.size:
        present, places = np.unique(codes, return_inverse=True)
        return present, places.astype(np.int32)
    is_there = np.zeros(n_codes, dtype=np.bool_)
    is_there[codes] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there, dtype=np.int32) - np.int32(1))[codes]


def _apart(text: str) -> str:
    """`text`, with one more `_` where it could be taken for a name that evalkit gives."""
    return f"{text}_" if text.rstrip("_") in (UNKNOWN, SMALL) else text


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return spell_number(value) if math.isfinite(value) else repr(value)
    return str(value)
