"""Which of two models judges prefer: win rates, strengths, who cannot be told apart."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from evalkit.errors import DataError
from evalkit.inference.verdicts import standings_of
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.judges.estimates import (
    FEW_JUDGES,
    comparison,
    corrected,
    counts_of,
    estimate,
    inference_of,
)
from evalkit.metrics import Request
from evalkit.planning.record import RunResults
from evalkit.report import Comparison, Counts, Estimate, TruthCounts, Warning_
from evalkit.statistics import preferences
from evalkit.statistics.distributions import t_quantile, t_two_sided
from evalkit.statistics.intervals import NO_INTERVAL, Interval

SHOWN_FIRST = "(shown first)"
LEAST_DF = 0.5  # below, limits would be hundreds of errors wide
_PREFERRED = "preferred is first, second, tie, or the name of the model"
LEAST_VARIANCE = 1e-18  # below is what rounding left of judges who all said the same
_SIDES = {
    **dict.fromkeys(("first", "left"), 1.0),
    **dict.fromkeys(("second", "right"), 0.0),
    **dict.fromkeys(("tie", "ties", "equal", "draw"), 0.5),
}


@dataclass(frozen=True, slots=True)
class Preferences:
    """Rows of comparisons; axes are those of `statistics.preferences`."""

    models: list[str]
    judges: list[str]
    first: Ints
    second: Ints
    outcomes: Floats
    by: Ints
    n_null: int

    def df(self, *models: int) -> float:
        """Judges less one, as many of equal weight as those who compared any of the models.

        Source:
            Carter, Schnepel and Steigerwald 2017, Review of Economics and Statistics 99, 698-709
            (the effective number of clusters, by their sizes alone).
        """
        own = np.isin(self.first, models) | np.isin(self.second, models)
        return preferences.effective_number(np.bincount(self.by[own])) - 1.0

    def limits(self, value: float, error: float, df: float, level: float) -> Interval:
        """Student's, with judges as clusters."""
        if not math.isfinite(value) or not error > 0 or not df >= LEAST_DF:
            return NO_INTERVAL
        half = t_quantile((1 + level) / 2, df) * error
        return Interval(value - half, value + half)


def read_preferences(frame: pl.DataFrame, *, at: str) -> Preferences:
    """The comparisons of a table.

    Raises:
        DataError: a judge or model is null [null-id], a model is compared with itself
            [same-model], `preferred` says neither side, or both [unknown-preference], or nobody
            preferred anything [empty-input].
    """
    rows = frame.select(pl.col("judge", "first", "second", "preferred").cast(pl.String))
    nulls = rows.filter(pl.any_horizontal(pl.col("judge", "first", "second").is_null())).height
    if nulls:
        message = f"{nulls:,} rows have no judge or no model"
        raise DataError(message, code="null-id", at=at, hint="where = ... leaves them out")
    n_null = rows["preferred"].null_count()
    rows = rows.drop_nulls()
    if not rows.height:
        raise DataError("no row has a preference", code="empty-input", at=at, hint=_PREFERRED)
    if (same := rows.filter(pl.col("first") == pl.col("second"))).height:
        message = f"{same.height:,} rows compare {same['first'][0]!r} with itself"
        raise DataError(message, code="same-model", at=at, hint="where = ... leaves them out")
    said = pl.col("preferred")
    named = pl.when(said == pl.col("first")).then(1.0).when(said == pl.col("second")).then(0.0)
    side = said.str.to_lowercase().replace_strict(_SIDES, default=None, return_dtype=pl.Float64)
    rows = rows.with_columns(outcome=pl.coalesce(named, side), is_both=named != side)
    for strange, which in (
        (rows.filter(pl.col("outcome").is_null()), "none of the two"),
        (rows.filter("is_both"), "the name of one and a word for another"),
    ):
        if strange.height:
            raise DataError(
                f"{strange.height:,} rows prefer {strange['preferred'][0]!r}, which is {which}",
                code="unknown-preference",
                at=at,
                hint=_PREFERRED,
            )
    rows = rows.sort("first", "second", "outcome", "judge")  # sums are then the same in any order
    models, sides = np.unique(pl.concat([rows["first"], rows["second"]]), return_inverse=True)
    judges, by = np.unique(rows["judge"], return_inverse=True)
    first, second = sides.reshape(2, -1)
    outcomes = rows["outcome"].to_numpy()
    return Preferences(models.tolist(), judges.tolist(), first, second, outcomes, by, n_null)


def conclude_preferences(config: Any, frame: pl.DataFrame, *, at: str) -> RunResults:
    """Estimates of all models, and every two of them compared."""
    found = read_preferences(frame, at=at)
    chosen, n_models = config.statistics, len(found.models)
    sides = np.concatenate([found.first, found.second])
    n_rows = np.bincount(sides, minlength=n_models).tolist()
    estimates: list[Estimate] = []
    comparisons: list[Comparison] = []
    for request in config.requests:
        values, covariance = _measured(request, found)
        variances = np.diag(covariance)
        errors = np.sqrt(np.where(variances < LEAST_VARIANCE, 0.0, variances)).tolist()
        dfs = map(found.df, range(n_models))
        rows = zip(found.models, values.tolist(), errors, n_rows, dfs, strict=True)
        estimates += [_estimate(request, found, *row, chosen.level) for row in rows]
        own = [*_compared(request, found, values, covariance, chosen.level)]
        comparisons += corrected(own, chosen, {request.label: True})
    every_two = chosen.model_copy(update={"pairs": "all"})
    standings = standings_of(estimates, comparisons, every_two, config.requests)
    warnings = [*_warnings(found), *_warnings_of_ties(found, config.requests)]
    estimates += _position_bias(config, found, warnings)
    n = len(found.first)
    counts = {
        model: counts_of(rows, rows, depth=rows)
        for model, rows in zip(found.models, n_rows, strict=True)
    }
    dropped = {"no_preference": found.n_null}
    truth = TruthCounts(frame.height, n, dropped, len(found.judges), 0, n, None)
    inference = inference_of(config, estimates, comparisons, standings)
    return RunResults(Counts(truth, counts), inference, warnings)


def _measured(request: Request, found: Preferences) -> tuple[Floats, Floats]:
    """Values of all models, and their covariance."""
    n_models, outcomes = len(found.models), found.outcomes
    if request.metric.name == "win-rate":
        rates = preferences.win_rates(
            found.first, found.second, outcomes, found.by, n_models=n_models
        )
        return rates.values, rates.covariance
    ties = str(dict(request.parameters)["ties"])
    kept = outcomes != (0.5 if ties == "drop" else np.nan)
    rows = [each[kept] for each in (found.first, found.second, outcomes, found.by)]
    strengths = preferences.bradley_terry(*rows, n_models=n_models, ties=ties)
    return strengths.values, strengths.covariance


def _estimate(
    request: Request, found: Preferences, model: str, value: float, error: float, n_rows: int,
    df: float, level: float,
) -> Estimate:  # fmt: skip
    interval = found.limits(value, error, df, level).within(request.metric.bounds)
    return estimate(
        request, model, value, interval, n_rows, std_error=None if math.isnan(error) else error,
        n_clusters=len(found.judges), df=max(0.0, df),
    )  # fmt: skip


def _compared(
    request: Request, found: Preferences, values: Floats, covariance: Floats, level: float
) -> Iterator[Comparison]:
    """Every two models."""
    for one, other in combinations(range(len(found.models)), 2):
        delta = float(values[other] - values[one])
        square = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
        error = math.sqrt(square) if square > LEAST_VARIANCE else math.nan
        df = found.df(one, other)
        interval = found.limits(delta, error, df, level)
        p = t_two_sided(delta / error, df) if interval.exists else math.nan
        won = np.concatenate(
            [
                found.outcomes[(found.first == other) & (found.second == one)],
                1 - found.outcomes[(found.first == one) & (found.second == other)],
            ]
        )
        yield comparison(
            request, (found.models[one], found.models[other]), delta, interval, p, error,
            test="t", n_users=len(won), wins=int((won == 1).sum()), ties=int((won == 0.5).sum()),
            losses=int((won == 0).sum()), n_clusters=len(found.judges), df=max(0.0, df),
        )  # fmt: skip


def _position_bias(config: Any, found: Preferences, warnings: list[Warning_]) -> Iterator[Estimate]:
    """How often the side that was shown first won."""
    sums = (np.bincount(found.by, weights) for weights in (found.outcomes, None))
    value, error = preferences.jackknife_error(*(each.astype(np.float64) for each in sums))
    level = config.statistics.level
    df = found.df(*range(len(found.models)))
    interval = found.limits(value, error, df, level).within((0.0, 1.0))
    if interval.exists and not interval.holds(0.5):
        shown = [f"{100 * each:.1f}" for each in (value, interval.low, interval.high)]
        message = "the side shown first won {} % ({} … {}): show each pair in both orders"
        warnings.append(Warning_("position-bias", message.format(*shown)))
    rates = [request for request in config.requests if request.metric.name == "win-rate"]
    for request in rates[:1]:
        yield _estimate(request, found, SHOWN_FIRST, value, error, len(found.first), df, level)


def _warnings(found: Preferences) -> Iterator[Warning_]:
    n_models, n_judges = len(found.models), len(found.judges)
    n_alike = found.df(*range(n_models)) + 1.0
    if n_alike < FEW_JUDGES:
        few = f"{n_judges} judges"
        if n_alike < n_judges:
            few += f" of unequal numbers of comparisons count as {n_alike:.1f}"
        told = f"limits are rough below {FEW_JUDGES}"
        told += f", none are given below {1.0 + LEAST_DF}" if n_alike < 1.0 + LEAST_DF else ""
        yield Warning_("few-judges", f"{few}: {told}")

    def named(groups: list[list[int]]) -> str:
        return "; ".join(", ".join(found.models[model] for model in group) for group in groups)

    groups = preferences.groups_that_met(found.first, found.second, n_models=n_models)
    if len(groups) > 1:
        message = f"groups of models never met, strengths are undefined: {named(groups)}"
        yield Warning_("never-met", message)
        return
    groups = preferences.ladders(found.first, found.second, found.outcomes, n_models=n_models)
    if len(groups) > 1:
        message = "models that won or lost everything against others have no strength"
        yield Warning_("unbeaten", f"{message}: {named(groups)}")


def _warnings_of_ties(found: Preferences, requests: Sequence[Request]) -> Iterator[Warning_]:
    """Where strengths exist but for what is done with ties."""
    n_models, is_tie = len(found.models), found.outcomes == 0.5
    rows = found.first, found.second, found.outcomes
    if len(preferences.ladders(*rows, n_models=n_models)) > 1:
        return
    for request in requests:
        ties = dict(request.parameters).get("ties")
        kept = [each[~is_tie] for each in rows]
        is_endless = ties == "drop" and len(preferences.ladders(*kept, n_models=n_models)) > 1
        if ties == "davidson" and is_tie.any():
            is_endless = preferences.is_one_way(*rows, n_models=n_models)
        if is_endless:
            message = f"{request.label}: but for ties wins go one way, strengths are undefined"
            yield Warning_("unbeaten", f"{message}; a tie is half a win by default")
