"""From exact sums to what a report says: intervals, tests, verdicts."""
