"""From rows of logs to units: a hash table that grows, first exposures, sums that no order moves.

A unit's sums are integers: counts as they are, values as 128 bits of a fixed point (two words, the
carry told by what an atomic addition gives back). So no order of rows and no number of threads
changes a bit, and the rounded sum is the correctly rounded one.
"""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import atomic_add, float_bits, prefetch
from evalkit.sources.ids import mix

from ._expressions import DAY

AHEAD = 16  # rows whose slots are fetched before they are looked at
FULL, TWICE = -1, -2  # a table without room; two ids that share a key
OUTSIDE = -(1 << 62)  # the time of a unit in two variants
LEFT_OUT = OUTSIDE + 1  # of one that is left out otherwise
N_TALLIES = 4
UNEXPOSED, CROSSED, LOST, LATE = range(N_TALLIES)
KIND, IS_VALUE, START, END, PLACE, BY_DAY = range(6)  # of a sum: columns of `sums`


@kernel(allocates=False)
def enter(keys, checks, slots, known, codes, n_units):  # type: ignore[no-untyped-def]
    """The code of each key; new ones get the next. Gives their number, FULL or TWICE.

    `slots` is uint64[2 * n_slots], key and code + 1 (0: free); n_slots is a power of two.
    `known` holds a second hash of each unit's id, empty where keys are ids themselves.
    """
    mask = slots.size // 2 - 1
    for row in range(keys.size):
        ahead = min(row + AHEAD, keys.size - 1)
        prefetch(slots, 2 * (np.int64(mix(keys[ahead])) & mask))
        key = keys[row]
        slot = np.int64(mix(key)) & mask
        while slots[2 * slot + 1] != 0 and slots[2 * slot] != key:
            slot = (slot + 1) & mask
        if slots[2 * slot + 1] == 0:
            if 2 * (n_units + 1) > mask or n_units >= known.size:
                return FULL
            slots[2 * slot] = key
            slots[2 * slot + 1] = np.uint64(n_units + 1)
            known[n_units] = checks[row] if checks.size > 0 else np.uint64(0)
            n_units += 1
        code = np.int64(slots[2 * slot + 1]) - 1
        if checks.size > 0 and known[code] != checks[row]:
            return TWICE
        codes[row] = code
    return n_units


@kernel(allocates=False)
def enlarge(old, slots):  # type: ignore[no-untyped-def]
    """All entries of a table into a larger one."""
    mask = slots.size // 2 - 1
    for place in range(old.size // 2):
        if old[2 * place + 1] == 0:
            continue
        slot = np.int64(mix(old[2 * place])) & mask
        while slots[2 * slot + 1] != 0:
            slot = (slot + 1) & mask
        slots[2 * slot] = old[2 * place]
        slots[2 * slot + 1] = old[2 * place + 1]


@kernel(allocates=False)
def look_up(keys, checks, slots, known, codes):  # type: ignore[no-untyped-def]
    """The code of each key, -1 of a key that is not there; TWICE where ids share one, else 0."""
    mask = slots.size // 2 - 1
    for row in range(keys.size):
        ahead = min(row + AHEAD, keys.size - 1)
        prefetch(slots, 2 * (np.int64(mix(keys[ahead])) & mask))
        key = keys[row]
        if row > 0 and key == keys[row - 1] and checks.size == 0:
            codes[row] = codes[row - 1]
            continue
        slot = np.int64(mix(key)) & mask
        while slots[2 * slot + 1] != 0 and slots[2 * slot] != key:
            slot = (slot + 1) & mask
        code = np.int64(slots[2 * slot + 1]) - 1
        if code >= 0 and checks.size > 0 and known[code] != checks[row]:
            return TWICE
        codes[row] = code
    return 0


@kernel(allocates=False)
def note_exposures(codes, times, variants, flags, facts, firsts, arms, masks, found):  # type: ignore[no-untyped-def]
    """What exposures say of units: all variants (a bit each), the first time, who was there then.

    Args:
        flags: uint8[n_rows], bits: triggered, excluded.
        facts: uint64[n_facts, n_rows], of the first row; `found`: uint64[n_facts * n_units].
        masks: int64[2 * n_units], variants and flags.
    """
    # Wide: rows, and what is found of units.
    n_facts = facts.shape[0]
    for row in range(codes.size):
        prefetch(firsts, codes[min(row + AHEAD, codes.size - 1)])
        prefetch(masks, 2 * codes[min(row + AHEAD, codes.size - 1)])
        unit, time, arm = codes[row], times[row], variants[row]
        masks[2 * unit] |= np.int64(1) << arm
        masks[2 * unit + 1] |= np.int64(flags[row])
        if time < firsts[unit]:
            firsts[unit] = time
            arms[unit] = arm
            for fact in range(n_facts):
                found[unit * n_facts + fact] = facts[fact, row]
        elif time == firsts[unit]:  # at one moment the smaller: not the one that came first
            arms[unit] = min(arms[unit], arm)
            for fact in range(n_facts):
                place = unit * n_facts + fact
                found[place] = min(found[place], facts[fact, row])


@kernel(allocates=False)
def add_events(  # type: ignore[no-untyped-def]
    codes, times, kinds, values, units, width, sums, begins, scales, until, counts_by_model
):
    """Add rows of events to the sums of their units.

    Args:
        kinds: int32[n_rows], -1 of those that nobody sums.
        values: float64[n_rows], or empty.
        units: int64[n_units * width], the exposure, OUTSIDE of one that is left out, then sums.
        sums: int64[n_sums, 6]; those of a kind from `begins[kind]` to the next. By day a sum has
            two halves of each day since exposure, before midnight and after it: counts in a word,
            the second above 32 bits, values side by side.
        scales: int64[n_sums], bits behind the point.
        counts_by_model: int64[N_TALLIES], that threads share.
    """
    # Wide: rows, units, and what is summed. Long: nothing of it can be compiled apart.
    n_unexposed = n_crossed = n_lost = n_late = 0
    for row in range(codes.size):
        ahead = min(row + AHEAD, codes.size - 1)
        base = max(0, codes[ahead]) * width
        prefetch(units, base)
        if kinds[ahead] >= 0:  # its sums may lie on other lines
            prefetch(units, base + sums[begins[kinds[ahead]], PLACE])
            prefetch(units, base + sums[begins[kinds[ahead] + 1] - 1, PLACE])
        unit, kind = codes[row], kinds[row]
        if unit < 0:
            n_unexposed += 1
            continue
        base = unit * width
        exposed = units[base]
        if exposed <= LEFT_OUT:
            n_crossed += exposed == OUTSIDE
            continue
        if kind < 0:
            continue
        time = times[row]
        if time > until:
            n_late += 1
            continue
        for number in range(begins[kind], begins[kind + 1]):
            since = time - exposed
            if since < sums[number, START] or since >= sums[number, END]:
                continue
            place = base + sums[number, PLACE]
            if sums[number, BY_DAY] > 0:
                day = since // DAY
                is_after = np.int64(time // DAY - exposed // DAY > day)
                if sums[number, IS_VALUE] == 0:
                    atomic_add(units, place + day, np.int64(1) << (32 * is_after))
                    continue
                place += 2 * (2 * day + is_after)
            if sums[number, IS_VALUE] == 0:
                atomic_add(units, place, np.int64(1))
                continue
            bits = float_bits(values[row])
            exponent = (bits >> 52) & 0x7FF
            if exponent == 0x7FF:  # told by whoever reads the rows
                continue
            mantissa = bits & 0xFFFFFFFFFFFFF
            if exponent == 0:
                exponent = np.int64(1)
            else:
                mantissa |= 0x10000000000000
            if mantissa == 0:
                continue
            shift = exponent - 1075 + scales[number]
            high, low = np.int64(0), np.uint64(0)
            if shift > 64 + 9 or shift <= -53:
                n_lost += 1
                continue
            if shift >= 64:
                high = mantissa << (shift - 64)
            elif shift > 0:
                low = np.uint64(mantissa) << np.uint64(shift)
                high = mantissa >> (64 - shift) if shift > 11 else np.int64(0)
            else:
                if mantissa & ((np.int64(1) << -shift) - 1) != 0:
                    n_lost += 1
                low = np.uint64(mantissa >> -shift)
            if bits < 0:
                low = ~low + np.uint64(1)
                high = ~high + (np.int64(1) if low == 0 else np.int64(0))
            old = np.uint64(atomic_add(units, place + 1, np.int64(low)))
            if old + low < old:
                high += np.int64(1)
            atomic_add(units, place, high)
    atomic_add(counts_by_model, UNEXPOSED, np.int64(n_unexposed))
    atomic_add(counts_by_model, CROSSED, np.int64(n_crossed))
    atomic_add(counts_by_model, LOST, np.int64(n_lost))
    atomic_add(counts_by_model, LATE, np.int64(n_late))


@kernel(allocates=False)
def add_halves(units, width, place, n_days, is_value, out):  # type: ignore[no-untyped-def]
    """The total of all halves of days of each unit, as exact as they are.

    Args:
        out: int64[n_units * (1 + is_value)], counts, or 128 bits of fixed point.
    """
    for unit in range(units.size // width):
        at, high, low = unit * width + place, np.int64(0), np.uint64(0)
        if is_value == 0:
            for word in units[at : at + n_days]:
                low += np.uint64(word & 0xFFFFFFFF) + (np.uint64(word) >> np.uint64(32))
            out[unit] = np.int64(low)
            continue
        for half in range(at, at + 4 * n_days, 2):
            old = low
            low += np.uint64(units[half + 1])
            high += units[half] + np.int64(low < old)
        out[2 * unit], out[2 * unit + 1] = high, np.int64(low)


@kernel(allocates=False)
def round_sums(units, width, place, is_value, n_steps, scale, out):  # type: ignore[no-untyped-def]
    """Sums of every unit as the nearest float64: int64 counts, or 128 bits of fixed point.

    Args:
        out: float64[n_steps * n_units], the first step of all units first.
    """
    n_units = out.size // n_steps
    for number in range(out.size):
        unit, step = number // n_steps, number % n_steps
        at = unit * width + place + step * (1 + is_value)
        number = step * n_units + unit
        if is_value == 0:
            out[number] = units[at]
            continue
        high, low = units[at], np.uint64(units[at + 1])
        is_negative = high < 0
        if is_negative:
            low = ~low + np.uint64(1)
            high = ~high + (np.int64(1) if low == 0 else np.int64(0))
        top, bits = np.uint64(high), np.int64(0)  # the highest 64 bits, and how many are below
        if top == 0:
            top = low
            sticky = np.uint64(0)
        else:
            lead = np.int64(0)
            while top >> np.uint64(63) == 0:
                top = top << np.uint64(1)
                lead += 1
            if lead > 0:
                top = top | (low >> np.uint64(64 - lead))
            sticky = low << np.uint64(lead)
            bits = 64 - lead
        # to 53 bits by hand, half to even; what is below counts
        size = np.int64(0)
        rest = top
        while rest != 0:
            rest = rest >> np.uint64(1)
            size += 1
        cut = size - 53
        if cut > 0:
            below = top & ((np.uint64(1) << np.uint64(cut)) - np.uint64(1))
            half = np.uint64(1) << np.uint64(cut - 1)
            top = top >> np.uint64(cut)
            if below > half or (
                below == half and (sticky != 0 or (top & np.uint64(1)) == np.uint64(1))
            ):
                top = top + np.uint64(1)
            bits += cut
        value = np.float64(np.int64(top)) * 2.0 ** np.float64(bits - scale)
        out[number] = -value if is_negative else value


@kernel(allocates=False)
def take_date(halves, starts, date, out):  # type: ignore[no-untyped-def]
    """Sums of units on a date: of one day since exposure before midnight, of that before after it.

    Args:
        halves: [2 * n_days, n_units]; `starts`: int64[n_units], dates of exposure.
    """
    n_days = halves.shape[0] // 2
    for unit in range(out.size):
        day = date - starts[unit]
        total = 0.0
        if 0 <= day < n_days:
            total += halves[2 * day, unit]
        if 1 <= day <= n_days:
            total += halves[2 * day - 1, unit]
        out[unit] = total


@kernel(allocates=False)
def add_products(above, below, variants, counts_in, found):  # type: ignore[no-untyped-def]
    """Sums of two columns and of their products by variant: of whole numbers exact below 2^53.

    Args:
        found: float64[n_variants, 6]: units, both sums, both sums of squares, that of products.
    """
    for unit in range(variants.size):
        if counts_in[unit]:
            own, some, other = found[variants[unit]], above[unit], below[unit]
            own[0] += 1.0
            own[1] += some
            own[2] += other
            own[3] += some * some
            own[4] += other * other
            own[5] += some * other


@kernel(allocates=False)
def count_equal(hashes, slots, n_kept, is_first):  # type: ignore[no-untyped-def]
    """Which rows are the first of theirs; gives how many there are by now, or FULL."""
    mask = slots.size - 1
    for row in range(hashes.size):
        prefetch(slots, np.int64(mix(hashes[min(row + AHEAD, hashes.size - 1)])) & mask)
        hashed = hashes[row] | np.uint64(1)  # 0 is a free slot
        slot = np.int64(mix(hashes[row])) & mask
        while slots[slot] != 0 and slots[slot] != hashed:
            slot = (slot + 1) & mask
        is_first[row] = slots[slot] == 0
        if is_first[row]:
            if 2 * (n_kept + 1) > mask:
                return FULL
            slots[slot] = hashed
            n_kept += 1
    return n_kept
