# mypy: disable-error-code="no-untyped-def"
"""Of the table of shown and relevant items over all candidates: fallout, accuracy, MCC."""

import math

from evalkit.metrics import NO_CUTOFF, choice, kernel, metric, number

CANDIDATES = number(
    "candidates",
    0.0,
    above=-1.0,
    tried=40.0,
    doc="Number of items that were ranked for a user; 0: those that the list shows.",
)
PLACES = choice(
    "places",
    {
        "shown": "as the list has them",
        "k": "as many as the cutoff: a place beyond the end of a list is shown and wrong",
    },
    doc="How many items are shown.",
)


@kernel(allocates=False)
def shown_and_others(hits, user, length, cutoff, n_relevant, candidates):
    """Relevant items shown and other items shown up to the cutoff, and others in all."""
    n_hits = 0
    for hit in range(hits.starts[user], hits.starts[user + 1]):
        n_hits += hits.ranks[hit] <= cutoff
    n_misses = max(min(cutoff, length) - n_hits, 0)
    listed = max(length - (hits.starts[user + 1] - hits.starts[user]), 0)
    n_others = candidates - n_relevant if candidates > 0.0 else float(listed)
    return float(n_hits), float(n_misses), n_others


@metric(
    name="fallout",
    aliases=("fall_out",),
    summary="Share of the items that are not relevant which the ranking shows.",
    formula="shown at ranks 1 to k and not relevant / candidates that are not relevant",
    latex=r"\frac{\sum_{i=1}^{k} 1 - h_i}{N - |R|}",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.6, p. 162",
    bounds=(0.0, 1.0),
    undefined="where every candidate is relevant, and where a list is longer than the candidates",
    parameters=(
        CANDIDATES,
        choice(
            "all_relevant",
            {"undefined": "undefined", "zero": "0", "one": "1"},
            doc="The value where every candidate is relevant.",
        ),
    ),
    higher_is_better=False,
    monotone=False,
    counts_hits=True,
)
@kernel(allocates=False)
def fallout(hits, relevant, lengths, cutoffs, candidates, all_relevant, out):
    """Misses up to each cutoff over all of them."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for column in range(cutoffs.size):
            _, n_misses, n_others = shown_and_others(
                hits, user, lengths[user], cutoffs[column], n_relevant, candidates
            )
            is_share = 0.0 < n_others and n_misses <= n_others
            out[user, column] = n_misses / n_others if is_share else math.nan
            if n_others == 0.0 and n_misses == 0.0 and all_relevant > 0 and n_relevant > 0:
                out[user, column] = all_relevant - 1.0


@metric(
    name="accuracy",
    summary="Share of the candidates that are shown and relevant, or neither; hardly ever below 1.",
    formula="(shown and relevant + neither) / candidates",
    latex=r"\frac{TP + TN}{N}",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.3, p. 155",
    bounds=(0.0, 1.0),
    undefined="without candidates, and where a list is longer than they are",
    parameters=(CANDIDATES, PLACES),
    counts_hits=True,
)
@kernel(allocates=False)
def accuracy(hits, relevant, lengths, cutoffs, candidates, places, out):
    """Candidates on the right side of each cutoff over all of them."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for column in range(cutoffs.size):
            cutoff = cutoffs[column]
            length = lengths[user]
            if places == 1 and cutoff < NO_CUTOFF:
                length = max(length, cutoff)
            n_hits, n_misses, n_others = shown_and_others(
                hits, user, length, cutoff, n_relevant, candidates
            )
            n_hits, n = min(n_hits, float(n_relevant)), n_others + n_relevant
            is_share = n > 0.0 and n_misses <= n_others
            out[user, column] = (n_hits + n_others - n_misses) / n if is_share else math.nan


@metric(
    name="MCC",
    aliases=("matthews_correlation", "matthews_corrcoef"),
    summary="Correlation of being shown and being relevant, over the candidates.",
    formula="(TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN))",
    latex=r"\frac{TP \cdot TN - FP \cdot FN}{\sqrt{(TP+FP)(TP+FN)(TN+FP)(TN+FN)}}",
    source="Matthews 1975, Biochimica et Biophysica Acta (Protein Structure) 405(2), pp. 442-451",
    bounds=(-1.0, 1.0),
    undefined="where all candidates are relevant, or shown, or none is",
    parameters=(CANDIDATES, PLACES),
    counts_hits=True,
)
@kernel(allocates=False)
def mcc(hits, relevant, lengths, cutoffs, candidates, places, out):
    """Matthews' correlation at each cutoff."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for column in range(cutoffs.size):
            cutoff = cutoffs[column]
            length = lengths[user]
            if places == 1 and cutoff < NO_CUTOFF:
                length = max(length, cutoff)
            tp, fp, n_others = shown_and_others(hits, user, length, cutoff, n_relevant, candidates)
            tp = min(tp, float(n_relevant))
            fn, tn = n_relevant - tp, n_others - fp
            below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
            is_share = tn >= 0.0 and below > 0.0
            out[user, column] = (tp * tn - fp * fn) / math.sqrt(below) if is_share else math.nan
