# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Calibration: how far the genres of a list are from those of the user's own train rows."""

import math

import numpy as np

from evalkit.metrics import choice, kernel, list_metric, log2, number
from evalkit.metrics.lists._categories import (
    BY,
    add_masses,
    fill_masses,
    needs_of,
    only,
    sets,
)

KL, FLAT, BOTH = 0, 0, 1


def needs(values):
    """Genres, and each user's train rows."""
    return (*needs_of(values), "history")


def tables(values, beside):
    """Categories of items, and the items of each user's train rows."""
    return sets(only(values, "by"), beside.items), beside.history


@kernel(allocates=False)
def divergence_of(p, of_p, q, of_q, kind, a, smoothed):
    """Divergence of the shares of two masses, in the order of categories."""
    total = 0.0
    for each in range(p.size):
        one, other = p[each] / of_p, q[each] / of_q
        if smoothed == BOTH:
            one, other = (1.0 - a) * one + a * other, (1.0 - a) * other + a * one
        elif kind == KL:
            other = (1.0 - a) * other + a * one
        if kind == KL:
            if one > 0.0:
                total += one * log2(one / other)
        else:
            mean = (one + other) / 2.0
            if one > 0.0:
                total += one * log2(one / mean) / 2.0
            if other > 0.0:
                total += other * log2(other / mean) / 2.0
    return max(total, 0.0)


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
            {"kl": "Kullback-Leibler", "js": "Jensen-Shannon, at most 1"},
            doc="How two distributions are held against each other.",
        ),
        choice(
            "weighting",
            {"flat": "each item as much", "rank": "1 / log2(1 + rank)"},
            doc="What an item of the list weighs.",
        ),
        number("a", 0.01, above=0.0, below=1.0, doc="How much of p is mixed into q."),
        choice(
            "smoothed",
            {"list": "the list's shares", "both": "both; of 'js' too"},
            doc="Which shares are mixed with the other ones.",
        ),
    ),
    needs=needs,
    tables=tables,
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
    out,
):
    """Divergence at each cutoff."""
    n_categories = sets.rows.shape[1]
    p, q = np.zeros(n_categories), np.zeros(n_categories)
    for user in range(out.shape[0]):
        of_p = fill_masses(history, user, history.lengths[user], sets, p)
        q[:] = 0.0
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                weight = 1.0 if weighting == FLAT else 1.0 / math.log2(place + 2.0)
                n += add_masses(sets, lists.items[begin + place], weight, False, q)
                place += 1
            of_q = 0.0
            for each in range(n_categories):
                of_q += q[each]
            is_there = n > 0 and of_p > 0.0
            out[user, column] = (
                divergence_of(p, of_p, q, of_q, divergence, a, smoothed) if is_there else math.nan
            )
