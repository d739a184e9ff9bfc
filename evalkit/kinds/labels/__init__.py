"""Scored rows with labels: classification, calibration and ranking, pooled and by user."""
