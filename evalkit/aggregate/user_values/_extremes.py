"""The lowest and the highest value over all judgements of what is shown and nobody judged.

Of as many relevant ones among them, a monotone metric is highest where they stand first, and lowest
where they stand last; so is one that counts hits, or the other way round. Each number of relevant
ones is tried. A gain by itself that only adds, as in ERR, is highest at the top of its scale.
"""

from collections.abc import Iterator

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints
from evalkit.metrics import Hits, Relevant, Request, is_made_of_users

EXTREMES = ("lowest", "highest")
ADDING = ("ERR", "SDCG", "INSQ")  # rise with each gain, whatever the others are, to a stated top
KEEP_MONOTONE = ("gain", "discount", "log_base", "patience", "recall", "max_relevance", "T")
MOST_HITS = 1 << 21  # laid side by side at a time


def why_not(request: Request) -> str:
    """Why a metric has no such extremes that are exact; nothing where it has."""
    metric, values = request.metric.base, dict(request.parameters)
    of_users = Request(metric, request.parameters, request.cutoff)
    if request.view == "pool" or not is_made_of_users(of_users):
        return "it is no mean over users of what relevant items make"
    if metric.name in ADDING:
        return ""
    if request.view == "graded" or values.get("gain", "binary") != "binary":
        return "an item that nobody judged has no gain, and ideals move with it"
    others = {name for name, value in values.items() if value != metric.defaults[name]}
    if metric.counts_hits or (metric.monotone and not others - {*KEEP_MONOTONE, "horizon"}):
        return ""
    return "a relevant item further up may lower it"


def measure_extremes(
    request: Request,
    which: str,
    given: tuple[Hits, Relevant],
    pool: Hits,
    lengths: Ints,
    cutoffs: Ints,
    values: Floats,
) -> None:
    """Fill `values` float64[n_users, n_cutoffs] with the lowest or highest values.

    Args:
        which: of `EXTREMES`.
        given: hits and relevant items, as the metric sees them.
        pool: all that is judged, with states for gains.
    """
    hits, relevant = given
    is_graded = request.metric.base.name in ADDING
    if is_graded and which == "lowest":
        request.measure(hits, relevant, lengths, cutoffs, values)
        return
    top = float(dict(request.parameters)["max_relevance"]) if is_graded else 1.0
    reduce = np.fmin if which == "lowest" else np.fmax
    n_hits, n_relevant = np.diff(hits.starts), np.diff(relevant.starts)
    for column, cutoff in enumerate(cutoffs):
        ends = np.minimum(lengths, cutoff)
        n_unjudged = np.maximum(ends - _count_judged(pool, ends), 0)
        n_rows = np.ones_like(ends) if is_graded else 2 * n_unjudged + 1
        sizes = n_rows * (np.maximum(n_hits, n_relevant) + n_unjudged)
        for first, last in _pieces(sizes):
            users = slice(first, last)
            n = int(n_rows[users].sum())
            most = int(sizes[users].sum()) + 1
            made = Hits(
                np.zeros(n + 1, np.int64), np.empty(most, np.int32), np.empty(most), np.empty(most)
            )
            wanted = Relevant(np.zeros(n + 1, np.int64), np.full(most, top))
            free = np.empty(int(n_unjudged[users].max(initial=0)) + 1, np.int32)
            lay_out(first, last, hits, relevant, pool, ends, top, is_graded, free, made, wanted)
            out = np.empty((n, 1))
            spread = np.repeat(lengths[users], n_rows[users])
            request.measure(made, wanted, spread, cutoffs[column : column + 1], out)
            begins = np.cumsum(n_rows[users]) - n_rows[users]
            values[users, column] = reduce.reduceat(out[:, 0], begins)


def _count_judged(pool: Hits, ends: Ints) -> Ints:
    """How many judged items each user is shown up to a rank."""
    owners = np.repeat(np.arange(ends.size), np.diff(pool.starts))
    counted = (pool.ranks[: owners.size] <= ends[owners]) & (pool.gains[: owners.size] >= 0.0)
    counts: Ints = np.bincount(owners[counted], minlength=ends.size)
    return counts


def _pieces(sizes: Ints) -> Iterator[tuple[int, int]]:
    """First users and ends of pieces that are laid out at a time."""
    totals, first = np.cumsum(sizes), 0
    while first < sizes.size:
        before = int(totals[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(totals, before + MOST_HITS, side="right")))
        yield first, last
        first = last


@kernel(allocates=False)
def lay_out(  # type: ignore[no-untyped-def]
    first, last, hits, relevant, pool, ends, top, is_graded, free, made, wanted
):
    """Lay each user's list out with none, the first and the last of the unjudged as relevant.

    Args:
        ends: int64[n_users], the last rank that is looked at.
        top: the gain of what is taken for relevant.
        is_graded: others keep their gain, and one row has all of the unjudged.
        free: room for the ranks of the unjudged.
    """
    # Wide: hits, what is relevant and what is judged are three ragged tables.
    row, place, wish = 0, 0, 0
    for user in range(first, last):
        n_free, at, stop = 0, pool.starts[user], pool.starts[user + 1]
        for rank in range(1, ends[user] + 1):
            is_judged = False
            while at < stop and pool.ranks[at] <= rank:
                is_judged |= pool.ranks[at] == rank and pool.gains[at] >= 0.0
                at += 1
            if not is_judged and n_free < free.size:
                free[n_free] = rank
                n_free += 1
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for turn in range(1 if is_graded else 2 * n_free + 1):
            n_more = n_free if is_graded else (turn + 1) // 2
            extra = n_free - n_more if turn % 2 == 0 else 0
            stop_extra = extra + n_more
            hit = hits.starts[user]
            while hit < hits.starts[user + 1] or extra < stop_extra:
                own = hit < hits.starts[user + 1] and (
                    extra >= stop_extra or hits.ranks[hit] <= free[extra]
                )
                made.ranks[place] = hits.ranks[hit] if own else free[extra]
                gain = hits.gains[hit] if own and is_graded else top
                made.gains[place] = made.ideal[place] = gain
                hit += own
                extra += not own
                place += 1
            wish += n_relevant + n_more
            row += 1
            made.starts[row] = place
            wanted.starts[row] = wish
