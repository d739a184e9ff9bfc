"""Logs cut into train, validation and test: rules, parts, leaks, and what a part holds.

In: a log, and the rule that cuts it.
Out: parts as files with a manifest, and what is odd with them.
Open first: `make.py`.
"""
