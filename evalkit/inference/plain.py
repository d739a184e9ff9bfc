"""Differences of means of users, of all segments and metrics of a pair of models at one time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from evalkit.aggregate.segments import ALL
from evalkit.aggregate.sums import Pair
from evalkit.config import StatisticsSection
from evalkit.inference.drafts import Draft, limits_of
from evalkit.inference.spread import DifferenceSpread
from evalkit.inference.summed import Summed, listed, none_if_nan
from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.metrics import Request, bounds_of
from evalkit.statistics.exact import LOSSES, TIES, WINS, Summaries
from evalkit.statistics.means import is_share
from evalkit.statistics.proportions import find_mcnemar_ps, mcnemar_p

Tables = list[tuple[int, int, int, int] | None]


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of a model over the users of both, shaped as `Summaries`."""

    means: Floats
    errors: Floats
    wholes: Ints
    are_shares: Flags

    @classmethod
    def of(cls, found: Summaries, bounds: Floats) -> "_Values":
        """Those of all its users, as copies."""
        are_shares = found.are_shares(bounds)
        return cls(found.means.copy(), found.errors.copy(), found.wholes.copy(), are_shares)


def of_means(
    summed: Summed, pair: Pair, requests: Sequence[Request], chosen: StatisticsSection
) -> list[Draft]:
    """A draft for each segment and request, in this order; without limits and p of t tests."""
    deltas = summed.deltas(pair)
    bounds = np.array([bounds_of(each) for each in requests])
    old, new = _of_both(summed, pair, bounds)
    n, means, errors = deltas.counts, deltas.means, deltas.errors
    with np.errstate(all="ignore"):
        relative = np.where(old.means == 0.0, np.nan, means / old.means)
        effects = np.where(errors == 0.0, np.nan, means / (errors * np.sqrt(n)))
    outcomes = np.array(
        [summed.totals.pairs[each, pair].outcomes[0, : len(requests)] for each in summed.segments]
    )
    points = [each.metric.higher_is_better is not None for each in requests]
    named = [(None, None) if each == ALL else each for each in summed.segments]
    n_segments = n.shape[0]
    signs = _signs(outcomes, requests)
    spreads = _spreads(deltas, old, new, bounds, signs, chosen)
    columns = {
        "baseline": [pair[0]] * n.size,
        "candidate": [pair[1]] * n.size,
        "metric": [each.label for each in requests] * n_segments,
        "segmentation": [each for each, _ in named for _ in requests],
        "segment": [each for _, each in named for _ in requests],
        "spread": spreads,
        "delta": listed(means),
        "std_error": none_if_nan(errors),
        "low": [None] * n.size,
        "high": [None] * n.size,
        "relative": listed(relative),
        "relative_low": [None] * n.size,
        "relative_high": [None] * n.size,
        "effect_size": listed(effects),
        "n_users": n.ravel().tolist(),
        **{
            name: [
                number if is_told else None
                for row in outcomes[..., place].tolist()
                for number, is_told in zip(row, points, strict=True)
            ]
            for name, place in (("wins", WINS), ("ties", TIES), ("losses", LOSSES))
        },
        "margin": [chosen.margin] * n.size,
    }
    drafts = [*map(Draft, *columns.values())]
    find_mcnemar_ps(each.table[1:3] for each in spreads if each.table is not None)
    of_both = zip(listed(old.means), listed(old.errors), listed(new.errors), strict=True)
    for draft, both in zip(drafts, of_both, strict=True):
        draft.of_both = both
        if draft.spread.table is not None:
            draft.p_value, draft.test = mcnemar_p(*draft.spread.table[1:3]), "mcnemar"
    return drafts


def note_limits(drafts: Sequence[Draft], level: float) -> None:
    """Note limits of the differences, at one level."""
    low, high = limits_of(drafts, [level] * len(drafts))
    for each, its_low, its_high in zip(drafts, listed(low), listed(high), strict=True):
        each.low, each.high = its_low, its_high


def _of_both(summed: Summed, pair: Pair, bounds: Floats) -> list[_Values]:
    """Baseline and candidate, over the users who have both values."""
    both = [_Values.of(summed.model(name), bounds) for name in pair]
    for row, segment in enumerate(summed.segments):
        if not summed.totals.pairs[segment, pair].has_alone:
            continue
        for column, of_column in enumerate(map(tuple, bounds.tolist())):
            found = summed.totals.pair_total(segment, pair, column)
            for values, total in zip(both, (found.baseline, found.candidate), strict=True):
                error, place = total.std_error, (row, column)
                values.means[place] = total.mean
                values.errors[place] = math.nan if error is None else error
                values.are_shares[place] = is_share(total, of_column)
                values.wholes[place] = total.whole
    return both


def _spreads(
    deltas: Summaries,
    old: _Values,
    new: _Values,
    bounds: Floats,
    signs: tuple[list[int], list[int]],
    chosen: StatisticsSection,
) -> list[DifferenceSpread]:
    """What errors stand on; tables where values are 0 or 1 and no other test is asked for."""
    n, is_plain = deltas.counts, chosen.test != "auto" or not chosen.skewness
    has_table = old.are_shares & new.are_shares & (n >= 2) & (chosen.test != "t")
    gained = (deltas.squares + deltas.wholes) // 2
    lost, both = deltas.squares - gained, new.wholes - gained
    tables: Tables = [None] * n.size
    for place in np.flatnonzero(has_table).tolist():
        of_all = (both, gained, lost, n - both - gained - lost)
        tables[place] = tuple(int(each.ravel()[place]) for each in of_all)  # type: ignore[assignment]
    widest = (bounds[:, 1] - bounds[:, 0]).tolist() * n.shape[0]
    never, is_mended = repeat(False), repeat(chosen.skewness)
    numbers = (each.ravel().tolist() for each in (n, n - 1.0, deltas.skewnesses))
    flags = never, is_mended, never  # no clusters, no weights
    return [*map(DifferenceSpread, *numbers, widest, tables, *flags, *signs, repeat(is_plain))]


def _signs(outcomes: Ints, requests: Sequence[Request]) -> tuple[list[int], list[int]]:
    """Users whose difference is below 0, and above 0, segment by segment."""
    rises = np.array([bool(each.metric.higher_is_better) for each in requests])
    wins, losses = outcomes[..., WINS], outcomes[..., LOSSES]
    below, above = np.where(rises, losses, wins), np.where(rises, wins, losses)
    return below.ravel().tolist(), above.ravel().tolist()
