"""A rule from its first step to its last: what leaves before, the parts, what leaves after."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evalkit.config import SplitSection
from evalkit.errors import DataError
from evalkit.splits._assign import Assigned, assign, refuse_empty
from evalkit.splits._filters import (
    NONE,
    TEST,
    TRAIN,
    VALIDATION,
    VALIDATION_FOLD_IN,
    Known,
    Letters,
    Mask,
    Rows,
    dedupe,
    drop_repeats,
    keep_core,
    seen_in_train,
)
from evalkit.splits.leakage import Leaks

Spread = TypeVar("Spread", Letters, Mask)


@dataclass(slots=True)
class Fold:
    """One cut of the rows, and which of its held-out rows are cold.

    Args:
        letters: of all rows of the log.
        cold_users, cold_items: of all rows of the log, True only for held-out rows.
        leaks: what `find_leaks` found.
        sizes: users and items of each letter.
        dropped: rows that left after the cut, by reason.
    """

    letters: Letters
    cold_users: Mask
    cold_items: Mask
    leaks: dict[str, Any] = field(default_factory=dict)
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Cut:
    """What a rule made of a log.

    Args:
        dropped: rows that left before the cut, by reason.
        rounds: that the core took.
    """

    folds: list[Fold]
    assigned: Assigned
    dropped: dict[str, int]
    rounds: int = 0


def cut_rows(rows: Rows, rule: SplitSection, unit: str, n_rows: int, at: str) -> Cut:
    """Every row of the log with its part, in each fold.

    Args:
        rows: they are changed.
        rule: as `settle_rule` leaves it.
        n_rows: of the log; rows that `rows` lacks are in no part.
    Raises:
        DataError: a part is empty [empty-part], cold or seen rows that are an error [cold-rows].
    """
    if rule.threshold is not None and rule.threshold_in == "all":
        rows.keep(rows.relevance >= rule.threshold, "threshold")
    dedupe(rows, rule.dedupe)
    rounds = keep_core(rows, rule.core) if rule.core is not None else 0
    if not rows.n:
        told = ", ".join(f"{name} {n:,}" for name, n in rows.dropped.items())
        raise DataError(
            f"no row is left: {told or 'the log is empty'}",
            code="empty-part",
            at=at,
            hint="ask for less, or look at the log with evalkit check",
        )
    assigned = assign(rows, rule, unit)
    folds = []
    for letters in assigned.folds:
        fold = _filtered(rows, letters, rule, n_rows, at)
        fold.leaks = _leaks(rows, letters, unit)
        fold.sizes = {
            letter: (_distinct(rows.users, mask), _distinct(rows.items, mask))
            for letter in range(TRAIN, VALIDATION_FOLD_IN + 1)
            if (mask := letters == letter).any()
        }
        folds.append(fold)
    if rule.empty == "error":
        refuse_empty(assigned, rule, rows.times, at)
    return Cut(folds, assigned, rows.dropped, rounds)


def _distinct(codes: npt.NDArray[np.int32], mask: Mask) -> int:
    return int(np.count_nonzero(np.bincount(codes[mask])))


def _leaks(rows: Rows, letters: Letters, unit: str) -> dict[str, Any]:
    """What the parts have in common; fold-in is what a model sees of its users, as train is."""
    leaks = Leaks(unit, bool(rows.times.size))
    for name, letter in (("validation", VALIDATION), ("test", TEST)):
        mask = letters == letter
        if mask.any():
            times = rows.times[mask] if rows.times.size else rows.times
            leaks.hold(name, rows.users[mask], rows.items[mask], times)
    leaks.lay()
    leaks.add_train(rows, letters)
    if leaks.needs_times:
        leaks.add_times(rows.times, letters)
    return leaks.told()


def _filtered(rows: Rows, letters: Letters, rule: SplitSection, n_rows: int, at: str) -> Fold:
    dropped: dict[str, int] = {}

    def drop(mask: Mask, reason: str) -> None:
        n = int(np.count_nonzero(mask))
        if n:
            dropped[reason] = n
            letters[mask] = NONE

    held = (letters == TEST) | (letters == VALIDATION)
    if rule.threshold is not None and rule.threshold_in == "test":
        drop(held & ~(rows.relevance >= rule.threshold), "threshold")
    known = Known.of(rows, letters)
    cold_users, cold_items = ~known.users[rows.users], ~known.items[rows.items]
    masks = {"cold_users": cold_users, "cold_items": cold_items}
    if rule.seen != "keep":
        masks["seen"] = seen_in_train(rows, letters)
    for name, mask in masks.items():
        held = (letters == TEST) | (letters == VALIDATION)
        policy = getattr(rule, name)
        if policy == "error" and np.any(mask & held):
            raise DataError(
                f"{np.count_nonzero(mask & held):,} held-out rows are {name.replace('_', ' ')}",
                code="cold-rows",
                at=at,
                hint=f'{name} = "keep" counts them, "drop" leaves them out',
            )
        if policy == "drop":
            drop(mask & held, name)
    if rule.part_duplicates != "keep":
        n = drop_repeats(rows, letters, rule.part_duplicates)
        dropped |= {"part_duplicates": n} if n else {}
    held = (letters == TEST) | (letters == VALIDATION)
    return Fold(
        _spread(letters, rows, n_rows),
        _spread(cold_users & held, rows, n_rows),
        _spread(cold_items & held, rows, n_rows),
        dropped=dropped,
    )


def _spread(values: Spread, rows: Rows, n_rows: int) -> Spread:
    """Values of the rows that are left, laid over all rows of the log."""
    if not rows.places.size:
        return values
    spread = np.zeros(n_rows, dtype=values.dtype)
    spread[rows.places] = values
    return spread
