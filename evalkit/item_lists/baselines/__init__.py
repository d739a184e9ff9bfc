"""Baselines that are made of the training log alone: random, popular, recent, last."""

from evalkit.item_lists.baselines._counting import time_of
from evalkit.item_lists.baselines._rankings import (
    find_latest,
    make_rankings,
    named_columns,
    needs_time,
    weigher,
)
