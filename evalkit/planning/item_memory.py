"""What errors over users and items take: sums of every item, by segment, model and comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from evalkit.planning.memory import SUM, MemoryNeeds, Sizes

WORD = 8  # of the hash of an item of a segment, and of its sums of each request
HASHED_ITEM = 100  # its id, while it is hashed
SUMS, TOTAL = 4, 400  # of a segment and request: of users and of pairs, and as numbers
FOUND_ROW = 72  # of the truth, while its items are found, before there are sums
SEGMENTED_ROW = 8  # its item's place in each segmentation
COPIES = 16  # of the parts that a thread adds at once, beside those of each model


@dataclass(frozen=True, slots=True)
class AskedOfItems:
    """What is asked of errors over users and items.

    Args:
        n_columns: requests that have them.
        segmentations: of users, each as the names of those it crosses; all users as none.
    """

    n_columns: int
    segmentations: tuple[tuple[str, ...], ...]


def memory_of_items(
    asked: AskedOfItems | None,
    sizes: Sizes,
    n_segments: Mapping[str, float],
    n_rows: float,
    most_rows: float,
) -> MemoryNeeds:
    """What errors over users and items take.

    Args:
        n_segments: of each segmentation.
        n_rows: of the truth; `most_rows`: of a user.
    """
    if asked is None:
        return MemoryNeeds()
    from evalkit.aggregate.accumulators.items import N_WORDS, PARTS_AT_ONCE  # rarely asked for

    n, n_cells, n_sums = asked.n_columns, 0.0, 0.0
    for crossed in asked.segmentations:
        n_groups = min(n_rows, prod(n_segments[name] for name in crossed))
        n_cells += min(n_rows, sizes.n_items * n_groups)
        n_sums += n_groups
    target = n_cells * WORD * (1 + N_WORDS * n) + n_sums * n * SUMS * (SUM + TOTAL)
    parts = max(PARTS_AT_ONCE, n * most_rows) + (sizes.threads - 1) * PARTS_AT_ONCE
    counted = target * (sizes.n_models + sizes.n_pairs)
    return MemoryNeeds(
        fixed=target + sizes.n_items * (HASHED_ITEM if sizes.text else 0),  # copied one by one
        counted=counted,
        first=WORD * (sizes.n_models + COPIES) * min(parts, n * n_rows),
        paired=n_rows * SEGMENTED_ROW * len(asked.segmentations)
        + max(0.0, n_rows * FOUND_ROW - counted),
    )
