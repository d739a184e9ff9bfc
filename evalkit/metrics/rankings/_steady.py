# mypy: disable-error-code="no-untyped-def"
"""Columns of cutoffs between which nothing changes."""

from evalkit.metrics import kernel


@kernel(allocates=False)
def repeat_to_next_hit(value, user, column, ranks, hit, end, cutoffs, out):
    """Give a user's columns one value, up to the cutoff that reaches the next hit; gives that."""
    while column < cutoffs.size:
        if hit < end and ranks[hit] <= cutoffs[column]:
            break
        out[user, column] = value
        column += 1
    return column
