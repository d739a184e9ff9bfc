"""The Python surface: `evalkit.evaluate`, tables in memory, MLflow's evaluator.

In: paths, frames, dicts and matrices.
Out: `Report`.
Open first: `calls.py`.
"""

from evalkit.api.calls import compare, evaluate, evaluate_labels, evaluate_ratings, load
from evalkit.report import Report
