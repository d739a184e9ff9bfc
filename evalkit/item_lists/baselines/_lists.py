"""Lists of users, made of what the training log says: kernels, and what each baseline fills."""

import numpy as np

from evalkit.kernels import kernel
from evalkit.sources.ids import mix

_STEP = np.uint64(0x9E3779B97F4A7C15)


@kernel(allocates=False)
def mark_seen(starts, items, user, marks, number):  # type: ignore[no-untyped-def]
    """Mark a user's items with the number."""
    for row in range(starts[user], starts[user + 1]):
        marks[items[row]] = number


@kernel(allocates=False)
def fill_ordered(order, starts, items, first, last, k, marks, lists, lengths):  # type: ignore[no-untyped-def]
    """Users first..last get the first `k` items of one order that they have not had.

    Args:
        marks: int64[n_items], below `first` + 1 all of them.
        lists: int32[last - first, k]; lengths: int64[last - first].
    """
    # Wide: the order beside what either way of filling lists is given.
    for user in range(first, last):
        if starts.size > 1:
            mark_seen(starts, items, user, marks, user + 1)
        n = 0
        for place in range(order.size):
            if n == k:
                break
            item = order[place]
            if marks[item] != user + 1:
                lists[user - first, n] = item
                n += 1
        lengths[user - first] = n


@kernel(allocates=False)
def fill_drawn(  # type: ignore[no-untyped-def]
    hashes, seed, deck, picks, starts, items, first, last, k, marks, lists, lengths
):
    """Users first..last get `k` items drawn from all, without one that they have had.

    A deck of all items is shuffled from its top, by a hash of seed, user and place, until `k`
    items are drawn, and laid as it was before.

    Args:
        deck: int32[n_items], 0, 1, 2, ...; picks: int32[n_items], for the way back.
    """
    # Wide: the deck beside what either way of filling lists is given.
    for user in range(first, last):
        if starts.size > 1:
            mark_seen(starts, items, user, marks, user + 1)
        state = mix(hashes[user] ^ mix(np.uint64(seed) + _STEP))
        n = drawn = 0
        while n < k and drawn < deck.size:
            value = mix(state + np.uint64(drawn + 1) * _STEP) >> np.uint64(32)
            pick = drawn + (np.int64(value) * (deck.size - drawn) >> 32)
            deck[drawn], deck[pick] = deck[pick], deck[drawn]
            picks[drawn] = pick
            item = deck[drawn]
            if marks[item] != user + 1:
                lists[user - first, n] = item
                n += 1
            drawn += 1
        lengths[user - first] = n
        for place in range(drawn - 1, -1, -1):
            pick = picks[place]
            deck[place], deck[pick] = deck[pick], deck[place]


@kernel(allocates=False)
def halve(ages, half_life, parts, weights):  # type: ignore[no-untyped-def]
    """Whole numbers of 2^-36 that rows of such ages count: 2^(-age / half_life), rounded down.

    Only correctly rounded operations are used, so that every machine finds the same bits.

    Args:
        parts: float64[1024], 2^(-i / 1024).
    """
    for row in range(ages.size):
        halvings, rest = ages[row] // half_life, ages[row] % half_life
        if halvings > 36:
            weights[row] = 0
            continue
        place = rest / half_life * 1024.0
        part = np.int64(place)
        x = (part - place) * 0.0006769015435155716  # log(2) / 1024
        series = 1.0 + x * (1.0 + x * (0.5 + x * (0.16666666666666666 + x * 0.041666666666666664)))
        weights[row] = np.int64(parts[part] * series * 68719476736.0) >> halvings
