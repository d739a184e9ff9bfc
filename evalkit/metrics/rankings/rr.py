# mypy: disable-error-code="no-untyped-def"
"""RR: the reciprocal of the rank of the first relevant item; its mean is MRR."""

from evalkit.metrics import Unbiased, kernel, metric
from evalkit.metrics.rankings._ties import end_of_tie


@kernel(allocates=False)
def rr_tied(hits, relevant, lengths, cutoffs, out):
    """Expected reciprocal rank of the first hit within each cutoff, else 0."""
    firsts, lasts = hits.firsts, hits.lasts
    for user in range(out.shape[0]):
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            value = 0.0
            if begin < end:  # the first tie with a hit holds the first hit
                n_hits = end_of_tie(firsts, begin, end) - begin
                n_rows = lasts[begin] - firsts[begin] + 1
                chance = 1.0  # that no hit stands above the rank
                for place in range(n_rows - n_hits + 1):
                    rank = firsts[begin] + place
                    if rank > cutoffs[column]:
                        break
                    value += chance * n_hits / (n_rows - place) / rank
                    chance *= (n_rows - n_hits - place) / (n_rows - place)
            out[user, column] = value


@kernel(allocates=False)
def rr_weighted(hits, relevant, lengths, cutoffs, out):
    """Weight over rank, added up over all hits within each cutoff: the first one is no sum."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        total = 0.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                total += hits.gains[hit] / hits.ranks[hit]
                hit += 1
            out[user, column] = total


@metric(
    name="RR",
    aliases=("MRR", "reciprocal_rank", "mean_reciprocal_rank", "recip_rank"),
    summary="One over the rank of the first relevant item; its mean is MRR.",
    formula="1 / rank of the first hit; 0 if none stands at ranks 1 to k",
    latex=r"\frac{1}{\min \{ i \le k : h_i = 1 \}}",
    source="Voorhees 1999, The TREC-8 Question Answering Track Report, "
    "Proceedings of TREC-8, NIST SP 500-246, pp. 77-82",
    bounds=(0.0, 1.0),
    undefined="never; 0 for a user without relevant items",
    tied=rr_tied,
    unbiased=Unbiased(rr_weighted),
)
@kernel(allocates=False)
def rr(hits, relevant, lengths, cutoffs, out):
    """Reciprocal rank of the first hit within each cutoff, else 0."""
    for user in range(out.shape[0]):
        first, end = hits.starts[user], hits.starts[user + 1]
        value = 1.0 / hits.ranks[first] if first < end else 0.0
        for column in range(cutoffs.size):
            is_hit = first < end and hits.ranks[first] <= cutoffs[column]
            out[user, column] = value if is_hit else 0.0
