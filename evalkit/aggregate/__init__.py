"""From ranks to sums: values of users, in cells, as exact sums and other accumulators.

In: ranks of relevant items, lists, tables of segments.
Out: sums by model, pair and cell, and states of accumulators; all merge.
Open first: `user_values/blocks.py`, then `sums.py`.
"""
