"""People as judges: how they agree, what they say together, and whom they prefer.

Comes in: a table of ratings (unit, judge, rating) or of preferences (judge, first, second,
preferred). Leaves: a report, and a truth that `[truth]` reads. Tables are small: a share of the
units leaves its rows. Open `ratings.py` first, then `conclude.py`.
"""
