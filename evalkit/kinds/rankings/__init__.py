"""Rankings held against a truth: one share of the users measured, sums merged, and concluded."""
