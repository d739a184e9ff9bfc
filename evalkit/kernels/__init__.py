"""Kernels: functions as machine code, compiled once and kept; loaded without numba.

In: plain functions of arrays and numbers.
Out: the same functions as machine code, kept on disk by content.
Open first: `decorator.py`.

- `decorator`: `@kernel`, what it covers by its digest, and when it compiles.
- `compiler`: numba's passes down to object code; rests on numba's private names.
- `cache`: object code on disk, and whom it is believed from (`private`).
- `calling`: arguments to words and back. `machine`: object code to addresses, by LLVM alone.
- `intrinsics`: atomics, prefetch, fused sums. `stack`: room without allocation.
- `logarithm`: ln with the same bits everywhere.
- `threads`: serial kernels side by side, in order or as each is finished. `memory`: what the
  machine has for a run. `arrays`: arrays by what they hold, in signatures.
"""

from .decorator import (
    ConstantTable,
    Kernel,
    cache_directory,
    intrinsic,
    kept_alone,
    kernel,
    loading,
    share_cache,
)
