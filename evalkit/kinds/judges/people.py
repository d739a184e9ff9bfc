"""Judge by judge: who agrees with the others, who stands out, and models held against people."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from evalkit.errors import DataError
from evalkit.kinds.judges.consensus import vote
from evalkit.kinds.judges.declaration import JudgesTable
from evalkit.kinds.judges.estimates import estimate, maker_of
from evalkit.kinds.judges.ratings import Ratings
from evalkit.metrics import Request, known_metrics
from evalkit.report import Comparison, Estimate, Graph, Warning_
from evalkit.statistics.agreement import MISSING, Codes, Values
from evalkit.statistics.intervals import Interval, wilson_interval
from evalkit.statistics.votes import majority

FEWEST_ANSWERS = 10  # ratings before somebody is called odd
HASTY = 1 / 3  # of the median judge's seconds
BY_JUDGE = "judge"
MOST_SHOWN = 8  # judges, those who rated most
_SUS_QUESTIONS = 10


@dataclass(slots=True)
class Looked:
    """What looking at single judges found."""

    estimates: list[Estimate] = field(default_factory=list)
    comparisons: tuple[Comparison, ...] = ()
    warnings: list[Warning_] = field(default_factory=list)


def answers_of(request: Request, ratings: Ratings, codes: Codes) -> Values:
    """Values of a metric of answers, one a judge.

    Raises:
        DataError: there are not ten questions, or answers are not from 1 to 5 [not-a-scale].
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
        names = ratings.units.to_series(0).cast(str).to_list()
        if all(name.isdigit() for name in names):
            given = given[:, np.argsort([int(name) for name in names])]
    found: Values = request.metric.function(given)
    return found


def look_at(ratings: Ratings, section: JudgesTable, config: Any, models: Sequence[str]) -> Looked:
    """Judges one by one, and judges that are models against people."""
    found = Looked()
    persons = [judge for judge in ratings.judges if judge not in models]
    request = _leading(config)
    draws = _Draws.of(request, ratings, section, config.statistics)
    if len(persons) > 2:
        found.estimates += _each_judge(draws, persons, request, found.warnings, config)
    found.warnings += _odd_judges(ratings)
    found.estimates += _known_items(ratings, config, found.warnings)
    if models and len(persons) > 1:
        found.comparisons = tuple(
            _model_against_people(draws, model, persons, request, config) for model in models
        )
        found.estimates += [_changed(ratings, section, model, persons, config) for model in models]
        for model in models:
            value, interval = draws.of_pairs([(model, person) for person in persons])
            found.estimates.append(_estimate(request, model, value, interval, ratings))
    return found


def _leading(config: Any) -> Request:
    """The coefficient that judges are compared by: the first of agreement, else alpha."""
    others = ("SUS", "likert", "win-rate", "bradley-terry", "cohen", "ICC", "conger")
    for request in config.requests:
        if request.metric.name not in others:
            found: Request = request
            return found
    return known_metrics("judges")["alpha"].request()


def confusions(ratings: Ratings, judges: Sequence[str]) -> list[Graph]:
    """What each judge gives where the others say one level: a graph for each level and judge.

    The others' majority counts where it has no tie; held against are the levels' shares of all.
    """
    if len(judges) < 3:
        return []
    codes, places = ratings.of(judges), np.arange(len(ratings.levels), dtype=np.float64)
    made = codes != MISSING
    among_all = np.bincount(codes[made], minlength=len(places)) / made.sum()
    given = np.zeros((len(judges), len(places), len(places)), np.int64)  # judge, others, judge's
    for column in range(len(judges)):
        others = majority(np.delete(codes, column, axis=1), places, ties="undefined").values
        known = made[:, column] & ~np.isnan(others)
        np.add.at(given[column], (others[known].astype(np.int64), codes[known, column]), 1)
    shown = np.argsort(-made.sum(axis=0), kind="stable")[:MOST_SHOWN].tolist()
    return [
        Graph(
            judges[column], "confusion", "share of all ratings", f"where others say {name}",
            tuple(among_all.tolist()), tuple((counts / counts.sum()).tolist()),
            groups=ratings.names,
        )
        for place, name in enumerate(ratings.names)
        for column in shown
        if (counts := given[column, place]).any()
    ]  # fmt: skip


@dataclass(slots=True)
class _Draws:
    """The coefficient of every two judges, over the same draws of units.

    Args:
        n_units: by judge, units that the judge rated.
        values: by pair of judges, the coefficient of all units.
        drawn: by pair, float64[n_draws].
    """

    n_units: dict[str, int]
    values: dict[tuple[str, str], float]
    drawn: dict[tuple[str, str], Values]
    level: float

    @classmethod
    def of(cls, request: Request, ratings: Ratings, section: JudgesTable, chosen: Any) -> "_Draws":
        coefficient = maker_of(request, ratings.levels, section.kind)(2)
        generator = np.random.Generator(np.random.PCG64(chosen.seed))
        n = ratings.units.height
        weights = generator.multinomial(n, np.full(n, 1 / n), size=chosen.replicates)
        values, drawn = {}, {}
        for one, other in combinations(ratings.judges, 2):
            features = coefficient.features(ratings.of([one, other]))
            values[one, other] = float(coefficient.read(features.sum(axis=0)))
            drawn[one, other] = coefficient.read(weights @ features)
        made = (ratings.codes != MISSING).sum(axis=0).tolist()
        n_units = dict(zip(ratings.judges, made, strict=True))
        return cls(n_units, values, drawn, chosen.level)

    def mean(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, Values]:
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

    def of_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, Interval]:
        """The mean over pairs with percentile limits."""
        value, drawn = self.mean(pairs)
        return value, self.limits(drawn)

    def limits(self, drawn: Values, error: float | None = None) -> Interval:
        """Percentile limits of draws."""
        known = drawn[~np.isnan(drawn)]
        if len(known) < max(2, len(drawn) / 2) or np.ptp(known) < 1e-12:
            return Interval(math.nan, math.nan)
        tail = (1 - self.level if error is None else error) / 2
        low, high = np.quantile(known, [tail, 1 - tail])
        return Interval(float(low), float(high))


def _estimate(
    request: Request, model: str, value: float, interval: Interval, ratings: Ratings, **fields: Any
) -> Estimate:
    return estimate(request, model, value, interval, ratings.units.height, **fields)


def _each_judge(
    draws: _Draws,
    persons: Sequence[str],
    request: Request,
    warnings: list[Warning_],
    config: Any,
) -> Iterator[Estimate]:
    """How each person agrees with the others; a warning of whoever agrees less than they do."""
    error = (1 - config.statistics.level) / len(persons)
    for judge in persons:
        others = [person for person in persons if person != judge]
        value, drawn = draws.mean([(judge, other) for other in others])
        rest, drawn_rest = draws.mean(list(combinations(others, 2)))
        interval = draws.limits(drawn)
        yield estimate(
            request, _everybody(config), value, interval, draws.n_units[judge],
            segmentation=BY_JUDGE, segment=judge,
        )  # fmt: skip
        gap = draws.limits(drawn - drawn_rest, error)
        if gap.exists and gap.high < 0 and interval.high < rest:
            warnings.append(
                Warning_(
                    "judge-disagrees",
                    f"{judge} agrees with the others by {value:.2f}, they among themselves by "
                    f"{rest:.2f} ({request.label}, mean over pairs)",
                )
            )


def _everybody(config: Any) -> str:
    return "people" if config.judges.models else "judges"


def _odd_judges(ratings: Ratings) -> Iterator[Warning_]:
    """Judges who always give one level, and those who are much faster than the others."""
    made = ratings.codes != MISSING
    for column, judge in enumerate(ratings.judges):
        own = ratings.codes[made[:, column], column]
        others = np.delete(ratings.codes, column, axis=1)[made[:, column]]
        if len(own) >= FEWEST_ANSWERS and len(set(own.tolist())) == 1:
            if len(set(others[others != MISSING].tolist()) - {int(own[0])}):
                level = ratings.names[int(own[0])]
                message = f"{judge} gave {level} to all of {len(own):,} units; others did not"
                yield Warning_("judge-constant", message)
    if ratings.seconds is None or len(ratings.judges) < 3:
        return
    known = ~np.isnan(ratings.seconds)
    typical = {
        judge: float(np.median(ratings.seconds[known[:, column], column]))
        for column, judge in enumerate(ratings.judges)
        if known[:, column].sum() >= FEWEST_ANSWERS
    }
    middle = float(np.median(list(typical.values()))) if len(typical) > 2 else 0.0
    for judge, seconds in typical.items():
        if seconds < HASTY * middle:
            message = f"{judge} takes {seconds:.1f} s a unit, the median judge {middle:.1f} s"
            yield Warning_("judge-fast", message)


def _known_items(ratings: Ratings, config: Any, warnings: list[Warning_]) -> Iterator[Estimate]:
    """The share of known units that each judge got right."""
    known = ratings.gold != MISSING
    if not known.any():
        return
    request = known_metrics("judges")["agreement"].request()
    codes, gold = ratings.codes[known], ratings.gold[known]
    made = codes != MISSING
    right = (codes == gold[:, None]) & made
    pooled = right.sum() / max(made.sum(), 1)
    for column, judge in enumerate(ratings.judges):
        n, n_right = int(made[:, column].sum()), int(right[:, column].sum())
        if not n:
            continue
        interval = wilson_interval(n_right, n, level=config.statistics.level)
        yield estimate(
            request, _everybody(config), n_right / n, interval, n,
            segmentation="gold", segment=judge,
        )  # fmt: skip
        if interval.exists and interval.high < pooled:
            warnings.append(
                Warning_(
                    "judge-fails-gold",
                    f"{judge} got {n_right:,} of {n:,} known units right; all judges "
                    f"{100 * pooled:.0f} %",
                )
            )


def _model_against_people(
    draws: _Draws, model: str, persons: Sequence[str], request: Request, config: Any
) -> Comparison:
    """The model's agreement with people less theirs among themselves."""
    theirs, drawn_theirs = draws.mean(list(combinations(persons, 2)))
    own, drawn_own = draws.mean([(model, person) for person in persons])
    interval = draws.limits(drawn_own - drawn_theirs)
    differences = (drawn_own - drawn_theirs)[~np.isnan(drawn_own - drawn_theirs)]
    p_value = None
    verdict = "cannot tell"
    if interval.exists:
        below = (np.sum(differences <= 0) + 1) / (len(differences) + 1)
        above = (np.sum(differences >= 0) + 1) / (len(differences) + 1)
        p_value = float(min(1.0, 2 * min(below, above)))
        if p_value <= 1 - config.statistics.level:
            verdict = "better" if own > theirs else "worse"
    return Comparison(
        baseline="people", candidate=model, metric=request.label, segmentation=None, segment=None,
        delta=own - theirs, std_error=float(differences.std(ddof=1)) if interval.exists else None,
        low=interval.low if interval.exists else None,
        high=interval.high if interval.exists else None,
        relative=None, relative_low=None, relative_high=None, p_value=p_value, p_adjusted=p_value,
        effect_size=None, test="bootstrap", n_users=len(drawn_own), wins=None, ties=None,
        losses=None, margin=None, verdict=verdict, smallest_difference=None, users_needed=None,
    )  # fmt: skip


def _changed(
    ratings: Ratings, section: JudgesTable, model: str, persons: Sequence[str], config: Any
) -> Estimate:
    """The share of units whose one rating changes when the model rates in place of the people."""
    theirs, _ = vote(ratings.of(persons), ratings.levels, section.truth)
    own, _ = vote(ratings.of([model]), ratings.levels, section.truth)
    both = ~np.isnan(theirs.values) & ~np.isnan(own.values)
    n, changed = int(both.sum()), int((theirs.values != own.values)[both].sum())
    request = known_metrics("judges")["agreement"].request()
    interval = wilson_interval(n - changed, n, level=config.statistics.level)
    return _estimate(
        request, model, (n - changed) / n if n else math.nan, interval, ratings,
        segmentation="verdicts", segment="kept when it replaces people",
    )  # fmt: skip
