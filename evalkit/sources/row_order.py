"""Columns that look like scores, and are not read: does the order of the rows say the same?

Where neither a rank nor a score is read, the order of the rows ranks. A column beside it that has
a score's name, or floats that differ within users, would rank too; where it contradicts the rows,
nobody can tell which of them is meant.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from evalkit.sources.batches import stream_batches
from evalkit.sources.delimited import SEPARATORS, scan_delimited
from evalkit.sources.guess import best_guess, words_of
from evalkit.sources.paths import File

_NAMES = frozenset(
    """
    score scores prediction predictions pred preds predicted predictedscore predictedrating ypred
    yhat yscore similarity similarities sim sims cosine dot probability prob probs proba logit
    logits confidence conf relevance rel rating ratings stars est estimate estimated estimation
    value val weight weights strength affinity utility gain ctr pctr relevancescore rankscore
    modelscore itemscore rankingscore predscore finalscore
    """.split()
)
_WORDS = frozenset("score pred prediction prob similarity rating est confidence relevance".split())
_RANKS = frozenset("order rn rownum rownumber rowno place rank ranks ranking rankings".split())
_COSTS = frozenset("distance distances dist dists cost costs loss losses".split())
_RANK_WORDS = frozenset("rank ranking".split())
_PASSED_OVER = ("time", "published")  # columns that say when
_A_LOOK = 200  # rows of a text file
MOST_ROWS, MOST_NUMBERS = 1 << 22, 1 << 20  # that are looked at, of rows and of lists
TOGETHER = 1 << 18
LISTS = 1 << 12  # whose numbers are held one by one
FIRST_ROWS, MANY_STEPS = 1 << 16, 100  # that say whether scores rise
FIRST = 1 << 8  # lists, whose mean length says how many are decoded

Verdict = Literal["agrees", "contradicts"]


@dataclass(frozen=True, slots=True)
class RowScore:
    """A column that looks like a score, and what it says of the order of rows.

    Args:
        name: as the table has it.
        sql: what is read as the score.
        verdict: it never rises within a user's rows, or it does.
        looks_like: a score, or a rank.
    """

    name: str
    sql: str
    verdict: Verdict
    looks_like: str = "score"


def find_row_scores(
    schema: Mapping[str, pl.DataType],
    used: Sequence[str],
    files: Sequence[File],
    *,
    is_list: bool,
    open_column: Callable[[str], pl.LazyFrame],
) -> tuple[RowScore, ...]:
    """What unread columns that look like scores say of the order of rows.

    Args:
        schema: all columns; those of text files are text.
        used: columns that are read.
        is_list: a row is a list, and so is its column of scores.
        open_column: rows in their order: `value`, and whose list they are in.
    """
    found = []
    for name in _candidates(schema, used, files, is_list=is_list):
        rises, falls = _movements(open_column(name), is_list=is_list)
        is_rank = _has_a_name(name, _RANKS, _RANK_WORDS)
        column = name if re.fullmatch(r"[^\W\d]\w*", name) else f'"{name}"'
        if is_rank or _has_a_name(name, _COSTS, _COSTS):
            rises, falls, column = falls, rises, f"-{column}"
        if rises or falls:
            verdict: Verdict = "contradicts" if rises else "agrees"
            found.append(RowScore(name, column, verdict, "rank" if is_rank else "score"))
    return tuple(found)


def scores_rise(frame: pl.LazyFrame, *, is_list: bool) -> bool:
    """Whether scores never fall from row to row of the first lists, and rise `MANY_STEPS` times."""
    owner = [name for name in frame.collect_schema() if name.startswith("user_") or name == "model"]
    if is_list:
        owner, frame = ["list"], frame.select("score").head(LISTS).with_row_index("list")
        frame = frame.explode("score")
    score, keys = pl.col("score"), pl.struct(owner)
    is_next = keys == keys.shift(1)
    rises, falls = (is_next & (score > score.shift(1))), (is_next & (score < score.shift(1)))
    first = frame.select(*owner, "score").head(FIRST_ROWS)
    counts = first.select(rises.sum().alias("rises"), falls.sum().alias("falls"))
    n_rises, n_falls = map(int, counts.collect(engine="streaming").row(0))
    return n_falls == 0 and n_rises >= MANY_STEPS


def _plain(name: str) -> str:
    return re.sub(r"[\W\d_]", "", name).lower()


def _has_a_name(name: str, names: frozenset[str], words: frozenset[str]) -> bool:
    return _plain(name) in names or bool(words_of(name) & words)


def _candidates(
    schema: Mapping[str, pl.DataType], used: Sequence[str], files: Sequence[File], *, is_list: bool
) -> Iterator[str]:
    texts = [file for file in files if file.format in SEPARATORS]
    look = None
    for name, dtype in schema.items():
        if name in used or any(best_guess(key, [name]) for key in _PASSED_OVER):
            continue
        inner = dtype.inner if isinstance(dtype, pl.List | pl.Array) else dtype
        inner = inner() if isinstance(inner, type) else inner
        if isinstance(dtype, pl.List | pl.Array) != is_list:
            continue
        has_a_name = _has_a_name(name, _NAMES | _RANKS | _COSTS, _WORDS | _RANK_WORDS | _COSTS)
        if inner.is_float() or (inner.is_numeric() and has_a_name):
            yield name
        elif inner == pl.String and texts and not is_list:
            if look is None:
                names = [each for each in schema if each not in dict(texts[0].partitions)]
                look = scan_delimited(texts[0], names, {}).head(_A_LOOK).collect()
            if name in look.columns and _are_numbers(look[name], floats=not has_a_name):
                yield name


def _are_numbers(texts: pl.Series, *, floats: bool) -> bool:
    given = texts.drop_nulls()
    if given.is_empty() or given.cast(pl.Float64, strict=False).null_count():
        return False
    return not floats or bool(given.str.contains(r"[.eE]").any())


def _movements(frame: pl.LazyFrame, *, is_list: bool) -> tuple[bool, bool]:
    """Whether values rise, and whether they fall, from one row of a list to the next."""
    seen = [False, False]
    for moves in (_of_lists if is_list else _of_rows)(frame):
        seen = [old or bool(new) for old, new in zip(seen, moves, strict=True)]
        if all(seen):
            break
    return seen[0], seen[1]


def _of_rows(frame: pl.LazyFrame) -> Iterator[tuple[bool, bool]]:
    lists = [name for name in frame.collect_schema() if name != "value"]
    number = pl.col("value").cast(pl.Float64, strict=False).fill_nan(None)
    step = number - number.shift(1).over(lists)
    tests = (step > 0.0).any().alias("rises"), (step < 0.0).any().alias("falls")
    for kept in _joined(stream_batches(frame.head(MOST_ROWS))):
        if kept.height:
            rises, falls = kept.select(tests).row(0)
            yield rises, falls


def _of_lists(frame: pl.LazyFrame) -> Iterator[tuple[bool, bool]]:
    """The same of `MOST_NUMBERS` in lists, a few lists at a time; NaN and null are none."""
    n_numbers = 0
    for rows in stream_batches(_few_lists(frame.select("value"))):
        for few in rows.drop_nulls().iter_slices(LISTS):
            lists = few["value"]
            if isinstance(lists.dtype, pl.Array):
                lists = lists.arr.to_list()
            lists = lists.filter(lists.list.len() > 0)
            values = lists.explode().cast(pl.Float64, strict=False).to_numpy()
            if values.size:
                own = np.repeat(np.arange(lists.len()), lists.list.len().to_numpy())
                if (lacks := np.isnan(values)).any():
                    own, values = own[~lacks], values[~lacks]
                is_next, (old, new) = own[1:] == own[:-1], (values[:-1], values[1:])
                yield (is_next & (new > old)).any(), (is_next & (new < old)).any()
            n_numbers += values.size
            if n_numbers >= MOST_NUMBERS:
                return


def _few_lists(lists: pl.LazyFrame) -> pl.LazyFrame:
    """As many lists as hold about `MOST_NUMBERS`, by the first of them; no more is decoded."""
    first = stream_batches(lists.head(FIRST))
    n_numbers = sum(rows["value"].explode().len() for rows in first)
    return lists.head(MOST_NUMBERS * FIRST // max(n_numbers, 1))


def _joined(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Rows with a value, many together; the last of some are the first of the next."""
    held: list[pl.DataFrame] = []
    n_held = 0
    for rows in frames:
        kept = rows.drop_nulls("value")
        held.append(kept)
        n_held += kept.height
        if n_held >= TOGETHER:
            together = pl.concat(held)
            yield together
            held, n_held = [together.tail(1)], 1
    if held:
        yield pl.concat(held)
