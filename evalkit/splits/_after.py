"""What leaves after the cut: held-out rows that are cold or seen, and repeats within a part."""

from collections.abc import Sequence

import numpy as np

from evalkit.config import SplitSection
from evalkit.errors import DataError
from evalkit.kernels.arrays import Bytes, Flags
from evalkit.splits import _filters as filters
from evalkit.splits._filters import LogRows, TrainPairs
from evalkit.splits._log import LogFeed
from evalkit.splits._memory import SplitBudget

_POLICIES = ("cold_users", "cold_items", "seen")


def leaves_after(rule: SplitSection) -> bool:
    """Whether something leaves that all rows of the log together tell."""
    return any(getattr(rule, name) != "keep" for name in (*_POLICIES, "part_duplicates"))


def leave_low(rows: LogRows, letters: Bytes, rule: SplitSection, dropped: dict[str, int]) -> None:
    """Take held-out rows of little relevance out of their parts, and count them."""
    if rule.threshold is not None and rule.threshold_in == "test":
        low = _is_held(letters) & ~(rows.relevance >= rule.threshold)
        _drop(letters, low, "threshold", dropped)


def leave_after(
    feed: LogFeed,
    whole: Sequence[LogRows],
    rule: SplitSection,
    folds: Sequence[tuple[Bytes, dict[str, int]]],
    budget: SplitBudget,
    at: str,
) -> None:
    """Take rows out of their parts, and count them: those of some users at a time.

    Args:
        whole: all rows, where they are in memory.
        folds: letters of all rows of the log, and rows that left, by reason.
    Raises:
        DataError: cold or seen rows that are an error [cold-rows].
    """
    known = [TrainPairs.none(feed.n_users, feed.n_items) for _ in folds]
    for rows in whole or feed.batches():
        for (letters, _), each in zip(folds, known, strict=True):
            each.add(rows, rows.own(letters))
    for low, high in budget.shares(feed, rule):
        rows = whole[0] if whole else feed.gather(low, high)
        for (letters, dropped), known_of in zip(folds, known, strict=True):
            mine = rows.own(letters).copy()
            _leave(rows, mine, rule, known_of, dropped)
            letters[rows.begin : rows.begin + rows.height][_places(rows)] = mine
    for _, dropped in folds:
        for name in _POLICIES:
            n_wrong = dropped.pop(f"wrong {name}", 0)
            if n_wrong:
                message = f"{n_wrong:,} held-out rows are {name.replace('_', ' ')}"
                hint = f'{name} = "keep" counts them, "drop" leaves them out'
                raise DataError(message, code="cold-rows", at=at, hint=hint)


def _leave(
    rows: LogRows, letters: Bytes, rule: SplitSection, known: TrainPairs, dropped: dict[str, int]
) -> None:
    """The same for all rows of some users."""
    masks = {"cold_users": ~known.users[rows.users], "cold_items": ~known.items[rows.items]}
    if rule.seen != "keep":
        masks["seen"] = filters.seen_in_train(rows, letters)
    for name, mask in masks.items():
        policy = getattr(rule, name)
        if policy == "drop":
            _drop(letters, mask & _is_held(letters), name, dropped)
        elif policy == "error":
            n_wrong = int(np.count_nonzero(mask & _is_held(letters)))
            dropped[f"wrong {name}"] = dropped.get(f"wrong {name}", 0) + n_wrong
    if rule.part_duplicates != "keep":
        n = filters.drop_repeats(rows, letters, rule.part_duplicates)
        if n:
            dropped["part_duplicates"] = dropped.get("part_duplicates", 0) + n


def _places(rows: LogRows) -> slice | np.ndarray[tuple[int], np.dtype[np.int64]]:
    return rows.places if rows.n < rows.height else slice(None)


def _is_held(letters: Bytes) -> Flags:
    held: Flags = (letters == filters.TEST) | (letters == filters.VALIDATION)
    return held


def _drop(letters: Bytes, mask: Flags, reason: str, dropped: dict[str, int]) -> None:
    n = int(np.count_nonzero(mask))
    if n:
        dropped[reason] = dropped.get(reason, 0) + n
        letters[mask] = filters.NONE
