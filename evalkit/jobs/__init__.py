"""Jobs: the lock, the work, the run's directory; `evalkit check`; runs in trackers."""
