"""Metrics of scored rows with labels: one file each, found by listing this folder."""
