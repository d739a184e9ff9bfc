"""Sums of float64 values and of their squares that no order, split or thread can change by a bit.

Every finite float64 is an integer times a power of two. Kernels add such integers into the limbs
of one wide fixed-point number a column; nothing is rounded until the end, and then once.
"""

from evalkit.statistics.exact._kernels import (
    LIMB_BITS,
    LOSSES,
    N_LIMBS,
    N_POWERS,
    N_WAITING,
    SCALE_BITS,
    SUM_LIMBS,
    TIES,
    WINS,
    add_shifted,
)
from evalkit.statistics.exact._runs import sums_of_runs
from evalkit.statistics.exact._steps import StepSums
from evalkit.statistics.exact._summaries import Summaries, summarize
from evalkit.statistics.exact._sums import CellRows, ExactSum, ExactSums, Paired
from evalkit.statistics.exact._weighted import add_weighted
