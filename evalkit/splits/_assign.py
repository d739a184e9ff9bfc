"""Which part each row is in: the rules, on rows that are in memory."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evalkit.config import SplitSection
from evalkit.errors import DataError
from evalkit.ids import mix
from evalkit.kernels import kernel
from evalkit.splits._counts import count_parts
from evalkit.splits._filters import (
    FOLD_IN,
    NONE,
    TEST,
    TRAIN,
    VALIDATION,
    VALIDATION_FOLD_IN,
    Letters,
    Rows,
    lay_rows,
)
from evalkit.splits._kernels import cut_groups, first_times, mark_crossed, sort_groups
from evalkit.splits._rule import PER_SECOND, read_moment, read_span

Times = npt.NDArray[np.int64]


@dataclass(slots=True)
class Assigned:
    """What a rule made of rows.

    Args:
        folds: letters of the rows for each fold; one of most rules.
        moments: the moments that the parts of each fold begin at, in the unit of the log.
        crossed: users whose boundary goes through equal times.
        by_order: those of them whose parts hang on the order of rows.
        fewer: users who give fewer test rows than asked for.
    """

    folds: list[Letters]
    moments: list[dict[str, int]] = field(default_factory=list)
    crossed: int = 0
    by_order: int = 0
    fewer: int = 0


def assign(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """The part of each row, in each fold.

    Raises:
        DataError: the rule does not fit the log [empty-part], as a moment outside of it.
    """
    return _RULES[rule.by](rows, rule, unit)


def _letters(rows: Rows, letter: int = TRAIN) -> Letters:
    return np.full(rows.n, letter, dtype=np.uint8)


# ---------------------------------------------------------------- the latest rows of each


def _of_groups(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = user, item: the latest rows, or a share of them."""
    is_item = rule.by == "item"
    codes, n_codes = (rows.items, rows.n_items) if is_item else (rows.users, rows.n_users)
    starts, laid, times, seconds = _in_order(rows, rule, codes, n_codes)
    sizes = np.diff(starts)
    n_folds = rule.folds or 1
    found = Assigned([])
    by_size: dict[int, tuple[int, int]] = {}
    for fold in range(n_folds):
        left_out = (n_folds - 1 - fold) * (rule.test if isinstance(rule.test, int) else 0)
        letters = _letters(rows)
        latest = np.zeros((3, sizes.size), dtype=np.int64)
        different, inverse = np.unique(sizes, return_inverse=True)
        counts = np.zeros((3, different.size), dtype=np.int64)
        for place, size in enumerate(different.tolist()):
            n_left = min(left_out, size)
            rest = size - n_left
            if rest < rule.min_rows or not rest:
                counts[:, place] = n_left, 0, 0
                continue
            if rest not in by_size:
                by_size[rest] = count_parts(rest, rule)
            n_validation, n_test = by_size[rest]
            counts[:, place] = n_left, n_test, n_validation
        latest[:] = counts[:, inverse]
        left = TRAIN if rule.left_out == "train" else NONE
        parts = np.array([left, TEST, VALIDATION], dtype=np.uint8)
        cut_groups(starts, laid, latest, letters, parts)
        if rule.min_rows and rule.below_min == "drop":
            letters[(sizes < rule.min_rows)[codes]] = NONE
        by_time, by_order = np.zeros((2, sizes.size), dtype=np.bool_)
        mark_crossed(starts, laid, times, seconds, letters, by_time, by_order)
        found.crossed = max(found.crossed, int(by_time.sum()))
        found.by_order = max(found.by_order, int(by_order.sum()))
        if isinstance(rule.test, int):
            found.fewer = int(np.count_nonzero((latest[1] < rule.test) & (sizes > 0)))
        found.folds.append(letters)
    return found


def _in_order(
    rows: Rows, rule: SplitSection, codes: npt.NDArray[np.int32], n_codes: int
) -> tuple[Times, npt.NDArray[np.int64], Times, Times]:
    """Rows of each group in order, the latest at the end; times and what settles equal ones."""
    starts, laid = lay_rows(codes, n_codes)
    none = np.zeros(0, dtype=np.int64)
    if rule.order == "reversed":
        starts, laid = _turned_back((rows.n - starts)[::-1].copy(), laid[::-1])
    if rule.order in ("input", "reversed"):
        return starts, laid, np.arange(rows.n, dtype=np.int64), none
    times, seconds = rows.times, none
    if rule.order == "hash":
        times = (rows.hashes >> np.uint64(1)).view(np.int64)
    elif rule.ties == "first":
        laid = laid[::-1].copy()  # the first of equal times is to be the latest
        starts = (rows.n - starts)[::-1].copy()
    elif rule.ties == "item":
        seconds = rows.ranks
    sort_groups(starts, laid, times, seconds, np.empty_like(laid))
    if rule.ties == "first" and rule.order == "time":
        laid = laid.copy()
        starts, laid = _turned_back(starts, laid)
    return starts, laid, times, seconds


def _turned_back(starts: Times, laid: npt.NDArray[np.int64]) -> tuple[Times, Times]:
    """Groups in their first order again; the rows of each stay as they are."""
    sizes = np.diff(starts)[::-1]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    turned = np.empty_like(laid)
    for_group = np.repeat(np.arange(sizes.size), sizes)
    within = np.arange(laid.size) - ends[:-1][for_group]
    turned[:] = laid[starts[:-1][::-1][for_group] + within]
    return ends, turned


def _by_span(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = user-span: what is less than a span before the user's last row."""
    last = np.full(rows.n_users, np.iinfo(np.int64).max)
    first_times(rows.users, -rows.times, last)
    back = -last[rows.users] - rows.times
    letters = _letters(rows)
    test = _width(rule.test, unit)
    if rule.validation is not None:
        letters[back < test + _width(rule.validation, unit)] = VALIDATION
    letters[back < test] = TEST
    return Assigned([letters])


def _width(span: object, unit: str) -> int:
    found = read_span(span)
    assert found is not None
    return found.seconds * PER_SECOND[unit]


# ---------------------------------------------------------------- one moment for all


def by_moments(times: Times, moments: Mapping[str, int], *, after: bool = False) -> Letters:
    """Letters of rows by the moments that parts begin at, and end at."""
    letters = np.full(times.size, TRAIN, dtype=np.uint8)
    for name, letter in (("validation", VALIDATION), ("test", TEST), ("end", NONE)):
        if name in moments:
            moment = moments[name]
            letters[times > moment if after else times >= moment] = letter
    if "start" in moments:
        letters[times < moments["start"]] = NONE
    return letters


def find_moments(times: Times, rule: SplitSection, unit: str) -> list[dict[str, int]]:
    """The moments of each fold, by the first and last time of the log."""
    if rule.by == "time":
        given = {"validation": rule.validation, "test": rule.test}
        moments = {
            name: moment
            for name, each in given.items()
            if each is not None and (moment := read_moment(each, unit, rule.zone)) is not None
        }
        return [moments]
    return _windows(int(times.min()), int(times.max()), rule, unit)


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


def _by_moment(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    moments = find_moments(rows.times, rule, unit)
    after = rule.boundary == "after"
    return Assigned([by_moments(rows.times, each, after=after) for each in moments], moments)


def _by_share_of_time(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = time-ratio: a share of all rows, the latest."""
    n_validation, n_test = count_parts(rows.n, rule.model_copy(update={"min_train": 0}))
    at_test, at_validation = rows.n - n_test, rows.n - n_test - n_validation
    cuts = {"validation": (at_validation, n_validation), "test": (at_test, n_test)}
    if rule.ties == "together":
        moments = {
            name: int(np.partition(rows.times, at)[at]) for name, (at, n) in cuts.items() if n
        }
        return Assigned([by_moments(rows.times, moments)], [moments])
    order = np.argsort(rows.times, kind="stable")
    letters = _letters(rows)
    letters[order[at_validation:at_test]] = VALIDATION
    letters[order[at_test:]] = TEST
    shown = {name: int(rows.times[order[at]]) for name, (at, n) in cuts.items() if n}
    found = Assigned([letters], [shown])
    for at in {at_validation, at_test} - {0, rows.n}:
        moment = rows.times[order[at]]
        if rows.times[order[at - 1]] == moment:
            found.crossed += np.unique(rows.users[rows.times == moment]).size
    found.by_order = found.crossed
    return found


def _by_quantile(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = time-quantile: from an interpolated quantile of all times on."""
    assert isinstance(rule.test, float)
    moment = math.ceil(np.quantile(rows.times, 1 - rule.test))
    moments = {"test": moment}
    if isinstance(rule.validation, float):
        rest = rows.times[rows.times < moment]
        if rest.size:
            moments["validation"] = math.ceil(np.quantile(rest, 1 - rule.validation))
    return Assigned([by_moments(rows.times, moments)], [moments])


def _by_percentile(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = percentile-user: test after a percentile, the rest of each user cut in two."""
    total = sum(rule.ratios)
    shares = [each / total for each in rule.ratios]
    is_test = rows.times > np.percentile(rows.times, 100 * (1 - shares[-1]))
    letters = _letters(rows)
    letters[is_test] = TEST
    if len(shares) == 3:
        rest = np.flatnonzero(~is_test)
        starts, laid = lay_rows(rows.users[rest], rows.n_users)
        times, none = rows.times[rest], np.zeros(0, dtype=np.int64)
        sort_groups(starts, laid, times, none, np.empty_like(laid))
        sizes = np.diff(starts)
        kept = np.floor(sizes * shares[0] / (shares[0] + shares[1])).astype(np.int64)
        inner = np.full(rest.size, TRAIN, dtype=np.uint8)
        latest = (sizes - kept)[np.newaxis]
        cut_groups(starts, laid, latest, inner, np.array([VALIDATION], dtype=np.uint8))
        letters[rest] = inner
    return Assigned([letters])


def _by_new_users(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = new-users: all rows of users who begin late, and the others' rows before that."""
    assert isinstance(rule.test, float)
    first = np.full(rows.n_users, np.iinfo(np.int64).max)
    first_times(rows.users, rows.times, first)
    begins = np.sort(first[np.unique(rows.users)])
    from fractions import Fraction

    n_new = max(1, math.ceil(begins.size * Fraction(repr(rule.test))))
    moment = int(begins[begins.size - n_new])
    is_new = (first >= moment)[rows.users]
    letters = np.where(is_new, TEST, np.where(rows.times < moment, TRAIN, NONE)).astype(np.uint8)
    return Assigned([letters], [{"test": moment}])


# ---------------------------------------------------------------- drawn, and in turns


def _by_users(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = users: whole users; the earlier rows of those held out are their fold-in."""
    hashes = np.zeros(rows.n_users, dtype=np.uint64)
    hashes[rows.users] = rows.user_hashes
    present = np.zeros(rows.n_users, dtype=np.bool_)
    present[rows.users] = True
    drawn = _draw(hashes, present, rule)
    share = rule.model_copy(
        update={"test": round(1 - rule.fold_in, 12), "validation": None, "rounding": "floor"}
    ).model_copy(update={"by": "user", "folds": None, "min_rows": 0, "ratios": ()})
    latest = _of_groups(rows, share, unit)
    is_late = latest.folds[0] == TEST
    folds = []
    for parts in drawn:
        of_rows = parts[rows.users]
        letters = of_rows.copy()
        letters[(of_rows == TEST) & ~is_late] = FOLD_IN
        letters[(of_rows == VALIDATION) & ~is_late] = VALIDATION_FOLD_IN
        folds.append(letters)
    return Assigned(folds, crossed=latest.crossed, by_order=latest.by_order)


def _by_rows(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = rows: each row by the hash of its user, item, time and how many such were before."""
    return Assigned(_draw(rows.hashes, np.ones(rows.n, dtype=np.bool_), rule))


def _draw(
    hashes: npt.NDArray[np.uint64], present: npt.NDArray[np.bool_], rule: SplitSection
) -> list[Letters]:
    """Letters of whatever has a hash: so many of the lowest, a share of all, or folds."""
    mixed = np.empty_like(hashes)
    mix_all(hashes, np.uint64(rule.seed), mixed)
    if rule.folds:
        turn = ((mixed >> np.uint64(32)) * np.uint64(rule.folds)) >> np.uint64(32)
        folds = [np.where(turn == fold, TEST, TRAIN).astype(np.uint8) for fold in range(rule.folds)]
        return [np.where(present, each, NONE).astype(np.uint8) for each in folds]
    total = sum(rule.ratios)
    test: object = rule.test if not rule.ratios else rule.ratios[-1] / total
    validation: object = rule.validation
    if len(rule.ratios) == 3:
        validation = rule.ratios[1] / total
    letters = np.where(present, TRAIN, NONE).astype(np.uint8)
    if isinstance(test, float) and not isinstance(validation, int):
        n_test = round(test * 2**32)
        n_both = n_test + (round(validation * 2**32) if isinstance(validation, float) else 0)
        top = (mixed >> np.uint64(32)).astype(np.int64)
        letters[present & (top < n_both)] = VALIDATION
        letters[present & (top < n_test)] = TEST
        return [letters]
    order = np.flatnonzero(present)[np.argsort(mixed[present], kind="stable")]
    ends = [int(each * order.size) if isinstance(each, float) else int(each or 0)  # type: ignore[call-overload]
            for each in (test, validation)]  # fmt: skip
    letters[order[: ends[0]]] = TEST
    letters[order[ends[0] : ends[0] + ends[1]]] = VALIDATION
    return [letters]


@kernel(allocates=False)
def mix_all(hashes, seed, mixed):  # type: ignore[no-untyped-def]
    """Hashes of hashes and a seed."""
    salt = mix(np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019))
    for row in range(hashes.size):
        mixed[row] = mix(mix(hashes[row]) ^ salt)


def _in_turns(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = round-robin: the i-th row of a user, as they stand, is test of fold i mod folds."""
    assert rule.folds is not None
    starts, laid = lay_rows(rows.users, rows.n_users)
    turn = np.empty(rows.n, dtype=np.int64)
    turn[laid] = np.arange(rows.n) - np.repeat(starts[:-1], np.diff(starts))
    turn %= rule.folds
    folds = range(rule.folds)
    found = [np.where(turn == fold, TEST, TRAIN).astype(np.uint8) for fold in folds]
    return Assigned(found, by_order=int(np.count_nonzero(np.diff(starts) > 1)))


def _in_blocks(rows: Rows, rule: SplitSection, unit: str) -> Assigned:
    """by = blocks: neighbouring rows of the log."""
    assert rule.folds is not None
    size, more = divmod(rows.n, rule.folds)
    found, begin = [], 0
    for fold in range(rule.folds):
        end = begin + size + (fold < more)
        letters = _letters(rows)
        letters[begin:end] = TEST
        found.append(letters)
        begin = end
    return Assigned(found, by_order=int(np.unique(rows.users).size))


_RULES: Mapping[str, Callable[[Rows, SplitSection, str], Assigned]] = {
    "user": _of_groups,
    "item": _of_groups,
    "user-span": _by_span,
    "time": _by_moment,
    "window": _by_moment,
    "time-ratio": _by_share_of_time,
    "time-quantile": _by_quantile,
    "percentile-user": _by_percentile,
    "new-users": _by_new_users,
    "users": _by_users,
    "rows": _by_rows,
    "round-robin": _in_turns,
    "blocks": _in_blocks,
}


def refuse_empty(found: Assigned, rule: SplitSection, times: Times, at: str) -> None:
    """Refuse a split that leaves no train, or nothing to test.

    Raises:
        DataError: with counts [empty-part].
    """
    for number, letters in enumerate(found.folds):
        counts = np.bincount(letters, minlength=6)
        lacking = [
            name
            for name, letter in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST))
            if not counts[letter] and (name != "validation" or rule.validation)
        ]
        if not lacking:
            continue
        shown = ", ".join(f"{name} {n:,}" for name, n in zip(_NAMES, counts, strict=True) if n)
        fold = f" of fold {number + 1}" if len(found.folds) > 1 else ""
        span = ""
        if times.size:
            span = f"; times go from {times.min()} to {times.max()}"
        raise DataError(
            f"no row is {' or '.join(lacking)}{fold}: {shown or 'no rows'}{span}",
            code="empty-part",
            at=at,
            hint=f"test = {rule.test!r} and validation = {rule.validation!r} do not fit the log",
        )


_NAMES = ("none", "train", "validation", "test", "fold_in", "validation_fold_in")
