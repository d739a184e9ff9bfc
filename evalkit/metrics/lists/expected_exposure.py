# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected exposure: the attention of items over sampled lists, and what they should get."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from evalkit.metrics import ATTENTION, PATIENCE, Lists, choice, kernel, list_metric, number
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import stands_in

SQUARE, PRODUCT, DISTANCE = range(3)
AXES = (
    ATTENTION,
    PATIENCE,
    number(
        "stop",
        0.0,
        above=-1.0,
        below=1.0,
        tried=0.5,
        doc="Who looks no further behind a relevant item, as ERR has it.",
    ),
    choice(
        "samples",
        {
            "one": "the list alone",
            "earlier": "the list and those of `earlier` that the user has, draws of one stochastic "
            "model",
        },
        doc="The lists of a user that attention is the mean of.",
    ),
)


class Aside(NamedTuple):
    """Further lists of the users as one, how many there are, right answers, how many items."""

    samples: Lists
    n_samples: int
    relevant: Lists
    n_items: int


def needs(values):
    """Right answers, and further lists."""
    return ("relevant", "earlier") if values["samples"] == "earlier" else ("relevant",)


def tables(values, context):
    """What the kernel is given beside the lists."""
    several = context.earlier if values["samples"] == "earlier" else ()
    n_users = context.relevant.lengths.size
    none = Lists(np.zeros(n_users, np.int64), np.zeros(n_users, np.int64), np.zeros(0, np.int32))
    lists = several or (none,)
    begins = np.cumsum([0, *(each.items.size for each in lists[:-1])])
    stacked = Lists(
        np.array([each.starts + begin for each, begin in zip(lists, begins, strict=True)]),
        np.array([each.lengths for each in lists]),
        np.concatenate([each.items for each in lists]),
    )
    n_items = context.items.popularity.size
    return (Aside(stacked, len(several), context.relevant, n_items),)


exposure_metric = partial(
    list_metric,
    source="Diaz et al. 2020, Evaluating stochastic rankings with expected exposure, p. 277; "
    "Raj and Ekstrand 2022, Measuring fairness in ranked results, p. 729",
    bounds=(0.0, math.inf),
    undefined="for a user without relevant items",
    parameters=AXES,
    needs=needs,
    tables=tables,
)


@kernel
def measure(lists, cutoffs, aside, attention, patience, stop, what, out):
    """Fill `out` with a sum over items of their attention and of what it should be."""
    samples, n_samples, relevant = aside.samples, aside.n_samples, aside.relevant
    got, n_items = np.zeros(aside.n_items), aside.n_items
    is_noted = np.zeros(n_items, dtype=np.bool_)
    longest = 0
    for user in range(out.shape[0]):
        n = lists.lengths[user] + relevant.lengths[user]
        for each in range(n_samples):
            n += samples.lengths[each, user]
        longest = max(longest, n)
    noted = np.empty(longest, dtype=np.int64)
    for user in range(out.shape[0]):
        first, n_wanted = relevant.starts[user], relevant.lengths[user]
        for column in range(out.shape[1]):
            if n_wanted == 0 or lists.lengths[user] == 0:
                out[user, column] = math.nan
                continue
            n, n_others, n_lists = 0, 0, 0
            for sample in range(n_samples + 1):
                items = lists.items if sample == 0 else samples.items
                begin = lists.starts[user] if sample == 0 else samples.starts[sample - 1, user]
                end = lists.lengths[user] if sample == 0 else samples.lengths[sample - 1, user]
                still = 1.0
                n_lists += end > 0
                for place in range(min(end, cutoffs[column])):
                    item = items[begin + place]
                    is_hit = stands_in(relevant, user, item)
                    if not is_noted[item]:
                        is_noted[item] = True
                        noted[n] = item
                        n += 1
                        n_others += not is_hit
                    got[item] += attention_of(place + 1, attention, patience) * still
                    if is_hit:
                        still *= 1.0 - stop
            for place in range(first, first + n_wanted):
                if not is_noted[relevant.items[place]]:
                    is_noted[relevant.items[place]] = True
                    noted[n] = relevant.items[place]
                    n += 1
            of_wanted = of_others = 0.0
            still = 1.0
            for rank in range(1, n_wanted + n_others + 1):
                weight = attention_of(rank, attention, patience) * still
                if rank <= n_wanted:
                    of_wanted += weight / n_wanted
                    still *= 1.0 - stop
                else:
                    of_others += weight / n_others
            total = unseen = 0.0
            for position in range(n):
                item = noted[position]
                is_hit = stands_in(relevant, user, item)
                goal = of_wanted if is_hit else of_others
                mean = got[item] / n_lists
                value = (mean - goal) * (mean - goal)
                if what == SQUARE:
                    value = mean * mean
                elif what == PRODUCT:
                    value = mean * goal
                if mean == 0.0:
                    unseen += value  # all the same, so that their order means nothing
                else:
                    total += value
                got[item] = 0.0
                is_noted[item] = False
            out[user, column] = total + unseen


@exposure_metric(
    name="ee_d",
    aliases=("expected_exposure_disparity",),
    summary="How unequally attention is spread over the items of a user.",
    formula="sum over items of e^2, e = mean attention of the item over the lists of the user",
    latex=r"\sum_i e_i^2",
    higher_is_better=False,
)
@kernel
def ee_d(lists, within, cutoffs, aside, attention, patience, stop, samples, out):
    """The sum over all items that the user's lists show or that are relevant."""
    measure(lists, cutoffs, aside, attention, patience, stop, SQUARE, out)


@exposure_metric(
    name="ee_l",
    aliases=("expected_exposure_loss",),
    summary="How far the attention of items is from what they should get by relevance.",
    formula="sum over items of (e - t)^2, e = mean attention of the item, t = what it should get",
    latex=r"\sum_i (e_i - t_i)^2",
    higher_is_better=False,
)
@kernel
def ee_l(lists, within, cutoffs, aside, attention, patience, stop, samples, out):
    """The sum over all items that the user's lists show or that are relevant."""
    measure(lists, cutoffs, aside, attention, patience, stop, DISTANCE, out)


@exposure_metric(
    name="ee_r",
    aliases=("expected_exposure_relevance",),
    summary="How much of the attention goes where it should, by relevance.",
    formula="sum over items of e t, e = mean attention of the item, t = what it should get",
    latex=r"\sum_i e_i t_i",
)
@kernel
def ee_r(lists, within, cutoffs, aside, attention, patience, stop, samples, out):
    """The sum over all items that the user's lists show or that are relevant."""
    measure(lists, cutoffs, aside, attention, patience, stop, PRODUCT, out)
