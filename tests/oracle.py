"""Whole logs evaluated in plain Python, row by row, as interface.md tells it.

Nothing here is shared with the package but the names of things: rows are dictionaries, policies
a dictionary of texts, lists are sorted, copies are looked for one by one. Values of regular lists
come from `naive`; a list whose ranks have gaps or repeats has no such form and is measured from
its hits.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from naive import NAIVE, worth

Row = Mapping[str, object]
Hit = tuple[int, float]  # rank, gain

POLICIES: dict[str, str | int] = {
    "missing_ranking": "zero",
    "no_relevant": "skip",
    "unknown_users": "skip",
    "duplicates": "error",
    "truth_duplicates": "max",
    "ties": "item",
    "bad_scores": "error",
    "null_ids": "error",
    "bad_ranks": "error",
    "first_rank": 1,
    "negative_relevance": "ignore",
    "beyond_depth": "warn",
    "no_common_user": "error",
    "empty_input": "error",
    "truth_in_train": "warn",
}


class Refused(Exception):
    """The log breaks a policy; `codes` of all that is wrong at this stage."""

    def __init__(self, *codes: str) -> None:
        super().__init__(*codes)
        self.codes = set(codes)


@dataclass(frozen=True)
class Measure:
    """One number that is asked for."""

    label: str
    name: str
    cutoff: int | None = None
    parameters: Mapping[str, str | float] = field(default_factory=dict)

    @cached_property
    def is_judged(self) -> bool:
        """Whether items below the threshold keep their gain."""
        return self.is_graded and self.parameters.get("below_threshold", "count") == "count"

    @cached_property
    def is_graded(self) -> bool:
        usual = {"CG": "linear", "DCG": "linear", "nDCG": "linear"}.get(self.name, "binary")
        return self.parameters.get("gain", usual) != "binary"


MEASURES = (
    Measure("hits@2", "hits", 2),
    Measure("hit@3", "hit", 3),
    Measure("precision@3", "precision", 3),
    Measure("precision(over='length')@4", "precision", 4, {"over": "length"}),
    Measure("precision", "precision"),
    Measure("recall@2", "recall", 2),
    Measure("recall(over='min_k')@2", "recall", 2, {"over": "min_k"}),
    Measure("F1@3", "F", 3),
    Measure("R-precision", "R-precision"),
    Measure("RR", "RR"),
    Measure("first_hit_rank@5", "first_hit_rank", 5),
    Measure("AP@3", "AP", 3),
    Measure("AP(over='relevant')", "AP", None, {"over": "relevant"}),
    Measure("AP(over='min_length')@4", "AP", 4, {"over": "min_length"}),
    Measure("AP(over='hits')@4", "AP", 4, {"over": "hits"}),
    Measure("AP(terms='every_rank')@4", "AP", 4, {"terms": "every_rank"}),
    Measure("CG@3", "CG", 3),
    Measure("CG(below_threshold='ignore')@3", "CG", 3, {"below_threshold": "ignore"}),
    Measure("DCG@4", "DCG", 4),
    Measure("nDCG@1", "nDCG", 1),
    Measure("nDCG@3", "nDCG", 3),
    Measure("nDCG", "nDCG"),
    Measure("nDCG(gain='exp2')@3", "nDCG", 3, {"gain": "exp2"}),
    Measure("nDCG(gain='binary')@3", "nDCG", 3, {"gain": "binary"}),
    Measure("nDCG(below_threshold='ignore')@4", "nDCG", 4, {"below_threshold": "ignore"}),
    Measure("RBP@4", "RBP", 4),
    Measure("RBP(gain='linear')@4", "RBP", 4, {"gain": "linear"}),
)


@dataclass
class Expected:
    """What a report shall say; values by label, users in ascending order of their ids."""

    truth: dict[str, object]
    model: dict[str, object]
    ties: int
    users: list[object]
    values: dict[str, list[float]]

    def mean(self, label: str) -> float:
        """The exact mean of the defined values, rounded once."""
        return exact_mean(self.values[label])

    def n_undefined(self, label: str) -> int:
        return sum(math.isnan(value) for value in self.values[label])


def exact_mean(values: Sequence[float]) -> float:
    defined = [Fraction(value) for value in values if not math.isnan(value)]
    return float(sum(defined) / len(defined)) if defined else math.nan


# ---------------------------------------------------------------- the truth


@dataclass
class Judged:
    """The truth by user: the relevance of each judged item, and which items count."""

    relevance: dict[object, dict[object, float]]
    relevant_from: float
    subtracts: bool
    counts: dict[str, object]

    def is_relevant(self, gain: float) -> bool:
        return gain >= self.relevant_from

    def matters(self, user: object, item: object) -> bool:
        """Whether an item can be a hit of any metric."""
        gain = self.relevance[user].get(item)
        if gain is None:
            return False
        return self.is_relevant(gain) or gain > 0 or (gain < 0 and self.subtracts)


def judge(rows: Sequence[Row], policies: Mapping[str, object], threshold: float | None) -> Judged:
    """The truth of interaction rows: user, item and, if they have it, relevance."""
    named = [row for row in rows if row["user"] is not None and row["item"] is not None]
    n_null = len(rows) - len(named)
    if n_null and policies["null_ids"] == "error":
        raise Refused("null-id")
    has_relevance = any("relevance" in row for row in rows)
    if (threshold or 0) > 1 and not has_relevance and policies["truth_duplicates"] != "sum":
        raise Refused("threshold-without-relevance")
    copies: dict[object, dict[object, list[float]]] = {}
    for row in named:
        value = row.get("relevance", 1.0)
        if value is None or not math.isfinite(value):  # type: ignore[arg-type]
            raise Refused("bad-relevance")
        copies.setdefault(row["user"], {}).setdefault(row["item"], []).append(float(value))  # type: ignore[arg-type]
    n_duplicates = len(named) - sum(len(items) for items in copies.values())
    if n_duplicates and policies["truth_duplicates"] == "error":
        raise Refused("duplicate-truth")
    join = {"max": max, "error": max, "sum": math.fsum, "last": lambda values: values[-1]}
    relevance = {
        user: {item: join[str(policies["truth_duplicates"])](each) for item, each in items.items()}
        for user, items in copies.items()
    }
    gains = [gain for items in relevance.values() for gain in items.values()]
    if any(gain < 0 for gain in gains) and policies["negative_relevance"] == "error":
        raise Refused("negative-relevance")
    relevant_from = math.ulp(0.0) if threshold is None else threshold
    n_relevant = [sum(g >= relevant_from for g in items.values()) for items in relevance.values()]
    return Judged(
        relevance,
        relevant_from,
        policies["negative_relevance"] == "subtract",
        {
            "rows": len(rows),
            "rows_used": len(named) - n_duplicates,
            "rows_dropped": {"null_id": n_null, "duplicate": n_duplicates, "not_sampled": 0},
            "users": len(relevance),
            "users_without_relevant": sum(n == 0 for n in n_relevant),
            "pairs": sum(n_relevant),
        },
    )


# ---------------------------------------------------------------- the rankings


@dataclass
class Listed:
    """One user's list: (rank, item) of what stays, and its length."""

    ranked: list[tuple[int, object]]
    length: int
    deepest: int

    @cached_property
    def is_regular(self) -> bool:
        """Whether ranks are 1..n, so that a list of gains says all."""
        copies = Counter(rank for rank, _ in self.ranked).values()
        return self.deepest <= self.length and max(copies, default=0) <= 1


def tie_order(item: object, row: int, ties: str) -> object:
    if ties == "input":
        return row
    key = item if not ties.startswith("item-text") or isinstance(item, bytes) else str(item)
    return _Reversed(key) if ties.endswith("-desc") else key


@dataclass
class _Reversed:
    key: object

    def __lt__(self, other: "_Reversed") -> bool:
        return other.key < self.key  # type: ignore[operator]


@dataclass
class _Counts:
    unknown_rows: int = 0
    bad_scores: int = 0
    bad_rank_rows: int = 0
    seen: int = 0
    duplicates: int = 0
    bad_rank_users: int = 0
    ties: int = 0
    unknown_users: set[object] = field(default_factory=set)


def explode(lists: Sequence[Row]) -> tuple[list[Row], set[object]]:
    """List rows as long rows, and the users who have an empty list."""
    rows: list[Row] = []
    empty = set()
    for list_entry in lists:
        items, scores = list_entry["item"], list_entry.get("score")
        if items is None:
            continue
        if not items:
            empty.add(list_entry["user"])
        for place, item in enumerate(items):  # type: ignore[arg-type, var-annotated]
            score = {} if scores is None else {"score": scores[place]}  # type: ignore[index]
            rows.append({"user": list_entry["user"], "item": item, **score})
    return rows, empty


def evaluate(
    truth: Sequence[Row],
    rankings: Sequence[Row],
    *,
    mode: str,
    policies: Mapping[str, str | int] | None = None,
    threshold: float | None = None,
    train: Sequence[Row] | None = None,
    drop_seen: bool = False,
    measures: Sequence[Measure] = MEASURES,
    empty_lists: set[object] = frozenset(),  # type: ignore[assignment]
) -> Expected:
    """What the report of one model shall say.

    Args:
        mode: what orders a user's rows: "rank", "score" or "order".
        empty_lists: users whose list exists and is empty.
    Raises:
        Refused: the log breaks a policy.
    """
    chosen = {**POLICIES, **(policies or {})}
    judged = judge(truth, chosen, threshold)
    seen_pairs = {(row["user"], row["item"]) for row in train or ()}
    counts = _Counts()
    problems: list[str] = []
    n_in_train = sum(
        (user, item) in seen_pairs and gain >= judged.relevant_from
        for user, items in judged.relevance.items()
        for item, gain in items.items()
    )
    judged.counts["in_train"] = None if train is None else n_in_train

    named = [
        (number, row)
        for number, row in enumerate(rankings)
        if row["user"] is not None and row["item"] is not None
    ]
    n_null = len(rankings) - len(named)
    if n_null and chosen["null_ids"] == "error":
        problems.append("null-id")
    by_user: dict[object, list[tuple[int, Row]]] = {}
    for number, row in named:
        by_user.setdefault(row["user"], []).append((number, row))

    lists: dict[object, Listed] = {}
    for user, rows in by_user.items():
        if mode == "rank":
            made = _by_rank(user, rows, judged, chosen, seen_pairs, drop_seen, counts)
        else:
            made = _by_strength(user, rows, judged, chosen, seen_pairs, drop_seen, counts, mode)
        if made is not None:
            lists[user] = made
    for user in empty_lists:
        if user in judged.relevance:
            lists.setdefault(user, Listed([], 0, 0))
        elif user is not None:
            counts.unknown_users.add(user)

    if counts.bad_scores and chosen["bad_scores"] == "error":
        problems.append("bad-score")
    if mode == "rank" and chosen["bad_ranks"] == "error":
        if counts.bad_rank_rows:
            problems.append("bad-rank")
        elif counts.bad_rank_users:
            problems.append("bad-ranks")
    if counts.duplicates and chosen["duplicates"] == "error":
        problems.append("duplicate-item")
    if counts.unknown_rows and chosen["unknown_users"] == "error":
        problems.append("unknown-users")
    if problems:
        raise Refused(*problems)

    n_users = len(lists) + len(counts.unknown_users)
    depth = max((each.deepest for each in lists.values()), default=0)
    if not truth and chosen["empty_input"] == "error":
        problems.append("empty-input")
    if n_in_train and chosen["truth_in_train"] != "count":
        share = Fraction(n_in_train, judged.counts["pairs"])
        if share >= Fraction(95, 100):
            problems.append("truth-is-train")
        elif chosen["truth_in_train"] == "error" and share >= Fraction(1, 100):
            problems.append("truth-in-train")
    if not rankings and not n_users:
        if chosen["empty_input"] == "error":
            problems.append("empty-input")
    elif truth and not lists:
        if chosen["no_common_user"] == "error":
            problems.append("no-common-user")
    elif chosen["beyond_depth"] == "error" and any((m.cutoff or 0) > depth for m in measures):
        problems.append("cutoff-beyond-depth")
    if problems:
        raise Refused(*problems)

    keeps_copies = chosen["duplicates"] == "count"
    dropped = {
        "null_id": n_null,
        "unknown_user": counts.unknown_rows,
        "not_sampled": 0,
        "duplicate": 0 if keeps_copies else counts.duplicates,
        "bad_score": counts.bad_scores if chosen["bad_scores"] == "drop" else 0,
        "bad_rank": counts.bad_rank_rows,
        "seen_in_train": counts.seen if drop_seen else 0,
    }
    closes_up = mode != "rank" or chosen["bad_ranks"] == "compress"
    by_choice = chosen["duplicates"] in ("first", "last")
    searches_all = by_choice or (closes_up and chosen["duplicates"] != "error")
    model = {
        "rows": len(rankings),
        "rows_used": len(rankings) - sum(dropped.values()),
        "rows_dropped": dropped,
        "users": n_users,
        "users_without_ranking": len(judged.relevance) - len(lists),
        "users_without_truth": len(counts.unknown_users),
        "unknown_items": 0,
        "empty_genres": 0,
        "zero_vectors": 0,
        "short_lists": 0,
        "duplicates": counts.duplicates,
        "duplicates_searched": "all" if searches_all else "relevant",
        "seen_in_train": None if train is None else counts.seen,
        "bad_ranks": counts.bad_rank_users,
        "depth": depth,
    }
    users = sorted(judged.relevance)  # type: ignore[type-var]
    met = {
        user: [(rank, items[item]) for rank, item in lists[user].ranked if item in items]
        for user, items in judged.relevance.items()
        if user in lists
    }
    values = {
        measure.label: [_value(measure, user, judged, lists, met, chosen) for user in users]
        for measure in measures
    }
    return Expected(judged.counts, model, counts.ties, users, values)


def _rank_of(row: Row, first_rank: int) -> int | None:
    rank = row["rank"]
    if rank is None or (isinstance(rank, float) and (math.isnan(rank) or rank != int(rank))):
        return None
    return int(rank) - first_rank + 1  # type: ignore[call-overload, no-any-return]


def _by_rank(
    user: object,
    rows: list[tuple[int, Row]],
    judged: Judged,
    policies: Mapping[str, object],
    seen_pairs: set[tuple[object, object]],
    drop_seen: bool,
    counts: _Counts,
) -> Listed | None:
    if user not in judged.relevance:
        counts.unknown_rows += len(rows)
        counts.unknown_users.add(user)
        return None
    compresses = policies["bad_ranks"] == "compress"
    placed = []
    for number, row in rows:
        is_seen = (user, row["item"]) in seen_pairs
        rank = _rank_of(row, int(policies["first_rank"]))  # type: ignore[call-overload]
        placed.append((number, row["item"], rank, is_seen))
    # a rank below the first one is no place; compressing takes it as an order all the same
    usable = [each for each in placed if each[2] is not None and (compresses or each[2] >= 1)]
    given = sorted(each[2] for each in usable)  # type: ignore[type-var]
    if given != list(range(1, len(given) + 1)):
        counts.bad_rank_users += 1
    counts.bad_rank_rows += len(placed) - len(usable)
    counts.seen += sum(each[3] for each in usable)
    gone = [rank for _, _, rank, is_seen in usable if is_seen and drop_seen]
    if drop_seen:
        usable = [each for each in usable if not each[3]]
    if not usable:
        return None
    if not compresses:
        usable = [
            (number, item, max(1, rank - sum(each < rank for each in gone)), is_seen)
            for number, item, rank, is_seen in usable
        ]
    if compresses:
        ordered = [(-rank, number, item) for number, item, rank, _ in usable]  # type: ignore[operator]
        return _close_up(user, ordered, judged, policies, counts)
    ranked = [(rank, number, item) for number, item, rank, _ in usable]
    copies = _copies(ranked)
    searched_all = policies["duplicates"] in ("first", "last")
    counts.duplicates += sum(
        len(each) - 1 for item, each in copies.items() if searched_all or judged.matters(user, item)
    )
    kept = []
    for item, copies_of_item in copies.items():
        chosen = {
            "first": min(copies_of_item, key=lambda copy: copy[1]),
            "last": max(copies_of_item, key=lambda copy: copy[1]),
            "count": None,
        }.get(str(policies["duplicates"]), min(copies_of_item))
        kept += (
            [(rank, item) for rank, _, _ in copies_of_item]
            if chosen is None
            else [(chosen[0], item)]
        )
    deepest = max(len(ranked), *(rank for rank, _, _ in ranked))  # type: ignore[type-var]
    return Listed(kept, len(ranked), deepest)  # type: ignore[arg-type]


def _by_strength(
    user: object,
    rows: list[tuple[int, Row]],
    judged: Judged,
    policies: Mapping[str, object],
    seen_pairs: set[tuple[object, object]],
    drop_seen: bool,
    counts: _Counts,
    mode: str,
) -> Listed | None:
    is_known = user in judged.relevance
    usable = []
    for number, row in rows:
        strength: tuple[int, float] = (1, -number)
        if mode == "score":
            score = row["score"]
            is_bad = score is None or math.isnan(score)  # type: ignore[arg-type]
            if is_bad:
                counts.bad_scores += 1
                if policies["bad_scores"] == "drop":
                    continue
            strength = (0, 0.0) if is_bad else (1, score)  # type: ignore[assignment]
        if is_known and (user, row["item"]) in seen_pairs:
            counts.seen += 1
            if drop_seen:
                continue
        usable.append((strength, number, row["item"]))
    if not usable:
        return None
    if not is_known:
        counts.unknown_rows += len(usable)
        counts.unknown_users.add(user)
        return None
    return _close_up(user, usable, judged, policies, counts)


def _close_up(
    user: object,
    rows: list[tuple[object, int, object]],
    judged: Judged,
    policies: Mapping[str, object],
    counts: _Counts,
) -> Listed:
    """The list of rows (strength, row, item), the strongest first, without copies."""
    ties = str(policies["ties"])
    order = sorted(rows, key=lambda each: each[1])
    order.sort(key=lambda each: tie_order(each[2], each[1], ties))  # type: ignore[arg-type, return-value]
    order.sort(key=lambda each: each[0], reverse=True)  # type: ignore[arg-type, return-value]
    copies = _copies(order)
    policy = policies["duplicates"]
    counts.duplicates += sum(
        len(each) - 1
        for item, each in copies.items()
        if policy != "error" or judged.matters(user, item)
    )
    if policy in ("best", "first", "last"):
        chosen = {
            item: {
                "best": each[0],
                "first": min(each, key=lambda copy: copy[1]),
                "last": max(each, key=lambda copy: copy[1]),
            }[str(policy)]
            for item, each in copies.items()
        }
        order = [each for each in order if chosen[each[2]] is each]
    equals: dict[object, set[object]] = {}
    for strength, _, item in order:
        equals.setdefault(strength, set()).add(item)
    counts.ties += sum(
        judged.matters(user, item) and len(equals[strength]) > 1 for strength, _, item in order
    )
    ranked = [(rank, item) for rank, (_, _, item) in enumerate(order, 1)]
    return Listed(ranked, len(ranked), len(ranked))


def _copies(rows: Sequence[tuple]) -> dict[object, list[tuple]]:  # type: ignore[type-arg]
    copies: dict[object, list[tuple]] = {}  # type: ignore[type-arg]
    for each in rows:
        copies.setdefault(each[2], []).append(each)
    return copies


# ---------------------------------------------------------------- values


def _value(
    measure: Measure,
    user: object,
    judged: Judged,
    lists: Mapping[object, Listed],
    met: Mapping[object, Sequence[Hit]],
    policies: Mapping[str, object],
) -> float:
    items = judged.relevance[user]
    has_relevant = any(judged.is_relevant(gain) for gain in items.values())
    is_better_higher = measure.name != "first_hit_rank"
    if not has_relevant and policies["no_relevant"] == "skip":
        return math.nan
    if user not in lists:
        is_zero = policies["missing_ranking"] == "zero" and is_better_higher
        return 0.0 if is_zero else math.nan
    value = measure_list(measure, lists[user], met[user], items, judged)
    if math.isnan(value) and not has_relevant and is_better_higher:
        return 0.0
    return value


def measure_list(
    measure: Measure,
    listed: Listed,
    met: Sequence[Hit],
    items: Mapping[object, float],
    judged: Judged,
) -> float:
    """The value of one list, before any policy; `met`: its items that are judged."""

    def counts(gain: float) -> bool:
        return judged.is_relevant(gain) or (measure.is_judged and gain > 0)

    def stays(gain: float) -> bool:
        return counts(gain) or (measure.is_judged and judged.subtracts and gain < 0)

    def credit(gain: float) -> float:
        return gain if measure.is_graded else 1.0

    relevant = [credit(gain) for gain in items.values() if counts(gain)]
    hits = sorted((rank, credit(gain)) for rank, gain in met if stays(gain))
    if not any(gain > 0 for gain in relevant):
        if measure.name == "nDCG":
            return math.nan
        if measure.name == "RBP" and measure.is_graded:
            return 0.0  # no largest gain to compare with
    if listed.is_regular:
        ranked = [0.0] * listed.length
        for rank, gain in hits:
            ranked[rank - 1] = gain
        return NAIVE[measure.name](ranked, relevant, measure.cutoff, **measure.parameters)
    return measure_hits(measure, hits, relevant, listed.length)


def measure_hits(
    measure: Measure, hits: Sequence[Hit], relevant: Sequence[float], length: int
) -> float:
    """A value from hits alone, for lists whose ranks have gaps or repeats."""
    name, k, given = measure.name, measure.cutoff, measure.parameters
    shown = [(rank, gain) for rank, gain in hits if k is None or rank <= k]
    n_ranks = length if k is None else k
    n_relevant = len(relevant)
    kind = str(given.get("gain", "linear"))
    if name in ("hits", "hit"):
        return float(len(shown) if name == "hits" else bool(shown))
    if name in ("RR", "first_hit_rank"):
        if not shown:
            return 0.0 if name == "RR" else math.nan
        return 1 / shown[0][0] if name == "RR" else float(shown[0][0])
    if name == "precision":
        shortened = given.get("over") == "length"
        divisor = min(n_ranks, length) if shortened else n_ranks
        return len(shown) / divisor if divisor else 0.0
    if name == "RBP":
        patience = float(given.get("patience", 0.8))
        best = max(relevant, default=1.0)
        credits = [gain / best if measure.is_graded else 1.0 for _, gain in shown]
        ranks = [rank for rank, _ in shown]
        terms = [patience ** (r - 1) * credit for r, credit in zip(ranks, credits, strict=True)]
        return (1 - patience) * sum(terms)
    if name == "CG":
        return sum(worth(gain, kind) for _, gain in shown)
    if name in ("DCG", "nDCG"):
        gained = sum(worth(gain, kind) / math.log2(1 + rank) for rank, gain in shown)
        if name == "DCG":
            return gained
        best = sorted(relevant, reverse=True)[:k]
        ideal = sum(worth(gain, kind) / math.log2(1 + r) for r, gain in enumerate(best, 1))
        return gained / ideal if ideal > 0 else 0.0
    if not relevant:
        return math.nan
    if name == "recall":
        divisor = n_relevant if given.get("over", "relevant") == "relevant" else min(k, n_relevant)  # type: ignore[type-var]
        return len(shown) / divisor
    if name == "F":
        p = len(shown) / n_ranks if n_ranks else 0.0
        r = len(shown) / n_relevant
        return 2 * p * r / (p + r) if p + r else 0.0
    if name == "R-precision":
        return sum(rank <= n_relevant for rank, _ in shown) / n_relevant
    if name == "AP":
        total = sum((number + 1) / rank for number, (rank, _) in enumerate(shown))
        if given.get("terms") == "every_rank":
            total = sum(sum(r <= rank for r, _ in shown) / rank for rank in range(1, n_ranks + 1))
        divisor = {
            "min_k": min(n_relevant, math.inf if k is None else k),
            "relevant": n_relevant,
            "min_length": min(n_ranks, length, n_relevant),
            "hits": len(shown),
            "k": n_ranks,
        }[str(given.get("over", "min_k"))]
        return total / divisor if divisor else 0.0
    raise AssertionError(f"no oracle of {name}")
