"""Metrics of what lists are like: one file each."""
