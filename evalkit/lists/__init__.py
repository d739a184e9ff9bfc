"""Lists of items as rankings show them: collected, and what stands beside them."""

from evalkit.lists._beside import ListWork, Measure, depth_of, n_sums_of
from evalkit.lists._collect import ListCollector
from evalkit.lists._facts import ItemFacts
