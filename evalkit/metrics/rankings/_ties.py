# mypy: disable-error-code="no-untyped-def"
"""The mean over all orders of rows with equal scores: what kernels over `TiedHits` share.

A tie of t rows with m hits among them takes up the ranks from `first` to `last`. Every hit is
as likely at each of these ranks, which is all that a sum over hits needs.

Source: McSherry and Najork 2008, Computing Information Retrieval Performance Measures Efficiently
in the Presence of Tied Scores, Proceedings of ECIR, LNCS 4956, pp. 414-421.
"""

from evalkit.kernels import kernel


@kernel(allocates=False)
def share_within(first, last, cutoff):
    """The probability that a row of a tie stands within the cutoff."""
    if cutoff < first:
        return 0.0
    return (min(last, cutoff) - first + 1) / (last - first + 1)


@kernel(allocates=False)
def hits_within(firsts, lasts, begin, end, cutoff):
    """The expected number of hits within the cutoff, of hits `begin` to `end` in order of rank."""
    total = 0.0
    for hit in range(begin, end):
        if firsts[hit] > cutoff:
            break
        total += share_within(firsts[hit], lasts[hit], cutoff)
    return total


@kernel(allocates=False)
def end_of_tie(firsts, begin, end):
    """The first hit behind the tie that hit `begin` is in."""
    hit = begin + 1
    while hit < end and firsts[hit] == firsts[begin]:
        hit += 1
    return hit


@kernel(allocates=False)
def chance_of_none(n_hits, n_rows, n_ranks):
    """The probability that none of the hits of a tie stands at its first `n_ranks` ranks."""
    if n_ranks > n_rows - n_hits:
        return 0.0
    chance = 1.0
    for hit in range(n_hits):
        chance *= (n_rows - n_ranks - hit) / (n_rows - hit)
    return chance
