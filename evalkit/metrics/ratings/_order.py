# mypy: disable-error-code="no-untyped-def"
"""What metrics of the order of pairs share: sorting, signs of pairs, and pairs by their levels."""

from typing import Any

from evalkit.metrics import kernel


@kernel(allocates=False)
def sort_places(values, first, n, places):
    """Fill places[:n] with 0 to n - 1, ascending by values[first + place] (Shell 1959)."""
    gap = 1
    for place in range(n):
        places[place] = place
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for end in range(gap, n):
            own, at = places[end], end
            while at >= gap and values[first + places[at - gap]] > values[first + own]:
                places[at] = places[at - gap]
                at -= gap
            places[at] = own
        gap //= 3


@kernel(allocates=False)
def longest_of(starts):
    """The most pairs of a group."""
    longest = 0
    for group in range(starts.size - 1):
        longest = max(longest, starts[group + 1] - starts[group])
    return longest


@kernel(allocates=False)
def number_levels(values, first, n, places, levels):
    """Fill levels[:n] with the place of each value among the distinct ones; how many there are."""
    level = -1
    for at in range(n):
        if at == 0 or values[first + places[at]] > values[first + places[at - 1]]:
            level += 1
        levels[places[at]] = level
    return level + 1


@kernel(allocates=False)
def add_signs(rows, columns, counts, n, tree, net):
    """Of each cell of a table, other pairs in one order with it less those in the other order.

    Args:
        rows, columns, counts: int64, of the first `n` cells; rows ascend.
        tree: int64, room for more numbers than there are columns (Fenwick 1994).
        net: int64[n], filled.
    """
    for turn in range(2):
        tree[:] = 0
        total = begin = 0
        while begin < n:
            end = begin
            row = rows[begin if turn == 0 else n - 1 - begin]
            while end < n and rows[end if turn == 0 else n - 1 - end] == row:
                cell = end if turn == 0 else n - 1 - end
                below, node = 0, columns[cell]
                while node > 0:
                    below += tree[node]
                    node -= node & -node
                upto, node = 0, columns[cell] + 1
                while node > 0:
                    upto += tree[node]
                    node -= node & -node
                if turn == 0:
                    net[cell] = below - (total - upto)
                else:
                    net[cell] += (total - upto) - below
                end += 1
            for place in range(begin, end):
                cell = place if turn == 0 else n - 1 - place
                total += counts[cell]
                node = columns[cell] + 1
                while node < tree.size:
                    tree[node] += counts[cell]
                    node += node & -node
            begin = end


class Crossed:
    """All pairs as a table of distinct ratings and distinct predictions.

    Args:
        ratings, predictions: float64[n_pairs].
    """

    def __init__(self, ratings: Any, predictions: Any) -> None:
        import numpy as np  # metrics are listed without it

        self.levels, codes = [], []
        for values in (ratings, predictions):
            found, own = np.unique(values, return_inverse=True)
            self.levels.append(found)
            codes.append(own.astype(np.int64))
        self.width = max(1, self.levels[1].size)
        self.cells, self.counts = np.unique(codes[0] * self.width + codes[1], return_counts=True)
        self.rows, self.columns = np.divmod(self.cells, self.width)
        self.n = int(self.counts.sum())

    def net(self) -> Any:
        """int64[n_cells]: pairs in one order with a pair of the cell, less those in the other."""
        import numpy as np

        found = np.zeros(self.cells.size, dtype=np.int64)
        tree = np.zeros(self.width + 1, dtype=np.int64)
        add_signs(self.rows, self.columns, self.counts, self.cells.size, tree, found)
        return found

    def by_level(self, axis: int, weights: Any = None) -> Any:
        """The number of pairs, or the sum of their weights, at each rating or prediction."""
        import numpy as np

        codes = (self.rows, self.columns)[axis]
        own = self.counts if weights is None else self.counts * weights
        return np.bincount(codes, own, minlength=self.levels[axis].size)

    def beside(self, axis: int, weights: Any = None) -> Any:
        """The same of all pairs below less that of all above each rating or prediction."""
        own = self.by_level(axis, weights)
        return 2.0 * own.cumsum() - own - own.sum()

    def column(self, table: Any) -> Any:
        """A number of each cell as a function of ratings and predictions."""
        import numpy as np

        def column(ratings: Any, predictions: Any) -> Any:
            rows = np.searchsorted(self.levels[0], ratings)
            columns = np.searchsorted(self.levels[1], predictions)
            return table[np.searchsorted(self.cells, rows * self.width + columns)]

        return column
