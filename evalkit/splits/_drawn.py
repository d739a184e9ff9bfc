"""Users or rows that are drawn by a hash, so that no order of rows changes who is drawn."""

import numpy as np

from evalkit.config import SplitSection
from evalkit.kernels.arrays import Bytes, Flags, Ints, Keys
from evalkit.splits import _filters as filters
from evalkit.splits._feed import Assigned, fitted
from evalkit.splits._filters import LogRows
from evalkit.splits._groups import of_groups
from evalkit.splits._kernels import mix_all
from evalkit.splits._log import LogFeed
from evalkit.splits._memory import OF_ROW, SplitBudget
from evalkit.splits._nth import nth_of

Ticks = Ints


def by_users(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = users: whole users; the earlier rows of those held out are their fold-in."""
    share = rule.model_copy(
        update={"test": round(1 - rule.fold_in, 12), "validation": None, "rounding": "floor"}
    ).model_copy(update={"by": "user", "folds": None, "min_rows": 0, "ratios": ()})
    hashes = np.zeros(0, dtype=np.uint64)

    def note(rows: LogRows) -> None:
        nonlocal hashes
        hashes = fitted(hashes, rows.n_users, 0)
        hashes[rows.users] = rows.user_hashes

    groups = of_groups(feed, share, budget, note)
    latest = groups.assigned()
    drawn = _draw(hashes, groups.counts > 0, rule)

    def decide(rows: LogRows) -> list[Bytes]:
        is_late = latest.decide(rows)[0] == filters.TEST
        folds = []
        for parts in drawn:
            of_rows = parts[rows.users]
            letters = of_rows.copy()
            letters[(of_rows == filters.TEST) & ~is_late] = filters.FOLD_IN
            letters[(of_rows == filters.VALIDATION) & ~is_late] = filters.VALIDATION_FOLD_IN
            folds.append(letters)
        return folds

    return Assigned(decide, crossed=latest.crossed)


def by_rows(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> Assigned:
    """by = rows: each row by the hash of its user, item, time and how many such were before."""
    feed.tell_copies(budget.at_a_time(feed, rule, feed.n_kept, OF_ROW))
    if _is_by_share(rule):
        present = np.ones(feed.n_kept, dtype=np.bool_)
        return Assigned(lambda rows: _draw(rows.hashes, present[: rows.n], rule))
    n_test, n_both = _ends(rule, feed.n_kept)
    found = nth_of(
        feed,
        [at for at in (n_test, n_both) if at < feed.n_kept],
        lambda rows: _mixed(rows.hashes, rule),
        0,
        np.iinfo(np.int64).max,
    )
    seen = dict.fromkeys(found, 0)

    def decide(rows: LogRows) -> list[Bytes]:
        letters = np.full(rows.n, filters.TRAIN, dtype=np.uint8)
        drawn = _mixed(rows.hashes, rule)
        for at, letter in ((n_both, filters.VALIDATION), (n_test, filters.TEST)):
            if at not in found:
                letters[:] = letter
                continue
            value, n_before = found[at]
            is_at = drawn == value
            is_early = np.cumsum(is_at) + seen[at] <= at - n_before
            letters[(drawn < value) | (is_at & is_early)] = letter
        for at, (value, _) in found.items():
            seen[at] += int(np.count_nonzero(drawn == value))
        return [letters]

    return Assigned(decide)


def _mixed(hashes: Keys, rule: SplitSection) -> Ticks:
    """What rows are drawn by, without its last bit."""
    mixed = np.empty_like(hashes)
    mix_all(hashes, np.uint64(rule.seed), mixed)
    return (mixed >> np.uint64(1)).view(np.int64)


def _draw(hashes: Keys, present: Flags, rule: SplitSection) -> list[Bytes]:
    """Letters of whatever has a hash: so many of the lowest, a share of all, or folds."""
    mixed = np.empty_like(hashes)
    mix_all(hashes, np.uint64(rule.seed), mixed)
    if rule.folds:
        turn = ((mixed >> np.uint64(32)) * np.uint64(rule.folds)) >> np.uint64(32)
        folds = [
            np.where(turn == fold, filters.TEST, filters.TRAIN).astype(np.uint8)
            for fold in range(rule.folds)
        ]
        return [np.where(present, each, filters.NONE).astype(np.uint8) for each in folds]
    letters = np.where(present, filters.TRAIN, filters.NONE).astype(np.uint8)
    test, validation = _sizes(rule)
    if isinstance(test, float) and not isinstance(validation, int):
        n_test = round(test * 2**32)
        n_both = n_test + (round(validation * 2**32) if isinstance(validation, float) else 0)
        top = (mixed >> np.uint64(32)).astype(np.int64)
        letters[present & (top < n_both)] = filters.VALIDATION
        letters[present & (top < n_test)] = filters.TEST
        return [letters]
    order = np.flatnonzero(present)[np.argsort(mixed[present], kind="stable")]
    n_test, n_both = _ends(rule, order.size)
    letters[order[:n_both]] = filters.VALIDATION
    letters[order[:n_test]] = filters.TEST
    return [letters]


def _sizes(rule: SplitSection) -> tuple[object, object]:
    """Of test and validation, whole numbers or shares."""
    if not rule.ratios:
        return rule.test, rule.validation
    total = sum(rule.ratios)
    validation = rule.ratios[1] / total if len(rule.ratios) == 3 else rule.validation
    return rule.ratios[-1] / total, validation


def _is_by_share(rule: SplitSection) -> bool:
    """Whether a hash alone tells a part, so that sizes vary a little."""
    test, validation = _sizes(rule)
    return bool(rule.folds) or (isinstance(test, float) and not isinstance(validation, int))


def _ends(rule: SplitSection, n: int) -> tuple[int, int]:
    """How many of `n` are test, and test or validation."""
    ends = [int(each * n) if isinstance(each, float) else int(each or 0) for each in _sizes(rule)]  # type: ignore[call-overload]
    return ends[0], ends[0] + ends[1]
