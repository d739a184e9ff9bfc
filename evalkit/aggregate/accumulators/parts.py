"""Exact sums by cells of the users, which explain a change between two runs."""

import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.aggregate.segments import ALL, CellSet, Segment, UserSegments
from evalkit.aggregate.user_values.buffer_pool import BufferPool
from evalkit.kernels import ConstantTable, kernel
from evalkit.kernels.arrays import Flags, Floats, Int32s, Ints
from evalkit.kernels.intrinsics import float_bits, prefetch
from evalkit.kernels.threads import slices_of
from evalkit.metrics import Request, is_made_of_users
from evalkit.statistics.exact import SCALE_BITS
from evalkit.truth import Truth

RELEVANT_FROM = (0, 1, 2, 3, 5, 9, 17, 33)  # where each range of numbers of relevant items begins
N_KINDS = 2 * len(RELEVANT_FROM)  # of users in a segment: ranges, and whether they are ranked
MOST_PART_CELLS = 4096  # of a segmentation

N_WORDS = 5  # how many values, and their sum: in halves, then in units 2^32 times as small each
UNIT_BITS = 97  # of the last word
GRIDS = ConstantTable(lambda: [1.5 * 2.0 ** (51 - 32 * word) for word in range(N_WORDS - 1)])
TOO_LARGE = 2.0**30
AHEAD = 24  # rows that are fetched before they are added
WORDS_A_LINE = 8  # of a cache
LANES = 4  # values that are added at once; one by one what is left of a row takes as long
ROWS_BESIDE = 1 << 12  # whose values are put side by side, and added while they are close
WORDS_AT_HAND = 1 << 15  # that stay close to the core
MOST_BYTES_A_THREAD = 1 << 22
NO_WEIGHTS = np.empty((0, 0), dtype=np.int64)

Words = Ints


@kernel(allocates=False)
def is_apart(value):  # type: ignore[no-untyped-def]
    """Whether a finite value does not fit into the words."""
    rest = value
    for word in range(N_WORDS - 1):
        cut = rest + GRIDS[word]
        rest -= cut - GRIDS[word]
    return abs(value) < math.inf and (rest != 0.0 or abs(value) >= TOO_LARGE)


@kernel(allocates=False)
def add_words(values, cells, first_column, weights, words, apart):  # type: ignore[no-untyped-def]
    """Add float64[n_users, n_cutoffs] to int64[n_cells, N_WORDS, n_columns], in any order.

    Each as often as int64[n_users, n_cutoffs] of weights says; without weights once.
    The words take 2^32 values. Places of those that do not fit go into `apart`; gives how many.
    """
    n_apart = 0
    n_rows, n_columns = values.shape
    is_large, is_weighted = words.size > WORDS_AT_HAND, weights.size > 0
    end = first_column + n_columns
    for row in range(n_rows):
        if is_large:
            ahead = words[cells[min(row + AHEAD, n_rows - 1)]]
            for word in range(N_WORDS):
                for line in range(0, n_columns + WORDS_A_LINE - 1, WORDS_A_LINE):
                    prefetch(ahead[word], first_column + line)
        own = words[cells[row]]
        counts, one, two = (
            own[0, first_column:end],
            own[1, first_column:end],
            own[2, first_column:end],
        )
        three, four = own[3, first_column:end], own[4, first_column:end]
        n_odd = np.int64(0)
        for column in range(n_columns):  # many at a time
            value = values[row, column]
            rest = value
            cut_1 = rest + GRIDS[0]
            rest -= cut_1 - GRIDS[0]
            cut_2 = rest + GRIDS[1]
            rest -= cut_2 - GRIDS[1]
            cut_3 = rest + GRIDS[2]
            rest -= cut_3 - GRIDS[2]
            cut_4 = rest + GRIDS[3]
            rest -= cut_4 - GRIDS[3]
            is_finite = abs(value) < math.inf  # not so of NaN
            fits = (rest == 0.0) & (abs(value) < TOO_LARGE)
            n_odd += is_finite & ~fits
            times = weights[row, column] if is_weighted else 1
            counts[column] += times if is_finite else 0
            one[column] += times * (float_bits(cut_1) - float_bits(GRIDS[0])) if fits else 0
            two[column] += times * (float_bits(cut_2) - float_bits(GRIDS[1])) if fits else 0
            three[column] += times * (float_bits(cut_3) - float_bits(GRIDS[2])) if fits else 0
            four[column] += times * (float_bits(cut_4) - float_bits(GRIDS[3])) if fits else 0
        for column in range(n_columns if n_odd > 0 else 0):
            if is_apart(values[row, column]):
                apart[n_apart] = row * n_columns + column
                n_apart += 1
    return n_apart


@kernel(allocates=False)
def add_runs(words, places, first, found):  # type: ignore[no-untyped-def]
    """Add the words of each run of places, int64[n_places], to those of one row of `found`."""
    for run in range(first.size):
        end = first[run + 1] if run + 1 < first.size else places.size
        for place in places[first[run] : end]:
            for word in range(N_WORDS):
                some, own = words[place, word], found[run, word]
                for column in range(some.size):  # many at a time
                    own[column] += some[column]


class Runs(NamedTuple):
    """Places that are added up: int64[n_places], and where each run of them begins."""

    places: Words
    first: Words


@dataclass(slots=True)
class WordSums:
    """Sums of one model's values by cell and kind of users.

    Args:
        codes: int32[n_users], places among the cells and kinds that have users.
        words: int64[n_places, N_WORDS, n_columns], some of them for nothing but `LANES`.
        apart: by place and column, sums times 2^1074 of values that the words do not take.
        of_threads: words of each thread, where they are few, so that none waits for another.
    """

    codes: Int32s
    words: Words
    apart: dict[int, dict[int, int]] = field(default_factory=dict)
    of_threads: dict[int, Words] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    lock_apart: Lock = field(default_factory=Lock)

    def add(self, users: Ints, values: Floats) -> None:
        """A block of users, all their groups of requests side by side."""
        codes = self.codes[users]
        if self.words.nbytes > MOST_BYTES_A_THREAD:
            with self.lock:
                self.add_values(values, codes, 0, NO_WEIGHTS, self.words)
            return
        thread = threading.get_ident()
        if thread not in self.of_threads:
            self.of_threads[thread] = np.zeros_like(self.words)
        self.add_values(values, codes, 0, NO_WEIGHTS, self.of_threads[thread])

    def add_values(
        self, values: Floats, codes: Int32s, first_column: int, weights: Ints, words: Words
    ) -> None:
        """Values of places, each as often as its weight says; without weights once."""
        apart = np.empty(values.size, dtype=np.int64)
        values = np.ascontiguousarray(values)
        n_apart = add_words(values, codes, first_column, weights, words, apart)
        for place in apart[:n_apart].tolist():
            row, column = divmod(place, values.shape[1])
            top, bottom = float(values[row, column]).as_integer_ratio()
            times = int(weights[row, column]) if weights.size else 1
            scaled = (top << SCALE_BITS) // bottom * times
            with self.lock_apart:
                sums = self.apart.setdefault(int(codes[row]), {})
                sums[first_column + column] = sums.get(first_column + column, 0) + scaled

    def over(self, runs: Sequence[Runs], columns: Words) -> tuple[Words, pl.Series]:
        """Numbers and sums, spelled, of each run of places by column."""
        words_of_all = sum(self.of_threads.values(), start=self.words)
        sizes = [each.places.size for each in runs]
        begins = np.cumsum(sizes) - sizes
        first = np.concatenate([r.first + begin for r, begin in zip(runs, begins, strict=True)])
        summed = np.zeros((first.size, *words_of_all.shape[1:]), dtype=np.int64)
        add_runs(words_of_all, np.concatenate([each.places for each in runs]), first, summed)
        numbers = summed[:, :, columns]
        numbers = numbers.transpose(1, 2, 0).reshape(N_WORDS, -1)
        texts = _spell_words([*numbers[1:]])
        more: dict[int, int] = {}
        n_before, n_runs = 0, sum(each.first.size for each in runs)
        for some in runs if self.apart else ():
            for number, place in enumerate(some.places.tolist()):
                run = n_before + int(np.searchsorted(some.first, number, side="right")) - 1
                for column, scaled in self.apart.get(place, {}).items():
                    for at in np.flatnonzero(columns == column).tolist():
                        at = at * n_runs + run
                        more[at] = more.get(at, 0) + scaled
            n_before += some.first.size
        mended = [spell_sum(read_sum(texts[at]) + scaled) for at, scaled in more.items()]
        return numbers[0], texts.scatter([*more], mended)


def _spell_words(words: list[Words]) -> pl.Series:
    """`spell_sum` of each sum: int64[n] of halves, then of units 2^32 times as small each."""
    digits, carried = [], np.zeros_like(words[0])
    for word in reversed(words):  # the lowest first
        whole = word + carried
        digits.append(whole & 0xFFFFFFFF)
        carried = whole >> 32
    low = digits[0].view(np.uint64) | digits[1].view(np.uint64) << np.uint64(32)
    high = digits[2] + (digits[3] << 32)
    is_far = (whole < -(1 << 31)) | (whole >= 1 << 31)  # which `high` does not hold
    is_low = low != 0
    ends = np.where(is_low, low, high.view(np.uint64))
    ends &= np.uint64(0) - ends
    zeros = np.frexp(ends.astype(np.float64))[1].astype(np.int64) - 1  # trailing ones
    right = np.where(is_low, zeros, 0).astype(np.uint64)
    numbers = high >> np.where(is_low, 0, np.maximum(zeros, 0))
    reach = np.int64(1) << np.maximum(zeros - 1, 0)
    fits = is_low & (zeros > 0) & (high >= -reach) & (high < reach)
    left = np.where(fits, 64 - zeros, 0)
    found = np.where(is_low, (high << left) + (low >> right).view(np.int64), numbers)
    exponents = np.where(is_low, zeros, zeros + 64) - UNIT_BITS
    exponents[ends == 0] = 0
    texts = pl.select(
        pl.concat_str(pl.Series(found.tolist()), pl.lit("*2^"), pl.Series(exponents.tolist()))
    )
    wide = np.flatnonzero(is_low & ~fits & ~is_far)  # which no word of 64 bits holds
    halves = zip(*(each[wide].tolist() for each in (high, low, zeros)), strict=True)
    spelled = [f"{(top << 64) + bottom >> n}*2^{n - UNIT_BITS}" for top, bottom, n in halves]
    far = np.flatnonzero(is_far)
    spelled += [
        spell_sum(((one << 32) + two << 64) + (three << 32) + four, UNIT_BITS)
        for one, two, three, four in zip(*(each[far].tolist() for each in words), strict=True)
    ]
    return texts.to_series().scatter([*wide.tolist(), *far.tolist()], spelled)


@dataclass(frozen=True, slots=True)
class _SplitCells:
    """A set of cells, each split by kinds of users.

    Args:
        members: the cells of each segment.
        used: int64[n_places], cell and kind of each place.
    """

    members: Mapping[Segment, Ints]
    used: Ints
    sums: Mapping[str, WordSums]


class PartSums:
    """Exact sums by cells that explain a change between two runs, of one share of the users.

    A value is added once, to its user's cell; segments are put together of cells.

    Args:
        present: for each model bool[n_users], whether the user has a ranking.
        segmentations: of the users.
        cell_sets: of these.
        n_columns: values of a user and model.
    """

    def __init__(
        self,
        truth: Truth,
        present: Mapping[str, Flags],
        segmentations: Sequence[UserSegments],
        cell_sets: Sequence[CellSet],
        n_columns: int,
    ) -> None:
        ranges = np.searchsorted(RELEVANT_FROM, np.arange(RELEVANT_FROM[-1] + 1), side="right") - 1
        kinds, n_relevant = 2 * ranges.astype(np.int32), truth.pairs.n_relevant
        few = {
            each.name
            for each in segmentations
            if N_KINDS * len(each.groups.labels) <= MOST_PART_CELLS
        }
        self._width = n_columns + (-n_columns % LANES if n_columns > 2 * LANES else 0)
        self._pools: dict[int, BufferPool] = {}  # of each thread
        self._cells = []
        for cell_set in cell_sets:
            members = {s: cells for s, cells in cell_set.members.items() if s == ALL or s[0] in few}
            is_used = np.zeros(N_KINDS * cell_set.n_cells, dtype=np.bool_)
            of_models = {
                model: np.empty_like(cell_set.codes) for model in (present if members else ())
            }
            for users in slices_of(truth.n_users):
                own = cell_set.codes[users] * np.int32(N_KINDS)
                own += kinds[np.minimum(n_relevant[users], RELEVANT_FROM[-1])]
                for model, codes in of_models.items():
                    codes[users] = own + present[model][users]
                    is_used[codes[users]] = True
            places = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
            for users in slices_of(truth.n_users):
                for codes in of_models.values():
                    codes[users] = places[codes[users]]
            shape = (int(is_used.sum()), N_WORDS, self._width)
            sums = {
                model: WordSums(codes, np.zeros(shape, dtype=np.int64))
                for model, codes in of_models.items()
            }
            self._cells.append(_SplitCells(members, np.flatnonzero(is_used), sums))

    def add(self, users: Ints, values: Mapping[str, Sequence[Floats]]) -> None:
        """A block of users."""
        pool = self._pools.setdefault(threading.get_ident(), BufferPool())
        for model, groups in values.items():
            if not groups:  # all of them are counted
                continue
            n_columns = sum(each.shape[1] for each in groups)
            width = min(n_columns + -n_columns % LANES, self._width)
            for rows in slices_of(users.size, ROWS_BESIDE):
                own = users[rows]
                pool.clear()
                together = pool.take((own.size, width), np.float64)
                np.concatenate([each[rows] for each in groups], axis=1, out=together[:, :n_columns])
                together[:, n_columns:] = np.nan  # which is not added
                for cells in self._cells:
                    if model in cells.sums:
                        cells.sums[model].add(own, together)

    @property
    def only(self) -> Mapping[str, WordSums]:
        """The sums of each model, where there is one set of cells."""
        (cells,) = self._cells
        return cells.sums

    def rows(self, requests: Sequence[Request], columns: Ints) -> pl.DataFrame:
        """One row for each model, request and cell with users, nearly in their last order."""
        of_label = dict(sorted(zip([each.label for each in requests], columns, strict=False)))
        explained = [each.label for each in requests if is_made_of_users(each)]
        in_order = np.array(sorted(range(N_KINDS), key=lambda kind: (spell_range(kind // 2), kind)))
        place_of_kind = np.argsort(in_order)
        frames = [pl.DataFrame(schema=PART_SCHEMA)]
        for cell in self._cells:
            cell_of, kind_of = np.divmod(cell.used, N_KINDS)
            turns = place_of_kind[kind_of]
            runs: list[Runs] = []
            named: list[tuple[str | None, str | None, str, bool]] = []
            for segment, members in sorted(cell.members.items()):
                places = np.flatnonzero(np.isin(cell_of, members))
                places = places[np.argsort(turns[places], kind="stable")]
                its, first = np.unique(turns[places], return_index=True)
                of = (None, None) if segment == ALL else segment
                kinds = in_order[its].tolist()
                named += [(*of, spell_range(kind // 2), bool(kind % 2)) for kind in kinds]
                runs += [Runs(places, first)] if kinds else []
            names = ("segmentation", "segment", "relevant", "is_ranked")
            schema = {name: PART_SCHEMA[name] for name in names}
            cells = pl.DataFrame(named, schema=schema, orient="row")
            labels = pl.Series("metric", [*of_label], pl.String)
            for model, sums in sorted(cell.sums.items()) if runs else ():
                n_users, texts = sums.over(runs, np.array([*of_label.values()]))
                rows = pl.concat([cells] * len(labels)).with_columns(
                    pl.lit(model, pl.String).alias("model"),
                    labels.gather(pl.int_range(len(texts), eager=True) // len(cells)),
                    pl.Series("n_users", n_users.tolist(), pl.Int64),
                    texts.alias("sum"),
                )
                frames.append(rows.select(*PART_SCHEMA))
        is_kept = pl.col("n_users") > 0, pl.col("metric").is_in(explained)
        return pl.concat(frames).filter(*is_kept)


PART_SCHEMA: dict[str, type[pl.DataType]] = {
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


def spell_sum(scaled: int, bits: int = SCALE_BITS) -> str:
    """An exact sum, an integer times 2^-bits, as `integer*2^exponent` without trailing zeros."""
    if scaled == 0:
        return "0*2^0"
    shift = (scaled & -scaled).bit_length() - 1
    return f"{scaled >> shift}*2^{shift - bits}"


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
