# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Calibration: how far the genres of a list are from those of the user's own train rows."""

import math

import numpy as np

from evalkit.metrics import choice, kernel, list_metric, log2, number
from evalkit.metrics.lists.genres import BY, add_masses, fill_masses, needs_of, only, sets, size_of

KL, ROOT = 0, 2
FLAT, HARMONIC = 0, 2
WEIGHTED = 1
BOTH, NEITHER = 1, 2
EXACT = 17  # decimals
FURTHEST = 0.01  # from 1, of rounded shares' sum


def needs(values):
    """Genres, and each user's train rows."""
    return (*needs_of(values), "history")


def tables(values, context):
    """Categories of items, and the items of each user's train rows."""
    is_ordered = values["history"] == "weighted"
    history = context.history_in_order if is_ordered else context.history
    return sets(only(values, "by"), context.items), history


def most(values, cutoff):
    """Of KL what a list without any genre of train has."""
    return -math.log2(values["a"]) if values["divergence"] == "kl" else 1.0


@kernel(allocates=False)
def weight_of(weighting, place, nth):
    """What an item weighs at a place from 0, of those with a category the nth."""
    if weighting == FLAT:
        return 1.0
    return 1.0 / nth if weighting == HARMONIC else 1.0 / log2(place + 2.0)


@kernel(allocates=False)
def rounded(share, decimals):
    """A share with some decimals, halves to even; as its own digits say, not those of a product."""
    power = 10.0**decimals
    product = share * power
    whole = math.floor(product)
    rest, lost = product - whole, 0.0
    if rest == 0.5:  # perhaps only by rounding: what the product lost says
        cut = share * 134217729.0
        high = cut - (cut - share)
        lost = high * power - product + (share - high) * power
    is_up = rest > 0.5 or (rest == 0.5 and (lost > 0.0 or (lost == 0.0 and whole % 2.0 == 1.0)))
    return (whole + is_up) / power


@kernel(allocates=False)
def fill_rounded(lists, user, stop, sets, weighting, decimals, shares):
    """Fill shares of a user's items that are rounded after every item; their sum.

    Items of equal weight are taken by their number of categories, so that no other order matters.
    """
    shares[:] = 0.0
    begin, n, most, total = lists.starts[user], 0, 0.0, 0.0
    for place in range(stop):
        size = size_of(sets, lists.items[begin + place])
        n += size > 0.0
        most = max(most, size)
        total += weight_of(weighting, place, n) if size > 0.0 else 0.0
    if weighting == HARMONIC and n > 0:  # the usual approximation, not the sum
        total = 0.5772156649015329 + math.log(n) + 0.5 / n - 1.0 / (12 * n**2) + 1.0 / (120 * n**4)
    for size in range(1, 1 + (int(most) if weighting == FLAT else 1)):
        nth = 0
        for place in range(stop):
            item = lists.items[begin + place]
            own = size_of(sets, item)
            nth += own > 0.0
            if own == size or (own > 0.0 and weighting != FLAT):
                weight = weight_of(weighting, place, nth) / total
                add_masses(sets, item, weight, False, shares)
                for each in range(shares.size):
                    shares[each] = rounded(shares[each], decimals)
    found = 0.0
    for each in range(shares.size):
        found += shares[each]
    return found


@kernel(allocates=False)
def fill_weighted(lists, user, stop, sets, weighting, masses):
    """Fill masses with those of a user's items, by their places; their sum."""
    masses[:] = 0.0
    begin, n, total = lists.starts[user], 0, 0.0
    for place in range(stop):
        weight = weight_of(weighting, place, n + 1)
        n += add_masses(sets, lists.items[begin + place], weight, False, masses)
    for each in range(masses.size):
        total += masses[each]
    return total


@kernel(allocates=False)
def divergence_of_rounded(p, of_p, q, of_q, kind, a, smoothed, terms):
    """Divergence of rounded shares, which are mixed as they are; NaN where too much was cut."""
    if max(abs(of_p - 1.0), abs(of_q - 1.0)) > FURTHEST:
        return math.nan
    sum_p = sum_q = 0.0
    for place in range(p.size):
        one, other = p[place], q[place]
        p[place] = (1.0 - a) * one + a * other if smoothed == BOTH else one
        q[place] = (1.0 - a) * other + a * one if smoothed == BOTH or kind == KL else other
        sum_p += p[place]
        sum_q += q[place]
    return divergence_of(p, sum_p, q, sum_q, kind, a, NEITHER, terms)


@kernel(allocates=False)
def divergence_of(p, of_p, q, of_q, kind, a, smoothed, terms):
    """Divergence of the shares of two masses, in the order of categories.

    Args:
        terms: room for one of each category.
    """
    total = 0.0
    if kind == KL:
        fill_terms(p, of_p, q, of_q, a, smoothed, terms)
        for each in range(p.size):
            total += terms[each]
        return max(total, 0.0)
    for place in range(p.size):
        one, other = p[place] / of_p, q[place] / of_q
        if smoothed == BOTH:
            one, other = (1.0 - a) * one + a * other, (1.0 - a) * other + a * one
        mean = (one + other) / 2.0
        if one > 0.0:
            total += one * log2(one / mean) / 2.0
        if other > 0.0:
            total += other * log2(other / mean) / 2.0
    return math.sqrt(max(total, 0.0)) if kind == ROOT else max(total, 0.0)


@kernel(allocates=False)
def fill_terms(p, of_p, q, of_q, a, smoothed, terms):
    """What each category adds to the Kullback-Leibler divergence, many at a time."""
    for place in range(p.size):
        one, other = p[place] / of_p, q[place] / of_q
        mixed = (1.0 - a) * other + a * one
        if smoothed == BOTH:
            one = (1.0 - a) * one + a * other
        ratio = one / (other if smoothed == NEITHER else mixed)
        terms[place] = one * log2(ratio if one > 0.0 else 1.0)


@list_metric(
    name="calibration",
    aliases=("genre_calibration", "miscalibration"),
    summary="How far the genres of a list are from those of what the user has in train.",
    formula="sum over genres of p log2(p / ((1 - a) q + a p)), p of train rows, q of the list",
    latex=r"\sum_g p_g \log_2 \frac{p_g}{(1 - a) q_g + a p_g}",
    source="Steck 2018, Calibrated recommendations, Proceedings of RecSys, p. 156",
    bounds=(0.0, math.inf),
    undefined="where the list or the user's train rows have no genre",
    higher_is_better=False,
    parameters=(
        BY,
        choice(
            "divergence",
            {"kl": "Kullback-Leibler", "js": "Jensen-Shannon, at most 1", "root_js": "its root"},
            doc="How two distributions are held against each other.",
        ),
        choice(
            "weighting",
            {
                "flat": "each item as much",
                "rank": "1 / log2(1 + rank)",
                "harmonic": "1 / rank among the items with a category",
            },
            doc="What an item of the list weighs.",
        ),
        number("a", 0.01, above=0.0, below=1.0, doc="How much of p is mixed into q."),
        choice(
            "smoothed",
            {"list": "the list's shares", "both": "both; of 'js' too"},
            doc="Which shares are mixed with the other ones.",
        ),
        number(
            "decimals",
            EXACT,
            above=0.0,
            below=EXACT + 1.0,
            is_whole=True,
            tried=4,
            doc="Decimals that shares are rounded to after every item, before they are mixed and "
            "brought to a sum of 1; undefined where that cuts 1 % away. 17 rounds nothing.",
        ),
        choice(
            "history",
            {
                "flat": "each item as much",
                "weighted": "as the list's, by the order of their first rows in train",
            },
            doc="What an item of the user's train rows weighs.",
        ),
    ),
    needs=needs,
    tables=tables,
    most=most,
)
@kernel
def calibration(
    lists,
    within,
    cutoffs,
    sets,
    history,
    divergence,
    weighting,
    a,
    smoothed,
    decimals,
    of_history,
    out,
):
    """Divergence at each cutoff."""
    # Wide: what a metric of its kind is given, and its own parameters.
    n_categories = sets.n_categories
    p, q, terms = np.zeros(n_categories), np.zeros(n_categories), np.empty(n_categories)
    of_train = weighting if of_history == WEIGHTED else FLAT
    for user in range(out.shape[0]):
        if decimals < EXACT:
            for column in range(out.shape[1]):
                n_train, stop = history.lengths[user], within[user, column]
                of_p = fill_rounded(history, user, n_train, sets, of_train, decimals, p)
                of_q = fill_rounded(lists, user, stop, sets, weighting, decimals, q)
                given = p, of_p, q, of_q, divergence, a, smoothed, terms
                out[user, column] = divergence_of_rounded(*given)
            continue
        if of_train == FLAT:
            of_p = fill_masses(history, user, history.lengths[user], sets, p)
        else:
            of_p = fill_weighted(history, user, history.lengths[user], sets, of_train, p)
        q[:] = 0.0
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                weight = weight_of(weighting, place, n + 1)
                n += add_masses(sets, lists.items[begin + place], weight, False, q)
                place += 1
            of_q = 0.0
            for each in range(n_categories):
                of_q += q[each]
            is_there = n > 0 and of_p > 0.0
            given = p, of_p, q, of_q, divergence, a, smoothed, terms
            out[user, column] = divergence_of(*given) if is_there else math.nan
