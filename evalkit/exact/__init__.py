"""Sums of float64 values and of their squares that no order, split or thread can change by a bit.

Every finite float64 is an integer times a power of two. Kernels add such integers into the limbs
of one wide fixed-point number a column; nothing is rounded until the end, and then once.
"""

from evalkit.exact._kernels import (
    AHEAD,
    LIMB_BITS,
    N_LIMBS,
    N_POWERS,
    N_WAITING,
    SCALE_BITS,
    SUM_LIMBS,
    TOGETHER,
    add_powers,
    add_shifted,
    add_some,
)
from evalkit.exact._sums import CellRows, ExactSum, ExactSums

__all__ = [
    "AHEAD",
    "LIMB_BITS",
    "N_LIMBS",
    "N_POWERS",
    "N_WAITING",
    "SCALE_BITS",
    "SUM_LIMBS",
    "TOGETHER",
    "CellRows",
    "ExactSum",
    "ExactSums",
    "add_powers",
    "add_shifted",
    "add_some",
]
