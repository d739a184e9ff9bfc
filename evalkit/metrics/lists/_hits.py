# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Attention of hits by how new they are, over the attention of the list."""

import math

from evalkit.metrics import kernel, worth
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import place_in


def answers(values, context):
    """Right answers, and what each is worth."""
    gains = worth(str(values["gain"]), context.gains, context.threshold)
    return context.relevant, gains


@kernel(allocates=False)
def share_of_attention(lists, within, relevant, gains, worth, attention, patience, out):
    """Fill `out` with attention times gain and worth of hits, over that of all shown items."""
    for user in range(out.shape[0]):
        begin, place, total, below = lists.starts[user], 0, 0.0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                weight = attention_of(place + 1, attention, patience)
                hit = place_in(relevant, user, item)
                if hit >= 0:
                    total += weight * gains[hit] * worth[item]
                below += weight
                place += 1
            is_there = below > 0.0 and relevant.lengths[user] > 0
            out[user, column] = total / below if is_there else math.nan
