# mypy: disable-error-code="no-untyped-def"
"""bpref: judged pairs that a list has in the right order, whatever nobody judged."""

import math

from evalkit.metrics import choice, kernel, metric

MIN, RELEVANT, TEN_MORE = 0, 1, 2


@metric(
    name="bpref",
    aliases=("binary_preference",),
    summary="How seldom items judged not relevant stand above relevant ones; others do not count.",
    formula="1/|R| * sum over shown relevant items of "
    "1 - min(judged others above, |R|) / min(|N|, |R|)",
    latex=r"\frac{1}{|R|} \sum_{r} 1 - \frac{\min(n_r, |R|)}{\min(|N|, |R|)}",
    source="Buckley and Voorhees 2004, Retrieval evaluation with incomplete information, "
    "Proceedings of SIGIR, pp. 26-28",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(
        choice(
            "over",
            {
                "min": "min(|N|, |R|), as trec_eval",
                "relevant": "|R|, as the paper has it",
                "ten_more": "|R| + 10, of as many others, the paper's bpref-10",
            },
            doc="What the judged others above a relevant item are divided by.",
        ),
    ),
    view="pool",
)
@kernel(allocates=False)
def bpref(hits, relevant, lengths, cutoffs, over, out):
    """Preferences of shown relevant items up to each cutoff; NaN without relevant ones."""
    for user in range(out.shape[0]):
        n_relevant = n_others = 0
        for place in range(relevant.starts[user], relevant.starts[user + 1]):
            n_relevant += relevant.gains[place] > 0.0
            n_others += relevant.gains[place] == 0.0
        most = n_relevant + 10 if over == TEN_MORE else n_relevant
        divisor = min(n_others, n_relevant) if over == MIN else most
        hit, end = hits.starts[user], hits.starts[user + 1]
        total, n_above = 0.0, 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                if hits.gains[hit] > 0.0:
                    total += 1.0 - min(n_above, most) / divisor if n_above > 0 else 1.0
                n_above += hits.gains[hit] == 0.0
                hit += 1
            out[user, column] = total / n_relevant if n_relevant > 0 else math.nan
