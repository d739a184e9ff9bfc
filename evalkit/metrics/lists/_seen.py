# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Items of a list that are in the user's own train rows."""

from evalkit.metrics import kernel
from evalkit.metrics.lists._find import stands_in


def tables(values, context):
    """The items of each user's train rows."""
    return (context.history,)


@kernel(allocates=False)
def share_of_seen(lists, within, history, wanted, of_nothing, out):
    """Fill `out` with the share of each list that is in the history (`wanted`) or not.

    Args:
        of_nothing: the value of an empty list.
    """
    for user in range(out.shape[0]):
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                n += stands_in(history, user, lists.items[begin + place]) == wanted
                place += 1
            out[user, column] = n / place if place > 0 else of_nothing
