"""Outcomes of users in two groups: a kind of evaluation that a newcomer adds, in one folder."""
