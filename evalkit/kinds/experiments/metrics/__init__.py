"""Metrics of experiments: numbers of a variant, over its units."""
