"""From exact sums to what a report says: values with intervals, and comparisons of models."""
