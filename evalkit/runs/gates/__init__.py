"""What must hold of a run: fixed bounds, drops against a baseline, counts of the data."""

from evalkit.runs.gates._baseline import Baselines, find_baselines, needs_values, with_values
from evalkit.runs.gates._judge import judge
