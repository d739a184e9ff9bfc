"""What a split gives away: rows in two parts, train behind the test, items from the future."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Floats, Int32s
from evalkit.splits._clock import Days, TimeTies
from evalkit.splits._feed import fitted
from evalkit.splits._filters import LogRows
from evalkit.splits._held import FAR, Held, Overlap, Ticks, find_near, lay_near
from evalkit.splits._rule import PER_SECOND

VERDICTS = ("clean", "across-users", "within-users", "rows-shared")  # each worse than the last
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BINS = 120
_RESOLUTIONS = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))


Known = tuple[Bytes, Ticks]


@dataclass(slots=True)
class Leaks:
    """What held-out parts and train have in common: held-out rows come first, train streams by.

    Args:
        unit: of times: s, ms, us or ns.
        has_times: whether all rows have one.
    """

    unit: str
    has_times: bool
    n_train: int = 0
    _held: dict[str, Held] = field(default_factory=dict)
    _overlaps: dict[str, Overlap] = field(default_factory=dict)
    _days: dict[str, Days] = field(default_factory=dict)
    _known_users: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    _known_items: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    _item_first: Ticks = field(default_factory=lambda: np.zeros(0, np.int64))
    _clock: TimeTies | None = None
    _near: tuple[Ticks, Bytes] = field(
        default_factory=lambda: (np.zeros((0, 2), np.int64), np.zeros(0, np.uint8))
    )
    _least: int = FAR
    _found: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))

    def hold(self, name: str, users: Int32s, items: Int32s, times: Ticks) -> None:
        """Rows of validation or test."""
        self._held.setdefault(name, Held()).add(users, items, times)
        if self.has_times:
            self.days_of(name).add(times)

    def days_of(self, name: str) -> Days:
        """How many rows of a part there are of each day."""
        return self._days.setdefault(name, Days(self.a_day))

    @property
    def a_day(self) -> int:
        """In the unit of times."""
        return 86400 * PER_SECOND[self.unit]

    def lay(self) -> None:
        """All held-out rows are here."""
        for held in self._held.values():
            held.lay()
        self._near = lay_near(self._held.values())
        self._least = int(self._near[0][:, 0].min(initial=FAR))
        if self.has_times and self._held:
            self._clock = TimeTies.of([(each.moments, each.n_at) for each in self._held.values()])

    def take(
        self, parts: Mapping[str, Overlap], n_train: int, known: Known, clock: TimeTies
    ) -> None:
        """All rows at once, of which somebody else found out what they have in common.

        Args:
            known: a flag for each user of train, and the first time of each item.
        """
        self._overlaps, self.n_train, self._clock = dict(parts), n_train, clock
        self._known_users, self._item_first = known
        self._known_items = (self._item_first != FAR).astype(np.uint8)

    def add_train(self, rows: LogRows, letters: Bytes) -> None:
        """The next rows of the log; those without a letter of train are passed over."""
        self._known_users = fitted(self._known_users, rows.n_users, 0)
        self._known_items = fitted(self._known_items, rows.n_items, 0)
        self._item_first = fitted(self._item_first, rows.n_items, FAR)
        of_rows = (rows.users, rows.items, rows.times, letters)
        self.n_train += note_train(*of_rows, self._known_users, self._known_items, self._item_first)
        if self.has_times:
            self.days_of("train").add(rows.times, letters)
            if self._clock is None:
                self._clock = TimeTies.of([])
            self._clock.add(rows.times, letters)
        if self._found.size < rows.users.size:
            self._found = np.empty(rows.users.size, dtype=np.int32)
        times = rows.times if self.has_times else rows.times[:0]
        wanted = (*self._near, self._least, self._found)
        n_found, _ = find_near(rows.users, rows.items, times, letters, *wanted)
        for held in self._held.values():
            held.look(*of_rows, self._found[:n_found])

    @property
    def needs_times(self) -> bool:
        """Train did not come in the order of time: its times are to come once more."""
        return self._clock is not None and not self._clock.is_walked

    def add_times(self, times: Ticks, letters: Bytes) -> None:
        """Times of all rows once more."""
        assert self._clock is not None
        low = min(each.low for each in self._days.values())
        high = max(each.high for each in self._days.values())
        self._clock.add_again(times, letters, low, high)

    def told(self) -> dict[str, Any]:
        """Counts for each held-out part, and a verdict."""
        held = self._overlaps or {name: each.overlap() for name, each in self._held.items()}
        parts = {"train": self._of_train()}
        names = [name for name in ("validation", "test") if name in held]
        parts |= {name: _of_held(held[name]) for name in names}
        found: dict[str, Any] = {
            "parts": parts,
            "held_out": {name: self._against(held[name]) for name in names},
            "times": self._of_times(sum(each.n for each in held.values())),
            "plots": self._plots(held.get("test", held.get("validation"))),
        }
        verdicts = (VERDICTS.index(each["verdict"]) for each in found["held_out"].values())
        found["verdict"] = VERDICTS[max(verdicts, default=0)]
        return found

    def _of_train(self) -> dict[str, Any]:
        days = self._days.get("train")
        return {
            "rows": self.n_train,
            "users": int(np.count_nonzero(self._known_users)),
            "items": int(np.count_nonzero(self._known_items)),
            "first_time": days.low if days is not None and days.n else None,
            "last_time": days.high if days is not None and days.n else None,
        }

    def _against(self, held: Overlap) -> dict[str, Any]:
        n_pairs, n_rows = held.in_train
        found: dict[str, Any] = {
            "pairs_in_train": n_pairs,
            "rows_in_train": n_rows,
            "users_never_in_train": _never("users", np.diff(held.starts), self._known_users),
            "items_never_in_train": _never("items", held.of_items, self._known_items),
            "train_after": {"rows": None, "share": None, "most_days": None},
            "train_after_own": {"rows": None, "users": None},
            "train_later_than_row": None,
            "train_items_first_later_than_row": None,
            "boundaries_in_equal_times": None,
        }
        if held.moments.size and self.n_train:
            found |= self._of_order(held)
        found["verdict"] = _verdict(found)
        return found

    def _of_order(self, held: Overlap) -> dict[str, Any]:
        """What of train lies behind held-out rows: over all users, and of one and the same."""
        first = int(held.moments[0])
        item_first = np.sort(self._item_first[self._item_first != FAR])
        days = max(0, self._days["train"].high - first) / (86400 * PER_SECOND[self.unit])
        n_before = np.searchsorted(item_first, held.moments, side="right")
        later = 1 - np.repeat(n_before, held.n_at) / max(item_first.size, 1)
        later_rows = np.repeat(held.later, held.n_at)
        return {
            "train_after": {
                "rows": held.n_after,
                "share": held.n_after / self.n_train,
                "most_days": days,
            },
            "train_after_own": {"rows": held.n_behind_own, "users": held.users_behind_own},
            "train_later_than_row": _spread_of(later_rows / self.n_train),
            "train_items_first_later_than_row": {
                **_spread_of(later),
                "items_after_first": int(item_first.size - n_before[0]),
            },
            "boundaries_in_equal_times": held.users_at_own_first,
        }

    def _of_times(self, n_held: int) -> dict[str, Any]:
        """How coarse times are: rows that share theirs, and what all are multiples of."""
        n_rows = self.n_train + n_held
        if self._clock is None or not n_rows:
            return {"shared": None, "resolution": None}
        step, a_second = self._clock.step, PER_SECOND[self.unit]
        fitting = (name for name, n in _RESOLUTIONS if step and step % (n * a_second) == 0)
        return {"shared": self._clock.n_shared() / n_rows, "resolution": next(fitting, self.unit)}

    def _plots(self, held: Overlap | None) -> dict[str, Any]:
        """Counts for the page: rows by day, users' boundaries, first rows of items."""
        known = [days for days in self._days.values() if days.n]
        if not known:
            return {}
        a_day = 86400 * PER_SECOND[self.unit]
        low = min(days.low for days in known) // a_day
        high = max(days.high for days in known) // a_day + 1
        step = -(-(high - low) // _BINS)
        edges = np.arange(low, high + step, step)

        def counted(days: Mapping[int, int]) -> list[int]:
            bins = [0] * (edges.size - 1)
            for day, n in days.items():
                bins[(day - low) // step] += n
            return bins

        def by_day(times: Ticks) -> list[int]:
            counts = np.unique(times[times != FAR] // a_day, return_counts=True)
            return counted(dict(zip(*(each.tolist() for each in counts), strict=True)))

        names = [name for name in ("train", "validation", "test") if name in self._days]
        shown: dict[str, Any] = {
            "days": [int(each) for each in edges],
            "rows": {n: counted(self._days[n].counts) for n in names if self._days[n].n},
        }
        if held is not None:
            shown["boundaries"] = by_day(held.own_first)
        if self.n_train:
            shown["items"] = by_day(self._item_first)
        return shown


def _of_held(held: Overlap) -> dict[str, Any]:
    return {
        "rows": held.n,
        "users": int(np.count_nonzero(np.diff(held.starts))),
        "items": int(np.count_nonzero(held.of_items)) if held.n else 0,
        "first_time": int(held.moments[0]) if held.moments.size else None,
        "last_time": int(held.moments[-1]) if held.moments.size else None,
    }


def _never(what: str, n_rows: Ticks, known: Bytes) -> dict[str, int]:
    """Held-out users, or items, that train lacks, and their rows."""
    is_new = n_rows > 0
    is_new[: known.size] &= known[: n_rows.size] == 0
    return {what: int(np.count_nonzero(is_new)), "rows": int(n_rows[is_new].sum())}


def join_folds(folds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is told of all folds: the worst verdict, the largest counts, and each of them."""
    counts: dict[str, float] = {}
    for fold in folds:
        for name, count in counts_of(fold).items():
            counts[name] = max(count, counts.get(name, 0))
    worst = max(VERDICTS.index(fold["verdict"]) for fold in folds)
    return {"schema_version": 1, "verdict": VERDICTS[worst], "counts": counts, "folds": list(folds)}


def counts_of(leaks: Mapping[str, Any]) -> dict[str, float]:
    """The counts that gates know, by the name behind `leakage.`."""
    counts: dict[str, float] = {}
    for name, held in leaks["held_out"].items():
        mine = {
            f"train_after_{name}": held["train_after"]["rows"],
            f"train_after_{name}_share": held["train_after"]["share"],
            f"train_after_own_{name}": held["train_after_own"]["rows"],
            f"{name}_rows_in_train": held["rows_in_train"],
            f"{name}_pairs_in_train": held["pairs_in_train"],
            f"{name}_users_never_in_train": held["users_never_in_train"]["users"],
            f"{name}_items_never_in_train": held["items_never_in_train"]["items"],
            f"{name}_boundaries_in_equal_times": held["boundaries_in_equal_times"],
        }
        counts |= {key: each for key, each in mine.items() if each is not None}
    return counts


def _verdict(found: Mapping[str, Any]) -> str:
    if found["rows_in_train"]:
        return "rows-shared"
    if found["train_after_own"]["rows"]:
        return "within-users"
    return "across-users" if found["train_after"]["rows"] else "clean"


def _spread_of(values: Floats) -> dict[str, float]:
    """Mean and quantiles of values that come from the greatest to the least."""
    found = {"mean": float(values.mean())}
    for share in _QUANTILES:  # as np.quantile has them to the bit, which would sort
        place = share * (values.size - 1)
        low = math.floor(place)
        one, other = values[values.size - 1 - low], values[max(0, values.size - 2 - low)]
        step, part = other - one, place - low
        value = other - step * (1 - part) if part >= 0.5 else one + step * part
        found[f"q{round(100 * share):02}"] = float(value)
    return found


@kernel(allocates=False)
def note_train(users, items, times, letters, known_users, known_items, item_first):  # type: ignore[no-untyped-def]
    """Users and items of train, and the first time of each item; how many rows it has."""
    n_train = 0
    for row in range(users.size):
        if letters[row] != 1 and letters[row] < 4:
            continue
        n_train += 1
        known_users[users[row]] = 1
        item = items[row]
        known_items[item] = 1
        if times.size and times[row] < item_first[item]:
            item_first[item] = times[row]
    return n_train
