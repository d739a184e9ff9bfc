# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How evenly lists are spread over the items: Gini index, entropy, Herfindahl index."""

import math
from functools import partial

import numpy as np

from evalkit.kernels.logarithm import BITS
from evalkit.metrics import (
    ATTENTION,
    PATIENCE,
    Ends,
    choice,
    kernel,
    list_metric,
    log2,
    log2_of,
    minus_ln_of_rest,
)

ITEMS = choice(
    "items",
    {
        "catalogue": "all of the table of items, and no others",
        "catalogue_and_one": "as many as the table of items has, and one; all shown ones count",
        "train": "as many as train has; all shown ones count",
        "shown": "those that are shown",
    },
    doc="The items that the number is taken over.",
)


def chosen(values, items, numbers):
    """bool[n_items]: items whose `numbers` are looked at; and how many more are never shown."""
    if values["items"] == "catalogue":
        return items.is_listed, 0
    is_shown = numbers > 0
    n_items = {
        "catalogue_and_one": int(items.is_listed.sum()) + 1,
        "train": int((items.popularity > 0).sum()),
        "shown": int(is_shown.sum()),
    }[str(values["items"])]
    return is_shown, n_items - int(is_shown.sum())


def n_items_of(values, items, numbers):
    """How many items the number is taken over."""
    is_chosen, n_more = chosen(values, items, numbers)
    return int(is_chosen.sum()) + n_more


@kernel(allocates=False)
def fill_steps(counts, out):
    """c log2 c - (c - 1) log2 (c - 1), which no rounding of large numbers spoils."""
    for place in range(counts.size):
        c = counts[place]
        out[place] = log2(c)
        if c > 1.0:
            out[place] += (c - 1.0) * minus_ln_of_rest(1.0 / c) * BITS


def log_steps(counts):
    """What each of some counts adds to the sum of c log2 c above one less."""
    given = counts.astype(np.float64)
    out = np.empty_like(given)
    fill_steps(given, out)
    return out


def gini_of(numbers, lists, items, values):
    """The Gini index of numbers of items by its parameters, and its slope by each.

    The slope is what one list less takes away: so few lists show most items that the derivative
    would be too small.
    """
    is_chosen, n_more = chosen(values, items, numbers)
    slopes = np.zeros(numbers.size)
    own = numbers[is_chosen].astype(np.float64)
    ascending = np.sort(own)
    total, m = ascending.sum(), own.size + n_more
    if total == 0.0:
        return np.nan, slopes
    own_below = m - 1.0 if values["over"] == "m-1" else float(m)
    below = own_below * total
    if below == 0.0:
        return np.nan, slopes
    places = np.arange(n_more + 1, m + 1)
    number = float(((2.0 * places - m - 1.0) * ascending).sum() / below)
    is_shown = is_chosen & (numbers > 0)
    own, sums = numbers[is_shown], np.concatenate([[0.0], np.cumsum(ascending)])
    step = own / lists[is_shown]

    def passed(height):
        """How far all items lie below a height, together."""
        n = np.searchsorted(ascending, height, "left")
        return (n + n_more) * height - sums[n]

    ranks = 2.0 * (passed(own) - passed(own - step)) / step + 1.0
    slopes[is_shown] = (ranks - m) / below - number / total
    if values["items"] == "shown" and own_below > 1.0:  # who shows an item alone takes it along
        slopes[is_shown] += (lists[is_shown] == 1) * (1.0 - number) / (own_below - 1.0) / step
    return number, slopes


def ends_of_gini(shown, items, values):
    """What one item that has all would give."""
    m = max(1, n_items_of(values, items, shown.lists))
    return Ends(most=1.0 if values["over"] == "m-1" else (m - 1.0) / m)


def shares(numbers, is_chosen):
    """Shares of the items that are shown, ascending, so that sums have one order; and their sum."""
    own = np.sort(numbers[is_chosen & (numbers > 0.0)].astype(np.float64))
    total = own.sum()
    return own / total if own.size else own, total


GINI = (
    ITEMS,
    choice(
        "over",
        {"m": "the number of items", "m-1": "that less one, so that one item alone gives 1"},
        doc="What the sum is divided by.",
    ),
)


def needs_of_items(values):
    """What the choice of items needs."""
    return {"train": ("train",), "shown": ()}.get(str(values["items"]), ("items",))


share_metric = partial(
    list_metric,
    bounds=(0.0, 1.0),
    undefined="where no item is shown",
    parameters=(ITEMS,),
    family="counts",
    needs=needs_of_items,
)


@share_metric(
    name="gini",
    aliases=("gini_index",),
    summary="How unevenly lists are spread over the items: 0 when each is shown equally often.",
    formula="sum of (2 j - m - 1) c_j / (m S), c ascending over the m items, S their sum",
    latex=r"\frac{\sum_j (2j - m - 1) c_{(j)}}{m S}",
    source="Shani and Gunawardana 2011, Evaluating recommendation systems, p. 289",
    higher_is_better=False,
    parameters=GINI,
    ends=ends_of_gini,
)
def gini(shown, items, values):
    """The index of how many lists show each item."""
    return gini_of(shown.lists, shown.lists, items, values)


@share_metric(
    name="gini_exposure",
    aliases=("exposure_gini",),
    summary="How unevenly attention is spread over the items: 0 when each gets as much.",
    formula="sum of (2 j - m - 1) e_j / (m S), attention e ascending over the m items, S its sum",
    latex=r"\frac{\sum_j (2j - m - 1) e_{(j)}}{m S}",
    source="Diaz et al. 2020, Evaluating stochastic rankings with expected exposure, p. 275",
    higher_is_better=False,
    parameters=(*GINI, ATTENTION, PATIENCE),
    weighing="attention",
    ends=ends_of_gini,
)
def gini_exposure(shown, items, values):
    """The index of the attention of the rows that show each item."""
    return gini_of(shown.exposure, shown.lists, items, values)


@share_metric(
    name="evenness",
    aliases=("gini_diversity",),
    summary="How evenly lists are spread over the items: 1 less the Gini index.",
    formula="1 - sum of (2 j - m - 1) c_j / (m S), c ascending over the m items, S their sum",
    latex=r"1 - \frac{\sum_j (2j - m - 1) c_{(j)}}{m S}",
    source="Castells et al. 2015, Novelty and diversity in recommender systems, p. 896",
    parameters=GINI,
    ends=lambda shown, items, values: Ends(least=1.0 - ends_of_gini(shown, items, values).most),
)
def evenness(shown, items, values):
    """One less the index of how many lists show each item."""
    number, slopes = gini_of(shown.lists, shown.lists, items, values)
    return 1.0 - number, -slopes


def ends_of_hhi(shown, items, values):
    """What items that are all shown alike would give."""
    return Ends(least=1.0 / max(1, n_items_of(values, items, shown.lists)))


@share_metric(
    name="hhi",
    aliases=("herfindahl", "simpson"),
    summary="How concentrated lists are on few items: sum of the squared share of each.",
    formula="sum of p^2, p = lists that show the item / their sum over all items",
    latex=r"\sum_i p_i^2",
    source="Herfindahl 1950, Concentration in the steel industry; Simpson 1949, Measurement of "
    "diversity, Nature 163, p. 688",
    higher_is_better=False,
    ends=ends_of_hhi,
)
def hhi(shown, items, values):
    """The sum of squared shares, and its slope by each item's count."""
    slopes = np.zeros(shown.lists.size)
    is_chosen, _ = chosen(values, items, shown.lists)
    p, total = shares(shown.lists, is_chosen)
    if total == 0.0:
        return np.nan, slopes
    number = float((p * p).sum())
    slopes[is_chosen] = 2.0 * (shown.lists[is_chosen] / total - number) / total
    return number, slopes


def ends_of_effective(shown, items, values):
    """What items that are all shown alike would give."""
    return Ends(most=max(1, n_items_of(values, items, shown.lists)))


@share_metric(
    name="effective_items",
    aliases=("inverse_simpson", "effective_catalog_size"),
    summary="How many items, equally often shown, would be as concentrated as these.",
    formula="1 / sum of p^2, p = lists that show the item / their sum over all items",
    latex=r"\frac{1}{\sum_i p_i^2}",
    source="Simpson 1949, Measurement of diversity, Nature 163, p. 688; Jost 2006, Entropy and "
    "diversity, Oikos 113, p. 364",
    bounds=(1.0, math.inf),
    ends=ends_of_effective,
)
def effective_items(shown, items, values):
    """One over the Herfindahl index."""
    number, slopes = hhi.function(shown, items, values)
    return 1.0 / number, -slopes / (number * number)


def divisor(values, unit, n_items, n_shown):
    """What the entropy is divided by."""
    below = {"bits": 1.0, "share": math.log2(max(n_items, 1)) * unit, "per_item": float(n_shown)}
    return below[values["scale"]]


def ends_of_entropy(shown, items, values):
    """What items that are all shown alike would give."""
    unit = 1.0 if values["log_base"] == "2" else math.log(2.0)
    bits = math.log2(max(1, n_items_of(values, items, shown.lists))) * unit
    return Ends(most={"bits": bits, "share": 1.0}.get(values["scale"], math.inf))


@share_metric(
    name="entropy",
    aliases=("shannon_entropy", "distributional_coverage"),
    summary="How evenly lists are spread over the items: bits of the share of each.",
    formula="-sum of p log2 p, p = lists that show the item / their sum over all items",
    latex=r"-\sum_i p_i \log_2 p_i",
    source="Shani and Gunawardana 2011, Evaluating recommendation systems, p. 289",
    bounds=(0.0, math.inf),
    parameters=(
        ITEMS,
        choice("log_base", {"2": "bits", "e": "nats"}, doc="The unit of information."),
        choice(
            "scale",
            {
                "bits": "as it is",
                "share": "over the largest it can be, the logarithm of the number of items",
                "per_item": "over the number of items that are shown",
            },
            doc="What the entropy is divided by.",
        ),
    ),
    ends=ends_of_entropy,
)
def entropy(shown, items, values):
    """The entropy, and its slope by each item's count: what one list less takes away."""
    slopes = np.zeros(shown.lists.size)
    is_chosen, n_more = chosen(values, items, shown.lists)
    p, total = shares(shown.lists, is_chosen)
    if total == 0.0:
        return np.nan, slopes
    unit = 1.0 if values["log_base"] == "2" else math.log(2.0)
    n_items = int(is_chosen.sum()) + n_more
    below = divisor(values, unit, n_items, p.size)
    if below == 0.0:
        return np.nan, slopes
    bits = 0.0 - float((p * log2_of(p)).sum())  # of one item 0.0, not -0.0
    is_shown = is_chosen & (shown.lists > 0)
    steps = log_steps(shown.lists[is_shown]) - 1.0 / math.log(2.0)
    slopes[is_shown] = -(steps - math.log2(total) + bits) / total * unit / below
    left = divisor(values, unit, n_items - (values["items"] == "shown"), p.size - 1)
    if left > 0.0:  # who shows an item alone takes it along
        slopes[is_shown & (shown.lists == 1)] += bits * unit * (1.0 / below - 1.0 / left)
    return bits * unit / below, slopes


@list_metric(
    name="list_surprisal",
    summary="How rare the shown items are among all that lists show: bits of the share of each.",
    formula="mean over users of the mean over the list of -log2(lists that show the item / sum)",
    latex=r"\frac{1}{N} \sum_u \frac{1}{n_u} \sum_{i \in L_u} -\log_2 \frac{c_i}{\sum_j c_j}",
    source="Anelli et al. 2021, Elliot, Proceedings of SIGIR, p. 2405, where it is SEntropy",
    bounds=(0.0, math.inf),
    undefined="where no item is shown",
    family="counts",
    weighing="share",
)
def list_surprisal(shown, items, values):
    """The mean, and its slope by each item's share of lists, of lists of the mean length."""
    slopes = np.zeros(shown.lists.size)
    seen = np.flatnonzero(shown.lists)
    if not seen.size:
        return np.nan, slopes
    counts, shares = shown.lists[seen].astype(np.float64), shown.by_share[seen]
    total = counts.sum()
    bits = -log2_of(counts / total)
    length = total / shown.n_users
    steps = log_steps(counts) - log2_of(counts)  # of one list less, as entropy has them
    of_counts = math.fsum(shares.tolist()) / total / math.log(2.0) - shares / counts * steps
    slopes[seen] = (bits + length * of_counts) / shown.n_users
    return math.fsum((shares * bits).tolist()) / shown.n_users, slopes
