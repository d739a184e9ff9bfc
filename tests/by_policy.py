"""Lists under any policy in plain Python: rows are put in order, hits looked for, users settled.

Written from the tables of docs/conventions.md, not from the package; nothing is shared with it but
the names of things. Equal scores without an order are every order, one after the other.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

Policies = Mapping[str, str | int]
Hit = tuple[int, float]  # rank, relevance

POLICIES: dict[str, str | int] = {
    "missing_ranking": "zero",
    "empty_ranking": "zero",
    "no_relevant": "skip",
    "zeros": "count",
    "unknown_users": "skip",
    "seen": "all",
    "unjudged": "count",
    "pooled": "unjudged",
    "duplicates": "error",
    "rel_size": "items",
    "ties": "item",
    "score_type": "float64",
    "nonpositive_scores": "hit",
    "fractional_relevance": "keep",
    "threshold_rule": "as-given",
    "negative_relevance": "ignore",
    "round_users": 17,
    "round_mean": 17,
}
NAMES = (
    *("hits", "hit", "RR", "first_hit_rank", "precision", "recall", "F", "R-precision", "AP"),
    *("RBP", "CG", "DCG", "nDCG", "AUC", "partial-AUC"),
)
BY_ALL_ORDERS = ("expected", "best", "worst")


@dataclass(frozen=True)
class Log:
    """Truth and lists of small integers; a list is (item, score or None) as its rows stand.

    Args:
        mode: what orders a list: "rank" (1, 2, ... as the rows stand), "score" or "order".
        lists: an empty one is given as such; no other user has one.
        seen: pairs of the training log, which are dropped.
    """

    mode: str
    truth: Mapping[int, Mapping[int, float]]
    lists: Mapping[int, Sequence[tuple[int, float | None]]]
    threshold: float | None = None
    seen: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Asked:
    """A metric with parameters, cutoff, and policies of its own."""

    name: str
    cutoff: int | None = None
    parameters: Mapping[str, str | float] = field(default_factory=dict)
    policies: Policies = field(default_factory=dict)

    @property
    def label(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in {**self.parameters, **self.policies}.items())
        return (
            self.name
            + (f"({inside})" if inside else "")
            + (f"@{self.cutoff}" if self.cutoff else "")
        )

    @property
    def gain(self) -> str:
        usual = "linear" if self.name in ("CG", "DCG", "nDCG") else "binary"
        return str(self.parameters.get("gain", usual))

    @property
    def is_judged(self) -> bool:
        counts = self.parameters.get("below_threshold", "count") == "count"
        return counts and self.gain != "binary"


@dataclass(frozen=True)
class Row:
    """A row of a list that has been put in order."""

    item: int
    score: float | None
    place: int  # in the log
    rank: int
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class Judged:
    relevance: Mapping[int, float]
    from_: float
    subtracts: bool

    def is_relevant(self, item: int) -> bool:
        return self.relevance.get(item, -math.inf) >= self.from_

    def counts(self, item: int, asked: Asked) -> bool:
        """Whether an item is worth looking for."""
        above_zero = self.relevance.get(item, 0.0) > 0
        return self.is_relevant(item) or (asked.is_judged and above_zero)

    def stays(self, item: int, asked: Asked) -> bool:
        """Whether a row that shows an item is a hit, be its gain below 0."""
        below_zero = self.relevance.get(item, 0.0) < 0
        return self.counts(item, asked) or (asked.is_judged and self.subtracts and below_zero)


def number_of(
    log: Log, asked: Asked, policies: Policies, *, nudge: float = 0.0
) -> tuple[float, dict[int, float]]:
    """The mean, and every user's value; NaN where there is none.

    Args:
        nudge: added to what is rounded.
    """
    chosen = {**POLICIES, **policies, **asked.policies}
    is_higher_better = asked.name != "first_hit_rank"
    values, spoils = {}, False
    users = set(log.truth)
    if chosen["unknown_users"] == "count":
        users |= set(log.lists)
    for user in sorted(users):
        value = _settled(log, asked, chosen, user, is_higher_better=is_higher_better)
        if chosen["round_users"] != 17 and math.isfinite(value):
            value = float(np.round(value + nudge, int(chosen["round_users"])))
        if value == 0 and chosen["zeros"] == "nan":
            value = math.inf
        spoils |= math.isinf(value)
        values[user] = value
    counted = [value for value in values.values() if value == value and value != 0]
    if chosen["zeros"] not in ("skip", "survivors"):
        counted = [value for value in values.values() if value == value]
    if spoils:
        mean = math.nan
    elif counted:
        mean = float(sum(map(Fraction, counted)) / len(counted))
    elif values and chosen["zeros"] in ("skip", "survivors") and is_higher_better:
        mean = 0.0
    else:
        mean = math.nan
    if chosen["round_mean"] != 17:
        mean = float(np.round(mean + nudge, int(chosen["round_mean"])))
    gone = (math.inf, 0.0) if chosen["zeros"] == "skip" else (math.inf,)
    return mean, {user: math.nan if value in gone else value for user, value in values.items()}


def _settled(
    log: Log, asked: Asked, chosen: Policies, user: int, *, is_higher_better: bool
) -> float:
    judged, log = _judged(log, chosen, user)
    given = log.lists.get(user)
    rows = _ordered(log, chosen, user) if given else None
    is_missing = given is None or (bool(given) and not rows)
    wanted = [item for item in judged.relevance if judged.is_relevant(item)]
    if chosen["seen"] == "shown":
        wanted = [item for item in wanted if any(row.item == item for row in rows or ())]
    said = {
        *([str(chosen["no_relevant"])] if not wanted else []),
        *([str(chosen["missing_ranking"])] if is_missing else []),
        *([str(chosen["empty_ranking"])] if given is not None and not given else []),
    }
    if "skip" in said:
        return math.nan
    if "nan" in said:
        return math.inf
    value = math.nan
    if is_missing:
        value = 0.0 if is_higher_better else math.nan
    elif "one" in said:
        value = 1.0
    else:
        written = log.mode == "rank" and not log.seen  # then copies leave gaps behind
        length = len(given or ()) if written else len(rows or ())
        value = _value(asked, chosen, judged, rows or [], length, log.threshold)
        if math.isnan(value) and said and is_higher_better:
            value = 0.0
    return value


def _judged(log: Log, chosen: Policies, user: int) -> tuple[Judged, Log]:
    """What the truth says of a user, and the log with the threshold that it is held to."""
    threshold, own = log.threshold, dict(log.truth.get(user, {}))
    if threshold is not None and chosen["threshold_rule"] == "floor":
        threshold = float(math.floor(threshold))
    grades = [grade for items in log.truth.values() for grade in items.values()]
    if chosen["fractional_relevance"] == "binary" and any(g != int(g) for g in grades):
        own = {
            item: float(g > 0 if threshold is None else g >= threshold) for item, g in own.items()
        }
        threshold = 1.0
    from_ = math.ulp(0.0) if threshold is None else threshold
    judged = Judged(own, from_, chosen["negative_relevance"] == "subtract")
    return judged, replace(log, threshold=threshold)


# ---------------------------------------------------------------- the list


def _ordered(log: Log, chosen: Policies, user: int) -> list[Row]:
    """The rows that stay, by rank, and the ranks that rows of one score take up together."""
    given = [
        Row(item, score, place, place + 1) for place, (item, score) in enumerate(log.lists[user])
    ]
    rows = [row for row in given if (user, row.item) not in log.seen]
    duplicates = str(chosen["duplicates"])
    if log.mode == "score":
        narrow = chosen["score_type"] == "float32"

        def strength(row: Row) -> float:
            assert row.score is not None
            return float(np.float32(row.score)) if narrow else row.score

        ties = str(chosen["ties"])
        if ties.startswith("item"):
            key = (lambda row: str(row.item)) if "text" in ties else (lambda row: row.item)
            rows.sort(key=key, reverse=ties.endswith("-desc"))
        rows.sort(key=strength, reverse=True)
    if duplicates in ("best", "first", "last"):
        copies: dict[int, list[Row]] = {}
        for row in rows:
            copies.setdefault(row.item, []).append(row)
        chosen_rows = {
            "best": lambda each: each[0],
            "first": lambda each: min(each, key=lambda row: row.place),
            "last": lambda each: max(each, key=lambda row: row.place),
        }[duplicates]
        kept = [chosen_rows(each) for each in copies.values()]
        rows = [row for row in rows if row in kept]
    if log.mode != "rank" or log.seen:
        rows = [replace(row, rank=rank) for rank, row in enumerate(rows, 1)]
    rows = [replace(row, first=row.rank, last=row.rank) for row in rows]
    if log.mode == "score":
        found = []
        for _, tied in itertools.groupby(rows, key=strength):
            group = list(tied)
            first, last = group[0].rank, group[-1].rank
            shared = {"mean-rank": (first + last) // 2, "last-rank": last}.get(ties)
            found += [
                replace(row, first=first, last=last, rank=shared or row.rank) for row in group
            ]
        rows = found
    return rows


def _orders(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Every order of rows with equal scores."""
    groups = [list(tied) for _, tied in itertools.groupby(rows, key=lambda row: row.first)]
    for order in itertools.product(*(itertools.permutations(group) for group in groups)):
        flat = [row for group in order for row in group]
        yield [replace(row, rank=rank) for rank, row in enumerate(flat, 1)]


def _value(
    asked: Asked,
    chosen: Policies,
    judged: Judged,
    rows: list[Row],
    length: int,
    threshold: float | None,
) -> float:
    if chosen["ties"] in BY_ALL_ORDERS:
        values = [
            _value_in_order(asked, chosen, judged, order, length, threshold)
            for order in _orders(rows)
        ]
        pick = {"best": max, "worst": min}.get(
            str(chosen["ties"]), lambda each: math.fsum(each) / len(each)
        )
        return pick(values)
    return _value_in_order(asked, chosen, judged, rows, length, threshold)


def _value_in_order(
    asked: Asked,
    chosen: Policies,
    judged: Judged,
    rows: Sequence[Row],
    length: int,
    threshold: float | None,
) -> float:
    duplicates = str(chosen["duplicates"])
    if chosen["unjudged"] == "skip":
        rows = _closed_up(rows, judged, chosen)
        length = len(rows)
    shown = Counter(row.item for row in rows)
    last = math.inf if asked.cutoff is None else asked.cutoff
    inside: Counter[int] = Counter()  # copies that hit up to the cutoff
    hitting: list[Row] = []
    met: set[int] = set()
    for row in sorted(rows, key=lambda row: row.rank):
        if not judged.stays(row.item, asked):
            continue
        if chosen["nonpositive_scores"] == "miss" and row.score is not None and row.score <= 0:
            continue
        if duplicates == "once" and row.item in met:
            continue
        met.add(row.item)
        inside[row.item] += row.rank <= last
        hitting += [row] * (shown[row.item] if duplicates == "multiply" else 1)
    wanted: list[float] = []
    for item, grade in judged.relevance.items():
        if not judged.counts(item, asked):
            continue
        if chosen["seen"] == "shown" and not shown[item]:
            continue
        often = 1
        if duplicates == "multiply":
            often = max(1, inside[item] * shown[item])
        elif chosen["rel_size"] == "rows":
            often = max(1, shown[item])
        wanted += [grade] * often
    hits = sorted((row.rank, -judged.relevance[row.item]) for row in hitting)
    return measure(asked, [(r, -g) for r, g in hits], wanted, rows, hitting, length, threshold)


def _closed_up(rows: Sequence[Row], judged: Judged, chosen: Policies) -> list[Row]:
    """The rows whose items were judged, at the ranks that are left to them."""

    def is_kept(item: int) -> bool:
        pooled = judged.relevance.get(item, -math.inf)
        floor = -math.inf if chosen["pooled"] == "judged" else 0.0
        return judged.is_relevant(item) or (item in judged.relevance and pooled >= floor)

    kept = [row for row in rows if is_kept(row.item)]

    def closed(rank: int) -> int:
        return 1 + sum(row.rank < rank for row in kept)

    return [
        replace(row, rank=closed(row.rank), first=closed(row.first), last=closed(row.last + 1) - 1)
        for row in kept
    ]


# ---------------------------------------------------------------- formulas


def worth(relevance: float, kind: str, threshold: float | None) -> float:
    if kind == "linear":
        return relevance
    if kind == "exp2":
        return 2**relevance - 1
    if kind == "exp2_shifted":
        value: float = 2 ** (relevance - (1 if threshold is None else threshold) + 1) - 1
        return max(value, 0.0) if relevance >= 0 else value
    return 1.0


def discounted(gains: Sequence[Hit], asked: Asked, threshold: float | None) -> float:
    base = float(asked.parameters.get("log_base", 2.0))
    total = 0.0
    for rank, relevance in gains:
        below = math.log(1 + rank, base)
        if asked.parameters.get("discount") == "jarvelin":
            below = max(1.0, math.log(rank, base))
        total += worth(relevance, asked.gain, threshold) / below
    return total


def measure(
    asked: Asked,
    hits: Sequence[Hit],
    wanted: Sequence[float],
    rows: Sequence[Row],
    hitting: Sequence[Row],
    length: int,
    threshold: float | None,
) -> float:
    """The value of one list, before any policy about users."""
    name, k, given = asked.name, asked.cutoff, asked.parameters
    top = [hit for hit in hits if k is None or hit[0] <= k]
    n, n_wanted = len(top), len(wanted)
    n_ranks = length if k is None else k
    n_reachable = n_wanted if k is None else min(k, n_wanted)

    def over_ranks(key: str) -> float:
        divisor = min(n_ranks, length) if given.get(key) == "length" else n_ranks
        return n / divisor if divisor else 0.0

    if name in ("hits", "hit"):
        return float(n) if name == "hits" else float(n > 0)
    if name == "RR":
        return 1 / top[0][0] if top else 0.0
    if name == "first_hit_rank":
        return float(top[0][0]) if top else math.nan
    if name == "precision":
        return over_ranks("over")
    if name == "RBP":
        p, best = float(given.get("patience", 0.8)), max(wanted, default=0.0)
        if asked.gain == "linear" and best <= 0:
            return 0.0
        worths = {"linear": best, "relevance": 1.0}
        credits = [(r, g / worths[asked.gain] if asked.gain in worths else 1.0) for r, g in top]
        return (1 - p) * math.fsum(credit * p ** (rank - 1) for rank, credit in credits)
    if name == "CG":
        return math.fsum(worth(gain, asked.gain, threshold) for _, gain in top)
    if name == "DCG":
        total = discounted(top, asked, threshold)
        if given.get("per") == "relevant":
            return total / n_wanted if wanted else math.nan
        return total
    if name == "nDCG":
        return _ndcg(asked, top, hits, wanted, n_ranks, threshold)
    if name == "AUC":
        return _auc(asked, rows, hitting, n_wanted, length)
    if not wanted:
        return math.nan
    if name == "partial-AUC":
        return _partial_auc(asked, rows, hitting, n_wanted)
    if name == "recall":
        return n / (n_reachable if given.get("over") == "min_k" else n_wanted)
    if name == "F":
        p = over_ranks("precision_over")
        r = n / (n_reachable if given.get("recall_over") == "min_k" else n_wanted)
        beta = float(given.get("beta", 1.0))
        return (1 + beta**2) * p * r / (beta**2 * p + r) if p + r else 0.0
    if name == "R-precision":
        if given.get("form") == "min_k":
            return n / n_reachable
        return sum(rank <= n_reachable for rank, _ in hits) / n_wanted
    assert name == "AP"
    return _ap(asked, top, rows, hitting, n_wanted, n_ranks, length)


def _ndcg(
    asked: Asked,
    top: Sequence[Hit],
    hits: Sequence[Hit],
    wanted: Sequence[float],
    n_ranks: int,
    threshold: float | None,
) -> float:
    given = asked.parameters
    if not any(worth(gain, asked.gain, threshold) > 0 for gain in wanted):
        return math.nan
    source = [gain for _, gain in hits] if given.get("idcg") == "shown" else wanted
    ideal = sorted(source, reverse=True)
    if given.get("idcg_cut", "k") == "k" and asked.cutoff is not None:
        ideal = ideal[: asked.cutoff]
    if given.get("idcg") == "full_k":
        ones = replace(asked, parameters={**given, "gain": "binary"})
        best = discounted([(rank, 1.0) for rank in range(1, n_ranks + 1)], ones, threshold)
    else:
        good = [gain for gain in ideal if worth(gain, asked.gain, threshold) > 0]
        best = discounted(list(enumerate(good, 1)), asked, threshold)
    return discounted(top, asked, threshold) / best if best > 0 else 0.0


def _ap(
    asked: Asked,
    top: Sequence[Hit],
    rows: Sequence[Row],
    hitting: Sequence[Row],
    n_wanted: int,
    n_ranks: int,
    length: int,
) -> float:
    terms, ranks = asked.parameters.get("terms", "hits"), [rank for rank, _ in top]
    total = math.fsum((number + 1) / rank for number, rank in enumerate(ranks))
    if terms == "every_rank":
        total = math.fsum(
            sum(rank <= last for rank in ranks) / last for last in range(1, n_ranks + 1)
        )
    elif terms == "last_row":
        total = 0.0
        for last in range(1, n_ranks + 1):
            above = [row for row in rows if row.rank <= last]
            if above and max(above, key=lambda row: row.place) in hitting:
                total += sum(rank <= last for rank in ranks) / min(last, length)
    divisor = {
        "min_k": n_wanted if asked.cutoff is None else min(asked.cutoff, n_wanted),
        "relevant": n_wanted,
        "min_length": min(n_ranks, length, n_wanted),
        "hits": len(ranks),
        "k": n_ranks,
    }[str(asked.parameters.get("over", "min_k"))]
    return total / divisor if divisor else 0.0


def is_strict(rows: Sequence[Row], hitting: Sequence[Row]) -> bool:
    """Whether rows have the ranks 1, 2, ..., and each hits once at most."""
    one_each = max(Counter(hitting).values(), default=0) <= 1
    return one_each and sorted(row.rank for row in rows) == list(range(1, len(rows) + 1))


def _auc(
    asked: Asked, rows: Sequence[Row], hitting: Sequence[Row], n_wanted: int, length: int
) -> float:
    candidates = float(asked.parameters.get("candidates", 0))
    assert is_strict(rows, hitting)
    cut = length if asked.cutoff is None else min(asked.cutoff, length)
    listed = [row in hitting for row in sorted(rows, key=lambda row: row.rank)]
    top = listed[:cut]
    misses = top.count(False)
    if candidates:
        others = candidates - n_wanted
        unlisted = others - misses
        if n_wanted <= 0 or others <= 0 or unlisted < 0:
            return math.nan
        won = sum(top[at:].count(False) + unlisted for at, is_hit in enumerate(top) if is_hit)
        won += (n_wanted - top.count(True)) * unlisted / 2
        return won / (n_wanted * others)
    if misses and top.count(True):
        won = sum(top[at:].count(False) for at, is_hit in enumerate(top) if is_hit)
        return won / (misses * top.count(True))
    kind = asked.parameters.get("one_kind", "undefined")
    if kind == "undefined" or not n_wanted:
        return math.nan
    return float(kind == "zero_or_one" and any(top))


def _partial_auc(asked: Asked, rows: Sequence[Row], hitting: Sequence[Row], n_wanted: int) -> float:
    assert is_strict(rows, hitting)
    listed = [row in hitting for row in sorted(rows, key=lambda row: row.rank)]
    most = listed.count(False) if asked.cutoff is None else asked.cutoff
    if not most:
        return math.nan
    n = min(most, n_wanted) if asked.parameters.get("positives") == "min_k" else n_wanted
    above = [listed[:at].count(False) for at, is_hit in enumerate(listed) if is_hit][:n]
    return sum(max(most - each, 0) for each in above) / (most * n)
