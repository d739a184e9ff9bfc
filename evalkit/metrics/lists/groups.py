# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Groups of items or users: whether they get the attention, or the metric, that they should."""

import math

import numpy as np

from evalkit.metrics import ATTENTION, PATIENCE, WORTH, choice, kernel, list_metric, log2, text
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import NOBODY

BY = text("by", "provider", doc="The column of the items' table that has the groups.")


def group_of(values, context):
    """int32[n_items]: the group of each item, -1 for none; and how many groups there are."""
    group = context.items.groups[str(values["by"])]
    return group.codes, len(group.names)


def sizes_of(values, items):
    """int64[n_groups]: items of the table in each group."""
    group = items.groups[str(values["by"])]
    return np.bincount(group.codes[group.codes >= 0], minlength=len(group.names))


def mean_difference(means):
    """The mean absolute difference of all pairs of means, and its slope by each."""
    means = np.asarray(means, dtype=np.float64)
    n_pairs = means.size * (means.size - 1) / 2.0
    if n_pairs == 0.0 or np.isnan(means).any():
        return np.nan, np.zeros(means.size)
    ascending = np.sort(means)
    places = 2.0 * np.arange(means.size) - means.size + 1.0
    slopes = np.sign(means[:, None] - means[None, :]).sum(axis=1) / n_pairs
    return float((places * ascending).sum() / n_pairs), slopes


def least_of_most(numbers):
    """The smallest of some numbers over the largest, and which these are; complex ones by place."""
    order = sorted(range(len(numbers)), key=lambda at: complex(numbers[at]).real)
    low, high = order[0], order[-1]
    most = numbers[high]
    return (numbers[low] / most if most != 0 else np.nan), low, high


def merited(values, context, sums):
    """Attention over merit, of the group with least over that with most."""
    n = len(sums) // 2
    if n < 2 or any(merit == 0 for merit in sums[n:]):
        return np.nan
    return least_of_most([sums[each] / sums[n + each] for each in range(n)])[0]


@list_metric(
    name="exposure_equity",
    aliases=("disparate_treatment_ratio",),
    summary="Attention by relevant row of the group of items with least, of that with most.",
    formula="smallest / largest of attention of the group / relevant rows of the group",
    latex=r"\frac{\min_g E(g) / M(g)}{\max_g E(g) / M(g)}",
    source="Singh and Joachims 2018, Fairness of exposure in rankings, p. 2224; Biega et al. 2018, "
    "Equity of attention, p. 407",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items; with fewer than two groups; for a group "
    "without a relevant row",
    parameters=(BY, ATTENTION, PATIENCE),
    family="sums",
    n_sums=lambda values, context: 2 * group_of(values, context)[1],
    by=merited,
    needs=("by", "relevant"),
    tables=lambda values, context: (*group_of(values, context), context.relevant),
)
@kernel(allocates=False)
def exposure_equity(lists, within, cutoffs, codes, n_groups, relevant, attention, patience, out):
    """Attention of each group up to each cutoff, then its relevant rows."""
    for user in range(out.shape[0]):
        begin, place = lists.starts[user], 0
        if relevant.lengths[user] == 0:
            out[user, :, :] = math.nan
            continue
        for column in range(out.shape[1]):
            for position in range(n_groups):
                out[user, column, position] = out[user, column - 1, position] if column > 0 else 0.0
                out[user, column, n_groups + position] = 0.0
            while place < within[user, column]:
                group = codes[lists.items[begin + place]]
                place += 1
                if group >= 0:
                    out[user, column, group] += attention_of(place, attention, patience)
            first = relevant.starts[user]
            for number in range(first, first + relevant.lengths[user]):
                group = codes[relevant.items[number]]
                if group >= 0:
                    out[user, column, n_groups + group] += 1.0


@list_metric(
    name="exposure_parity",
    aliases=("demographic_parity_of_exposure",),
    summary="Attention that an item of the group with least gets, of that with most.",
    formula="smallest / largest of attention of the group / items of the group",
    latex=r"\frac{\min_g E(g) / |g|}{\max_g E(g) / |g|}",
    source="Singh and Joachims 2018, Fairness of exposure in rankings, p. 2223",
    bounds=(0.0, 1.0),
    undefined="with fewer than two groups; where none is shown",
    parameters=(BY, ATTENTION, PATIENCE),
    family="counts",
    weighing="attention",
    needs=("by",),
)
def exposure_parity(shown, items, values):
    """The ratio, and its slope by the attention of each item."""
    slopes = np.zeros(shown.exposure.size)
    codes, sizes = items.groups[str(values["by"])].codes, sizes_of(values, items)
    has = codes >= 0
    if sizes.size < 2:
        return np.nan, slopes
    each = np.argsort(items.order[has])  # floats are added in the order of ids
    totals = np.bincount(codes[has][each], shown.exposure[has][each], minlength=sizes.size)
    means = totals / sizes
    number, low, high = least_of_most(means.tolist())
    if np.isnan(number):
        return np.nan, slopes
    slopes[codes == low] += 1.0 / sizes[low] / means[high]
    slopes[codes == high] -= number / sizes[high] / means[high]
    return number, slopes


@list_metric(
    name="mad",
    aliases=("mean_absolute_difference",),
    summary="How unequally groups of users are served: mean difference of a metric's means.",
    formula="mean over pairs of groups of |mean of the metric in one - in the other|",
    latex=r"\frac{2}{|S|(|S| - 1)} \sum_{s<t} |m_s - m_t|",
    source="Zhu et al. 2018, Fairness-aware tensor-based recommendation, p. 1157; Deldjoo et al. "
    "2021, A flexible framework for evaluating user and item fairness, p. 482",
    bounds=(0.0, math.inf),
    undefined="with fewer than two groups; for a group where the metric is undefined",
    higher_is_better=False,
    parameters=(
        text("by", "group", doc="The segmentation of users that has the groups."),
        text("of", "nDCG", doc="The metric of users, by its name; at the cutoff of this one."),
    ),
    family="means",
)
def mad(means, values):
    """The mean over all pairs, and its slope by each group's mean."""
    return mean_difference(means)


@list_metric(
    name="item_mad",
    aliases=("item_mean_absolute_difference",),
    summary="How unequally showing items pays by group: mean difference of their mean gains.",
    formula="mean over pairs of groups of |mean over shown items of one of their mean gain - of "
    "the other|",
    latex=r"\frac{2}{|G|(|G| - 1)} \sum_{g<h} |m_g - m_h|, m_g = \frac{1}{|g|} \sum_{i \in g} "
    r"\frac{1}{c_i} \sum_{u : i \in L_u} \text{gain}(u, i)",
    source="Zhu et al. 2018, Fairness-aware tensor-based recommendation, p. 1157; Deldjoo et al. "
    "2021, A flexible framework for evaluating user and item fairness, p. 482",
    bounds=(0.0, math.inf),
    undefined="with fewer than two groups; for a group of which nothing is shown",
    higher_is_better=False,
    parameters=(BY, WORTH),
    family="counts",
    weighing="gain",
    needs=("by", "relevant"),
)
def item_mad(shown, items, values):
    """The mean over all pairs, and its slopes by rows and gains of each item, as of one less."""
    slopes, group = np.zeros((shown.rows.size, 2)), items.groups[str(values["by"])]
    own = np.flatnonzero((shown.rows > 0) & (group.codes >= 0))
    own = own[np.argsort(items.order[own])]  # floats are added in the order of ids
    rows, codes = shown.rows[own].astype(np.float64), group.codes[own]
    each = shown.gains[own] / rows
    sizes = np.bincount(codes, minlength=len(group.names)).astype(np.float64)
    if sizes.size < 2 or not sizes.all():
        return np.nan, slopes
    means = np.bincount(codes, each, minlength=sizes.size) / sizes
    number, by_mean = mean_difference(means)
    is_lone = rows == 1.0  # without its row the item is none of the group's
    parts = np.where(is_lone, np.maximum(sizes[codes] - 1.0, 1.0), sizes[codes])
    weights = by_mean[codes] / parts / np.where(is_lone, 1.0, rows - 1.0)
    slopes[own, 0] = -weights * np.where(is_lone, means[codes], each)
    slopes[own, 1] = weights
    return number, slopes


ALL = 1


def tables_of_disparity(values, context):
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
    tables=tables_of_disparity,
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


CATALOGUE, NATS = 0, 1


def needs_of_awrf(values):
    """Groups, and right answers where these are the target."""
    return ("by", "relevant") if values["target"] == "relevant" else ("by",)


def tables_of_awrf(values, context):
    """Groups of items, items of the table in each, and right answers."""
    sizes = sizes_of(values, context.items).astype(np.float64)
    relevant = NOBODY if context.relevant is None else context.relevant
    return group_of(values, context)[0], sizes, relevant


@list_metric(
    name="awrf",
    aliases=("attention_weighted_rank_fairness",),
    summary="How near the attention of groups of items comes to their target.",
    formula="1 - Jensen-Shannon divergence of shares of attention and of target, by group",
    latex=r"1 - JS(a \,\|\, t)",
    source="Sapiezynski et al. 2019, Quantifying the impact of user attention on fair group "
    "representation in ranked lists, p. 556; Ekstrand et al. 2022, Overview of the TREC fair "
    "ranking track, 4",
    bounds=(0.0, 1.0),
    undefined="for a list without an item that has a group",
    parameters=(
        BY,
        choice(
            "target",
            {"items": "the share of the items", "relevant": "the share of the relevant items"},
            doc="The share of attention that a group should have.",
        ),
        choice("log_base", {"2": "bits", "e": "nats"}, doc="The unit of the divergence."),
        ATTENTION,
        PATIENCE,
    ),
    needs=needs_of_awrf,
    tables=tables_of_awrf,
)
@kernel
def awrf(
    lists, within, cutoffs, codes, sizes, relevant, target, log_base, attention, patience, out
):
    """One less the divergence, up to each cutoff."""
    goal, shown = np.zeros(sizes.size), np.zeros(sizes.size)
    for user in range(out.shape[0]):
        shown[:] = 0.0
        of_goal = 0.0
        for position in range(sizes.size):
            goal[position] = sizes[position] if target == CATALOGUE else 0.0
            of_goal += goal[position]
        if target != CATALOGUE:
            first = relevant.starts[user]
            for number in range(first, first + relevant.lengths[user]):
                group = codes[relevant.items[number]]
                if group >= 0:
                    goal[group] += 1.0
                    of_goal += 1.0
        begin, place, total = lists.starts[user], 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                group = codes[lists.items[begin + place]]
                place += 1
                if group >= 0:
                    weight = attention_of(place, attention, patience)
                    shown[group] += weight
                    total += weight
            if total == 0.0 or of_goal == 0.0:
                out[user, column] = math.nan
                continue
            far = 0.0
            for index in range(sizes.size):
                one, other = shown[index] / total, goal[index] / of_goal
                mean = (one + other) / 2.0
                if one > 0.0:
                    far += one * log2(one / mean) / 2.0
                if other > 0.0:
                    far += other * log2(other / mean) / 2.0
            out[user, column] = 1.0 - far * (math.log(2.0) if log_base == NATS else 1.0)
