# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Personalization: how different the lists of two users are."""

import numpy as np

from evalkit.metrics import NO_CUTOFF, choice, list_metric


def weighing(values):
    """Lists count alike over the cutoff, else by their lengths."""
    return "lists" if values["over"] == "k" else "length"


@list_metric(
    name="personalization",
    aliases=("inter_user_diversity", "inter_list_diversity"),
    summary="How different lists are from user to user: 1 less the mean cosine of two of them.",
    formula="1 - mean over pairs of users of items in both / sqrt(length of one * of the other), "
    "0 where a list is empty",
    latex=r"1 - \frac{2}{N(N-1)} \sum_{u<v} \frac{|L_u \cap L_v|}{\sqrt{|L_u| |L_v|}}",
    source="Zhou et al. 2010, Solving the apparent diversity-accuracy dilemma, p. 4512",
    bounds=(0.0, 1.0),
    undefined="with fewer than two users",
    parameters=(
        choice(
            "over",
            {
                "lengths": "the root of the product of the two lengths",
                "lengths_and_empty": "the same, but an empty list counts as like itself",
                "k": "the cutoff, which a list has in common with itself too, however short; "
                "undefined without one",
            },
            doc="What the items of two lists in common are divided by.",
        ),
    ),
    family="counts",
    weighing=weighing,
)
def personalization(shown, items, values):
    """One less the mean similarity, of sums by item; no pair is looked at."""
    n, w = float(shown.n_users), shown.by_length
    if n < 2.0:
        return np.nan, np.zeros(w.size)
    pairs = n * (n - 1.0)
    if values["over"] == "k":
        if shown.cutoff == NO_CUTOFF:
            return np.nan, np.zeros(w.size)
        squares = float((np.sort(shown.lists).astype(np.float64) ** 2).sum())
        common = squares / shown.cutoff - n
        return 1.0 - common / pairs, -2.0 * shown.lists / (pairs * shown.cutoff)
    alike = n  # a list is like itself, unless it is empty
    if values["over"] == "lengths":
        alike -= shown.n_empty
    return 1.0 - (float((np.sort(w) ** 2).sum()) - alike) / pairs, -2.0 * w / pairs
