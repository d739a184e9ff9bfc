"""Every metric in plain Python, written from the sources' formulas; slow, and hard to get wrong.

A user's list is `ranked`, the gain at each rank and 0 for a miss; `relevant` has the gains of all
relevant items; `k` is the cutoff, None for the whole list.
"""

import math
from collections.abc import Callable, Sequence

Gains = Sequence[float]


class Twins(dict[str, Callable[..., float]]):
    """Functions by the metric's name; says what to write where there is none."""

    def __missing__(self, name: str) -> Callable[..., float]:
        raise AssertionError(
            f"{name!r} has no twin in plain Python: write a function in tests/naive.py under "
            f"@naive({name!r}), from the source's formula and not from the kernel"
        )


NAIVE = Twins()


def naive(name: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Adds a function to `NAIVE` under the metric's name."""
    return lambda function: NAIVE.setdefault(name, function)


def top(ranked: Gains, k: int | None) -> Gains:
    return ranked if k is None else ranked[:k]


@naive("hits")
def hits(ranked: Gains, relevant: Gains, k: int | None) -> float:
    return sum(gain != 0 for gain in top(ranked, k))


@naive("hit")
def hit(ranked: Gains, relevant: Gains, k: int | None) -> float:
    return float(any(top(ranked, k)))


@naive("precision")
def precision(ranked: Gains, relevant: Gains, k: int | None, over: str = "k") -> float:
    shown = len(top(ranked, k))
    divisor = k if over == "k" and k is not None else shown
    return hits(ranked, relevant, k) / divisor if divisor else 0.0


@naive("recall")
def recall(ranked: Gains, relevant: Gains, k: int | None, over: str = "relevant") -> float:
    if not relevant:
        return math.nan
    divisor = len(relevant) if over == "relevant" else len(top(relevant, k))
    return hits(ranked, relevant, k) / divisor


@naive("F")
def f(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    beta: float = 1.0,
    precision_over: str = "k",
    recall_over: str = "relevant",
    mean: str = "users",
) -> float:
    if not relevant:
        return math.nan
    p = precision(ranked, relevant, k, precision_over)
    r = recall(ranked, relevant, k, recall_over)
    return (1 + beta**2) * p * r / (beta**2 * p + r) if p + r > 0 else 0.0


@naive("R-precision")
def r_precision(ranked: Gains, relevant: Gains, k: int | None, form: str = "top_r") -> float:
    if not relevant:
        return math.nan
    if form == "min_k":
        return hits(ranked, relevant, k) / len(top(relevant, k))
    return hits(top(ranked, k)[: len(relevant)], relevant, None) / len(relevant)


@naive("first_hit_rank")
def first_hit_rank(ranked: Gains, relevant: Gains, k: int | None) -> float:
    return next((rank for rank, gain in enumerate(top(ranked, k), 1) if gain), math.nan)


@naive("RR")
def rr(ranked: Gains, relevant: Gains, k: int | None) -> float:
    rank = first_hit_rank(ranked, relevant, k)
    return 0.0 if math.isnan(rank) else 1 / rank


@naive("AP")
def ap(
    ranked: Gains, relevant: Gains, k: int | None, over: str = "min_k", terms: str = "hits"
) -> float:
    if not relevant:
        return math.nan
    last = len(ranked) if k is None else k
    is_hit = [*(gain != 0 for gain in ranked), *[False] * last]
    ranks = [rank for rank in range(1, last + 1) if terms == "every_rank" or is_hit[rank - 1]]
    total = sum(precision(ranked, relevant, rank) for rank in ranks)
    if terms == "last_row" and ranked and ranked[-1]:  # it stays the last row of a short list
        total += max(0, last - len(ranked)) * precision(ranked, relevant, None)
    divisor = {
        "min_k": len(top(relevant, k)),
        "relevant": len(relevant),
        "min_length": min(last, len(ranked), len(relevant)),
        "hits": hits(ranked, relevant, k),
        "k": last,
    }[over]
    return total / divisor if divisor else 0.0


def worth(gain: float, kind: str) -> float:
    if kind == "binary":
        return float(gain != 0)
    return 2**gain - 1 if kind in ("exp2", "exp2_shifted") else gain  # the threshold is 1


@naive("CG")
def cg(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    gain: str = "linear",
    below_threshold: str = "count",
) -> float:
    return sum(worth(each, gain) for each in top(ranked, k))


@naive("DCG")
def dcg(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    gain: str = "linear",
    below_threshold: str = "count",
    discount: str = "log",
    log_base: float = 2.0,
    per: str = "user",
) -> float:
    total = 0.0
    for rank, item_shown in enumerate(top(ranked, k), 1):
        if discount == "log":
            total += worth(item_shown, gain) / math.log(1 + rank, log_base)
        else:
            total += worth(item_shown, gain) / max(1.0, math.log(rank, log_base))
    if per == "user":
        return total
    return total / len(relevant) if relevant else math.nan


@naive("nDCG")
def ndcg(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    gain: str = "linear",
    below_threshold: str = "count",
    discount: str = "log",
    log_base: float = 2.0,
    idcg: str = "all",
    idcg_cut: str = "k",
    idcg_negative: str = "left_out",
) -> float:
    if not relevant:
        return math.nan
    rest = (gain, below_threshold, discount, log_base)
    ideal = sorted(relevant if idcg == "all" else [each for each in ranked if each], reverse=True)
    if idcg == "full_k":
        ideal = [1.0] * (len(ranked) if k is None else k)
    best = dcg(ideal, relevant, k if idcg_cut == "k" else None, *rest)
    if idcg_negative == "divide_or_undefined" and best == 0:
        return math.nan
    divides = best > 0 or (best < 0 and idcg_negative.startswith("divide"))
    if idcg_negative == "divide_unless_sum" and sum(worth(each, gain) for each in ideal) == 0:
        divides = False
    return dcg(ranked, relevant, k, *rest) / best if divides else 0.0


@naive("RBP")
def rbp(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    patience: float = 0.8,
    gain: str = "binary",
    below_threshold: str = "count",
) -> float:
    best = max(relevant, default=1.0)
    shown = [(place, grade) for place, grade in enumerate(top(ranked, k)) if grade]
    return (1 - patience) * sum(
        patience**place * (grade / best if gain == "linear" else 1.0) for place, grade in shown
    )


@naive("AUC")
def auc(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    candidates: float = 0.0,
    one_kind: str = "undefined",
    others: str = "shown",
) -> float:
    listed = [gain != 0 for gain in top(ranked, k)]
    if others == "one_more":
        whole = [gain != 0 for gain in ranked]
        n_others = 1 + (candidates - len(relevant) if candidates else whole.count(False))
        n_wanted = len(relevant) if k is None else min(k, len(relevant))
        if n_wanted <= 0 or n_others <= 0:
            return math.nan
        won = sum(n_others - listed[:rank].count(False) for rank, hit in enumerate(listed) if hit)
        return won / (n_others * n_wanted)
    if candidates:
        others = candidates - len(relevant)
        unlisted = others - listed.count(False)
        if not relevant or others <= 0 or unlisted < 0:
            return math.nan
        won = sum(
            listed[rank + 1 :].count(False) + unlisted for rank, hit in enumerate(listed) if hit
        )
        won += (len(relevant) - listed.count(True)) * unlisted / 2
        return won / (len(relevant) * others)
    pairs = listed.count(True) * listed.count(False)
    if pairs:
        return sum(listed[rank:].count(False) for rank, hit in enumerate(listed) if hit) / pairs
    if one_kind == "undefined" or not relevant:
        return math.nan
    return float(one_kind == "zero_or_one" and any(listed))


@naive("partial-AUC")
def partial_auc(
    ranked: Gains, relevant: Gains, k: int | None, positives: str = "relevant"
) -> float:
    listed = [gain != 0 for gain in ranked]
    misses = listed.count(False) if k is None else k
    if not relevant or not misses:
        return math.nan
    wanted = min(misses, len(relevant)) if positives == "min_k" else len(relevant)
    above = [listed[:rank].count(False) for rank, hit in enumerate(listed) if hit][:wanted]
    return sum(max(misses - each, 0) for each in above) / (misses * wanted)


@naive("sampled")
def sampled(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    of: str = "recall",
    catalogue: float = 0.0,
    sample: float = 0.0,
    estimate: str = "rank",
    gamma: float = 0.01,
    steps: float = 100.0,
) -> float:
    assert estimate == "rank"  # which needs neither gamma nor steps
    listed = [gain != 0 for gain in ranked]
    others = sample or listed.count(False)
    if len(relevant) != 1 or listed.count(False) > others:
        return math.nan
    if True not in listed:
        return 0.0
    above = listed.index(True)
    rank = 1 + above * ((catalogue - 1) / others) if catalogue and above else 1 + above
    if k is not None and rank > k:
        return 0.0
    return {"recall": 1.0, "nDCG": 1 / math.log2(1 + rank), "RR": 1 / rank}[of]
