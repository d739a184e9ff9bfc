"""Every metric in plain Python, written from the sources' formulas; slow, and hard to get wrong.

A user's list is `ranked`, the gain at each rank and 0 for a miss; `relevant` has the gains of all
relevant items; `k` is the cutoff, None for the whole list.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate

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
    shown = top(ranked, k)
    return len(shown) - shown.count(0)


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
        if not item_shown:
            continue
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
        patience**place * {"linear": grade / best, "relevance": grade, "binary": 1.0}[gain]
        for place, grade in shown
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


State = float | None  # 1 relevant, 0 judged, -1 pooled and never judged, None in no pool


def states_of(ranked: Gains) -> list[State]:
    """A list of which only relevant items are judged."""
    return [1.0 if gain else None for gain in ranked]


def share_unjudged(shown: Sequence[State], k: int | None, over: str) -> float:
    unjudged = sum(state is None or state < 0 for state in top(shown, k))
    divisor = k if over == "k" and k is not None else len(top(shown, k))
    return unjudged / divisor if divisor else 0.0


@naive("judged")
def judged(ranked: Gains, relevant: Gains, k: int | None, over: str = "length") -> float:
    return 1 - share_unjudged(states_of(ranked), k, over) if ranked else 0.0


@naive("unjudged")
def unjudged(ranked: Gains, relevant: Gains, k: int | None, over: str = "length") -> float:
    return share_unjudged(states_of(ranked), k, over)


@naive("judged_misses")
def judged_misses(ranked: Gains, relevant: Gains, k: int | None) -> float:
    return sum(state == 0 for state in top(states_of(ranked), k))


def bpref_of(shown: Sequence[State], n_relevant: int, n_others: int, over: str = "min") -> float:
    most = n_relevant + 10 if over == "ten_more" else n_relevant
    divisor = min(n_relevant, n_others) if over == "min" else most
    total = 0.0
    for place, state in enumerate(shown):
        above = min(shown[:place].count(0), most)
        total += (1 - (above / divisor if above else 0)) if state == 1 else 0
    return total / n_relevant if n_relevant else math.nan


@naive("bpref")
def bpref(ranked: Gains, relevant: Gains, k: int | None, over: str = "min") -> float:
    return bpref_of(states_of(top(ranked, k)), len(relevant), 0, over)


def infap_of(shown: Sequence[State], n_relevant: int) -> float:
    total = 0.0
    for rank, state in enumerate(shown, 1):
        above = [each for each in shown[: rank - 1] if each is not None]
        share = (above.count(1) + 1e-5) / (above.count(1) + above.count(0) + 2e-5)
        total += (1 / rank + len(above) / rank * share) if state == 1 else 0
    return total / n_relevant if n_relevant else math.nan


@naive("infAP")
def infap(ranked: Gains, relevant: Gains, k: int | None) -> float:
    return infap_of(states_of(top(ranked, k)), len(relevant))


def residual_of(shown: Sequence[State], patience: float, tail: str) -> float:
    weights = [(1 - patience) * patience**place for place in range(len(shown))]
    is_judged = [state is not None and state >= 0 for state in shown]
    if tail == "lost" and all(is_judged):
        return 0.0
    rest = sum(w for w, known in zip(weights, is_judged, strict=True) if not known)
    return rest + patience ** len(shown)


@naive("rbp_residual")
def rbp_residual(
    ranked: Gains, relevant: Gains, k: int | None, patience: float = 0.8, tail: str = "counts"
) -> float:
    return residual_of(states_of(top(ranked, k)), patience, tail)


@naive("ERR")
def err(ranked: Gains, relevant: Gains, k: int | None, max_relevance: float = 4.0) -> float:
    total, goes_on = 0.0, 1.0
    for rank, gain in enumerate(top(ranked, k), 1):
        share = (2 ** min(gain, max_relevance) - 1) / 2**max_relevance
        total += goes_on * share / rank
        goes_on *= 1 - share
    return total


@naive("nERR")
def nerr(ranked: Gains, relevant: Gains, k: int | None, max_relevance: float = 4.0) -> float:
    best = err(sorted(relevant, reverse=True), relevant, k, max_relevance)
    return min(err(ranked, relevant, k, max_relevance) / best, 1.0) if best else math.nan


def items_wanted(recall: float, n: int, points: str) -> int:
    if points == "ceil":
        return math.ceil(round(recall * n, 6))
    return math.floor(recall * n + (0.9 if points == "trec_eval" else 0.5))


@naive("iprec")
def iprec(
    ranked: Gains, relevant: Gains, k: int | None, recall: float = 0.1, points: str = "ceil"
) -> float:
    if not relevant:
        return math.nan
    wanted = items_wanted(recall, len(relevant), points)
    counts = accumulate(gain != 0 for gain in top(ranked, k))
    return max((n / rank for rank, n in enumerate(counts, 1) if n >= wanted), default=0.0)


@naive("11pt_avg")
def eleven_points(ranked: Gains, relevant: Gains, k: int | None, points: str = "ceil") -> float:
    return sum(iprec(ranked, relevant, k, point / 10, points) for point in range(11)) / 11


def confusion(
    ranked: Gains, relevant: Gains, k: int | None, candidates: float
) -> tuple[float, float, float, float]:
    """Shown and relevant, shown others, missed, the rest."""
    tp = hits(ranked, relevant, k)
    fp = len(top(ranked, k)) - tp
    others = candidates - len(relevant) if candidates else list(ranked).count(0)
    return tp, fp, len(relevant) - tp, others - fp


@naive("fallout")
def fallout(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    candidates: float = 0.0,
    all_relevant: str = "undefined",
) -> float:
    _, fp, _, tn = confusion(ranked, relevant, k, candidates)
    if fp == tn == 0 and all_relevant != "undefined" and any(g > 0 for g in relevant):
        return 0.0 if all_relevant == "zero" else 1.0
    return fp / (fp + tn) if fp + tn > 0 and tn >= 0 else math.nan


def padded(ranked: Gains, k: int | None, places: str) -> Gains:
    """The list, with wrong items up to the cutoff where these count as shown."""
    lacking = max(0, (k or 0) - len(ranked)) if places == "k" else 0
    return [*ranked, *[0.0] * lacking]


@naive("accuracy")
def accuracy(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    candidates: float = 0.0,
    places: str = "shown",
) -> float:
    ranked = padded(ranked, k, places)
    tp, fp, fn, tn = confusion(ranked, relevant, k, candidates)
    n = tp + fp + fn + tn
    return (tp + tn) / n if n > 0 and tn >= 0 else math.nan


@naive("MCC")
def mcc(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    candidates: float = 0.0,
    places: str = "shown",
) -> float:
    ranked = padded(ranked, k, places)
    tp, fp, fn, tn = confusion(ranked, relevant, k, candidates)
    below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(below) if below > 0 and tn >= 0 else math.nan


@naive("utility")
def utility(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    a: float = 1.0,
    b: float = -1.0,
    c: float = 0.0,
    d: float = 0.0,
    candidates: float = 0.0,
) -> float:
    tp, fp, fn, tn = confusion(ranked, relevant, k, candidates)
    return a * tp + b * fp + c * fn + d * max(tn, 0)


@naive("yaap")
def yaap(ranked: Gains, relevant: Gains, k: int | None) -> float:
    total = sum(precision(ranked, relevant, rank) for rank, g in enumerate(top(ranked, k), 1) if g)
    return math.log((1 + total) / (1 + len(relevant) - total))


@naive("SetAP")
def set_ap(ranked: Gains, relevant: Gains, k: int | None) -> float:
    if not relevant:
        return math.nan
    return precision(ranked, relevant, k, "length") * recall(ranked, relevant, k)


@naive("relative_P")
def relative_p(ranked: Gains, relevant: Gains, k: int | None) -> float:
    if not relevant:
        return math.nan
    most = min(len(ranked) if k is None else k, len(relevant))
    return hits(ranked, relevant, k) / most if most else 0.0


@naive("mean_recall")
def mar(ranked: Gains, relevant: Gains, k: int | None) -> float:
    last = len(ranked) if k is None else k
    if not relevant or not last:
        return 0.0 if relevant else math.nan
    found = [last - rank + 1 for rank, gain in enumerate(top(ranked, k), 1) if gain]
    return sum(found) / len(relevant) / last  # each hit counts at the cutoffs from its rank on


@naive("NCRR")
def ncrr(ranked: Gains, relevant: Gains, k: int | None) -> float:
    if not relevant:
        return math.nan
    shown = top(ranked, k)
    best = sum(1 / rank for rank in range(1, min(len(relevant), len(shown)) + 1))
    return sum(1 / rank for rank, gain in enumerate(shown, 1) if gain) / best if best else 0.0


@naive("ideal_DCG")
def ideal_dcg(ranked: Gains, relevant: Gains, k: int | None, *rest: str, **more: str) -> float:
    return dcg(sorted(relevant, reverse=True), relevant, k, *rest, **more)


@naive("compat")
def compat(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    patience: float = 0.95,
    normalize: str = "max",
) -> float:
    shown = [(gain, rank) for rank, gain in enumerate(top(ranked, k), 1)]
    hidden = [gain for gain in relevant]
    for gain in ranked:
        if gain:
            hidden.remove(gain)
    hidden += [gain for gain in ranked[len(shown) :] if gain]
    ideal = sorted(
        [(gain, -rank) for gain, rank in shown if gain] + [(gain, -math.inf) for gain in hidden],
        reverse=True,
    )
    places = {-rank: place for place, (_, rank) in enumerate(ideal, 1) if rank > -math.inf}
    depth = max(len(shown), len(ideal))
    weights = [patience**place for place in range(depth)]
    among_both = Counter(max(rank, place) for rank, place in places.items())
    n_both = accumulate(among_both[i] for i in range(1, depth + 1))
    both = [n / i for i, n in enumerate(n_both, 1)]
    best = [min(i, len(ideal)) / i for i in range(1, depth + 1)]
    below = [1.0] * depth if normalize == "none" else best
    divisor = sum(w * b for w, b in zip(weights, below, strict=True))
    return sum(w * b for w, b in zip(weights, both, strict=True)) / divisor if ideal else 0.0


def rate(
    ranked: Gains, k: int | None, most: float, horizon: float, goes_on: Callable[..., float]
) -> float:
    """The mean gain of a look; `goes_on` has the chance after a rank, its gain and that so far."""
    gains = [min(gain, most) / most for gain in top(ranked, k)]
    gains = (gains + [0.0] * int(horizon))[: int(horizon)]
    looks = [1.0]
    so_far = [
        *accumulate(gains)
    ]  # one after the other, as cwl-eval adds them: T may be just missed
    for rank, gain in enumerate(gains[:-1], 1):
        if not looks[-1]:
            break
        looks.append(looks[-1] * goes_on(rank, gain, so_far[rank - 1]))
    return sum(map(lambda one, other: one * other, looks, gains)) / sum(looks)


def ends_at(k: int | None, rank: int) -> bool:
    return k is not None and rank >= k


@naive("INST")
def inst(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    T: float = 1.0,
    max_relevance: float = 4.0,
    horizon: float = 1000.0,
) -> float:
    def goes_on(rank: int, gain: float, gained: float) -> float:
        aim = rank + T + (T - gained)
        return float(((aim - 1) / aim) ** 2)

    return rate(ranked, k, max_relevance, horizon, goes_on)


@naive("INSQ")
def insq(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    T: float = 1.0,
    max_relevance: float = 4.0,
    horizon: float = 1000.0,
) -> float:
    def goes_on(rank: int, gain: float, gained: float) -> float:
        return float(((rank + 2 * T - 1) / (rank + 2 * T)) ** 2)

    return rate(ranked, k, max_relevance, horizon, goes_on)


@naive("BPM")
def bpm(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    T: float = 1.0,
    max_relevance: float = 4.0,
    horizon: float = 1000.0,
) -> float:
    def goes_on(rank: int, gain: float, gained: float) -> float:
        return float(not ends_at(k, rank) and gained < T)

    return rate(ranked, k, max_relevance, horizon, goes_on)


@naive("SDCG")
def sdcg(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    max_relevance: float = 4.0,
    horizon: float = 1000.0,
) -> float:
    last = int(horizon) if k is None else min(k, int(horizon))
    shown = [min(gain, max_relevance) / max_relevance for gain in ranked[:last]]
    return dcg(shown, relevant, k) / dcg([1.0] * last, relevant, k)


@naive("nearly_ERR")
def nearly_err(
    ranked: Gains,
    relevant: Gains,
    k: int | None,
    users: str = "inverse",
    T: float = 1.0,
    patience: float = 0.9,
    max_relevance: float = 4.0,
    horizon: float = 1000.0,
) -> float:
    share = {
        "inverse": lambda rank: 1.0,
        "plain": lambda rank: rank / (rank + 1),
        "rbp": lambda rank: patience,
        "insq": lambda rank: ((rank + 2 * T - 1) / (rank + 2 * T)) ** 2,
    }[users]

    def goes_on(rank: int, gain: float, gained: float) -> float:
        if users in ("inverse", "plain") and ends_at(k, rank):
            return 0.0
        return (1 - gain) * share(rank)

    return rate(ranked, k, max_relevance, horizon, goes_on)


def over_users(how: str, values: Sequence[float], number: float = math.nan) -> float:
    """A number over users from their values, users without one left out."""
    known = sorted(each for each in values if not math.isnan(each))
    if how == "fraction":
        return sum(each >= number for each in known) / len(known)
    if how == "gmean":
        return math.prod(max(each, number) for each in known) ** (1 / len(known))
    if how == "median":
        return (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
    if how == "quantile":
        return next(each for n, each in enumerate(known, 1) if n >= number * len(known) - 1e-9)
    if how == "tail_mean":
        left, total = number * len(known), 0.0
        for each in known:
            total, left = total + each * min(1.0, left), left - min(1.0, left)
        return total / (number * len(known))
    if how in ("lowest", "highest"):
        return known[0] if how == "lowest" else known[-1]
    raise AssertionError(f"{how!r} has no twin in plain Python")
