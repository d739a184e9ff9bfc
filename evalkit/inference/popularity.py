"""What lists show, drawn: Lorenz curves, shares by popularity, by group of items and by genre."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from evalkit.aggregate.accumulators.genres import USERS_DRAWN, key_of_genres, requests_of_genres
from evalkit.aggregate.accumulators.shown import ShownSums
from evalkit.inference.shown import ShownNumbers
from evalkit.kernels.arrays import Floats, Ints
from evalkit.metrics import Items, Request, Shown, family_of
from evalkit.report import Graph
from evalkit.statistics.intervals import mean_interval

STEPS = 100  # of a Lorenz curve
DECILES = 10
MOST_GROUPS = 100
TENTHS = tuple(float(each) for each in range(1, DECILES + 1))


def graphs_of_shown(numbers: ShownNumbers, models: Sequence[str]) -> Iterator[Graph]:
    """What lists show at the cutoff of the first metric that counts items, model by model.

    They are spread over the items of the table of items; without one, over those that are shown
    or that train has.
    """
    request = next((each for each in numbers.requests if family_of(each) == "counts"), None)
    if request is not None:
        yield from _by_popularity(numbers, models, request)
    for one_request in numbers.requests:
        if family_of(one_request) == "counts" and "by" in dict(one_request.parameters):
            for model in models:
                if (found := numbers.shown_by(model, one_request)) is not None:
                    yield from _by_group(model, one_request, *found)
    for requests_of_genre in requests_of_genres(numbers.requests):
        for model in models:
            if (kept := numbers.sums.get(key_of_genres(requests_of_genre, model))) is not None:
                yield from _by_genre(
                    model, requests_of_genre, kept, numbers.config.statistics.level
                )


def _by_popularity(
    numbers: ShownNumbers, models: Sequence[str], request: Request
) -> Iterator[Graph]:
    """Lorenz curves and shares by tenths of the items."""
    of_what = "share of shown rows" + (f"@{request.cutoff}" if request.cutoff else "")
    lorenz, deciles = [], []
    for model in models:
        found = numbers.shown_by(model, request)
        if found is None:
            continue
        shown, items = found
        known = items.is_listed if items.has_table else (shown.lists > 0) | (items.popularity > 0)
        counts, popularity = shown.lists[known], items.popularity[known]
        if not counts.any():
            continue
        x, y = _lorenz(counts)
        lorenz.append(Graph(model, "lorenz", "share of items", of_what, x, y))
        if popularity.any():
            x, y = TENTHS, _by_decile(counts, popularity)
            name = "decile of items by popularity in train"
            deciles.append(Graph(model, "popularity", name, of_what, x, y))
    yield from lorenz
    yield from deciles


def _by_group(model: str, request: Request, shown: Shown, items: Items) -> Iterator[Graph]:
    """The attention that groups of items get, those with the most items first."""
    groups = items.groups[str(dict(request.parameters)["by"])]
    has = np.flatnonzero(groups.codes >= 0)
    has = has[np.argsort(items.order[has])]  # floats are added in the order of ids
    sizes = np.bincount(groups.codes[has], minlength=len(groups.names))
    totals = np.bincount(groups.codes[has], shown.exposure[has], minlength=len(groups.names))
    if not totals.any():
        return
    most = np.argsort(-sizes, kind="stable")[:MOST_GROUPS]
    yield Graph(
        model,
        "exposure",
        "share of items",
        f"share of attention, {request.label}",
        _tuple(sizes[most] / has.size),
        _tuple(totals[most] / totals.sum()),
        groups=tuple(groups.names[each] for each in most),
    )


def _by_genre(model: str, request: Request, kept: ShownSums, level: float) -> Iterator[Graph]:
    """The mean share of each genre in lists, beside that in the train rows of the same users."""
    values = kept.sampled[model].values[:USERS_DRAWN]  # whom every share has drawn
    values = values[~np.isnan(values).any(axis=1)]
    _, names = kept.items.groups["genres"]
    if values.shape[0] == 0 or not names:
        return
    means, n = values.mean(axis=0), values.shape[0]
    errors = values.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else [None] * means.size
    limits = [
        mean_interval(mean, error, n, level=level).within((0.0, 1.0))
        for mean, error in zip(_tuple(means), errors, strict=True)
    ]
    lows, highs = (tuple(_known(getattr(each, end)) for each in limits) for end in ("low", "high"))
    had, shown = slice(None, len(names)), slice(len(names), None)
    yield Graph(
        model,
        "genres",
        "share of train rows",
        f"share of lists, {request.label}",
        _tuple(means[had]),
        _tuple(means[shown]),
        lows[shown],
        highs[shown],
        rows=(float(n),) * len(names),
        x_low=lows[had],
        x_high=highs[had],
        groups=names,
    )


def _known(limit: float) -> float | None:
    return None if math.isnan(limit) else float(limit)


def _tuple(numbers: Floats) -> tuple[float, ...]:
    return tuple(float(each) for each in numbers)


def _lorenz(counts: Ints) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Shares of the items, least shown first, and of what is shown of them."""
    so_far = np.concatenate([[0], np.cumsum(np.sort(counts))])
    n = min(STEPS, counts.size)
    places = np.arange(n + 1) * counts.size // n
    return _tuple(places / counts.size), _tuple(so_far[places] / so_far[-1])


def _by_decile(counts: Ints, popularity: Ints) -> tuple[float, ...]:
    """The share of each tenth of the items, the least popular first.

    Items of one popularity share alike in the tenths that they reach into.
    """
    order = np.argsort(popularity, kind="stable")
    ordered = popularity[order]
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, ordered.size)
    so_far = np.cumsum(counts[order])[ends - 1]
    before, below = np.append(0, ends), np.append(0, so_far)

    def reached(edge: Fraction) -> Fraction:
        at = min(int(np.searchsorted(before, int(edge), "right")), ends.size)
        inside = (edge - int(before[at - 1])) / int(before[at] - before[at - 1])
        return int(below[at - 1]) + inside * int(below[at] - below[at - 1])

    edges = [reached(Fraction(n * counts.size, DECILES)) for n in range(DECILES + 1)]
    return tuple(float((high - low) / edges[-1]) for low, high in pairwise(edges))
