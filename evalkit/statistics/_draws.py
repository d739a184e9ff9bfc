"""Random weights of users that no order, thread, shard or version of a library can change.

A draw is a hash of (seed, user key, replicate) and of nothing else. A user's draws are the
SplitMix64 stream that starts at a hash of seed and key: output j is the finaliser of
start + (j + 1) * 0x9E3779B97F4A7C15, all modulo 2^64.

- Poisson(1) weights: replicate r takes 32 bits of output r // 2, the low half where r is even. The
  weight is the number of thresholds, floor(2^32 P(X <= k)) for k = 0 .. 12, that these bits reach,
  so every probability is off by less than 2^-32, and the mean by less than 1e-9.
- Signs: replicate r takes bit r % 64 of output r // 64; 1 turns the user's sign.

Weights multiply whole numbers below 2^36 and are added up in float64, which is exact below 2^53,
and then in int64: such sums have no order.

Source:
    Steele, Lea and Flood 2014, Fast Splittable Pseudorandom Number Generators, OOPSLA, 453-472;
    Chamandy et al. 2012, Estimating Uncertainty for Massive Data Streams, Google (Poisson weights).
"""

from typing import NamedTuple

import numpy as np

from evalkit.kernels import ConstantTable, kernel
from evalkit.kernels.arrays import Ints

CHUNK = 64  # replicates that are drawn side by side
GRID_BITS = 36  # values are whole multiples of 2^-36 of a power of two
TOGETHER = 4096  # users whose weighted values, of 13 * 2^36 at most, float64 adds exactly
MOST_USERS = 1 << 25  # weights of 2^26 at most in a replicate, times 2^36: int64 holds that
MOMENTS = 9
POISSON, SIGNS = 0, 1


N_THRESHOLDS = 13
# floor(2^32 P(X <= k)) - 2^31: the draws are read as signed numbers
THRESHOLDS = ConstantTable(
    lambda: [
        -567453480.0,
        1012576689.0,
        1802591773.0,
        2065930135.0,
        2131764725.0,
        2144931643.0,
        2147126129.0,
        2147439628.0,
        2147478815.0,
        2147483169.0,
        2147483604.0,
        2147483644.0,
        2147483647.0,
    ]
)


@kernel(allocates=False)
def mix(bits):  # type: ignore[no-untyped-def]
    """SplitMix64's finaliser: a permutation of 64 bits."""
    bits = np.uint64(bits)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@kernel(allocates=False)
def start_streams(keys, seed, starts):  # type: ignore[no-untyped-def]
    """Where each user's stream starts, uint64[n_users], from keys and a seed of 64 bits."""
    seeded = mix(seed + np.uint64(0x9E3779B97F4A7C15))
    for user in range(keys.size):
        starts[user] = mix(mix(keys[user] ^ seeded) + np.uint64(0x9E3779B97F4A7C15))


@kernel(allocates=False)
def draw_poisson(start, first, draws, weights):  # type: ignore[no-untyped-def]
    """Poisson(1) weights of one user for CHUNK replicates from `first` on."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    state = start + golden * np.uint64(first >> 1)
    for pair in range(CHUNK >> 1):
        bits = mix(state + golden * np.uint64(pair + 1))
        # read as signed, which is one comparison to the processor, so the thresholds are shifted
        draws[2 * pair] = np.int32(np.int64(bits & np.uint64(0xFFFFFFFF)) - 0x80000000)
        draws[2 * pair + 1] = np.int32(np.int64(bits >> np.uint64(32)) - 0x80000000)
    for place in range(CHUNK):
        draw = draws[place]
        weight = np.int32(0)
        for k in range(N_THRESHOLDS):
            weight += np.int32(draw >= np.int32(THRESHOLDS[k]))
        weights[place] = weight


@kernel(allocates=False)
def draw_signs(start, first, weights):  # type: ignore[no-untyped-def]
    """1 or -1 of one user for CHUNK replicates from `first` on."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    bits = mix(start + golden * np.uint64((first >> 6) + 1))
    for place in range(CHUNK):
        turned = (bits >> np.uint64(place)) & np.uint64(1)
        weights[place] = 1.0 - 2.0 * np.float64(turned)


@kernel(allocates=False)
def put_on_grid(values, scales, grid):  # type: ignore[no-untyped-def]
    """Round float64[n_users, n_columns] to whole numbers; NaN stays; gives how many do not fit."""
    n_beyond = 0
    n_undefined = 0
    for user in range(values.shape[0]):
        for column in range(values.shape[1]):
            scaled = np.rint(values[user, column] * scales[column])
            n_undefined += scaled != scaled
            n_beyond += np.abs(scaled) > 68719476736.0
            grid[user, column] = scaled
    return n_beyond, n_undefined


class Drawn(NamedTuple):
    """Sums of every replicate.

    Args:
        sums: int64[n_segments, n_columns, n_chunks * CHUNK].
        totals: int64[n_segments, n_chunks * CHUNK], weights of all users; or of size 0.
        missing: the weights of users left out; of size 0 where no user ever is.
    """

    sums: Ints
    totals: Ints
    missing: Ints


@kernel(allocates=False)
def add_weighted(starts, codes, grid, kind, n_replicates, into, room, draws):  # type: ignore[no-untyped-def]
    """Add a block of users, sorted by segment code, to the sums of every replicate.

    Args:
        starts: uint64[n_users].
        codes: int32[n_users], ascending.
        grid: float64[n_users, n_columns] of whole numbers, NaN where left out.
        kind: POISSON or SIGNS.
        n_replicates: how many.
        into: `Drawn`.
        room: float64[2 * n_columns + 2, CHUNK].
        draws: int32[CHUNK].
    """
    sums, totals, missing = into.sums, into.totals, into.missing
    n_users, n_columns = grid.shape
    weights, total = room[2 * n_columns], room[2 * n_columns + 1]
    for first in range(0, n_replicates, CHUNK):
        begin = 0
        while begin < n_users:
            code = codes[begin]
            end = begin
            while end < n_users and end < begin + TOGETHER and codes[end] == code:
                end += 1
            for row in range(2 * n_columns):
                for place in range(CHUNK):
                    room[row, place] = 0.0
            for place in range(CHUNK):
                total[place] = 0.0
            for user in range(begin, end):
                if kind == SIGNS:
                    draw_signs(starts[user], first, weights)
                else:
                    draw_poisson(starts[user], first, draws, weights)
                for place in range(CHUNK):
                    total[place] += weights[place]
                for column in range(n_columns):
                    value = grid[user, column]
                    if value == 0.0:
                        continue
                    if value == value:
                        row = room[column]
                        for place in range(CHUNK):
                            row[place] += weights[place] * value
                    else:
                        row = room[n_columns + column]
                        for place in range(CHUNK):
                            row[place] += weights[place]
            if totals.size > 0:
                for place in range(CHUNK):
                    totals[code, first + place] += np.int64(total[place])
            for column in range(n_columns):
                for place in range(CHUNK):
                    sums[code, column, first + place] += np.int64(room[column, place])
                    if missing.size > 0:
                        missing[code, column, first + place] += np.int64(
                            room[n_columns + column, place]
                        )
            begin = end


@kernel(allocates=False)
def add_moments(codes, grid, moments):  # type: ignore[no-untyped-def]
    """Add the users' number and powers to int64[n_segments, n_columns, MOMENTS].

    Number and sum of the whole numbers; then, of those cut to 30 bits, the sum and the limbs of
    the sums of squares (times 1, 2^32) and of cubes (times 1, 2^32, 2^32, 2^64).
    """
    for user in range(grid.shape[0]):
        for column in range(grid.shape[1]):
            value = grid[user, column]
            if value != value:
                continue
            whole = np.int64(value)
            short = whole >> (GRID_BITS - 30)
            square = short * short
            low = short * (square & 0xFFFFFFFF)
            high = short * (square >> 32)
            row = moments[codes[user], column]
            row[0] += 1
            row[1] += whole
            row[2] += short
            row[3] += square & 0xFFFFFFFF
            row[4] += square >> 32
            row[5] += low & 0xFFFFFFFF
            row[6] += low >> 32
            row[7] += high & 0xFFFFFFFF
            row[8] += high >> 32
