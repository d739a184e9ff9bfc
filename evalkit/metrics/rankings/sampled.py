# mypy: disable-error-code="no-untyped-def"
"""Metrics of leave-one-out studies that rank one relevant item among a sample of others."""

import math
from typing import TYPE_CHECKING

from evalkit.errors import DataError, RequestError
from evalkit.metrics import Example, choice, kernel, metric, number
from evalkit.metrics.sampling import bias_variance, value_at

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    from evalkit.metrics import Hits, Relevant, TiedHits, Values

BIAS_VARIANCE = 1
OF = {
    "recall": "1 up to the cutoff, which is also the hit rate",
    "nDCG": "1 / log2(1 + rank) up to the cutoff",
    "RR": "1 / rank up to the cutoff, which is also the average precision",
}


def tables(
    values: "Values",
    hits: "Hits | TiedHits",
    relevant: "Relevant",
    lengths: "NDArray[int64]",
    cutoffs: "NDArray[int64]",
) -> tuple["NDArray[int64]", "NDArray[float64]"]:
    """Sizes of samples, and float64[n_sizes, n_ranks, n_cutoffs]: what each rank counts in each.

    Raises:
        RequestError: parameters that the estimate needs are not there [bad-sample].
        DataError: lists were cut above their relevant item [sampled-rank-unknown].
    """
    import numpy as np

    if values["estimate"] == "rank":
        return np.zeros(0, dtype=np.int64), np.zeros((0, 0, cutoffs.size))
    _check_parameters(values)
    sample = int(float(values["sample"]))
    is_hit = np.diff(hits.starts) > 0
    n_others = np.full_like(lengths, sample) if sample else lengths - is_hit
    is_known = (np.diff(relevant.starts) == 1) & (lengths > 0)
    n_cut = int((is_known & ~is_hit).sum())
    if n_cut:
        message = f"{n_cut:,} lists or more lack their relevant item, whose rank is needed"
        hint = "keep the whole sample of each user, or write estimate='rank'"
        raise DataError(message, code="sampled-rank-unknown", hint=hint)
    if values["estimate"] != "bias-variance":
        return np.zeros(0, dtype=np.int64), np.zeros((0, 0, cutoffs.size))
    sizes = np.unique(n_others[is_known])
    found = np.full((sizes.size, int(sizes.max(initial=0)) + 1, cutoffs.size), math.nan)
    wanted = tuple(int(cutoff) for cutoff in cutoffs)
    of, catalogue = list(OF).index(str(values["of"])), int(float(values["catalogue"]))
    for place, size in enumerate(sizes.tolist()):
        gamma = float(values["gamma"])
        found[place, : size + 1] = bias_variance(of, catalogue, size, gamma, wanted)
    return sizes, found


def _check_parameters(values: "Values") -> None:
    needed = {"catalogue": 2.0, "sample": 1.0 if values["estimate"] == "likelihood" else 0.0}
    for name, least in needed.items():
        if float(values[name]) < least:
            message = f"sampled(estimate={values['estimate']!r}) needs {name}"
            hint = "sampled(of='nDCG', catalogue=3706, sample=99, estimate='likelihood')@10"
            raise RequestError(message, code="bad-sample", hint=hint)


@metric(
    name="sampled",
    summary="Recall, nDCG or reciprocal rank where a user's one relevant item was ranked among a "
    "sample of others: as it is, or estimated for the whole catalogue.",
    formula="f(rank) is 1 up to the cutoff, 1 / log2(1 + rank), or 1 / rank; of the rank r in the "
    "sample, or of 1 + (r - 1) (catalogue - 1) / sample; or the g(r) that minimises the mean over "
    "all ranks of (E[g | rank] - f(rank))^2 + gamma Var[g | rank]; or the mean of f over the "
    "distribution of ranks that makes the ranks in samples likely",
    latex=r"f\left(1 + (r - 1) \frac{n - 1}{m}\right)",
    source="Krichene and Rendle 2020, On sampled metrics for item recommendation, KDD, pp. "
    "1748-1757, section 5 (rank, bias-variance); Jin, Li, Mudrak, Gao and Liu 2021, On estimating "
    "recommendation evaluation metrics under sampling, AAAI, pp. 4147-4154 (likelihood)",
    bounds=(0.0, 1.0),
    undefined="for a user with none or several relevant items, and where the list is longer than "
    "the sample and that item",
    parameters=(
        choice("of", OF, doc="What is measured; each has one value a rank, for one item counts."),
        number(
            "catalogue",
            0.0,
            above=-1.0,
            is_whole=True,
            tried=1000.0,
            doc="Items that could have been ranked, for the estimate; 0: the rank as it is.",
        ),
        number(
            "sample",
            0.0,
            above=-1.0,
            is_whole=True,
            tried=60.0,
            doc="Others that were drawn beside the relevant item; 0: all other rows of the list.",
        ),
        choice(
            "estimate",
            {
                "rank": "the metric of the unbiased estimate of each rank; the metric is biased",
                "bias-variance": "the value of each rank in the sample that has least squared bias "
                "and gamma times variance, where every rank is as likely; it may lie outside of "
                "0 and 1",
                "likelihood": "the metric of the distribution of ranks over all users that steps "
                "of expectation maximisation find; no mean over users, so without interval "
                "(of single users: as rank)",
            },
            doc="How the whole catalogue is estimated.",
        ),
        number(
            "gamma",
            0.01,
            above=0.0,
            below=1.0,
            tried=0.5,
            doc="How much variance counts beside bias.",
        ),
        number(
            "steps",
            100.0,
            above=0.0,
            is_whole=True,
            tried=7.0,
            doc="Of expectation maximisation, from equally likely ranks on; more fit noise.",
        ),
    ),
    tables=tables,
    example=Example((0.0, 3.0, 0.0, 0.0, 0.0), values={"catalogue": 17.0, "sample": 4.0}),
)
@kernel(allocates=False)
def sampled(
    hits,
    relevant,
    lengths,
    cutoffs,
    of,
    catalogue,
    sample,
    estimate,
    gamma,
    steps,
    sizes,
    table,
    out,
):
    """The value of each user's rank: as `table` says, or scaled to the catalogue."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_listed = lengths[user] - (1.0 if end > hit else 0.0)
        n_others = sample if sample > 0.0 else n_listed
        known = n_relevant == 1 and n_listed <= n_others
        rank = math.inf
        if hit < end:
            rank = float(hits.ranks[hit])
            if catalogue > 0.0 and rank > 1.0 and n_others > 0.0:
                rank = 1.0 + (rank - 1.0) * ((catalogue - 1.0) / n_others)
        for column in range(cutoffs.size):
            out[user, column] = value_at(rank, cutoffs[column], of) if known else math.nan
        if known and hit < end and estimate == BIAS_VARIANCE:
            for place in range(sizes.size):
                if sizes[place] == n_others and hits.ranks[hit] <= n_others + 1:
                    for column in range(cutoffs.size):
                        out[user, column] = table[place, hits.ranks[hit] - 1, column]
