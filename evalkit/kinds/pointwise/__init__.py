"""Tables of rows that are no rankings: read, grouped by user, sorted, and reported.

What `ratings` and `labels` share. Rows stream into a `Store`, which brings those of one user
together; each part of it is sorted whole, so nothing depends on the order of rows or threads.
"""
