"""Rows of rankings as kernels take them: cut into batches, ranks and scores as integers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Flags, Ints, Keys
from evalkit.ranks import _kernels as kernels
from evalkit.ranks._records import WORST, ModelProbe, RankedRows
from evalkit.sources.ids import ITEM_KEY, USER_KEY, as_array, as_keys, mix

SHIFT = 1 << 63  # of unsigned scores, whose order integers with a sign have, too


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one model with whole lists of users where the mode needs them."""

    probe: ModelProbe
    frame: pl.DataFrame
    first_row: int


def rows_of(frame: pl.DataFrame) -> RankedRows:
    """The keys of a frame's users and items."""
    return RankedRows(as_keys(frame[USER_KEY]), as_keys(frame[ITEM_KEY]))


def cut_by_user(batches: Iterator[Batch], *, of_lists: bool = False) -> Iterator[Batch]:
    """The same rows, cut where users end: a user cut by a batch's border comes as one batch.

    Args:
        of_lists: hardly any border cuts a user, so that a batch waits for the next one whole.
    """
    waiting: dict[str, Batch] = {}
    for batch in batches:
        users = as_keys(batch.frame[USER_KEY])
        name, begin = batch.probe.model, 0
        held = waiting.pop(name, None)
        if held is not None:
            begin = run_length(users, as_keys(held.frame[USER_KEY])[-1])
            joined = pl.concat([held.frame, batch.frame[:begin]]) if begin else held.frame
            held = Batch(held.probe, joined, held.first_row)
            if begin == users.size:
                waiting[name] = held
                continue
            yield held
        last = begin if of_lists else users.size - run_length(users[::-1], users[-1])
        if last > begin:
            yield Batch(batch.probe, batch.frame[begin:last], batch.first_row + begin)
        waiting[name] = Batch(batch.probe, batch.frame[last:], batch.first_row + last)
    yield from waiting.values()


def run_length(users: Keys, user: np.uint64) -> int:
    """How many of the first users are `user`."""
    size = 4096
    while True:
        differs = users[:size] != user
        if differs.any():
            return int(differs.argmax())
        if size >= users.size:
            return int(users.size)
        size *= 16


def rank_column(dtype: pl.DataType) -> pl.Expr:
    """Ranks as int32, null where one is null or no whole number."""
    rank = pl.col("rank")
    if dtype.is_float():
        rank = pl.when(rank == rank.floor()).then(rank)
    return rank.cast(pl.Int32, strict=False).alias("rank")


def score_column(dtype: pl.DataType) -> pl.Expr:
    """Scores as floats, or as int64 where they are integers that float64 might round."""
    if dtype == pl.UInt64:  # the same order around zero
        return (pl.col("score").cast(pl.Int128) - SHIFT).cast(pl.Int64)
    if dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128):
        return pl.col("score").cast(pl.Int64)
    return pl.col("score").cast(pl.Float32 if dtype == pl.Float32 else pl.Float64)


def unshifted(scores: pl.Series) -> pl.Series:
    """Unsigned scores of `score_column` as they were."""
    return scores.cast(pl.Int128) + pl.Series([SHIFT], dtype=pl.Int128)


def strengths_of_scores(scores: pl.Series) -> tuple[Ints, Flags | None]:
    """Integers that order as the scores do, and which rows have no usable score, if any."""
    if scores.dtype == pl.Int64:
        if not scores.null_count():
            return as_array(scores), None
        return as_array(scores.fill_null(WORST)), scores.is_null().to_numpy()
    values = as_array(scores.fill_null(float("nan")))
    strengths = np.empty(values.size, dtype=np.int64)
    bits = values.view(np.int32 if values.dtype == np.float32 else np.int64)
    n_bad = kernels.strengths_of_floats(bits, strengths)
    return strengths, np.isnan(values) if n_bad else None


def shared_strengths(codes: pl.Series, strengths: pl.Series, items: Keys) -> Flags:
    """Which rows of sorted lists are as strong as a row of another item in their list."""
    if not items.size:
        return np.zeros(0, dtype=np.bool_)
    code, strength = as_array(codes), as_array(strengths)
    is_first = (code[1:] != code[:-1]) | (strength[1:] != strength[:-1])
    begins = np.concatenate([[0], np.flatnonzero(is_first) + 1])
    shared = np.minimum.reduceat(items, begins) != np.maximum.reduceat(items, begins)
    spread: Flags = np.repeat(shared, np.diff(begins, append=items.size))
    return spread


def make_checksums(n: int) -> Keys:
    """The sums of hashed ranks 1..m for every m below `n`."""
    hashed: Keys = mix.interpret(np.arange(n, dtype=np.uint64))
    return np.cumsum(hashed)  # that of 0 is 0
