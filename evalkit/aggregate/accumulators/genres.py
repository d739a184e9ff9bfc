"""Genres of lists beside those of the same users' train rows: what calibration is made of.

They are kept of some users, drawn by hashes of their ids.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evalkit.aggregate.accumulators.shown import ShownSums, draw_numbers
from evalkit.aggregate.user_values.gather import ranges
from evalkit.item_lists import ItemFacts, Measure
from evalkit.kernels.arrays import Flags, Floats, Ints, Keys
from evalkit.metrics import Items, Lists, Request

MOST_GENRES = 40  # those of the most items
WHOLE = 2.0**32  # what an item adds is a multiple of its inverse, so that no order matters
USERS_DRAWN = 10_000
USERS_AT_ONCE = 1 << 13


def requests_of_genres(requests: Sequence[Request]) -> list[Request]:
    """The requests of calibration whose genres are looked at: the first by each column."""
    found: dict[object, Request] = {}
    for request in requests:
        if request.metric.name == "calibration":
            found.setdefault(dict(request.parameters)["by"], request)
    return list(found.values())


def key_of_genres(request: Request, model: str) -> str:
    """Under which name the genres of a model are kept."""
    return repr(("genres", request.label, model))


def genres_of_users(
    request: Request, model: str, measure: Measure, lists: Lists, who: Flags, hashes: Keys
) -> ShownSums:
    """Of each user who is drawn the share of each genre in train, then in the list.

    NaN of users of whom either has no genre. The names of the genres stand with the items.

    Args:
        who: bool[n_users], who counts.
        hashes: of the users' ids.
    """
    names, kept = _kept(request, measure.context.items)
    counting = _Genres(request, measure, kept)
    drawn = np.flatnonzero(who & (lists.lengths > 0) & measure.users.trained)
    if drawn.size > USERS_DRAWN:
        drawn = drawn[np.argpartition(draw_numbers(hashes[drawn]), USERS_DRAWN)[:USERS_DRAWN]]

    def values(chosen: Ints) -> dict[str, Floats]:
        found = [np.empty((0, 2 * kept.size))]
        for begin in range(0, chosen.size, USERS_AT_ONCE):
            users = drawn[chosen[begin : begin + USERS_AT_ONCE]]
            found.append(np.concatenate(list(counting.shares(lists, users)), axis=1))
        return {model: np.concatenate(found)}

    kept_users = ShownSums.of_values(values, hashes[drawn], [])
    nothing = np.empty(0, dtype=np.int32)
    kept_users.items = replace(ItemFacts.nothing(), groups={"genres": (nothing, names)})
    return kept_users


def _kept(request: Request, items: Items) -> tuple[tuple[str, ...], Ints]:
    """The names and codes of the genres of the most items, those first."""
    by = str(dict(request.parameters)["by"])
    if by == "genres":
        assert items.genres is not None
        codes, names = items.genres.codes, items.genres.names
    else:
        codes, names = items.groups[by].codes, items.groups[by].names
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    kept = np.argsort(-sizes, kind="stable")[:MOST_GENRES]
    return tuple(names[each] for each in kept), kept


class _Genres:
    """Counts genres of items as calibration does.

    Args:
        kept: codes of the genres that are told apart.
    """

    def __init__(self, request: Request, measure: Measure, kept: Ints) -> None:
        assert request.metric.tables is not None
        assert measure.users.history is not None
        values = dict(request.parameters)
        sets: Any = request.metric.tables(values, measure.context)[0]
        self.request, self.history = request, measure.users.history
        self.by_rank = values["weighting"] == "rank"
        self.starts, self.codes = sets.starts, np.full(sets.codes.size, kept.size)
        for place, code in enumerate(kept):
            self.codes[sets.codes == code] = place
        self.n = kept.size

    def shares(self, lists: Lists, users: Ints) -> Iterator[Floats]:
        """float64[n, n_genres] of the users' train rows, then of their lists."""
        lengths = np.minimum(lists.lengths[users], self.request.kernel_cutoff)
        shown = Lists(lists.starts[users], lengths, lists.items)
        for own, by_rank in ((self.history.of(users), False), (shown, self.by_rank)):
            rows = ranges(own.starts, own.lengths)
            owners = np.repeat(np.arange(users.size), own.lengths)
            ranks = rows - np.repeat(own.starts, own.lengths)
            items = own.items[rows]
            sizes = self.starts[items + 1] - self.starts[items]
            weights = 1.0 / np.log2(ranks + 2.0) if by_rank else np.ones(rows.size)
            added = np.floor(WHOLE * weights / np.maximum(sizes, 1))
            genres = self.codes[ranges(self.starts[items], sizes)]
            into = np.repeat(owners, sizes) * (self.n + 1) + genres
            pool = users.size * (self.n + 1)
            found = np.bincount(into, np.repeat(added, sizes), minlength=pool)
            masses = found.reshape(users.size, self.n + 1)
            total = masses.sum(axis=1, keepdims=True)
            yield masses[:, : self.n] / np.where(total > 0, total, np.nan)
