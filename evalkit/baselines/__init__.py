"""Baselines that are made of the training log alone: random, popular, recent, last."""

from evalkit.baselines._counting import time_of
from evalkit.baselines._rankings import (
    find_latest,
    make_rankings,
    named_columns,
    needs_time,
    weigher,
)
