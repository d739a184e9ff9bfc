# mypy: disable-error-code="no-untyped-def"
"""Shares of a list that somebody judged, and that nobody did."""

import math

from evalkit.metrics import NO_CUTOFF, choice, kernel, metric

K = 1
SHOWN = choice(
    "over",
    {
        "length": "min(k, rows of the list)",
        "k": "k, and of ranks past the list's end nobody misses a judgement, as in trec_eval",
    },
    doc="What the items are divided by; without a cutoff the rows of the list.",
)
SOURCE = (
    "Lu, Moffat and Culpepper 2016, The effect of pooling and evaluation depth on IR metrics, "
    "Information Retrieval Journal 19, pp. 419-421"
)


@kernel(allocates=False)
def fill_shares(hits, lengths, cutoffs, over, is_judged, out):
    """Items with a judgement up to each cutoff, or without one, over those shown."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_judged = 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                n_judged += hits.gains[hit] >= 0.0
                hit += 1
            n = n_shown = min(cutoffs[column], lengths[user])
            if over == K and cutoffs[column] < NO_CUTOFF:
                n = cutoffs[column]
            n_unjudged = max(n_shown - n_judged, 0)
            share = n - n_unjudged if is_judged else n_unjudged
            out[user, column] = share / n if n > 0 and lengths[user] > 0 else 0.0


@metric(
    name="judged",
    summary="Share of the shown items that the truth judges, relevant or not.",
    formula="items at ranks 1 to k with a row in the truth / min(k, n)",
    latex=r"\frac{1}{\min(k, n)} \sum_{i=1}^{\min(k, n)} [i \text{ is judged}]",
    source=SOURCE,
    bounds=(0.0, 1.0),
    undefined="never; 0 for an empty list",
    parameters=(SHOWN,),
    view="pool",
)
@kernel(allocates=False)
def judged(hits, relevant, lengths, cutoffs, over, out):
    """Judged items up to each cutoff, over those shown."""
    fill_shares(hits, lengths, cutoffs, over, True, out)


@metric(
    name="unjudged",
    aliases=("unj(over='k')",),
    summary="Share of the shown items that the truth does not judge.",
    formula="1 - judged at k",
    latex=r"1 - \frac{1}{\min(k, n)} \sum_{i=1}^{\min(k, n)} [i \text{ is judged}]",
    source=SOURCE,
    bounds=(0.0, 1.0),
    undefined="never; 0 for an empty list",
    parameters=(SHOWN,),
    higher_is_better=False,
    monotone=False,
    view="pool",
)
@kernel(allocates=False)
def unjudged(hits, relevant, lengths, cutoffs, over, out):
    """Items without a judgement up to each cutoff, over those shown."""
    fill_shares(hits, lengths, cutoffs, over, False, out)


@metric(
    name="judged_misses",
    aliases=("num_nonrel_judged_ret",),
    summary="Number of shown items that were judged and are not relevant.",
    formula="number of items judged not relevant at ranks 1 to k",
    latex=r"\sum_{i=1}^{k} [i \text{ is judged}] - h_i",
    source=SOURCE,
    bounds=(0.0, math.inf),
    undefined="never",
    higher_is_better=False,
    monotone=False,
    view="pool",
)
@kernel(allocates=False)
def judged_misses(hits, relevant, lengths, cutoffs, out):
    """Items judged not relevant up to each cutoff."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_misses = 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                n_misses += hits.gains[hit] == 0.0
                hit += 1
            out[user, column] = float(n_misses)
