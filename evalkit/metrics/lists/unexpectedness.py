# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Unexpectedness: what of a list a simple reference does not show."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, kernel, list_metric
from evalkit.metrics.lists._expected import (
    POPULAR,
    REFERENCE,
    begin_user,
    end_user,
    needs_of,
    popular_rank,
    tables,
)
from evalkit.metrics.lists._means import DEN, OVER_K


@list_metric(
    name="unexpectedness",
    summary="Share of the shown items that the most popular unseen items, or a model, lack.",
    formula="items of the list outside the first k of the reference / items of the list",
    latex=r"\frac{|L \setminus E|}{n}",
    source="Murakami et al. 2008, Metrics for evaluating the serendipity of recommendation lists, "
    "p. 43; Ge et al. 2010, Beyond accuracy, p. 259",
    bounds=(0.0, 1.0),
    undefined="for a user whom the reference has no list for",
    parameters=(REFERENCE, DEN),
    needs=needs_of,
    tables=tables,
)
@kernel
def unexpectedness(lists, within, cutoffs, expected, history, places, reference, den, out):
    """One less the share of the first items that are expected."""
    marks = np.zeros(places.size, dtype=np.int32)
    counts = np.zeros(out.shape[1], dtype=np.int64)
    for user in range(out.shape[0]):
        is_there = begin_user(reference, expected, user, marks)
        begin, n = lists.starts[user], lists.lengths[user]
        counts[:] = 0
        for place in range(within[user, out.shape[1] - 1]):
            item = lists.items[begin + place]
            if reference == POPULAR:
                rank = popular_rank(history, user, item, places)
            else:
                rank = marks[item]
            for column in range(out.shape[1]):
                depth = n if cutoffs[column] == NO_CUTOFF else cutoffs[column]
                counts[column] += place < within[user, column] and 0 < rank <= depth
        for column in range(out.shape[1]):
            below = within[user, column]
            if below == 0 or not is_there:
                out[user, column] = math.nan
                continue
            if den == OVER_K and cutoffs[column] != NO_CUTOFF:
                below = cutoffs[column]
            out[user, column] = 1.0 - counts[column] / below
        end_user(reference, expected, user, marks)
