# mypy: disable-error-code="no-untyped-def"
"""Logarithms, with the same bits wherever they are computed.

A C library's logarithm differs between systems, and a vectorised loop may use another one for its
body than for its last rows. This one is additions, multiplications and divisions alone, each
rounded as IEEE 754 says, in one order, never fused: kernels are compiled without fast-math.
Its error is below one unit in the last place. Method: fdlibm, e_log.c and s_log1p.c, Sun 1993.
"""

import math
from typing import Any

from .decorator import intrinsic, kernel
from .intrinsics import float_bits

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
C1, C2, C3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
C4, C5, C6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
C7 = 1.479819860511658591e-01
BITS = 1.4426950408889634  # log2 of e

TINY, SCALE = 2.0**-1022, 2.0**54
FRACTION = (1 << 52) - 1
ONE = 1023 << 52
ABOVE_ROOT_HALF = ONE - 0x3FE6A09E667F3BCD  # moves fractions into [sqrt(1/2), sqrt(2))


def _number(bits: Any) -> Any:
    import numpy as np

    return np.int64(bits).view(np.float64)


@intrinsic(_number)
def number_of(typing_context, bits):
    """The float64 that has these bits."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@kernel(allocates=False)
def split(value):
    """A power of two and 1 + f, about 1: f, f^2 / 2, and what ln(1 + f) is beyond both."""
    small = value < TINY
    bits = float_bits(value * SCALE if small else value) + ABOVE_ROOT_HALF
    exponent = (bits >> 52) - 1023 - (54 if small else 0)
    f = number_of((bits & FRACTION) + (ONE - ABOVE_ROOT_HALF)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = z * (C1 + w * (C3 + w * (C5 + w * C7)))
    even = w * (C2 + w * (C4 + w * C6))
    half = 0.5 * f * f
    return exponent, f, half, s * (half + odd + even)


@kernel(allocates=False)
def ln(value):
    """ln of a number that is not negative; -infinity of 0."""
    exponent, f, half, beyond = split(value)
    found = exponent * LN2_HIGH - ((half - (beyond + exponent * LN2_LOW)) - f)
    if value == 0.0:
        return -math.inf
    return math.inf if value == math.inf else found


@kernel(allocates=False)
def log2(value):
    """log2 of a finite number above 0; powers of two are exact."""
    exponent, f, half, beyond = split(value)
    return exponent + (f - (half - beyond)) * BITS


@kernel(allocates=False)
def fill_log2(values, out):
    """log2 of each of some numbers above 0."""
    for place in range(values.size):
        out[place] = log2(values[place])


def log2_of(values: Any) -> Any:
    """float64[n], log2 of each of some numbers above 0."""
    import numpy as np

    given = np.ascontiguousarray(values, dtype=np.float64)
    out = np.empty_like(given)
    fill_log2(given, out)
    return out


@kernel(allocates=False)
def minus_ln(value):
    """-ln(value), without a minus before zero."""
    return 0.0 - ln(value)


@kernel(allocates=False)
def minus_ln_of_rest(value):
    """-ln(1 - value) for 0 <= value <= 1, exact also where 1 - value is rounded."""
    rest = 1.0 - value
    if rest == 0.0:
        return math.inf
    lost = (1.0 - rest) - value  # what 1 - value lost when it was rounded
    return 0.0 - (ln(rest) + lost / rest)


@kernel(allocates=False)
def log_loss_of(score, label):
    """-ln of the probability that a score gives to a label; one path for both, for vectors."""
    rest = 1.0 - score
    lost = (1.0 - rest) - score
    is_rest = (label == 0) & (rest != 0.0)
    return 0.0 - (ln(score if label != 0 else rest) + (lost / rest if is_rest else 0.0))
