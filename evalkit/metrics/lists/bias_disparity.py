# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Bias disparity: how lists change the share of a category that users have in train."""

import math

import numpy as np

from evalkit.metrics import choice, kernel, list_metric, text
from evalkit.metrics.lists._groups import BY, group_of, sizes_of

ALL = 1


def tables(values, context):
    """1 for the items of the category, -1 for those of none; the items of users' train rows."""
    codes, _ = group_of(values, context)
    names = context.items.groups[str(values["by"])].names
    wanted = names.index(str(values["group"])) if values["group"] in names else -2
    return np.where(codes < 0, -1, codes == wanted).astype(np.int64), context.history


def disparity(values, context, sums):
    """How the bias of lists is above that of train; or one of these."""
    names = context.items.groups[str(values["by"])].names
    sizes = sizes_of(values, context.items)
    if values["group"] not in names:
        return np.nan
    share = sizes[names.index(str(values["group"]))] / sizes.sum()
    of_list = sums[0] / sums[1] / share if sums[1] != 0 else np.nan
    of_train = sums[2] / sums[3] / share if sums[3] != 0 else np.nan
    if values["part"] == "list":
        return of_list
    if values["part"] == "train":
        return of_train
    return of_list / of_train - 1.0 if of_train != 0 else np.nan


@list_metric(
    name="bias_disparity",
    aliases=("bias_recommendation(part='list')", "bias_source(part='train')"),
    summary="How much more of a category lists show than their users have in train.",
    formula="(B of lists - B of train) / B of train, B = share of the category / that of its items",
    latex=r"\frac{B_L - B_H}{B_H}",
    source="Tsintzou et al. 2019, Bias disparity in recommendation systems, 2",
    bounds=(-1.0, math.inf),
    undefined="where no train row has the category",
    higher_is_better=None,
    parameters=(
        BY,
        text("group", "", doc="The category, by its name."),
        choice(
            "part",
            {
                "disparity": "lists beside train",
                "list": "the bias of lists alone",
                "train": "the bias of train alone",
            },
            doc="Which number.",
        ),
        choice(
            "of_train",
            {"shown": "of users who are shown something", "all": "of all users who count"},
            doc="Which train rows are looked at.",
        ),
    ),
    family="sums",
    n_sums=4,
    by=disparity,
    needs=("by", "history"),
    tables=tables,
)
@kernel(allocates=False)
def bias_disparity(lists, within, cutoffs, is_wanted, history, part, of_train, out):
    """Rows of the category and rows, of the list and of the train rows of each user."""
    for user in range(out.shape[0]):
        first, n = history.starts[user], history.lengths[user]
        had, n_had, begin, place, shown, n_shown = 0, 0, lists.starts[user], 0, 0, 0
        for position in range(first, first + n):
            had += is_wanted[history.items[position]] > 0
            n_had += is_wanted[history.items[position]] >= 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                shown += is_wanted[lists.items[begin + place]] > 0
                n_shown += is_wanted[lists.items[begin + place]] >= 0
                place += 1
            is_there = n > 0 and (place > 0 or of_train == ALL)
            out[user, column, 0] = shown if is_there else math.nan
            out[user, column, 1] = n_shown if is_there else math.nan
            out[user, column, 2] = had if is_there else math.nan
            out[user, column, 3] = n_had if is_there else math.nan
