# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""AP-IA and P-IA: average precision and precision of each genre that a user wants, averaged."""

import math
from functools import partial

import numpy as np

from evalkit.metrics import NO_CUTOFF, kernel, list_metric
from evalkit.metrics.lists._find import stands_in
from evalkit.metrics.lists.genres import BY, categories, needs_of, only

genre_metric = partial(
    list_metric,
    source="Agrawal, Gollapudi, Halverson and Ieong 2009, Diversifying search results, WSDM, "
    "p. 9; all genres of the relevant items weigh alike",
    bounds=(0.0, 1.0),
    undefined="where no relevant item has a genre",
    parameters=(BY,),
    needs=lambda values: (*needs_of(values), "relevant"),
    tables=lambda values, context: (
        *categories(only(values, "by"), context.items),
        context.relevant,
    ),
)


@kernel
def over_genres(lists, within, cutoffs, starts, codes, n_categories, relevant, is_ap, out):
    """Fill `out` with the mean over genres of AP, or of precision, with hits of the genre alone."""
    # Wide: what a metric of its kind is given, and which of two it is.
    wanted = np.zeros(n_categories, dtype=np.int64)
    found = np.zeros(n_categories, dtype=np.int64)
    for user in range(out.shape[0]):
        first, last = relevant.starts[user], relevant.starts[user] + relevant.lengths[user]
        wanted[:], found[:] = 0, 0
        n_wanted = 0
        for place in range(first, last):
            item = relevant.items[place]
            for position in range(starts[item], starts[item + 1]):
                n_wanted += wanted[codes[position]] == 0
                wanted[codes[position]] += 1
        begin, place, total = lists.starts[user], 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                place += 1
                if not stands_in(relevant, user, item):
                    continue
                for position in range(starts[item], starts[item + 1]):
                    genre = codes[position]
                    found[genre] += 1
                    total += found[genre] / place / wanted[genre] if is_ap else 1.0
            n = n_wanted
            if not is_ap:
                n *= place if cutoffs[column] == NO_CUTOFF else cutoffs[column]
            if n_wanted == 0:
                out[user, column] = math.nan
            else:
                out[user, column] = total / n if n > 0 else 0.0


@genre_metric(
    name="AP_IA",
    aliases=("MAP_IA",),
    summary="AP of each genre of the relevant items, its items alone relevant; the mean of genres.",
    formula="mean over genres g of R of sum over hits with g of hits with g so far / rank / "
    "relevant items with g",
    latex=r"\frac{1}{|G(R)|} \sum_{g \in G(R)} AP(L, R_g)",
)
@kernel
def ap_ia(lists, within, cutoffs, starts, codes, n_categories, relevant, out):
    """Average precision up to each cutoff, over all relevant items of each genre."""
    over_genres(lists, within, cutoffs, starts, codes, n_categories, relevant, True, out)


@genre_metric(
    name="P_IA",
    aliases=("precision_IA",),
    summary="Precision of each genre of the relevant items, its items alone hits; their mean.",
    formula="mean over genres g of R of hits with g / k",
    latex=r"\frac{1}{|G(R)|} \sum_{g \in G(R)} \frac{|L_{1:k} \cap R_g|}{k}",
)
@kernel
def p_ia(lists, within, cutoffs, starts, codes, n_categories, relevant, out):
    """Hits of each genre over the cutoff; without one over the length of the list."""
    over_genres(lists, within, cutoffs, starts, codes, n_categories, relevant, False, out)
