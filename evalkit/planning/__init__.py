"""Before and around a run: tables opened, passes that fit into memory, counts, partials.

In: a config, tables in memory, limits.
Out: opened tables, shares of the users, counters; partials in files.
Open first: `work.py`, then `tables.py`.
"""
