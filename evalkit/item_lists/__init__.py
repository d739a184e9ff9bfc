"""Lists of items as rankings show them, what stands beside them, and baselines made of train.

In: rankings in batches; tables of items and of train.
Out: lists by user, facts of items, rankings of baselines.
Open first: `_collect.py`.
"""

from evalkit.item_lists._collect import ListCollector
from evalkit.item_lists._context import ListWork, Measure, depth_of
from evalkit.item_lists._facts import ItemFacts
