"""Lists and truth as the conventions of one metric see them, for a block of users.

What the defaults and most policies need is gathered by kernels in `aggregate`. What stands here
is the slower way for the others: by arrays, a block at a time, and only where somebody asks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from evalkit import metrics
from evalkit.aggregate.user_values._hits import GRADED, JUDGED, POOL, RELEVANT
from evalkit.aggregate.user_values.outcomes import EXACT, may_be_undefined
from evalkit.config import Policies, policies_of
from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.ranks import Ranks
from evalkit.truth import Truth


@dataclass(frozen=True, slots=True)
class ListOrder:
    """What the ranks of a list depend on: requests of the same rules share one scan."""

    ties: str
    score_type: str
    duplicates: str
    detailed: bool

    def applied_to(self, policies: Policies) -> Policies:
        """The policies of a scan by these rules."""
        own = {"ties": self.ties, "score_type": self.score_type, "duplicates": self.duplicates}
        if all(getattr(policies, name) == value for name, value in own.items()):
            return policies
        return policies.model_copy(update=own)


def rules_of(
    request: metrics.Request, policies: Policies, *, has_score: bool, has_rank: bool
) -> ListOrder:
    """The rules by which the lists of one rankings log are put in order for a request."""
    followed = policies_of(request, policies)
    has_equals = has_score and not has_rank
    detailed = (
        request.needs_rows
        or followed.duplicates == "multiply"
        or (followed.duplicates == "once" and followed.unjudged == "skip")
        or (followed.rel_size == "rows" and followed.duplicates not in ("count", "multiply"))
        or (has_score and (followed.ties in metrics.TIED or followed.nonpositive_scores == "miss"))
    )
    ties = followed.ties
    if ties in metrics.TIED:  # three ways to look at the same lists
        ties = "expected"
    return ListOrder(
        ties if has_equals or ties == "input" or ties.startswith("item") else "item",
        followed.score_type if has_equals else "float64",
        followed.duplicates,
        detailed,
    )


@dataclass(frozen=True, slots=True)
class RankSets:
    """The ranks of one model, by each set of rules that its lists were put in order by."""

    sets: Mapping[ListOrder, Ranks]
    has_score: bool
    has_rank: bool

    def over(self, part: Callable[[Ranks], Ranks]) -> "RankSets":
        """The ranks of a part of the truth's items."""
        sets = {rules: part(ranks) for rules, ranks in self.sets.items()}
        return RankSets(sets, self.has_score, self.has_rank)

    def rules_of(self, request: metrics.Request, policies: Policies) -> ListOrder:
        """The rules that a request asks for."""
        return rules_of(request, policies, has_score=self.has_score, has_rank=self.has_rank)


@dataclass(frozen=True, slots=True)
class View:
    """Which items and rows a metric is given."""

    which: int  # RELEVANT items, GRADED ones, all in the POOL, or the same as JUDGED
    skips: int  # what leaves lists: RELEVANT for nothing, else what is not in the POOL, or JUDGED
    seen: str
    rel_size: str
    nonpositive_scores: str
    duplicates: str
    ties: str
    with_rows: bool  # as `TiedHits`
    whole_ideal: bool  # what has no gain or a negative one is sought too

    @classmethod
    def of(cls, request: metrics.Request, policies: Policies, *, two_views: bool) -> "View":
        """The view of a request under its policies.

        Args:
            two_views: whether some items with a gain may not be relevant.
        """
        ties = policies.ties if policies.ties in metrics.BOUNDS else ""
        pool = pool_of(policies)
        which = pool if request.view == "pool" else RELEVANT
        if two_views and request.view == "graded":
            which = GRADED
        return cls(
            which,
            pool if policies.unjudged == "skip" else RELEVANT,
            policies.seen,
            policies.rel_size,
            policies.nonpositive_scores,
            policies.duplicates if policies.duplicates in ("once", "multiply") else "",
            ties,
            policies.ties == "expected" or request.needs_rows,
            which == GRADED
            and dict(request.parameters).get("idcg_negative", "left_out") != "left_out",
        )

    @property
    def is_plain(self) -> bool:
        """Whether the kernels of `aggregate` give it."""
        return (
            self.seen == "all"
            and self.skips == RELEVANT
            and self.rel_size == "items"
            and self.nonpositive_scores == "hit"
            and not self.duplicates
            and not self.ties
            and not self.with_rows
            and not self.whole_ideal
        )


def pool_of(policies: Policies) -> int:
    """How all that the truth names is gathered."""
    return POOL if policies.pooled == "unjudged" else JUDGED


@dataclass(frozen=True, slots=True)
class BlockView:
    """What a view shows of a block of users.

    Args:
        n_relevant: int64[n_users], relevant items that exist in this view.
        lengths: int64[n_users], rows of the lists.
    """

    hits: metrics.Hits | metrics.TiedHits
    relevant: metrics.Relevant
    n_relevant: npt.NDArray[np.integer]
    lengths: Ints


@dataclass(slots=True)
class _ShownRows:
    """Rows that show an item of the truth: arrays of one length, of which some may be dropped."""

    owners: Ints  # row of the block
    places: Ints
    ranks: Ints
    firsts: Ints
    lasts: Ints
    untils: Ints
    positive: Flags
    gains: Floats

    def take(self, chosen: Flags | Ints) -> "_ShownRows":
        return _ShownRows(
            self.owners[chosen],
            self.places[chosen],
            self.ranks[chosen],
            self.firsts[chosen],
            self.lasts[chosen],
            self.untils[chosen],
            self.positive[chosen],
            self.gains[chosen],
        )


def look(truth: Truth, ranks: Ranks, users: Ints, view: View, *, cutoff: int) -> BlockView:
    """What a view shows of a block of users; `cutoff` matters where copies multiply."""
    present = ranks.has_list(users)
    begins, counts = truth.pairs.starts[users], truth.pairs.counts[users].astype(np.int64)
    owners = np.repeat(np.arange(users.size), counts)
    places = ranges(begins, counts)
    gains = gains_at(truth, places)
    is_relevant = gains >= truth.relevant_from
    rows = _rows_of(truth, ranks, users, places, owners)
    shown = np.zeros(places.size, dtype=np.int64)  # how often each item is shown
    at = _find(places, rows.places)
    np.add.at(shown, at, 1)
    eligible, sought = is_relevant | (view.which >= POOL), is_relevant | (view.which >= POOL)
    if view.which == GRADED:
        sought = sought | (gains > 0.0)
        eligible = sought | (truth.subtracts & (gains < 0.0))
    if view.whole_ideal:
        sought = eligible.copy()
    exists = (shown > 0) if view.seen == "shown" else np.ones(places.size, dtype=np.bool_)
    n_relevant = np.bincount(owners[is_relevant & exists], minlength=users.size)
    sought &= exists & present[owners]
    lengths = ranks.lengths[users].astype(np.int64)
    if view.skips:
        stays = (rows.gains >= 0.0) | (view.skips == JUDGED) | is_relevant[at]
        lengths = _close_up(rows, stays, users.size)
        eligible &= (gains >= 0.0) | (view.skips == JUDGED) | is_relevant
    if view.which >= POOL:
        gains = np.where(is_relevant, 1.0, 0.0 - ((view.which == POOL) & (gains < 0.0)))
        rows.gains = gains[at]
    keep = eligible[at]
    if view.nonpositive_scores == "miss":
        keep &= rows.positive
    rows, at = rows.take(keep), at[keep]
    copies = np.ones(places.size, dtype=np.int64)
    if view.duplicates == "once":
        rows = rows.take(_first_of_each(rows.places, rows.ranks))
    elif view.duplicates == "multiply":
        inside = np.zeros(places.size, dtype=np.int64)
        np.add.at(inside, at[rows.ranks <= cutoff], 1)
        copies = np.maximum(1, inside * shown)
        rows = rows.take(np.repeat(np.arange(at.size), shown[at]))
    if view.rel_size == "rows" and view.duplicates != "multiply":
        copies = np.maximum(1, shown)
    if view.ties:
        ends = rows.owners, rows.firsts, rows.lasts
        rows.ranks = bound_ranks(*ends, rows.gains, best=view.ties == "best")
    seekers = np.repeat(owners[sought], copies[sought])
    wanted = np.repeat(gains[sought], copies[sought])
    if view.whole_ideal and view.seen == "shown":
        seekers, wanted = _with_misses(seekers, wanted, lengths)
    order = np.lexsort((-wanted, seekers))
    relevant = metrics.Relevant(_starts(seekers, users.size), wanted[order])
    return BlockView(
        _hits(rows, users.size, with_rows=view.with_rows), relevant, n_relevant, lengths
    )


def _close_up(rows: _ShownRows, stays: Flags, n_users: int) -> Ints:
    """Bring ranks to what they are where only some rows stay; gives how many each user keeps."""
    most = int(max(rows.ranks.max(initial=0), rows.lasts.max(initial=0))) + 2
    kept = np.sort((rows.owners * most + rows.ranks)[stays])
    begins = np.searchsorted(kept, np.arange(n_users + 1) * most)

    def closed(ranks: Ints) -> Ints:
        place = np.searchsorted(kept, rows.owners * most + ranks)
        found: Ints = place - begins[rows.owners] + 1
        return found

    rows.ranks, rows.firsts, rows.untils = map(closed, (rows.ranks, rows.firsts, rows.untils))
    rows.lasts = closed(rows.lasts + 1) - 1
    return np.diff(begins)


def single_hits(
    truth: Truth, ranks: Ranks, users: Ints, *, graded: bool
) -> tuple[metrics.Hits, Ints, Ints]:
    """The hits of a block of users as lists of one hit each, by user and rank.

    Gives beside them the row of each hit's user in the block, and the place of its item.
    """
    counts = truth.pairs.counts[users].astype(np.int64)
    places = ranges(truth.pairs.starts[users], counts)
    rows = _rows_of(truth, ranks, users, places, np.repeat(np.arange(users.size), counts))
    eligible = ranks.has_list(users)[rows.owners]
    rows = rows.take(eligible & (graded | (rows.gains >= truth.relevant_from)))
    rows = rows.take(np.lexsort((-rows.gains, rows.ranks, rows.owners)))
    starts = np.arange(rows.places.size + 1)
    hits = metrics.Hits(starts, rows.ranks.astype(np.int32), rows.gains, rows.gains)
    return hits, rows.owners, rows.places


def _hits(rows: _ShownRows, n_users: int, *, with_rows: bool) -> metrics.Hits | metrics.TiedHits:
    order = np.lexsort((-rows.gains, rows.ranks, rows.owners))
    rows = rows.take(order)
    ideal = rows.gains[np.lexsort((-rows.gains, rows.owners))]
    starts, ranks = _starts(rows.owners, n_users), rows.ranks.astype(np.int32)
    if not with_rows:
        return metrics.Hits(starts, ranks, rows.gains, ideal)
    # in a tie by their size, since a sum of them must not hang on the order of rows
    gains = rows.gains[np.lexsort((-rows.gains, rows.firsts, rows.owners))]
    firsts, lasts = rows.firsts.astype(np.int32), rows.lasts.astype(np.int32)
    untils = rows.untils.astype(np.int32)
    return metrics.TiedHits(starts, ranks, gains, ideal, firsts, lasts, untils)


def _rows_of(truth: Truth, ranks: Ranks, users: Ints, places: Ints, owners: Ints) -> _ShownRows:
    """Every row of the block's users that shows an item of theirs, by user and rank."""
    if ranks.rows is not None:
        held = ranks.rows
        has_items = truth.pairs.counts[users] > 0
        begins, counts = (
            held.starts[users],
            has_items * (held.starts[users + 1] - held.starts[users]),
        )
        picked = ranges(begins, counts)
        own = np.repeat(np.arange(users.size), counts)
        at = held.places[picked]
        return _ShownRows(
            own,
            at,
            held.ranks[picked].astype(np.int64),
            held.firsts[picked].astype(np.int64),
            held.lasts[picked].astype(np.int64),
            held.untils[picked].astype(np.int64),
            held.positive[picked],
            gains_at(truth, at),
        )
    best = ranks.ranks[places]
    is_shown = best != np.iinfo(best.dtype).max
    at, own, rank = places[is_shown], owners[is_shown], best[is_shown].astype(np.int64)
    if ranks.copy_places.size:
        order = np.argsort(places, kind="stable")
        found = np.searchsorted(places[order], ranks.copy_places)
        known = found < places.size
        known[known] = places[order][found[known]] == ranks.copy_places[known]
        at = np.concatenate([at, ranks.copy_places[known]])
        own = np.concatenate([own, owners[order][found[known]]])
        rank = np.concatenate([rank, ranks.copy_ranks[known].astype(np.int64)])
    order = np.lexsort((rank, own))
    at, own, rank = at[order], own[order], rank[order]
    return _ShownRows(
        own, at, rank, rank, rank, rank + 1, np.ones(at.size, dtype=np.bool_), gains_at(truth, at)
    )


def gains_at(truth: Truth, places: Ints) -> Floats:
    """float64[n], the relevance of the truth's items at some places."""
    grades = truth.pairs.grades
    if grades.codes.size:
        values: Floats = grades.values[grades.codes[places]]
        return values
    return grades.own[places] if grades.own.size else np.ones(places.size)


def ranges(begins: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> Ints:
    """begin, begin + 1, ... of each range, one after the other."""
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    ranges: Ints = np.arange(total) + np.repeat(begins.astype(np.int64) - before, counts)
    return ranges


def _find(places: Ints, wanted: Ints) -> Ints:
    """Where each wanted place stands among the places, which hold it."""
    order = np.argsort(places, kind="stable")
    found: Ints = order[np.searchsorted(places[order], wanted)]
    return found


def _first_of_each(places: Ints, ranks: Ints) -> Ints:
    order = np.lexsort((ranks, places))
    first = np.ones(order.size, dtype=np.bool_)
    first[1:] = places[order][1:] != places[order][:-1]
    return np.sort(order[first])


def bound_ranks(
    owners: Ints,
    firsts: npt.NDArray[np.integer],
    lasts: npt.NDArray[np.integer],
    gains: Floats,
    *,
    best: bool,
) -> Ints:
    """Ranks in the best or the worst order of each tie: misses stand behind or before the hits.

    Gains below 0 stand the other way round.
    """
    sign = -1.0 if best else 1.0
    order = np.lexsort((sign * gains, firsts, owners))
    owners, firsts, gains = owners[order], firsts[order], gains[order]
    begins = np.ones(order.size, dtype=np.bool_)
    begins[1:] = (owners[1:] != owners[:-1]) | (firsts[1:] != firsts[:-1])
    starts = np.flatnonzero(begins)
    sizes = np.diff([*starts, order.size])
    place = np.arange(order.size) - np.repeat(starts, sizes)
    from_end = np.repeat(sizes, sizes) - 1 - place
    at_front = (gains >= 0.0) if best else (gains < 0.0)
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.where(at_front, firsts + place, lasts[order] - from_end)
    return ranks


def _with_misses(seekers: Ints, wanted: Floats, lengths: Ints) -> tuple[Ints, Floats]:
    """The gains of whole lists: 0 for every row that shows nothing of the truth."""
    n_misses = np.maximum(0, lengths - np.bincount(seekers, minlength=lengths.size))
    others = np.repeat(np.arange(lengths.size), n_misses)
    return np.concatenate([seekers, others]), np.concatenate([wanted, np.zeros(others.size)])


def _starts(owners: Ints, n_users: int) -> Ints:
    counts = np.bincount(owners, minlength=n_users)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


# ---------------------------------------------------------------- numbers that are no mean of users


def parts_of(request: metrics.Request) -> tuple[metrics.Request, ...] | None:
    """The means that a number is made of; None for what is a mean itself.

    Precision and recall of an F that is one of their means. Of metrics on samples, the shares of
    users whose item is at each rank in the sample or above it.
    """
    if not metrics.is_of_means(request):
        return None
    values = dict(request.parameters)
    if request.metric.name == "F":
        return tuple(
            _follow(request, name, request.cutoff, {"over": values[over]})
            for name, over in (("precision", "precision_over"), ("recall", "recall_over"))
        )
    ranks = range(1, int(float(values["sample"])) + 1)
    return tuple(_follow(request, "sampled", rank, {"sample": values["sample"]}) for rank in ranks)


def _follow(
    request: metrics.Request, name: str, cutoff: int | None, values: Mapping[str, str | float]
) -> metrics.Request:
    return metrics.registry()[name].follow(cutoff, values, dict(request.policies), ())


def is_mean_of_users(request: metrics.Request, policies: Policies) -> bool:
    """Whether the number is the mean of the users' values, which may be resampled and paired."""
    if metrics.is_of_means(request) or request.metric.combined is not None:
        return False
    return not may_be_undefined(policies_of(request, policies))


def number_of_means(request: metrics.Request, means: Sequence[float]) -> float:
    """The number that is made of the means of its parts; NaN where it does not exist."""
    if request.metric.name == "F":
        return _f_of_means(request, *means)
    if any(map(math.isnan, means)):
        return math.nan
    values = dict(request.parameters)
    shares = [last - first for first, last in pairwise([0.0, *means, 1.0])]
    of, *_ = request.encoded
    catalogue, steps = (int(float(values[name])) for name in ("catalogue", "steps"))
    return metrics.most_likely(shares, int(of), catalogue, steps, request.kernel_cutoff)


def _f_of_means(request: metrics.Request, precision: float, recall: float) -> float:
    """F of two means; NaN where both are 0."""
    beta = float(dict(request.parameters)["beta"])
    weight = beta * beta
    below = weight * precision + recall
    return (1.0 + weight) * precision * recall / below if below > 0.0 else math.nan


def distinct(requests: Sequence[metrics.Request]) -> list[metrics.Request]:
    """Each request once, in order."""
    return list({(r.metric.name, r.parameters, r.cutoff, r.policies): r for r in requests}.values())


def rounded(value: float, decimals: int) -> float:
    """A mean with that many decimals, as NumPy rounds."""
    return value if decimals == EXACT else float(np.round(value, decimals))
