# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Attention of hits by how new they are, over the attention of the list."""

import math

from evalkit.metrics import kernel
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import stands_in


@kernel(allocates=False)
def share_of_attention(lists, within, relevant, worth, attention, patience, out):
    """Fill `out` with attention times worth of the hits, over the attention of all shown items."""
    for user in range(out.shape[0]):
        begin, place, total, below = lists.starts[user], 0, 0.0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                weight = attention_of(place + 1, attention, patience)
                if stands_in(relevant, user, item):
                    total += weight * worth[item]
                below += weight
                place += 1
            is_there = below > 0.0 and relevant.lengths[user] > 0
            out[user, column] = total / below if is_there else math.nan
