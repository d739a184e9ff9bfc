"""Jobs: the lock, the work, the run's directory; what a scheduler calls, and a person."""
