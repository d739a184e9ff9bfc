"""Baselines that are made of the training log alone: random, popular, recent, last."""

from evalkit.baselines._rankings import make_rankings, named_columns, needs_time

__all__ = ["make_rankings", "named_columns", "needs_time"]
