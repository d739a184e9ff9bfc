# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""The attention that a rank gets, for kernels."""

from evalkit.metrics import kernel, log2

LOG2, GEOMETRIC = 0, 1


@kernel(allocates=False)
def attention_of(rank, attention, patience):
    """The attention of a rank, by the parameters `ATTENTION` and `PATIENCE`."""
    if attention == LOG2:
        return 1.0 / log2(1.0 + rank)
    return patience ** (rank - 1.0) if attention == GEOMETRIC else 1.0
