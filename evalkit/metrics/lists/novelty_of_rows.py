# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Novelty of all shown rows: users count by the length of their lists."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists.novelty import COLD, POP_OF, tables


def ratio(values, context, sums):
    """Information of all rows over their number."""
    return sums[0] / sums[1] if sums[1] != 0 else math.nan


@list_metric(
    name="novelty_of_rows",
    summary="How surprising shown items are, over all rows: users count by their lists' length.",
    formula="sum over all shown rows of -log2(users of the item / users of train) / rows",
    latex=r"\frac{\sum_u \sum_{i \in L_u} -\log_2 (pop(i) / T)}{\sum_u n_u}",
    source="Zhou et al. 2010, Solving the apparent diversity-accuracy dilemma, p. 4512",
    bounds=(0.0, math.inf),
    undefined="where nothing is shown",
    parameters=(POP_OF, COLD),
    family="sums",
    n_sums=2,
    by=ratio,
    needs=("train",),
    tables=tables,
)
@kernel(allocates=False)
def novelty_of_rows(lists, within, cutoffs, information, pop_of, cold, out):
    """Information of the first items, and how many there are."""
    for user in range(out.shape[0]):
        begin, place, total, n = lists.starts[user], 0, 0.0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                number = information[lists.items[begin + place]]
                if not math.isnan(number):
                    total += number
                    n += 1
                place += 1
            out[user, column, 0], out[user, column, 1] = total, n
