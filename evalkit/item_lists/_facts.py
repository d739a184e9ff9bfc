"""What is known of items, whatever their codes: what numbers are made of in the end."""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Flags, Int32s, Ints, Keys
from evalkit.metrics import Groups, ItemContext, Items

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """Items of some shares of the users, in the order of their codes.

    Args:
        keys: uint64[n_items], hashes of the ids that no version of any library changes.
        is_listed: bool[n_items], the table of items has it.
        popularity, interactions: int64[n_items], of train.
        groups: of each column int32[n_items], -1 for none, and the names.
    """

    keys: Keys
    has_table: bool
    is_listed: Flags
    popularity: Ints
    interactions: Ints
    n_train_users: int = 0
    groups: dict[str, tuple[Int32s, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def nothing(cls) -> "ItemFacts":
        """No items."""
        counts = np.empty(0, dtype=np.int64)
        return cls(np.empty(0, dtype=np.uint64), False, counts > 0, counts, counts)

    @classmethod
    def of(cls, items: Items, keys: Keys) -> "ItemFacts":
        """What numbers are made of in the end."""
        return cls(
            keys,
            items.has_table,
            items.is_listed,
            items.popularity,
            items.interactions,
            items.n_train_users,
            {name: (each.codes, each.names) for name, each in items.groups.items()},
        )

    def joined(self, other: "ItemFacts") -> "tuple[ItemFacts, Int32s]":
        """The items of both, mine first, and the code of each of the other's among them."""
        few, many = sorted((self.keys, other.keys), key=lambda each: each.size)
        if np.array_equal(few, many[: few.size]):  # met by one reading, in one order
            larger = self if self.keys is many else other
            return larger, _codes(other.keys.size)
        order = np.argsort(self.keys, kind="stable")
        places = np.searchsorted(self.keys[order], other.keys).clip(max=order.size - 1)
        known = self.keys[order][places] == other.keys
        theirs = order[places].astype(np.int32)
        theirs[~known] = self.keys.size + _codes(int((~known).sum()))
        whole = ItemFacts(
            np.concatenate([self.keys, other.keys[~known]]),
            self.has_table or other.has_table,
            _joined(self.is_listed, other.is_listed, theirs),
            _joined(self.popularity, other.popularity, theirs),
            _joined(self.interactions, other.interactions, theirs),
            max(self.n_train_users, other.n_train_users),
            {
                name: (_joined(codes, other.groups[name][0], theirs), names)
                for name, (codes, names) in self.groups.items()
            },
        )
        return whole, theirs

    def context(self) -> ItemContext:
        """What numbers are made of, as metrics take it."""
        n = self.keys.size
        places = np.empty(n, dtype=np.int64)  # an order that shares have in common
        places[np.argsort(self.keys, kind="stable")] = np.arange(n)
        groups = {name: Groups(codes, names) for name, (codes, names) in self.groups.items()}
        return ItemContext(
            Items(
                self.is_listed,
                self.has_table,
                places,
                places,
                self.popularity,
                self.interactions,
                self.n_train_users,
                np.full(n, np.nan),
                None,
                None,
                groups,
            )
        )


def _codes(n: int) -> Int32s:
    return np.arange(n, dtype=np.int32)


def _joined(
    mine: npt.NDArray[Number], others: npt.NDArray[Number], places: Int32s
) -> npt.NDArray[Number]:
    """Numbers of items that shares know alike, each of which knows some."""
    n = max(mine.size, int(places.max(initial=-1)) + 1)
    whole = np.zeros(n, dtype=mine.dtype)
    whole[places] = others
    whole[: mine.size] = mine
    return whole
