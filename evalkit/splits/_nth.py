"""The n-th of all rows in some order, and quantiles of times, by passes that count."""

import math
from collections.abc import Callable

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints
from evalkit.splits._filters import LogRows
from evalkit.splits._log import LogFeed

Times = Ints


def nth_times(feed: LogFeed, wanted: list[int]) -> dict[int, tuple[int, int]]:
    """For each place in the order of time its time, and how many rows are earlier."""
    return nth_of(feed, wanted, lambda rows: rows.times, feed.first, feed.last)


def nth_of(
    feed: LogFeed, wanted: list[int], ticks_of: Callable[[LogRows], Times], first: int, last: int
) -> dict[int, tuple[int, int]]:
    """For each place in the order of some whole numbers the number, and how many are less.

    They are counted by 16 bits, then those of the bucket that the place is in, and so on.
    """
    shift = max(0, int(last - first).bit_length() - 16)
    found = {at: (first, 0) for at in wanted}
    while wanted:
        counts = {low: np.zeros(1 << 17, dtype=np.int64) for low, _ in found.values()}
        for rows in feed.batches():
            ticks = ticks_of(rows)
            for low, each in counts.items():
                count_ticks(ticks, low, shift, each)
        for at, (low, n_before) in found.items():
            ends = n_before + np.cumsum(counts[low])
            bucket = int(np.searchsorted(ends, at, side="right"))
            n_earlier = int(ends[bucket] - counts[low][bucket])
            found[at] = (low + (bucket << shift), n_earlier)
        if not shift:
            break
        shift = max(0, shift - 16)
    return found


@kernel(allocates=False)
def count_ticks(times, low, shift, counts):  # type: ignore[no-untyped-def]
    """Rows of each bucket of 2^shift ticks from `low` on; others are passed over."""
    for row in range(times.size):
        if times[row] >= low:
            bucket = (times[row] - low) >> shift
            if bucket < counts.size:
                counts[bucket] += 1


def quantile(feed: LogFeed, share: float, n: int) -> float:
    """A quantile of the `n` earliest times, between two of them as np.quantile has it."""
    place = share * (n - 1)
    low = math.floor(place)
    high = min(low + 1, n - 1)
    found = nth_times(feed, sorted({low, high}))
    one, other = found[low][0], found[high][0]
    step, part = other - one, place - low
    return other - step * (1 - part) if part >= 0.5 else one + step * part
