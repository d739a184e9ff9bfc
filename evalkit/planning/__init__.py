"""Before and around a run: tables opened, passes that fit into memory, counts of rows and time."""
