"""Jobs: the lock, the work, the run's directory; checks, trackers, alerts, selection and audit.

In: a config and a folder of runs.
Out: a published run, and its exit status.
Open first: `job.py`.
"""
