"""Logged feedback: what another model would have earned, from a log with known propensities.

Comes in: a log of shown items with reward and propensity, and targets: columns of probabilities, or
tables. Leaves: estimates with users as units, held against what the logging policy earned. Open
`measure.py` first: rounds become sums of users; then `conclude.py`.
"""
