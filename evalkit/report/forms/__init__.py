"""Forms of a report that are text in a file: one module each, and nothing else is edited."""
