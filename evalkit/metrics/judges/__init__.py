"""Metrics of people as judges: agreement, usability, preferences.

The function below a declaration gives a `Coefficient` of `statistics.agreement`: it is called with
the levels (float64[n_levels], ascending), their kind (nominal, ordinal, interval, ratio), the
number of judges, then the metric's parameters.
"""
