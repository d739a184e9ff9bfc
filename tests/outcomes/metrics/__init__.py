"""Metrics of outcomes."""
