"""Which items two sets of interactions have in common, user by user."""

from evalkit.kernels import kernel
from evalkit.kernels.threads import ordered_map
from evalkit.truth._build import (
    UserItems,
)
from evalkit.truth._index import count_of, find_item, may_hold, relevance_at, start_of
from evalkit.truth._sorting import item_at
from evalkit.truth._table import cut, find_entry


@kernel(allocates=False)
def count_shared_items(  # type: ignore[no-untyped-def]
    users, starts, index, grades, relevant_from, first, last, other
):
    """How many relevant items of users first..last another index holds for the same users."""
    n_shared = 0
    for user in range(first, last):
        entry = find_entry(other.table, users[user], other.layout)
        if entry < 0:
            continue
        start, count = start_of(other.table, entry), count_of(other.table, entry, other.counts)
        for place in range(starts[user], starts[user] + index.counts[user]):
            relevance = relevance_at(grades.codes, grades.values, grades.own, place)
            if grades.codes.size + grades.own.size > 0 and relevance < relevant_from:
                continue
            item = item_at(index.lows, index.highs, place)
            if may_hold(other.table, entry, count, other.filters, item):
                if find_item(other.lows, other.highs, item, start, count) >= 0:
                    n_shared += 1
    return n_shared


def count_shared(one: UserItems, other: UserItems, *, relevant_from: float, threads: int) -> int:
    """Pairs of a user and a relevant item of `one` that stand in `other`, by their keys."""

    def count(piece: tuple[int, int]) -> int:
        return int(
            count_shared_items(
                one.users,
                one.starts,
                one.index,
                one.grades,
                relevant_from,
                *piece,
                other.index,
            )
        )

    return sum(ordered_map(count, cut(one.n_users, 4 * threads), threads=threads))
