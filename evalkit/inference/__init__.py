"""From exact sums to what a report says: values with intervals, and comparisons of models.

In: sums of all shares, and what `[statistics]` asks for.
Out: estimates, comparisons, verdicts, caveats.
Open first: `conclude.py`.
"""
