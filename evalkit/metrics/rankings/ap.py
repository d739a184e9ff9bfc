# mypy: disable-error-code="no-untyped-def"
"""AP: precision averaged over the relevant items; its mean is MAP."""

import math

from evalkit.metrics import NO_CUTOFF, Unbiased, Values, choice, kernel, metric
from evalkit.metrics.rankings._steady import repeat_to_next_hit
from evalkit.metrics.rankings._ties import end_of_tie

HITS, EVERY_RANK, LAST_ROW = 0, 1, 2
MIN_K, RELEVANT, MIN_LENGTH, OVER_HITS, K = 0, 1, 2, 3, 4
LONGEST_SUM = 4096  # ranks that are added up one by one
EULER = 0.5772156649015329


@kernel(allocates=False)
def harmonic(number):
    """1 + 1/2 + ... + 1/number by its expansion, exact to float64 above a thousand."""
    inverse = 1.0 / number
    square = inverse * inverse
    return math.log(number) + EULER + inverse / 2.0 - square / 12.0 + square * square / 120.0


@kernel(allocates=False)
def precision_sum(n_hits, after, last):
    """The precisions at ranks `after` + 1 to `last` added up, with `n_hits` above all of them."""
    total = 0.0
    if n_hits > 0:
        end = min(last, after + LONGEST_SUM)
        for rank in range(after + 1, end + 1):
            total += n_hits / rank
        if end < last:
            total += n_hits * (harmonic(last) - harmonic(end))
    return total


@kernel(allocates=False)
def divisor_of(n_relevant, n_hits, cutoff, length, over):
    """What the sum of precisions is divided by."""
    n_ranks = length if cutoff == NO_CUTOFF else cutoff
    if over == MIN_K:
        return min(cutoff, n_relevant)
    if over == MIN_LENGTH:
        return min(min(cutoff, length), n_relevant)
    if over == OVER_HITS:
        return n_hits
    if over == K:
        return n_ranks
    return n_relevant


@kernel(allocates=False)
def sticking_sum(ranks, untils, begin, end, last, length):
    """Precisions over min(rank, length) up to rank `last`, where a hit stands last in the log."""
    total = 0.0
    n_hits = 0
    for hit in range(begin, end):
        if ranks[hit] > last:
            break
        while begin + n_hits < end and ranks[begin + n_hits] <= ranks[hit]:
            n_hits += 1
        if hit > begin and ranks[hit - 1] == ranks[hit] < untils[hit - 1]:
            continue  # a row that hits several times: no two rows of a rank stand last in the log
        above = n_hits  # hits up to the rank that is looked at
        for rank in range(ranks[hit], min(last, untils[hit] - 1) + 1):
            while begin + above < end and ranks[begin + above] <= rank:
                above += 1
            total += above / min(rank, length)
    return total


@kernel(allocates=False)
def ap_tied(hits, relevant, lengths, cutoffs, over, terms, out):
    """Expected sum of precisions up to each cutoff over its divisor; or the sum of `last_row`."""
    firsts, lasts = hits.firsts, hits.lasts
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            cutoff = cutoffs[column]
            total = 0.0
            n_hits = 0
            if terms == LAST_ROW:
                last = lengths[user] if cutoff == NO_CUTOFF else cutoff
                total = sticking_sum(hits.ranks, hits.untils, begin, end, last, lengths[user])
                while begin + n_hits < end and hits.ranks[begin + n_hits] <= last:
                    n_hits += 1
            else:
                hit = begin
                while hit < end and firsts[hit] <= cutoff:
                    after = end_of_tie(firsts, hit, end)
                    m, t = after - hit, lasts[hit] - firsts[hit] + 1
                    for place in range(min(lasts[hit], cutoff) - firsts[hit] + 1):
                        # hits above: those of earlier ties, and of the other m - 1 their share
                        above = n_hits + 1.0 + (place * (m - 1) / (t - 1) if t > 1 else 0.0)
                        total += m / t * above / (firsts[hit] + place)
                    n_hits += m
                    hit = after
            divisor = divisor_of(n_relevant, n_hits, cutoff, lengths[user], over)
            if n_relevant == 0:
                out[user, column] = math.nan
            else:
                out[user, column] = total / divisor if divisor > 0 else 0.0


def _looks_at_rows(values: Values) -> bool:
    return values["terms"] == "last_row"


def _is_linear(values: Values) -> bool:
    return values["terms"] == "hits" and values["over"] != "hits"


@kernel(allocates=False)
def ap_weighted(hits, relevant, lengths, cutoffs, over, terms, out):
    """Weights of hits times the precision at their ranks, of which the hit itself is sure.

    Hits above it count by their weights: of two items that are seen independently, both are with
    the product of their propensities.
    """
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        total = above = 0.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                total += hits.gains[hit] * (1.0 + above) / hits.ranks[hit]
                above += hits.gains[hit]
                hit += 1
            out[user, column] = total


@metric(
    name="AP",
    aliases=("MAP", "average_precision", "mean_average_precision", "map_cut(over='relevant')"),
    summary="Precision at each relevant item shown, averaged over those that could be shown.",
    formula="sum over hits at ranks 1 to k of (hits up to that rank / rank) / min(k, |R|)",
    latex=r"\frac{1}{\min(k, |R|)} \sum_{i=1}^{k} h_i \frac{1}{i} \sum_{j=1}^{i} h_j",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.4, p. 160",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(
        choice(
            "over",
            {
                "min_k": "min(k, relevant items), so that a list of k items can reach 1",
                "relevant": "all relevant items",
                "min_length": "min(k, length of the list, relevant items)",
                "hits": "the hits at ranks 1 to k: missing items cost nothing",
                "k": "the cutoff, or the length of the list without one",
            },
            doc="What the sum is divided by.",
        ),
        choice(
            "terms",
            {
                "hits": "the precision at each hit",
                "every_rank": "the precision at every rank from 1 to k, hit or not",
                "last_row": "the precision over min(rank, length) at every rank from 1 to k, also "
                "beyond the list, where of all rows up to it the last one in the log is a hit",
            },
            doc="What is summed up.",
        ),
    ),
    tied=ap_tied,
    has_closed_form=_is_linear,
    needs_rows=_looks_at_rows,
    unbiased=Unbiased(
        ap_weighted, per={}, only={"over": ("min_k", "relevant"), "terms": ("hits",)}
    ),
)
@kernel(allocates=False)
def ap(hits, relevant, lengths, cutoffs, over, terms, out):
    """Sum of precisions up to each cutoff over its divisor; NaN for a user without relevant."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, start, end = hits.starts[user], hits.starts[user], hits.starts[user + 1]
        total = 0.0
        after = 0  # with every_rank: the ranks whose precision `total` holds
        column = 0
        while column < cutoffs.size:
            cutoff = cutoffs[column]
            n_ranks = lengths[user] if cutoff == NO_CUTOFF else cutoff
            while hit < end and hits.ranks[hit] <= cutoff:
                if terms != EVERY_RANK:
                    total += (hit - start + 1) / hits.ranks[hit]
                else:
                    total += precision_sum(hit - start, after, hits.ranks[hit] - 1)
                    after = hits.ranks[hit] - 1
                hit += 1
            value = total
            if terms == EVERY_RANK:
                value += precision_sum(hit - start, after, n_ranks)
            elif terms == LAST_ROW and hit > start and hits.ranks[hit - 1] == lengths[user]:
                value += max(0, n_ranks - lengths[user]) * ((hit - start) / lengths[user])
            divisor = divisor_of(n_relevant, hit - start, cutoff, lengths[user], over)
            share = value / divisor if divisor > 0 else 0.0
            if n_relevant == 0:
                share = math.nan
            out[user, column] = share
            column += 1
            if terms == HITS and over != K and cutoff >= n_relevant:
                given = hits.ranks, hit, end, cutoffs, out
                column = repeat_to_next_hit(share, user, column, *given)
