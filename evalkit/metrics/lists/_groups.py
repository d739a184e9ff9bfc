# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Groups of items by a column of the items' table."""

import numpy as np

from evalkit.metrics import text

BY = text("by", "provider", doc="The column of the items' table that has the groups.")


def group_of(values, context):
    """int32[n_items]: the group of each item, -1 for none; and how many groups there are."""
    group = context.items.groups[str(values["by"])]
    return group.codes, len(group.names)


def sizes_of(values, items):
    """int64[n_groups]: items of the table in each group."""
    group = items.groups[str(values["by"])]
    return np.bincount(group.codes[group.codes >= 0], minlength=len(group.names))


def mean_difference(means):
    """The mean absolute difference of all pairs of means, and its slope by each."""
    means = np.asarray(means, dtype=np.float64)
    n_pairs = means.size * (means.size - 1) / 2.0
    if n_pairs == 0.0 or np.isnan(means).any():
        return np.nan, np.zeros(means.size)
    ascending = np.sort(means)
    places = 2.0 * np.arange(means.size) - means.size + 1.0
    slopes = np.sign(means[:, None] - means[None, :]).sum(axis=1) / n_pairs
    return float((places * ascending).sum() / n_pairs), slopes


def least_of_most(numbers):
    """The smallest of some numbers over the largest, and which these are; complex ones by place."""
    order = sorted(range(len(numbers)), key=lambda at: complex(numbers[at]).real)
    low, high = order[0], order[-1]
    most = numbers[high]
    return (numbers[low] / most if most != 0 else np.nan), low, high
