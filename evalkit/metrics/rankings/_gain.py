# mypy: disable-error-code="no-untyped-def"
"""Gains and discounts, and the parameters that choose them: shared by CG, DCG and nDCG."""

import math

from evalkit.metrics import ConstantTable, Values, View, choice, kernel, number

LINEAR, EXP2, BINARY, EXP2_SHIFTED = 0, 1, 2, 3
LOG, JARVELIN = 0, 1
N_TABLED = 1024  # ranks whose discount is looked up rather than computed

GAIN = choice(
    "gain",
    {
        "linear": "the relevance itself",
        "exp2": "2^relevance - 1",
        "binary": "1 for every relevant item",
        "exp2_shifted": "2^(relevance - threshold + 1) - 1, or 0 where a relevance above 0 is too "
        "far below the threshold for it; without a threshold, it is 1",
    },
    doc="What an item of a certain relevance is worth.",
)
BELOW_THRESHOLD = choice(
    "below_threshold",
    {"count": "they keep their gain, but for binary gains", "ignore": "they have no gain"},
    doc="Items whose relevance is below the threshold.",
)
DISCOUNT = choice(
    "discount",
    {
        "log": "1 / log_b(1 + rank)",
        "jarvelin": "1 / max(log_b(rank), 1): ranks up to b weigh the same",
    },
    doc="The factor that a rank multiplies a gain by.",
)
LOG_BASE = number(
    "log_base", 2.0, above=1.0, tried=math.e, doc="The base b of the logarithm in the discount."
)

MAX_RELEVANCE = number(
    "max_relevance",
    4.0,
    above=0.0,
    below=1024.0,
    tried=5.0,
    is_written=True,
    doc="The top of the scale, not the largest of a log; a truth with more is refused.",
)

DISCOUNTS = ConstantTable(
    lambda: [1.0, *(1.0 / math.log2(1.0 + rank) for rank in range(1, N_TABLED + 1))]
)


def _sum_up() -> list[float]:
    sums = [0.0]
    for rank in range(1, N_TABLED + 1):
        sums.append(sums[-1] + DISCOUNTS[rank])
    return sums


# the gain of that many hits of gain 1 in front, added up in the order in which a list is
DISCOUNT_SUMS = ConstantTable(_sum_up)


def view_of_gain(values: Values) -> View:
    """Binary gains are those of relevant items; others may count items below the threshold."""
    has_grades = values["gain"] != "binary" and values["below_threshold"] == "count"
    return "graded" if has_grades else "relevant"


@kernel(allocates=False)
def gain_of(relevance, gain):
    """What `relevance` is worth."""
    if gain == LINEAR:
        return relevance
    if gain == EXP2 or gain == EXP2_SHIFTED:  # what is given is shifted already
        return math.pow(2.0, relevance) - 1.0 if relevance < 1024.0 else math.inf
    return 1.0


@kernel(allocates=False)
def discount_of(rank, discount, log_base):
    """The factor at `rank`, from 1."""
    if discount == LOG:
        if log_base == 2.0 and rank <= N_TABLED:
            return DISCOUNTS[rank]
        return math.log2(log_base) / math.log2(1.0 + rank)
    return 1.0 / max(math.log2(rank) / math.log2(log_base), 1.0)


@kernel(allocates=False)
def mean_discount(first, last, cutoff, discount, log_base):
    """The mean of the factors at ranks `first` to `last`, 0 beyond the cutoff."""
    total = 0.0
    for rank in range(first, min(last, cutoff) + 1):
        total += discount_of(rank, discount, log_base)
    return total / (last - first + 1)
