"""Estimators of what another model would have earned, from a log with known propensities.

The function below a declaration gives a `Recipe`: sums over rounds of users, by name, of which the
value is one ratio or a sum of two. `w` is the target's probability of the logged item over the
logging policy's, `r` the reward, `q` the predicted reward of the logged item, `v` its mean under
the target.
"""

from evalkit.metrics.logged._declare import Recipe, Term

__all__ = ["Recipe", "Term"]
