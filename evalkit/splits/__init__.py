"""Logs cut into train, validation and test: rules, parts, leaks, and what a part holds."""
