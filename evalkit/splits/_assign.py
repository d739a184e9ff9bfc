"""Which part each row is in: what a rule finds out by passes, then a letter for each row."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from evalkit.config import SplitSection
from evalkit.errors import DataError
from evalkit.kernels.arrays import Bytes, Ints
from evalkit.splits._counts import count_parts
from evalkit.splits._drawn import by_rows, by_users
from evalkit.splits._feed import Assigned, fitted
from evalkit.splits._filters import NONE, TEST, TRAIN, VALIDATION, LogRows
from evalkit.splits._groups import cut_places, of_groups
from evalkit.splits._kernels import first_times
from evalkit.splits._log import LogFeed
from evalkit.splits._memory import SplitBudget
from evalkit.splits._nth import nth_times, quantile
from evalkit.splits._rule import PER_SECOND, read_moment, read_span

Times = Ints


FREE = SplitBudget()
COUNTING = ("user", "item", "users", "round-robin")  # rules that begin by counting all rows


def assign(feed: LogFeed, rule: SplitSection, budget: SplitBudget = FREE) -> Assigned:
    """How a rule finds the part of each row, in each fold.

    Args:
        budget: for rows of users that lie in no order.
    Raises:
        DataError: the rule does not fit the log [empty-part], as a moment outside of it.
    """
    if rule.by in ("user", "item"):
        return of_groups(feed, rule, budget).assigned()
    if rule.by == "users":
        return by_users(feed, rule, budget)
    return _RULES[rule.by](feed, rule, budget)


def _letters(rows: LogRows, letter: int = TRAIN) -> Bytes:
    return np.full(rows.n, letter, dtype=np.uint8)


def _by_span(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = user-span: what is less than a span before the user's last row."""
    last = _first_of_users(feed, -1)
    test = _width(rule.test, feed.unit)
    both = test if rule.validation is None else test + _width(rule.validation, feed.unit)

    def decide(rows: LogRows) -> list[Bytes]:
        back = -last[rows.users] - rows.times
        letters = _letters(rows)
        letters[back < both] = VALIDATION
        letters[back < test] = TEST
        return [letters]

    return Assigned(decide)


def _first_of_users(feed: LogFeed, sign: int) -> Times:
    """The least time of each user, or minus the greatest."""
    first = np.zeros(0, dtype=np.int64)
    for rows in feed.batches():
        first = fitted(first, rows.n_users, np.iinfo(np.int64).max)
        first_times(rows.users, sign * rows.times, first)
    return first


def _width(span: object, unit: str) -> int:
    found = read_span(span)
    assert found is not None
    return found.seconds * PER_SECOND[unit]


# ---------------------------------------------------------------- one moment for all


def by_moments(times: Times, moments: Mapping[str, int], *, after: bool = False) -> Bytes:
    """Letters of rows by the moments that parts begin at, and end at."""
    letters = np.full(times.size, TRAIN, dtype=np.uint8)
    for name, letter in (("validation", VALIDATION), ("test", TEST), ("end", NONE)):
        if name in moments:
            moment = moments[name]
            reached = times > moment if after else times >= moment
            if reached.any():
                letters[reached] = letter
    if "start" in moments:
        letters[times < moments["start"]] = NONE
    return letters


def find_moments(feed: LogFeed, rule: SplitSection) -> list[dict[str, int]]:
    """The moments of each fold, by the first and last time of the log."""
    if rule.by == "time":
        given = {"validation": rule.validation, "test": rule.test}
        moments = {
            name: moment
            for name, each in given.items()
            if each is not None and (moment := read_moment(each, feed.unit, rule.zone)) is not None
        }
        return [moments]
    feed.survey()
    return _windows(feed.first, feed.last, rule, feed.unit)


def _windows(first: int, last: int, rule: SplitSection, unit: str) -> list[dict[str, int]]:
    span = read_span(rule.test)
    assert span is not None
    width = _width(rule.test, unit)
    gap = 0 if rule.validation is None else _width(rule.validation, unit)
    end = last + 1 if rule.end == "last" else _end_of_unit(last, span.unit, unit, rule.zone)
    n_folds = rule.folds or 1
    found = []
    for fold in range(n_folds):
        test = end - (n_folds - fold) * width
        moments = {"test": test, "end": test + width}
        if gap:
            moments["validation"] = test - gap
        if rule.train == "sliding" and fold:
            moments["start"] = first + fold * width
        found.append(moments)
    return found


def _end_of_unit(last: int, seconds: int, unit: str, zone: str) -> int:
    """The end of the minute, hour or day that holds the last row; a row at 0:00 opens a day."""
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    size = seconds * PER_SECOND[unit]
    shift = 0
    if zone != "UTC":
        moment = datetime.fromtimestamp(last // PER_SECOND[unit], UTC).astimezone(ZoneInfo(zone))
        offset = moment.utcoffset()
        shift = 0 if offset is None else int(offset.total_seconds()) * PER_SECOND[unit]
    return ((last + shift) // size + 1) * size - shift


def _by_moment(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    moments = find_moments(feed, rule)
    return _of_moments(moments, after=rule.boundary == "after")


def _of_moments(moments: list[dict[str, int]], *, after: bool = False) -> Assigned:
    return Assigned(
        lambda rows: [by_moments(rows.times, each, after=after) for each in moments], moments
    )


def _by_share_of_time(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = time-ratio: a share of all rows, the latest."""
    feed.survey()
    n = feed.n_kept
    n_validation, n_test = count_parts(n, rule.model_copy(update={"min_train": 0}))
    cuts = {"validation": (n - n_test - n_validation, n_validation), "test": (n - n_test, n_test)}
    found = nth_times(feed, sorted({at for at, _ in cuts.values() if 0 <= at < n}))
    moments = {name: found[at][0] for name, (at, n_rows) in cuts.items() if n_rows}
    if rule.ties == "together":
        return _of_moments([moments])
    seen = dict.fromkeys(found, 0)
    crossing: dict[int, set[int]] = {at: set() for at in found}

    def decide(rows: LogRows) -> list[Bytes]:
        letters = _letters(rows)
        for name, letter in (("validation", VALIDATION), ("test", TEST)):
            at, n_rows = cuts[name]
            if at not in found:
                continue
            moment, n_before = found[at]
            is_at = rows.times == moment
            behind = np.cumsum(is_at) + seen[at] > at - n_before
            if n_rows:
                letters[(rows.times > moment) | (is_at & behind)] = letter
            if n_before < at:
                crossing[at].update(np.unique(rows.users[is_at]).tolist())
        for at, (moment, _) in found.items():
            seen[at] += int(np.count_nonzero(rows.times == moment))
        return [letters]

    def crossed() -> tuple[int, int]:
        n_users = sum(len(users) for at, users in crossing.items() if at > 0)
        return n_users, n_users

    return Assigned(decide, [moments], crossed)


def _by_quantile(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = time-quantile: from an interpolated quantile of all times on."""
    feed.survey()
    assert isinstance(rule.test, float)
    moment = math.ceil(quantile(feed, 1 - rule.test, feed.n_kept))
    moments = {"test": moment}
    if isinstance(rule.validation, float):
        n_before = sum(int(np.count_nonzero(rows.times < moment)) for rows in feed.batches())
        if n_before:
            moments["validation"] = math.ceil(quantile(feed, 1 - rule.validation, n_before))
    return _of_moments([moments])


def _by_percentile(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = percentile-user: test after a percentile, the rest of each user cut in two."""
    feed.survey()
    total = sum(rule.ratios)
    shares = [each / total for each in rule.ratios]
    limit = quantile(feed, 100 * (1 - shares[-1]) / 100, feed.n_kept)
    if len(shares) == 2:
        return Assigned(lambda rows: [np.where(rows.times > limit, TEST, TRAIN).astype(np.uint8)])
    by_user = {"by": "user", "order": "time", "ties": "input"}
    groups = of_groups(feed, rule.model_copy(update=by_user), budget, until=limit)
    kept = np.floor(groups.counts * shares[0] / (shares[0] + shares[1])).astype(np.int32)
    bounds = np.zeros((kept.size, 4), dtype=np.int32)
    bounds[:, 0], bounds[:, 3] = groups.counts, groups.counts - kept

    def decide(rows: LogRows) -> list[Bytes]:
        letters = _letters(rows, TEST)
        is_early = rows.times <= limit
        rest = replace(rows)
        rest.keep(is_early, "later")
        inner = np.empty(rest.n, dtype=np.uint8)
        places, tied = groups.place(rest)
        cut_places(rest.users, places, tied, bounds, TRAIN, inner, np.zeros(kept.size, np.uint8))
        letters[is_early] = inner
        return [letters]

    return Assigned(decide)


def _by_new_users(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = new-users: all rows of users who begin late, and the others' rows before that."""
    assert isinstance(rule.test, float)
    first = _first_of_users(feed, 1)
    begins = np.sort(first[first < np.iinfo(np.int64).max])
    n_new = max(1, math.ceil(begins.size * Fraction(repr(rule.test))))
    moment = int(begins[begins.size - n_new])

    def decide(rows: LogRows) -> list[Bytes]:
        others = np.where(rows.times < moment, TRAIN, NONE)
        return [np.where((first >= moment)[rows.users], TEST, others).astype(np.uint8)]

    return Assigned(decide, [{"test": moment}])


# ---------------------------------------------------------------- in turns


def _in_turns(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = round-robin: the i-th row of a user, as they stand, is test of fold i mod folds."""
    assert rule.folds is not None
    n_folds = rule.folds
    groups = of_groups(feed, rule.model_copy(update={"by": "user", "order": "input"}), FREE)

    def decide(rows: LogRows) -> list[Bytes]:
        turn = groups.place(rows)[0] % n_folds
        return [np.where(turn == f, TEST, TRAIN).astype(np.uint8) for f in range(n_folds)]

    return Assigned(decide, crossed=lambda: (0, int(np.count_nonzero(groups.counts > 1))))


def _in_blocks(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = blocks: neighbouring rows of the log."""
    assert rule.folds is not None
    feed.survey()
    size, more = divmod(feed.n_kept, rule.folds)
    ends = np.cumsum([size + (fold < more) for fold in range(rule.folds)])
    at = 0
    users = np.zeros(0, dtype=np.bool_)

    def decide(rows: LogRows) -> list[Bytes]:
        nonlocal at, users
        users = fitted(users, rows.n_users, 0)
        users[rows.users] = True
        block = np.searchsorted(ends, np.arange(at, at + rows.n), side="right")
        at += rows.n
        return [np.where(block == f, TEST, TRAIN).astype(np.uint8) for f in range(ends.size)]

    return Assigned(decide, crossed=lambda: (0, int(np.count_nonzero(users))))


_RULES: Mapping[str, Callable[[LogFeed, SplitSection, SplitBudget], Assigned]] = {
    "user-span": _by_span,
    "time": _by_moment,
    "window": _by_moment,
    "time-ratio": _by_share_of_time,
    "time-quantile": _by_quantile,
    "percentile-user": _by_percentile,
    "new-users": _by_new_users,
    "rows": by_rows,
    "round-robin": _in_turns,
    "blocks": _in_blocks,
}


def refuse_empty(n_rows: Mapping[int, Ints], rule: SplitSection, span: str, at: str) -> None:
    """Refuse a split that leaves no train, or nothing to test.

    Args:
        n_rows: of each letter, by fold.
        span: from when to when the log goes, as it is told.
    Raises:
        DataError: with counts [empty-part].
    """
    for number, counts in n_rows.items():
        lacking = [
            name
            for name, letter in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST))
            if not counts[letter] and (name != "validation" or rule.validation)
        ]
        if not lacking:
            continue
        shown = ", ".join(f"{name} {n:,}" for name, n in zip(_NAMES, counts, strict=True) if n)
        fold = f" of fold {number + 1}" if len(n_rows) > 1 else ""
        message = f"no row is {' or '.join(lacking)}{fold}: {shown or 'no rows'}{span}"
        hint = f"{_asked(rule)} does not fit the log"
        raise DataError(message, code="empty-part", at=at, hint=hint)


def _asked(rule: SplitSection) -> str:
    """What the rule asks for, as it is written."""
    names = ("test", "validation", "ratios", "folds", "min_rows")
    sizes = {name: getattr(rule, name) for name in names}
    return ", ".join(
        f"{name} = {list(each) if name == 'ratios' else each!r}"
        for name, each in sizes.items()
        if each or (name == "test" and each is not None)
    )


_NAMES = ("none", "train", "validation", "test", "fold_in", "validation_fold_in")
