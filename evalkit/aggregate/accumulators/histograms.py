"""How many users have values in each bin: what distributions are drawn of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints
from evalkit.metrics import Request
from evalkit.report import Distribution

BINS = 32  # of values within 0 and 1; their edges are exact


@kernel(allocates=False)
def count_bins(values, first_column, counts):  # type: ignore[no-untyped-def]
    """Count float64[n_users, n_cutoffs] by bin; what is outside of 0 and 1 in the last column."""
    n_bins = counts.shape[1] - 1
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            value = values[row, column]
            if value >= 0.0 and value <= 1.0:
                place = min(int(value * n_bins), n_bins - 1)
                counts[first_column + column, place] += 1
            elif value == value:
                counts[first_column + column, n_bins] += 1


@dataclass(slots=True)
class Histograms:
    """How many users have values in each bin, of every model and request.

    Args:
        counts: model -> int64[n_requests, BINS + 1], those outside of 0 and 1 last.
    """

    counts: dict[str, Ints] = field(default_factory=dict)

    def merge(self, other: "Histograms") -> None:
        """Take over the counts of other users."""
        for name, counts in other.counts.items():
            known = self.counts.get(name)
            self.counts[name] = counts if known is None else known + counts

    def distributions(
        self, models: Sequence[str], requests: Sequence[Request]
    ) -> Iterator[Distribution]:
        """Of those requests whose values all lie within 0 and 1."""
        edges = tuple(place / BINS for place in range(BINS + 1))
        for name in models if self.counts else ():
            counts = self.counts[name]
            for column, request in enumerate(requests):
                if request.metric.bounds == (0.0, 1.0) and not counts[column, BINS]:
                    inside = tuple(int(each) for each in counts[column, :BINS])
                    yield Distribution(name, request.label, edges, inside)


def bin_values(
    values: Mapping[str, Sequence[Floats]], columns: Ints, n_requests: int
) -> Histograms:
    """The counts of a block of users; the column that each request stands in."""
    found = Histograms()
    for name, groups in values.items():
        counts = np.zeros((columns.size, BINS + 1), dtype=np.int64)
        first = 0
        for group in groups:
            count_bins(group, first, counts)
            first += group.shape[1]
        found.counts[name] = counts[columns[:n_requests]]
    return found
