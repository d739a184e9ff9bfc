# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How rare the items of a list are among all lists."""

import math

import numpy as np

from evalkit.metrics import list_metric, log2_of
from evalkit.metrics.lists._counts import log_steps


@list_metric(
    name="list_surprisal",
    summary="How rare the shown items are among all that lists show: bits of the share of each.",
    formula="mean over users of the mean over the list of -log2(lists that show the item / sum)",
    latex=r"\frac{1}{N} \sum_u \frac{1}{n_u} \sum_{i \in L_u} -\log_2 \frac{c_i}{\sum_j c_j}",
    source="Anelli et al. 2021, Elliot, Proceedings of SIGIR, p. 2405, where it is SEntropy",
    bounds=(0.0, math.inf),
    undefined="where no item is shown",
    family="counts",
    weighing="share",
)
def list_surprisal(shown, items, values):
    """The mean, and its slope by each item's share of lists, of lists of the mean length."""
    slopes = np.zeros(shown.lists.size)
    seen = np.flatnonzero(shown.lists)
    if not seen.size:
        return np.nan, slopes
    counts, shares = shown.lists[seen].astype(np.float64), shown.by_share[seen]
    total = counts.sum()
    bits = -log2_of(counts / total)
    length = total / shown.n_users
    steps = log_steps(counts) - log2_of(counts)  # of one list less, as entropy has them
    of_counts = math.fsum(shares.tolist()) / total / math.log(2.0) - shares / counts * steps
    slopes[seen] = (bits + length * of_counts) / shown.n_users
    return math.fsum((shares * bits).tolist()) / shown.n_users, slopes
