"""Metrics of predicted ratings: one file each, found by listing this folder."""
