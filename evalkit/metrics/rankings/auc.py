# mypy: disable-error-code="no-untyped-def"
"""AUC of a ranked list: pairs of a hit and a miss that are in the right order."""

import math

from evalkit.metrics import choice, kernel, metric
from evalkit.metrics.rankings.confusion import CANDIDATES

UNDEFINED, ZERO, ZERO_OR_ONE = 0, 1, 2
ONE_MORE = 1


@metric(
    name="AUC",
    aliases=("AUROC",),
    summary="Chance that a relevant item stands above another one, in the list or among all "
    "candidates.",
    formula="pairs of a relevant and another item in the right order / all such pairs; with "
    "candidates, what the list lacks stands below it and ties, by half",
    latex=r"\frac{\sum_j (n - (r_j - j)) + \frac{1}{2} (|R| - h) (n - m)}{|R| \, n}",
    source="Fawcett 2006, An introduction to ROC analysis, Pattern Recognition Letters 27, p. 868",
    bounds=(0.0, 1.0),
    undefined="where there is no pair, and where a list is longer than the candidates allow",
    parameters=(
        CANDIDATES,
        choice(
            "one_kind",
            {
                "undefined": "undefined",
                "zero": "0",
                "zero_or_one": "0 without a hit, 1 without a miss",
            },
            doc="A list, up to the cutoff, of hits alone or of misses alone.",
        ),
        choice(
            "others",
            {
                "shown": "those up to the cutoff, or all candidates",
                "one_more": "of the whole list and one more, as Elliot counts: no list has 0; the "
                "relevant items are at most as many as the cutoff, and unlisted ones are lost",
            },
            doc="How many other items there are.",
        ),
    ),
    monotone=False,
)
@kernel(allocates=False)
def auc(hits, relevant, lengths, cutoffs, candidates, one_kind, others, out):
    """Ordered pairs of each user up to each cutoff, over all of them."""
    for user in range(out.shape[0]):
        n_relevant = float(relevant.starts[user + 1] - relevant.starts[user])
        first, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            cut = float(min(cutoffs[column], lengths[user]))
            hit = first
            below = 0.0  # misses above hits, added up over hits
            while hit < end and hits.ranks[hit] <= cut:
                below += max(hits.ranks[hit] - 1.0 - (hit - first), 0.0)
                hit += 1
            n_hits = float(hit - first)
            n_misses = max(cut - n_hits, 0.0)  # hits may share a rank
            if others == ONE_MORE:
                listed = float(lengths[user] - (end - first))
                n_others = 1.0 + (candidates - n_relevant if candidates > 0.0 else listed)
                n_wanted = min(float(cutoffs[column]), n_relevant)
                missing = n_wanted <= 0.0 or n_others <= 0.0
                won = n_hits * n_others - below
                out[user, column] = math.nan if missing else won / (n_others * n_wanted)
            elif candidates > 0.0:
                n_others = candidates - n_relevant
                unlisted = n_others - n_misses
                if n_relevant <= 0.0 or n_others <= 0.0 or unlisted < 0.0:
                    out[user, column] = math.nan
                    continue
                won = n_hits * n_others - below + (n_relevant - n_hits) * unlisted / 2.0
                out[user, column] = won / (n_relevant * n_others)
            elif n_hits > 0.0 and n_misses > 0.0:
                out[user, column] = (n_hits * n_misses - below) / (n_hits * n_misses)
            elif one_kind == UNDEFINED or n_relevant <= 0.0:
                out[user, column] = math.nan
            else:
                all_hits = n_hits > 0.0 and one_kind == ZERO_OR_ONE
                out[user, column] = 1.0 if all_hits else 0.0
