"""Worked examples of five introductions to ranking metrics, run through the whole street.

Each row has the value worked out by hand, and what the text prints. Where a text follows another
convention than evalkit's defaults, the parameters in the metric's name say which.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from math import e, log, log2

import polars as pl
import pytest

import evalkit
from evalkit.metrics import registry

E = f"log_base={e!r}"  # the natural logarithm
D2, D3, D4, D5, D6, D7, D8, D9 = (1 / log2(1 + rank) for rank in range(2, 10))  # discounts
LN = 1 / log(2)  # how much larger a DCG is with natural logarithms

Relevance = Mapping[str, float]


def ones(items: Iterable[str]) -> Relevance:
    return dict.fromkeys(items, 1)


# What is recommended, and how relevant each item is; an item is one letter.
FILMS = {"p": 5, "n": 3, "a": 4, "t": 5}  # four films a viewer likes, graded
EXAMPLES: dict[str, tuple[str, Relevance]] = {
    # 1: two viewers with lists of three, and four relevant films
    "viewer A": ("snp", ones(FILMS)),
    "viewer B": ("mja", ones(FILMS)),
    "graded A": ("snp", FILMS),
    # 2: the gains at each rank; nothing relevant is missing
    "gains A": ("abcde", dict(zip("abcde", [2, 4, 3, 1, 5], strict=True))),
    "gains B": ("abcde", dict(zip("abcde", [5, 1, 3, 2, 4], strict=True))),
    "gains C": ("abcdefghi", dict(zip("abcdefghi", [5, 1, 1, 2, 1, 2, 3, 2, 1], strict=True))),
    "ideal B": ("abcde", dict(zip("abcde", [5, 4, 3, 2, 1], strict=True))),
    "ideal C": ("abcdefghi", dict(zip("abcdefghi", [5, 3, 2, 2, 2, 1, 1, 1, 1], strict=True))),
    # 3: five letters, of which some are relevant
    "letters": ("ABCDE", ones("ACF")),
    "letters, all shown": ("ABCDE", ones("ACE")),
    "letters, graded": ("ABCDE", {"A": 3, "C": 2, "E": 1, "B": 0, "D": 0}),
    "user 1": ("ABC", ones("DE")),
    "user 2": ("ABC", ones("CF")),
    "user 3": ("ABC", ones("GA")),
    "letters, ideal": ("ACEBD", {"A": 3, "C": 2, "E": 1, "B": 0, "D": 0}),
    # 4: five numbers, half of the relevant ones shown; and hits at ranks 2 and 4 of five
    "numbers": ("12345", ones("2468")),
    "first of three": ("xyz", ones("x")),
    "second of three": ("xyz", ones("y")),
    "third of three": ("xyz", ones("z")),
    "hits at 2 and 4": ("12345", ones("24")),
    # 5: ten items, relevant ones at ranks 2, 5 and 8; and one item left out, found at rank 3
    "ten items": ("dfbcahjieg", ones("afi")),
    "left one out": ("dfbcahjieg", ones("b")),
}

DCG_A = 2 + 4 * D2 + 3 * D3 + 1 * D4 + 5 * D5
DCG_B = 5 + 1 * D2 + 3 * D3 + 2 * D4 + 4 * D5
DCG_C = 5 + 1 * D2 + 1 * D3 + 2 * D4 + 1 * D5 + 2 * D6 + 3 * D7 + 2 * D8 + 1 * D9
IDEAL_B = 5 + 4 * D2 + 3 * D3 + 2 * D4 + 1 * D5
IDEAL_C = 5 + 3 * D2 + 2 * D3 + 2 * D4 + 2 * D5 + 1 * D6 + 1 * D7 + 1 * D8 + 1 * D9

VALUES = [
    # example, metric, by hand, as printed (None: the text prints no number)
    ("viewer A", "precision@3", 2 / 3, "2/3"),
    ("viewer B", "precision@3", 1 / 3, "1/3"),
    ("viewer A", "recall@3", 2 / 4, "2/4"),
    ("viewer A", "recall(over='min_k')@3", 2 / 3, None),
    ("viewer B", "recall@3", 1 / 4, "1/4"),
    ("viewer B", "recall(over='min_k')@3", 1 / 3, None),
    ("viewer A", "hit@3", 1, "1"),
    ("viewer B", "hit@3", 1, "1"),
    ("viewer A", "RR@3", 1 / 2, "1/2"),
    ("viewer B", "RR@3", 1 / 3, "1/3"),
    ("viewer A", "AP@3", (1 / 2 + 2 / 3) / 3, None),
    ("viewer A", "AP(over='hits')@3", (1 / 2 + 2 / 3) / 2, "7/12"),
    ("viewer A", "AP(over='relevant')@3", (1 / 2 + 2 / 3) / 4, None),
    ("viewer A", "AP(over='k', terms='every_rank')@3", (0 + 1 / 2 + 2 / 3) / 3, None),
    ("viewer B", "AP@3", (1 / 3) / 3, None),
    ("viewer B", "AP(over='hits')@3", (1 / 3) / 1, None),
    ("viewer B", "AP(over='relevant')@3", (1 / 3) / 4, None),
    ("viewer B", "AP(over='k', terms='every_rank')@3", (0 + 0 + 1 / 3) / 3, None),
    ("graded A", "CG@3", 3 + 5, "8"),
    ("graded A", "DCG@3", 3 * D2 + 5 * D3, "4.39"),
    ("graded A", "DCG(gain='exp2')@3", 7 * D2 + 31 * D3, None),
    ("graded A", "DCG(discount='jarvelin')@3", 3 + 5 / log2(3), None),
    ("graded A", "nDCG@3", (3 * D2 + 5 * D3) / (5 + 5 * D2 + 4 * D3), None),
    ("graded A", "nDCG(idcg='shown')@3", (3 * D2 + 5 * D3) / (5 + 3 * D2), None),
    ("gains A", "CG", 15, "15"),
    ("gains B", "CG", 15, "15"),
    ("gains A", "DCG", DCG_A, None),
    ("gains A", f"DCG({E})", DCG_A * LN, "12.10"),
    ("gains B", "DCG", DCG_B, None),
    ("gains B", f"DCG({E})", DCG_B * LN, "13.76"),
    ("gains C", "DCG", DCG_C, None),
    ("gains C", f"DCG({E})", DCG_C * LN, "14.46"),
    ("ideal B", "DCG", IDEAL_B, None),
    ("ideal B", f"DCG({E})", IDEAL_B * LN, "14.82"),
    ("ideal C", "DCG", IDEAL_C, None),
    ("ideal C", f"DCG({E})", IDEAL_C * LN, "15.63"),
    ("gains B", "nDCG", DCG_B / IDEAL_B, None),
    ("gains B", f"nDCG({E})", DCG_B / IDEAL_B, None),
    ("gains C", "nDCG", DCG_C / IDEAL_C, None),
    ("gains C", f"nDCG({E})", DCG_C / IDEAL_C, None),
    ("letters", "precision@3", 2 / 3, "0.6667"),
    ("letters", "recall@3", 2 / 3, "0.6667"),
    ("letters, all shown", "AP@5", (1 + 2 / 3 + 3 / 5) / 3, "0.7556"),
    ("letters, all shown", "AP(over='relevant')@5", (1 + 2 / 3 + 3 / 5) / 3, "0.7556"),
    ("letters, all shown", "AP(over='hits')@5", (1 + 2 / 3 + 3 / 5) / 3, "0.7556"),
    ("letters, graded", "DCG@5", 3 + 2 * D3 + 1 * D5, "4.3869"),
    ("letters, graded", "DCG(gain='exp2')@5", 7 + 3 * D3 + 1 * D5, None),
    ("letters, ideal", "DCG@5", 3 + 2 * D2 + 1 * D3, "4.7619"),
    ("letters, ideal", "DCG(gain='exp2')@5", 7 + 3 * D2 + 1 * D3, None),
    ("letters, graded", "nDCG@5", (3 + 2 * D3 + 1 * D5) / (3 + 2 * D2 + 1 * D3), "0.9212"),
    ("letters, graded", "nDCG(gain='exp2')@5", (7 + 3 * D3 + D5) / (7 + 3 * D2 + D3), None),
    ("letters, graded", "nDCG(gain='binary')@5", (1 + D3 + D5) / (1 + D2 + D3), None),
    ("numbers", "precision@3", 1 / 3, None),
    ("numbers", "recall@3", 1 / 4, None),
    ("numbers", "recall(over='min_k')@3", 1 / 3, None),
    ("numbers", "F1@3", 2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4), None),
    ("numbers", "F1(recall_over='min_k')@3", 1 / 3, None),
    ("numbers", "AP(over='relevant')", (1 / 2) * (1 / 4) + (2 / 4) * (1 / 4), None),
    ("second of three", "RR@2", 1 / 2, None),
    ("hits at 2 and 4", "AP(over='hits')@5", (1 / 2 + 2 / 4) / 2, None),
    ("numbers", "AP(over='hits')@5", (1 / 2 + 2 / 4) / 2, None),
    ("numbers", "AP(over='relevant')@5", (1 / 2 + 2 / 4) / 4, None),
    ("ten items", "precision@5", 2 / 5, "0.4"),
    ("ten items", "recall@5", 2 / 3, "0.6666666666666666"),
    ("ten items", "nDCG@5", (D2 + D5) / (1 + D2 + D3), "0.4776237035032179"),
    ("ten items", "nDCG(idcg='full_k')@5", (D2 + D5) / (1 + D2 + D3 + D4 + D5), None),
    ("ten items", "AP@5", (1 / 2 + 2 / 5) / 3, "0.3"),
    ("ten items", "AP(over='relevant')@5", (1 / 2 + 2 / 5) / 3, "0.3"),
    ("ten items", "AP(over='hits')@5", (1 / 2 + 2 / 5) / 2, None),
    ("ten items", "RR@5", 1 / 2, "0.5"),
    ("left one out", "precision@5", 1 / 5, "0.2"),
    ("left one out", "recall@5", 1, "1.0"),
    ("left one out", "nDCG@5", D3, None),
    ("left one out", "AP@5", 1 / 3, "0.3333333333333333"),
    ("left one out", "RR@5", 1 / 3, None),
]  # fmt: skip

MEANS = [
    # users, metric, mean by hand, as printed
    (["viewer A", "viewer B"], "precision@3", (2 / 3 + 1 / 3) / 2, "1/2"),
    (["viewer A", "viewer B"], "recall@3", (2 / 4 + 1 / 4) / 2, "3/8"),
    (["viewer A", "viewer B"], "recall(over='min_k')@3", (2 / 3 + 1 / 3) / 2, None),
    (["viewer A", "viewer B"], "hit@3", 1, "1"),
    (["viewer A", "viewer B"], "RR@3", (1 / 2 + 1 / 3) / 2, "5/12"),
    (["viewer A", "viewer B"], "AP(over='hits')@3", (7 / 12 + 1 / 3) / 2, None),
    (["viewer A", "viewer B"], "AP(over='relevant')@3", (7 / 24 + 1 / 12) / 2, None),
    (["viewer A", "viewer B"], "AP@3", (7 / 18 + 1 / 9) / 2, None),
    (["user 1", "user 2", "user 3"], "hit@3", (0 + 1 + 1) / 3, "0.6667"),
    (["first of three", "second of three", "third of three"], "RR@2", (1 + 1 / 2 + 0) / 3, None),
]  # fmt: skip

# Texts that divide numbers which they have rounded before.
ROUNDED = [
    # example, metric, DCG and ideal DCG as printed, their ratio as printed, as it is
    ("graded A", "nDCG(idcg='shown')@3", 4.39, 6.89, "0.6372", "0.6373"),
    ("gains B", "nDCG", 13.76, 14.82, "0.9285", "0.9287"),
    ("gains C", "nDCG", 14.46, 15.63, "0.9251", "0.9252"),
]


def mean_of(metric: str, *users: tuple[str, Relevance]) -> float:
    """The mean of `metric` over users with these rankings and relevant items."""
    truth = [
        {"user": user, "item": item, "relevance": float(relevance)}
        for user, (_, judged) in enumerate(users)
        for item, relevance in judged.items()
    ]
    shown = [
        {"user": user, "item": item} for user, (ranking, _) in enumerate(users) for item in ranking
    ]
    report = evalkit.evaluate(pl.DataFrame(truth), pl.DataFrame(shown), metrics=[metric])
    return report.value(metric)


def shown_as(value: float, printed: str) -> bool:
    """Whether `value` prints as `printed`, a decimal number or a fraction."""
    above, _, below = printed.partition("/")
    if below:
        return value == pytest.approx(int(above) / int(below), abs=1e-15)
    n_decimals = len(printed.partition(".")[2])
    return f"{value:.{n_decimals}f}" == printed


@pytest.mark.parametrize(("example", "metric", "by_hand", "printed"), VALUES)
def test_a_worked_example_has_the_value_worked_out_by_hand(example, metric, by_hand, printed):
    value = mean_of(metric, EXAMPLES[example])

    assert value == pytest.approx(by_hand, rel=1e-14)
    assert printed is None or shown_as(value, printed)


@pytest.mark.parametrize(("users", "metric", "by_hand", "printed"), MEANS)
def test_a_worked_mean_has_the_value_worked_out_by_hand(users, metric, by_hand, printed):
    value = mean_of(metric, *(EXAMPLES[each] for each in users))

    assert value == pytest.approx(by_hand, rel=1e-14)
    assert printed is None or shown_as(value, printed)


@pytest.mark.parametrize(("example", "metric", "dcg", "ideal", "printed", "right"), ROUNDED)
def test_a_ratio_of_rounded_numbers_is_printed_where_ours_is_exact(
    example, metric, dcg, ideal, printed, right
):
    value = mean_of(metric, EXAMPLES[example])

    assert f"{dcg / ideal:.4f}" == printed
    assert f"{value:.4f}" == right


def test_the_ideal_list_of_the_items_shown_is_not_that_of_all_items():
    shown = mean_of("DCG@3", ("pns", FILMS))
    of_all = mean_of("DCG@3", ("pta", FILMS))

    assert shown_as(shown, "6.89")
    assert shown == pytest.approx(5 + 3 * D2, rel=1e-14)
    assert of_all == pytest.approx(5 + 5 * D2 + 4 * D3, rel=1e-14)


def test_a_discount_of_one_rank_too_deep_is_no_convention():
    """One text discounts the left-out item at rank 3 by log2(5), though rank 3 has log2(4)."""
    printed = 0.43067655807339306
    by_every_convention = conventions_of("nDCG", ["@5"])

    values = evalkit.evaluate(
        pl.DataFrame({"user": 1, "item": ["b"], "relevance": [1.0]}),
        pl.DataFrame({"user": 1, "item": list("dfbcahjieg")}),
        metrics=by_every_convention,
    ).metrics["value"]

    assert printed == pytest.approx(1 / log2(5), rel=1e-15)
    assert mean_of("nDCG@5", EXAMPLES["left one out"]) == pytest.approx(1 / log2(4), rel=1e-15)
    assert len(by_every_convention) > 160
    assert (values - printed).abs().min() > 1e-3


def conventions_of(name: str, cutoffs: Sequence[str]) -> list[str]:
    """The metric under every combination of its choices and of the usual logarithms."""
    metric = registry()[name]
    named = [
        [f"{each.name}='{choice}'" for choice in each.choices]
        or [f"{each.name}={base!r}" for base in (2.0, e, 10.0)]
        for each in metric.parameters
    ]
    return [
        f"{name}({', '.join(values)}){cutoff}" for values in product(*named) for cutoff in cutoffs
    ]


CURVE = [
    # rank, recall, precision
    (1, 0,     0),
    (2, 1 / 4, 1 / 2),
    (3, 1 / 4, 1 / 3),
    (4, 2 / 4, 2 / 4),
    (5, 2 / 4, 2 / 5),
]  # fmt: skip


@pytest.mark.parametrize(("rank", "recall", "precision"), CURVE)
def test_the_points_of_the_curve_are_recall_and_precision_at_each_rank(rank, recall, precision):
    numbers = EXAMPLES["numbers"]

    assert mean_of(f"recall@{rank}", numbers) == pytest.approx(recall, rel=1e-14)
    assert mean_of(f"precision@{rank}", numbers) == pytest.approx(precision, rel=1e-14)


def test_the_area_below_the_curve_is_ap_by_steps_and_another_number_by_lines():
    steps = list(pairwise(CURVE))
    by_steps = sum((r - before) * p for (_, before, _), (_, r, p) in steps)
    by_lines = sum((r - before) * (last + p) / 2 for (_, before, last), (_, r, p) in steps)

    value = mean_of("AP(over='relevant')", EXAMPLES["numbers"])

    assert value == pytest.approx(by_steps, rel=1e-14)
    assert by_lines == pytest.approx(1 / 6, rel=1e-14)
