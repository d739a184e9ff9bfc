"""Judge by judge: who agrees with the others, who stands out, and models held against people."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from evalkit.errors import DataError
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.judges.consensus import vote
from evalkit.kinds.judges.declaration import JudgesTable
from evalkit.kinds.judges.estimates import comparison, corrected, estimate, maker_of
from evalkit.kinds.judges.ratings import Ratings
from evalkit.metrics import Request, known_metrics
from evalkit.report import Comparison, Estimate, Graph, Warning_
from evalkit.statistics.agreement import MISSING, ROUNDING, Weights, sum_of, weighted_sums
from evalkit.statistics.intervals import NO_INTERVAL, Interval, wilson_interval
from evalkit.statistics.votes import majority

FEWEST_ANSWERS = 10  # ratings before somebody is called odd
HASTY = 1 / 3  # of the median judge's seconds
MOST_JUDGES, MOST_ITEMS = 8, 20  # that are drawn: those who rated most, those least agreed on
ALL, PEOPLE = "judges", "people"  # as models of the report: without judges that are models, or with
_NOT_OF_PAIRS = ("SUS", "likert", "win-rate", "bradley-terry", "cohen", "ICC", "conger")
_SUS_QUESTIONS = 10

Pairs = Sequence[tuple[str, str]]


def answers_of(request: Request, ratings: Ratings, codes: Ints) -> Floats:
    """Values of a metric of answers, one a judge.

    Raises:
        DataError: there are not ten questions, or answers are not from 1 to 5, or no numbers say
            which questions are odd [not-a-scale].
    """
    given = np.where(codes == MISSING, np.nan, ratings.levels[codes]).T
    if request.metric.name == "SUS":
        if given.shape[1] != _SUS_QUESTIONS or not set(ratings.levels) <= {1, 2, 3, 4, 5}:
            raise DataError(
                f"SUS has ten questions answered from 1 to 5; there are {given.shape[1]:,} units "
                f"with {', '.join(ratings.names[:8])}",
                code="not-a-scale",
                hint="a unit is a question, a judge a person; where = ... leaves others out",
            )
        given = given[:, _by_number(ratings)]
    found: Floats = request.metric.function(given)
    return found


def _by_number(ratings: Ratings) -> Ints:
    """Ten questions in the order of their numbers, as 1, Q1 or "1. easy to use"."""
    varied = [each.cast(pl.String, strict=False) for each in ratings.units if each.n_unique() > 1]
    texts = varied[0].fill_null("").to_list()
    alike = next((at for at, each in enumerate(zip(*texts, strict=False)) if len({*each}) > 1), 0)
    rests = (text[alike:] for text in texts)
    numbers = [int(found[0]) for rest in rests if (found := re.search(r"\d{1,9}", rest))]
    first = min(numbers, default=0)
    if len(varied) > 1 or sorted(numbers) != [*range(first, first + _SUS_QUESTIONS)]:
        raise DataError(
            "SUS counts odd and even questions apart, and units do not say which is which: "
            f"{', '.join(map(str, ratings.units.row(0)))}",
            code="not-a-scale",
            hint="name questions by their numbers, from 1 to 10, as q1",
        )
    return np.argsort(numbers)


class PairDraws:
    """The coefficient of every two judges, over the same draws of units: the first of agreement
    that is asked for, else alpha.
    """

    def __init__(self, ratings: Ratings, config: Any, weights: Weights) -> None:
        asked = (each for each in config.requests if each.metric.name not in _NOT_OF_PAIRS)
        self.request: Request = next(asked, None) or known_metrics("judges")["alpha"].request()
        self.ratings, self.config = ratings, config
        coefficient = maker_of(self.request, ratings.levels, config.judges.kind)(2)
        self.values: dict[tuple[str, str], float] = {}
        self.drawn: dict[tuple[str, str], Floats] = {}
        for pair in combinations(ratings.judges, 2):
            features = coefficient.features(ratings.of(pair))
            self.values[pair] = float(coefficient.read(sum_of(features)))
            self.drawn[pair] = coefficient.read(weighted_sums(weights, features))

    def mean(self, pairs: Pairs) -> tuple[float, Floats]:
        """The mean over pairs of judges who share units, of all units and of each draw."""
        ordered = [pair if pair in self.values else pair[::-1] for pair in pairs]
        known = [pair for pair in ordered if not math.isnan(self.values[pair])]
        if not known:
            return math.nan, np.full(1, np.nan)
        drawn = np.stack([self.drawn[pair] for pair in known])
        counts = (~np.isnan(drawn)).sum(axis=0)
        sums = np.nansum(drawn, axis=0)
        means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        return float(np.mean([self.values[pair] for pair in known])), means

    def limits(self, drawn: Floats, *, n_tests: int = 1) -> Interval:
        """Percentile limits of draws, wide enough for so many of them."""
        known, tail = drawn[~np.isnan(drawn)], (1 - self.config.statistics.level) / n_tests / 2
        if len(known) < max(2, len(drawn) / 2) or np.ptp(known) < ROUNDING:
            return NO_INTERVAL
        low, high = np.quantile(known, [tail, 1 - tail]).tolist()
        return Interval(low, high)

    def estimate(self, model: str, pairs: Pairs, n_units: int, **where: Any) -> Estimate:
        """The mean over pairs with its limits."""
        value, drawn = self.mean(pairs)
        return estimate(self.request, model, value, self.limits(drawn), n_units, **where)


def judges_of(draws: PairDraws, persons: Sequence[str], found: list[Warning_]) -> list[Estimate]:
    """How each person agrees with the others; a warning of whoever agrees less than they do."""
    ratings, estimates = draws.ratings, []
    name = ALL if len(persons) == len(ratings.judges) else PEOPLE
    for judge in persons:
        others = [person for person in persons if person != judge]
        pairs = [(judge, other) for other in others]
        n_units = int((ratings.of([judge]) != MISSING).sum())
        own = draws.estimate(name, pairs, n_units, segmentation="judge", segment=judge)
        estimates.append(own)
        rest, drawn_rest = draws.mean([*combinations(others, 2)])
        gap = draws.limits(draws.mean(pairs)[1] - drawn_rest, n_tests=len(persons))
        if gap.exists and gap.high < 0 and own.high is not None and own.high < rest:
            message = (
                f"{judge} agrees with the others by {own.value:.2f}, they among themselves by "
                f"{rest:.2f} ({draws.request.label}, mean over pairs)"
            )
            found.append(Warning_("judge-disagrees", message))
    return estimates


def odd_judges(ratings: Ratings, persons: Sequence[str]) -> Iterator[Warning_]:
    """Judges who always give one level, and persons who are much faster than the others."""
    made = ratings.codes != MISSING
    for column, judge in enumerate(ratings.judges):
        own = ratings.codes[made[:, column], column]
        others = np.delete(ratings.codes, column, axis=1)[made[:, column]]
        if len(own) >= FEWEST_ANSWERS and (own == own[0]).all():
            if ((others != MISSING) & (others != own[0])).any():
                level = ratings.names[int(own[0])]
                message = f"{judge} gave {level} to all of {len(own):,} units; others did not"
                yield Warning_("judge-constant", message)
    if ratings.seconds is None or len(persons) < 3:
        return
    typical = {}
    for judge in persons:
        seconds = ratings.seconds[:, ratings.judges.index(judge)]
        if (~np.isnan(seconds)).sum() >= FEWEST_ANSWERS:
            typical[judge] = float(np.nanmedian(seconds))
    middle = float(np.median([*typical.values()])) if len(typical) > 2 else 0.0
    for judge, time in typical.items():
        if time < HASTY * middle:
            message = f"{judge} takes {time:.1f} s a unit, the median judge {middle:.1f} s"
            yield Warning_("judge-fast", message)


def known_items(ratings: Ratings, config: Any, found: list[Warning_]) -> Iterator[Estimate]:
    """The share of known units that each judge got right."""
    known, models = ratings.gold != MISSING, config.judges.models
    codes, gold = ratings.codes[known], ratings.gold[known]
    made = codes != MISSING
    right = (codes == gold[:, None]) & made
    pooled = right.sum() / max(made.sum(), 1)
    request = known_metrics("judges")["agreement"].request()
    for judge, n, n_right in zip(
        ratings.judges, made.sum(axis=0).tolist(), right.sum(axis=0).tolist(), strict=True
    ):
        if not n:
            continue
        interval = wilson_interval(n_right, n, level=config.statistics.level)
        model = judge if judge in models else PEOPLE if models else ALL
        where = {"segmentation": "gold", "segment": judge}
        yield estimate(request, model, n_right / n, interval, n, **where)
        if interval.exists and interval.high < pooled:
            message = (
                f"{judge} got {n_right:,} of {n:,} known units right; all judges "
                f"{100 * pooled:.0f} %"
            )
            found.append(Warning_("judge-fails-gold", message))


def models_of(
    draws: PairDraws, section: JudgesTable, models: Sequence[str], persons: Sequence[str]
) -> tuple[list[Estimate], list[Comparison]]:
    """Models that judge: their agreement with people, less that of people among themselves; and
    the share of units whose one rating stays when the model rates in place of the people.
    """
    ratings, chosen, request = draws.ratings, draws.config.statistics, draws.request
    theirs, drawn_theirs = draws.mean([*combinations(persons, 2)])
    of_people = vote(ratings.of(persons), ratings.levels, section.truth)[0].values
    n_units = ratings.units.height
    kept, agreements, comparisons = [], [], []
    for model in models:
        pairs = [(model, person) for person in persons]
        own, drawn = draws.mean(pairs)
        drawn = drawn - drawn_theirs
        interval, moved = draws.limits(drawn), drawn[~np.isnan(drawn)]
        below, above = ((np.sum(s * moved <= ROUNDING) + 1) / (len(moved) + 1) for s in (1, -1))
        error = float(moved.std(ddof=1)) if interval.exists else math.nan
        comparisons.append(
            comparison(
                request, (PEOPLE, model), own - theirs, interval,
                float(min(1.0, 2 * min(below, above))), error, test="bootstrap",
                n_users=len(drawn),
            )
        )  # fmt: skip
        agreements.append(draws.estimate(model, pairs, n_units))
        of_model = vote(ratings.of([model]), ratings.levels, section.truth)[0].values
        both = ~np.isnan(of_people) & ~np.isnan(of_model)
        n, n_kept = int(both.sum()), int((of_people == of_model)[both].sum())
        kept.append(
            estimate(
                known_metrics("judges")["agreement"].request(), model,
                n_kept / n if n else math.nan, wilson_interval(n_kept, n, level=chosen.level),
                n_units, segmentation="verdicts", segment="kept when it replaces people",
            )
        )  # fmt: skip
    return [*kept, *agreements], corrected(comparisons, chosen, {request.label: True})


def graphs_of(ratings: Ratings, model: str, shares: Floats) -> Iterator[Graph]:
    """The units that judges agree on least, and what each gives where the others say one level.

    The others' majority counts where it has no tie; held against are the levels' shares of all.

    Args:
        shares: float64[n_units], of agreeing pairs; NaN below two ratings.
    """
    known = np.flatnonzero(~np.isnan(shares))
    least = known[np.argsort(shares[known], kind="stable")][:MOST_ITEMS]
    if len(known) > 1 and shares[least[0]] < 1:
        names = [", ".join(map(str, ratings.units.row(place))) for place in least.tolist()]
        yield Graph(
            model, "agreement-by-item", "mean over items", "items that judges agree on least",
            (float(shares[known].mean()),) * len(least), tuple(shares[least].tolist()),
            groups=tuple(names),
        )  # fmt: skip
    judges, codes, levels = ratings.judges, ratings.codes, ratings.levels
    made = codes != MISSING
    if len(judges) < 3:
        return
    among_all = np.bincount(codes[made], minlength=len(levels)) / made.sum()
    given = np.zeros((len(judges), len(levels), len(levels)), np.int64)  # judge, others, judge's
    for column in range(len(judges)):
        places = np.arange(len(levels), dtype=np.float64)
        others = majority(np.delete(codes, column, axis=1), places, ties="undefined").values
        both = made[:, column] & ~np.isnan(others)
        np.add.at(given[column], (others[both].astype(np.int64), codes[both, column]), 1)
    shown = np.argsort(-made.sum(axis=0), kind="stable")[:MOST_JUDGES].tolist()
    for place, name in enumerate(ratings.names):
        for column in shown:
            if (counts := given[column, place]).any():
                yield Graph(
                    judges[column], "confusion", "share of all ratings",
                    f"where others say {name}", tuple(among_all.tolist()),
                    tuple((counts / counts.sum()).tolist()), groups=ratings.names,
                )  # fmt: skip
