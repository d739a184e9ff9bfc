# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Subtopic recall: the share of genres that a list brings."""

import math

import numpy as np

from evalkit.metrics import choice, kernel, list_metric
from evalkit.metrics.lists._categories import BY, categories, needs_of, only
from evalkit.metrics.lists._find import NOBODY, stands_in

RELEVANT, ANY = 0, 1


def needs(values):
    """Genres, and what says which of them are asked for."""
    more = {"relevant": ("relevant",), "any": (), "train": ("relevant", "train")}
    return (*needs_of(values), *more[str(values["aspects"])])


def tables(values, context):
    """Categories of items, right answers, and how many categories train has."""
    starts, codes, n = categories(only(values, "by"), context.items)
    is_asked = context.items.popularity > 0
    of_train = np.unique(codes[np.repeat(is_asked, np.diff(starts))]).size
    return starts, codes, n, of_train, context.relevant if context.relevant is not None else NOBODY


@list_metric(
    name="subtopic_recall",
    aliases=("S_recall", "StRecall"),
    summary="Share of the genres of the relevant items that the hits bring.",
    formula="genres of the hits / genres of the relevant items",
    latex=r"\frac{|\bigcup_{i \in L \cap R} G(i)|}{|\bigcup_{i \in R} G(i)|}",
    source="Zhai et al. 2003, Beyond independent relevance, Proceedings of SIGIR, p. 12",
    bounds=(0.0, 1.0),
    undefined="where no relevant item has a genre",
    parameters=(
        BY,
        choice(
            "aspects",
            {
                "relevant": "genres of the hits, of those of the relevant items",
                "any": "genres of all shown items, of all genres there are",
                "train": "genres of the hits, of those of the items of train",
            },
            doc="Which genres count, of which.",
        ),
    ),
    needs=needs,
    tables=tables,
)
@kernel
def subtopic_recall(
    lists, within, cutoffs, starts, codes, n_categories, n_train, relevant, aspects, out
):
    """Different categories up to each cutoff, over those that could be found."""
    found = np.zeros(n_categories, dtype=np.bool_)
    for user in range(out.shape[0]):
        below = n_categories if aspects == ANY else n_train
        is_there = True
        if aspects != ANY:
            first, last = relevant.starts[user], relevant.starts[user] + relevant.lengths[user]
            is_there = last > first
        if aspects == RELEVANT:
            below = 0
            found[:] = False
            for place in range(first, last):
                item = relevant.items[place]
                for position in range(starts[item], starts[item + 1]):
                    below += not found[codes[position]]
                    found[codes[position]] = True
        found[:] = False
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                place += 1
                if aspects != ANY and not stands_in(relevant, user, item):
                    continue
                for number in range(starts[item], starts[item + 1]):
                    n += not found[codes[number]]
                    found[codes[number]] = True
            out[user, column] = n / below if below > 0 and is_there else math.nan
