"""What the order of equal scores can add to values of users, or take from them."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from evalkit.aggregate.segments import CellSet, Segment
from evalkit.aggregate.user_values.blocks import Measuring, UserValues, stack_columns
from evalkit.aggregate.user_values.gather import bound_ranks, gains_at, ranges
from evalkit.config import Policies, policies_of
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kernels.threads import ordered_map
from evalkit.metrics import Request, is_of_means
from evalkit.ranks import UNORDERED_TIES, Ranks
from evalkit.statistics.exact import CellRows, ExactSums
from evalkit.truth import Truth


def moved_by_ties(requests: Iterable[Request], policies: Policies) -> list[Request]:
    """The requests whose values follow an order of equal scores, and nothing but hits."""
    return [
        each
        for each in requests
        if each.metric.lists is None
        and each.metric.combined is None
        and not is_of_means(each)
        and policies_of(each, policies).ties not in UNORDERED_TIES
    ]


def tie_shifts(
    users: UserValues,
    model: str,
    cell_sets: Sequence[CellSet],
    weights: Floats | None,
    threads: int,
) -> Iterator[tuple[Segment, ExactSums]]:
    """What the best and the worst order of equals change, of each request two columns.

    Args:
        users: with the values of the model, whose ranks are as they were before when this ends.
        cell_sets: whose segments are told, if any of their users has hits of equal scores.
        weights: float64[n_users].
    """
    measuring = users.measuring[model]
    tied = [each for each in measuring.ranks if each.tied.firsts.size]
    codes = _tied_users(measuring.truth, tied)

    def shifts(block: Ints) -> Floats:
        before = stack_columns(users, measuring.measure(block))
        found = [_measured(users, measuring, tied, block, best=best) for best in (True, False)]
        with np.errstate(invalid="ignore"):  # infinite values, which nothing moves
            shift = np.stack([each - before for each in found], axis=2)
        shift = shift.reshape(block.size, 2 * before.shape[1])
        shift[~np.isfinite(shift)] = 0.0
        return shift if weights is None else shift * weights[block, None]

    sums = [ExactSums(2 * users.columns.size, each.n_cells) for each in cell_sets]
    blocks = list(users.blocks(codes))
    for block, found in zip(blocks, ordered_map(shifts, blocks, threads=threads), strict=True):
        for cells, each in zip(cell_sets, sums, strict=True):
            each.add(found, rows=CellRows.of(cells.codes[block], cells.n_cells))
    for cells, each in zip(cell_sets, sums, strict=True):
        is_tied = np.bincount(cells.codes[codes], minlength=cells.n_cells) > 0
        tied_cells = {segment: own[is_tied[own]] for segment, own in cells.members.items()}
        segments = [segment for segment, own in tied_cells.items() if own.size]
        yield from zip(segments, each.over_each([tied_cells[one] for one in segments]), strict=True)


def _tied_users(truth: Truth, tied: Sequence[Ranks]) -> Ints:
    """int64[n], the users who have hits of equal scores."""
    starts, counts = truth.pairs.starts, truth.pairs.counts.astype(np.int64)
    is_tied = np.zeros(1 + max((each.tied.firsts.size for each in tied), default=0), dtype=np.int64)
    for ranks in tied:
        is_tied[1:] |= ranks.tied.firsts > 0
    np.cumsum(is_tied, out=is_tied)
    return np.flatnonzero(is_tied[starts[: counts.size] + counts] > is_tied[starts[: counts.size]])


def _measured(
    users: UserValues, measuring: Measuring, tied: Sequence[Ranks], block: Ints, *, best: bool
) -> Floats:
    """Values of a block of users by another order of equals; nobody else looks at their ranks."""
    places, owners = _places_of(measuring.truth, block)
    gains = gains_at(measuring.truth, places)
    kept = [ranks.ranks[places].copy() for ranks in tied]
    for ranks in tied:
        _reorder(ranks, places, owners, gains, best=best)
    values = stack_columns(users, measuring.measure(block))
    for ranks, before in zip(tied, kept, strict=True):
        ranks.ranks[places] = before
    return values


def _places_of(truth: Truth, block: Ints) -> tuple[Ints, Ints]:
    counts = truth.pairs.counts[block].astype(np.int64)
    return ranges(truth.pairs.starts[block], counts), np.repeat(np.arange(block.size), counts)


def _reorder(ranks: Ranks, places: Ints, owners: Ints, gains: Floats, *, best: bool) -> None:
    """Put the hits of each score before all its other rows, or behind them."""
    is_tied = ranks.tied.firsts[places] > 0
    places, owners, gains = places[is_tied], owners[is_tied], gains[is_tied]
    firsts, lasts = ranks.tied.firsts[places], ranks.tied.lasts[places]
    ranks.ranks[places] = bound_ranks(owners, firsts, lasts, gains, best=best)
