"""What a split gives away: rows in two parts, train behind the test, items from the future."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.splits._kernels import find_codes, first_times, look_up_pairs
from evalkit.splits._rule import PER_SECOND

VERDICTS = ("clean", "across-users", "within-users", "rows-shared")  # each worse than the last
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BINS = 120
_FAR = np.iinfo(np.int64).max
_RESOLUTIONS = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of one part: codes of users and items, and times, if there are any."""

    users: npt.NDArray[np.int32]
    items: npt.NDArray[np.int32]
    times: npt.NDArray[np.int64]

    @property
    def n(self) -> int:
        """Its rows."""
        return self.users.size

    def pairs(self, n_items: int) -> npt.NDArray[np.int64]:
        """One number for each user and item."""
        return self.users.astype(np.int64) * max(n_items, 1) + self.items


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many users and items the codes of all parts have, and the unit of times."""

    n_users: int
    n_items: int
    unit: str


def find_leaks(sides: Mapping[str, Side], sizes: Sizes) -> dict[str, Any]:
    """Counts of what train and a held-out part share, for each held-out part, and a verdict.

    Args:
        sides: `train` and, as there are, `validation` and `test`.
    """
    train = sides["train"]
    found: dict[str, Any] = {
        "parts": {name: _sized(side) for name, side in sides.items()},
        "held_out": {
            name: _against(train, side, sizes) for name, side in sides.items() if name != "train"
        },
        "times": _of_times(sides, sizes.unit),
        "plots": _plots(sides, sizes),
    }
    worst = max((VERDICTS.index(each["verdict"]) for each in found["held_out"].values()), default=0)
    found["verdict"] = VERDICTS[worst]
    return found


def join_folds(folds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is told of all folds: the worst verdict, the largest counts, and each of them."""
    counts: dict[str, float] = {}
    for fold in folds:
        for name, count in counts_of(fold).items():
            counts[name] = max(count, counts.get(name, 0))
    worst = max(VERDICTS.index(fold["verdict"]) for fold in folds)
    return {
        "schema_version": 1,
        "verdict": VERDICTS[worst],
        "counts": counts,
        "folds": list(folds),
    }


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


def _sized(side: Side) -> dict[str, Any]:
    return {
        "rows": side.n,
        "users": _distinct(side.users),
        "items": _distinct(side.items),
        "first_time": int(side.times.min()) if side.times.size else None,
        "last_time": int(side.times.max()) if side.times.size else None,
    }


def _distinct(codes: npt.NDArray[np.int32]) -> int:
    return int(np.count_nonzero(np.bincount(codes))) if codes.size else 0


def _against(train: Side, held: Side, sizes: Sizes) -> dict[str, Any]:
    """What one held-out part and train have in common."""
    known_users = np.zeros(sizes.n_users, dtype=np.bool_)
    known_users[train.users] = True
    known_items = np.zeros(sizes.n_items, dtype=np.bool_)
    known_items[train.items] = True
    new_users, new_items = ~known_users[held.users], ~known_items[held.items]
    in_both = _pairs_in_both(train, held, sizes.n_items)
    has_times = bool(train.times.size and held.times.size)
    found: dict[str, Any] = {
        "pairs_in_train": int(np.count_nonzero(in_both[0])),
        "rows_in_train": int(np.count_nonzero(in_both[1])),
        "users_never_in_train": {
            "users": _distinct(held.users[new_users]),
            "rows": int(np.count_nonzero(new_users)),
        },
        "items_never_in_train": {
            "items": _distinct(held.items[new_items]),
            "rows": int(np.count_nonzero(new_items)),
        },
        "train_after": {"rows": None, "share": None, "most_days": None},
        "train_after_own": {"rows": None, "users": None},
        "train_later_than_row": None,
        "train_items_first_later_than_row": None,
        "boundaries_in_equal_times": None,
    }
    if has_times:
        found |= _of_order(train, held, sizes)
    found["verdict"] = _verdict(found)
    return found


def _verdict(found: Mapping[str, Any]) -> str:
    if found["rows_in_train"]:
        return "rows-shared"
    if found["train_after_own"]["rows"]:
        return "within-users"
    return "across-users" if found["train_after"]["rows"] else "clean"


def _pairs_in_both(
    train: Side, held: Side, n_items: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which held-out rows have their user and item in train; and the time with them."""
    pairs = held.pairs(n_items).view(np.uint64)
    none = np.zeros(0, dtype=np.uint64)
    codes = np.empty(held.n, dtype=np.int32)
    table = np.full(1 << max(held.n, 1).bit_length() + 1, -1, dtype=np.int32)
    known = np.empty(held.n, dtype=np.uint64)
    n_known = find_codes(pairs, none, codes, table, known, none, 0)
    code_of = np.empty(train.n, dtype=np.int32)
    look_up_pairs(train.users, train.items, max(n_items, 1), table, known, code_of)
    common = np.flatnonzero(code_of >= 0)
    in_train = np.zeros(n_known, dtype=np.bool_)
    in_train[code_of[common]] = True
    pair_is_known = in_train[codes]
    if not (train.times.size and held.times.size):
        return pair_is_known, pair_is_known
    whole = np.zeros(held.n, dtype=np.bool_)
    at = np.flatnonzero(pair_is_known)
    if at.size:
        both = np.empty(common.size, dtype=[("pair", np.int32), ("time", np.int64)])
        both["pair"], both["time"] = code_of[common], train.times[common]
        mine_too = np.empty(at.size, dtype=both.dtype)
        mine_too["pair"], mine_too["time"] = codes[at], held.times[at]
        whole[at] = np.isin(mine_too, both)
    return pair_is_known, whole


def _of_order(train: Side, held: Side, sizes: Sizes) -> dict[str, Any]:
    """What of train lies behind held-out rows: over all users, and of one and the same."""
    first = int(held.times.min())
    is_after = train.times >= first
    n_after = int(np.count_nonzero(is_after))
    days = max(0, int(train.times.max()) - first) / (86400 * PER_SECOND[sizes.unit])
    own_first = _first_of(held.users, held.times, sizes.n_users)
    behind_own = train.times > own_first[train.users]
    item_first = _first_of(train.items, train.times, sizes.n_items)
    item_first = np.sort(item_first[item_first != _FAR])
    ordered = _sorted(held.times)
    n_later = train.n - np.searchsorted(_sorted(train.times), ordered, side="right")
    return {
        "train_after": {"rows": n_after, "share": n_after / train.n, "most_days": days},
        "train_after_own": {
            "rows": int(np.count_nonzero(behind_own)),
            "users": _distinct(train.users[behind_own]),
        },
        "train_later_than_row": _spread_of(n_later / train.n),
        "train_items_first_later_than_row": {
            **_spread_of(
                1 - np.searchsorted(item_first, ordered, side="right") / max(item_first.size, 1)
            ),
            "items_after_first": int(
                item_first.size - np.searchsorted(item_first, first, side="right")
            ),
        },
        "boundaries_in_equal_times": _crossing(train, held, own_first, sizes),
    }


def _sorted(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Times in order; those of a log that is in order already are only walked over."""
    return np.sort(times, kind="stable")


def _first_of(
    codes: npt.NDArray[np.int32], times: npt.NDArray[np.int64], n_codes: int
) -> npt.NDArray[np.int64]:
    first = np.full(n_codes, _FAR)
    first_times(codes, times, first)
    return first


def _crossing(train: Side, held: Side, own_first: npt.NDArray[np.int64], sizes: Sizes) -> int:
    """Users with a train row at the very time of their first held-out row."""
    at_first = train.times == own_first[train.users]
    return _distinct(train.users[at_first])


def _spread_of(values: npt.NDArray[np.float64]) -> dict[str, float]:
    quantiles = np.quantile(values, _QUANTILES)
    named = {f"q{round(100 * q):02}": float(v) for q, v in zip(_QUANTILES, quantiles, strict=True)}
    return {"mean": float(values.mean()), **named}


def _of_times(sides: Mapping[str, Side], unit: str) -> dict[str, Any]:
    """How coarse times are: rows that share theirs with another, and what all are multiples of."""
    times = np.concatenate([side.times for side in sides.values()])
    if not times.size:
        return {"shared": None, "resolution": None}
    ordered = _sorted(times)
    same = ordered[1:] == ordered[:-1]
    shared = np.zeros(times.size, dtype=np.bool_)
    shared[1:] |= same
    shared[:-1] |= same
    step = _common_step(ordered)
    a_second = PER_SECOND[unit]
    fitting = (name for name, n in _RESOLUTIONS if step and step % (n * a_second) == 0)
    return {"shared": float(shared.mean()), "resolution": next(fitting, unit)}


def _common_step(times: npt.NDArray[np.int64]) -> int:
    step = 0
    for begin in range(0, times.size, 1 << 14):
        step = int(np.gcd.reduce(times[begin : begin + (1 << 14)], initial=step))
        if step == 1:
            break
    return step


def _plots(sides: Mapping[str, Side], sizes: Sizes) -> dict[str, Any]:
    """Counts for the page: rows by day, users' boundaries, first rows of items."""
    times = [side.times for side in sides.values() if side.times.size]
    if not times:
        return {}
    a_day = 86400 * PER_SECOND[sizes.unit]
    low = min(int(each.min()) for each in times) // a_day
    high = max(int(each.max()) for each in times) // a_day + 1
    step = -(-(high - low) // _BINS)
    edges = np.arange(low, high + step, step)

    def counted(values: npt.NDArray[np.int64]) -> list[int]:
        return [
            int(n) for n in np.bincount((values // a_day - low) // step, minlength=edges.size - 1)
        ]

    held = next((sides[name] for name in ("test", "validation") if name in sides), None)
    shown: dict[str, Any] = {
        "days": [int(each) for each in edges],
        "rows": {name: counted(side.times) for name, side in sides.items() if side.times.size},
    }
    if held is not None and held.times.size:
        own = _first_of(held.users, held.times, sizes.n_users)
        shown["boundaries"] = counted(own[own != _FAR])
    train = sides["train"]
    if train.times.size:
        first = _first_of(train.items, train.times, sizes.n_items)
        shown["items"] = counted(first[first != _FAR])
    return shown
