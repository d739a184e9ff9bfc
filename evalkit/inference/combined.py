"""Numbers that are combined of several, with errors by the covariance of these over users.

A user moves a combination by the sum of what he moves each part, times its derivative by that part.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.aggregate.accumulators.shown import ShownSums
from evalkit.aggregate.segments import Segment
from evalkit.aggregate.sums import Pair
from evalkit.aggregate.user_values.gather import is_mean_of_users
from evalkit.config import Config, policies_of
from evalkit.inference.estimates import number_of
from evalkit.inference.shown import NO_FLOATS, Delta, Number, ShownNumbers, of_groups
from evalkit.kernels.arrays import Flags, Floats
from evalkit.metrics import Request, family_of
from evalkit.statistics.exact import ExactSum


@dataclass(frozen=True, slots=True)
class Moved:
    """A number, and how far each user moves it.

    Args:
        count: users whom it stands on.
        by: float64[n], of the users whose values are kept, around 0; NaN of whom it does not
            stand on. The sum of the squares is that of n - 1 independent ones.
        per_kept: how many users stand behind each who is kept.
        more: variance that is known beside what users move.
    """

    mean: float
    count: int
    by: Floats
    per_kept: float = 0.0
    more: float = 0.0

    @classmethod
    def of(cls, mean: float, count: int, by: Floats, least: float = 0.0) -> "Moved":
        """Of what each user moves it by, with the error that it has at least."""
        n = int(np.count_nonzero(~np.isnan(by)))
        if n < 2:
            return cls(mean, count, by)
        by = (by - np.nanmean(by)) * math.sqrt(n / (n - 1.0))
        more = max(0.0, least * least - float(np.nansum(by * by)) * count / n)
        return cls(mean, count, by, count / n, more)

    @property
    def error(self) -> float | None:
        """The standard error; None where fewer than two users say nothing of it."""
        if not self.per_kept or math.isnan(self.mean):
            return None
        return math.sqrt(float(np.nansum(self.by * self.by)) * self.per_kept + self.more)


class CombinedNumbers(ShownNumbers):
    """Numbers of what lists left behind, and those that are combined of several metrics."""

    __slots__ = ()

    def number(
        self, segment: Segment, model: str, request: Request, pair: Pair | None = None
    ) -> Number:
        """A number of a model; with a pair, over the users of both models."""
        if request.metric.combined is None:
            return ShownNumbers.number(self, segment, model, request, pair)
        found = self._combined(segment, model, request, pair)
        return Number(found.mean, found.count, NO_FLOATS, found.error)

    def delta(self, segment: Segment, pair: Pair, request: Request) -> Delta:
        """Two numbers, over the users of both models."""
        if request.metric.combined is None:
            return ShownNumbers.delta(self, segment, pair, request)
        old, new = (self._combined(segment, model, request, pair) for model in pair)
        per_kept = min(old.per_kept, new.per_kept)
        by = new.by - old.by
        more = old.more + new.more if np.nan_to_num(by).any() else 0.0
        both = Moved(new.mean - old.mean, new.count, by, per_kept, more)
        one, other, delta = (
            Number(each.mean, each.count, NO_FLOATS, each.error) for each in (old, new, both)
        )
        return Delta(one, other, delta)

    def _combined(self, segment: Segment, model: str, request: Request, pair: Pair | None) -> Moved:
        """A combination; its users are those of any part, its count is that of the fewest.

        How many users stand behind each is the same of all parts, but for chance where not all
        are kept; that of the largest part is told.
        """
        combination = request.metric.combined
        assert combination is not None
        sums = self.sums.get(key_of_combined(model if self.apart else ""))
        if sums is None or model not in sums.sampled:
            return Moved(math.nan, 0, NO_FLOATS)
        parts = [self._moved(sums, segment, model, each, pair) for each in combination.parts]
        mean, slopes = combination.at([each.mean for each in parts], [each.error for each in parts])
        by = np.full(sums.hashes.size, np.nan)
        for part, slope in zip(parts, slopes, strict=True):
            known = ~np.isnan(part.by)
            by[known] = np.nan_to_num(by[known]) + slope * part.by[known]
        per_kept = max(parts, key=lambda each: each.count).per_kept
        if any(not part.per_kept and slope for part, slope in zip(parts, slopes, strict=True)):
            per_kept = 0.0  # a part's error is not known
        more = sum(slope * slope * part.more for part, slope in zip(parts, slopes, strict=True))
        return Moved(mean, min(each.count for each in parts), by, per_kept, more)

    def _moved(
        self, sums: ShownSums, segment: Segment, model: str, part: Request, pair: Pair | None
    ) -> Moved:
        """One part, moved by the users whose values are kept."""
        held = np.zeros(sums.hashes.size, dtype=np.bool_)
        held[self._drawn(key_of_combined(model if self.apart else ""), sums, segment)] = True
        if family_of(part) in ("counts", "sums"):
            return self._of_lists(sums, held, segment, model, part, pair)
        if family_of(part) == "means":
            return self._of_groups(sums, held, segment, model, part, pair)
        column = self.requests.index(part)
        total = self._total(segment, model, column, pair)
        mean = total.mean
        if pair is None:
            policies, of_model = policies_of(part, self.config.policies), self.totals.models
            measured = of_model[segment, model]
            mean = number_of(part, policies, column, measured, self.requests)
        by = self._values(sums, part, model, pair) - total.mean
        by[~held | (not is_mean_of_users(part, self.config.policies))] = np.nan
        return Moved.of(mean, total.count, by / max(1, total.count))

    def _of_lists(
        self,
        sums: ShownSums,
        held: Flags,
        segment: Segment,
        model: str,
        part: Request,
        pair: Pair | None,
    ) -> Moved:
        """A number of all lists; who has a list and is kept here is kept there, too."""
        number = self.number(segment, model, part, pair)
        _, own = self._held(model, part)
        by = np.full(held.size, np.nan)
        places = np.searchsorted(own.hashes, sums.hashes)
        known = places < own.hashes.size
        known[known] = own.hashes[places[known]] == sums.hashes[known]
        known &= held
        moved = np.full(own.hashes.size, np.nan)
        moved[number.users] = number.influences / max(1, number.count)
        by[known] = moved[places[known]]
        return Moved.of(number.mean, number.count, by, number.ends.error)

    def _of_groups(
        self,
        sums: ShownSums,
        held: Flags,
        segment: Segment,
        model: str,
        part: Request,
        pair: Pair | None,
    ) -> Moved:
        """A number of means of groups."""
        wanted = of_groups(self.config, part)
        column, groups = self._groups(segment, part)
        totals = [self._total(group, model, column, pair) for group in groups]
        function = part.metric.function
        mean, slopes = function([each.mean for each in totals], dict(part.parameters))
        values = self._values(sums, wanted, model, pair)
        by = np.full(held.size, np.nan)
        for group, total, slope in zip(groups, totals, slopes, strict=True):
            own = self._members(key_of_combined(model if self.apart else ""), sums, group)
            own = own[held[own] & ~np.isnan(values[own])]
            by[own] = slope * (values[own] - total.mean) / max(1, total.count)
        return Moved.of(float(mean), sum(each.count for each in totals), by)

    def _total(self, segment: Segment, model: str, column: int, pair: Pair | None) -> ExactSum:
        """The mean of a metric of users; with a pair, over the users of both models."""
        if pair is None:
            return self.totals.models[segment, model].sum_of(column)
        found = self.totals.pair_total(segment, pair, column)
        return found.baseline if model == pair[0] else found.candidate

    def _values(self, sums: ShownSums, request: Request, model: str, pair: Pair | None) -> Floats:
        """The values of users who are kept; NaN where they have none, or one of a pair lacks it."""
        place = of_users(self.config, self.requests).index(request)
        values = sums.sampled[model].values[:, place].copy()
        for name in pair or ():
            other = sums.sampled.get(name)
            values[np.isnan(other.values[:, place]) if other is not None else slice(None)] = np.nan
        return values


def of_users(config: Config, requests: Sequence[Request]) -> list[Request]:
    """The metrics with a value of each user that combinations are made of."""
    found: dict[Request, None] = {}
    for request in requests:
        for part in () if request.metric.combined is None else request.metric.combined.parts:
            if family_of(part) == "means":
                part = of_groups(config, part)
            if family_of(part) in ("", "users"):
                found[part] = None
    return list(found)


def key_of_combined(model: str) -> str:
    """Under which name the values behind combinations are kept; `model`: where they are apart."""
    return repr(("combined", model))
