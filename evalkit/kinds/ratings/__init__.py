"""Predicted ratings against true ones: errors, over all pairs and averaged over users."""
