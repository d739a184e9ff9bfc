"""Kernels of splits: rows laid by user, put in order, and cut."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from evalkit.kernels import kernel
from evalkit.sources.ids import mix


@kernel(allocates=False)
def find_codes(keys, checks, codes, table, known, known_checks, n_known):
    """Codes 0, 1, 2, ... of keys by first appearance; how many are known, -1 where two ids share.

    Args:
        checks: another hash of each id; empty where a key is the id itself.
        table: int32, -1 where free; its size is a power of two, and twice that of what it holds.
        known, known_checks: key, and other hash, of each code.
    """
    mask = np.uint64(table.size - 1)
    for row in range(keys.size):
        key = keys[row]
        place = mix(key) & mask
        while True:
            code = table[place]
            if code < 0:
                code = n_known
                table[place] = code
                known[code] = key
                if checks.size:
                    known_checks[code] = checks[row]
                n_known += 1
                break
            if known[code] == key:
                if checks.size and known_checks[code] != checks[row]:
                    return -1
                break
            place = (place + np.uint64(1)) & mask
        codes[row] = code
    return n_known


@kernel(allocates=False)
def look_codes(keys, codes, direct, known, n_known):
    """Codes of small keys, from a list that is -1 where a key is new; how many are known."""
    for row in range(keys.size):
        code = direct[keys[row]]
        if code < 0:
            code = n_known
            direct[keys[row]] = code
            known[code] = keys[row]
            n_known += 1
        codes[row] = code
    return n_known


@kernel(allocates=False)
def take_keys(codes, known, keys):
    """The key of each row's code."""
    for row in range(codes.size):
        keys[row] = known[codes[row]]


@kernel(allocates=False)
def refill(known, n_known, table):
    """Lay known keys into a new, larger table."""
    mask = np.uint64(table.size - 1)
    for code in range(n_known):
        place = mix(known[code]) & mask
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = code


@kernel(allocates=False)
def lay(codes, starts, laid):
    """Rows side by side by code, in their order; `starts` becomes the ends."""
    for row in range(codes.size):
        place = starts[codes[row]]
        laid[place] = row
        starts[codes[row]] = place + 1


@kernel(allocates=False)
def sort_groups(starts, laid, times, seconds, scratch):
    """Rows of each group by time, then by `seconds` (empty: none), then as they lie.

    A merge sort from runs that are in order already, so a log in time order is only walked over.
    """
    for group in range(starts.size - 1):
        begin, end = starts[group], starts[group + 1]
        is_sorted = True
        for place in range(begin + 1, end):
            if _is_before(laid[place], laid[place - 1], times, seconds):
                is_sorted = False
                break
        if is_sorted:
            continue
        width = 1
        while width < end - begin:
            left = begin
            while left < end:
                middle = min(left + width, end)
                right = min(left + 2 * width, end)
                _merge(laid, left, middle, right, times, seconds, scratch)
                left = right
            width *= 2


@kernel(allocates=False)
def _merge(laid, left, middle, right, times, seconds, scratch):
    if middle >= right or not _is_before(laid[middle], laid[middle - 1], times, seconds):
        return
    for place in range(left, right):
        scratch[place] = laid[place]
    one, two = left, middle
    for place in range(left, right):
        takes_two = two < right and (
            one >= middle or _is_before(scratch[two], scratch[one], times, seconds)
        )
        if takes_two:
            laid[place] = scratch[two]
            two += 1
        else:
            laid[place] = scratch[one]
            one += 1


@kernel(allocates=False)
def _is_before(one, two, times, seconds):
    if times[one] != times[two]:
        return times[one] < times[two]
    return seconds.size > 0 and seconds[one] < seconds[two]


@kernel(allocates=False)
def note_parts(users, items, letters, of_users, of_items, counts):
    """Which parts each user and item is in, a bit for each letter; rows of each letter."""
    for row in range(users.size):
        letter = letters[row]
        counts[letter] += 1
        bit = np.uint8(1) << np.uint8(letter)
        of_users[users[row]] |= bit
        of_items[items[row]] |= bit


@kernel(allocates=False)
def mark_cold(users, items, letters, of_users, of_items, marks):
    """Held-out rows whose user (bit 0) or item (bit 1) train lacks; fold-in knows users."""
    for row in range(users.size):
        if letters[row] == 2 or letters[row] == 3:
            marks[row] = (of_users[users[row]] & 0b110010 == 0) + 2 * (
                of_items[items[row]] & 0b10 == 0
            )


@kernel(allocates=False)
def mark_first(laid, starts, letters, drop):
    """Rows of one group that stand behind the first one of their part are marked to be dropped."""
    for group in range(starts.size - 1):
        seen = np.uint64(0)
        for place in range(starts[group], starts[group + 1]):
            row = laid[place]
            bit = np.uint64(1) << np.uint64(letters[row])
            if seen & bit:
                drop[row] = True
            seen |= bit


@kernel(allocates=False)
def first_times(codes, times, first):
    """The least time of each code."""
    for row in range(codes.size):
        if times[row] < first[codes[row]]:
            first[codes[row]] = times[row]


@kernel(allocates=False)
def mix_all(hashes, seed, mixed):
    """Hashes of hashes and a seed."""
    salt = mix(np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019))
    for row in range(hashes.size):
        mixed[row] = mix(mix(hashes[row]) ^ salt)
