"""Metrics of people as judges: agreement, usability, preferences.

The function below a declaration of agreement is given the kind of the levels (nominal, ordinal,
interval, ratio) and the metric's parameters, and gives a `JudgeRecipe`; of answers it is given
them.
"""
